//! Logical units, regions and sub-regions over the logical pages of a drive.
//!
//! Here regions and sub-regions are numbered consecutively over the whole drive, and every logical unit starts with a
//! region of its own. On the wire regions are numbered within their logical unit, and sub-regions within their region.
//! The last region of a logical unit may be partial.

use super::config::HpbConfig;

/// Pages and regions of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lu {
    /// First page, numbered over the drive.
    pub first_page: u32,
    /// One past the last page.
    pub end_page: u32,
    /// First region, numbered over the drive.
    pub first_region: u32,
    /// One past the last region.
    pub end_region: u32,
    /// Whether HPB is enabled for the logical unit.
    pub hpb: bool,
}

impl Lu {
    /// Number of regions.
    pub const fn regions(&self) -> u32 {
        self.end_region - self.first_region
    }
}

/// Positions of all regions and sub-regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    lus: Vec<Lu>,
    page_shift: u32,
    sub_shift: u32,
}

impl Layout {
    /// Layout of a configuration that has passed [`HpbConfig::check`].
    pub fn new(config: &HpbConfig) -> Layout {
        let (mut page, mut region) = (0, 0);
        let mut lus = Vec::with_capacity(config.lus.len());
        for lu in &config.lus {
            let (end_page, end_region) = (page + lu.pages, region + config.regions(lu.pages));
            lus.push(Lu { first_page: page, end_page, first_region: region, end_region, hpb: lu.hpb });
            (page, region) = (end_page, end_region);
        }
        Layout {
            lus,
            page_shift: config.subregion_pages.trailing_zeros(),
            sub_shift: config.region_subregions.trailing_zeros(),
        }
    }

    /// Logical units, by LUN.
    pub fn lus(&self) -> &[Lu] {
        &self.lus
    }

    /// Number of regions of all logical units.
    pub fn regions(&self) -> u32 {
        self.lus.last().map_or(0, |lu| lu.end_region)
    }

    /// Number of sub-regions of all logical units, where each partial region counts as a full one.
    pub fn subregions(&self) -> u32 {
        self.regions() << self.sub_shift
    }

    /// Sub-regions per full region.
    pub const fn region_subregions(&self) -> u32 {
        1 << self.sub_shift
    }

    /// Pages per full sub-region.
    pub const fn subregion_pages(&self) -> u32 {
        1 << self.page_shift
    }

    /// Index of the logical unit that contains a page.
    #[inline]
    pub fn lu_of_page(&self, page: u32) -> usize {
        if self.lus.len() == 1 { 0 } else { self.lus.partition_point(|lu| lu.end_page <= page) }
    }

    /// Index of the logical unit that contains a region.
    #[inline]
    pub fn lu_of_region(&self, region: u32) -> usize {
        if self.lus.len() == 1 { 0 } else { self.lus.partition_point(|lu| lu.end_region <= region) }
    }

    /// Sub-regions that `pages` pages from `first` on touch: the first, and one past the last. `None` unless all pages
    /// are in one logical unit with HPB.
    #[inline]
    pub fn subregions_of(&self, first: u32, pages: u32) -> Option<(u32, u32)> {
        let lu = self.lus.get(self.lu_of_page(first))?;
        if !lu.hpb || pages == 0 || pages > lu.end_page.saturating_sub(first) {
            return None;
        }
        let base = lu.first_region << self.sub_shift;
        let within = first - lu.first_page;
        Some((base + (within >> self.page_shift), base + ((within + pages - 1) >> self.page_shift) + 1))
    }

    /// Region that contains a sub-region.
    #[inline]
    pub const fn region_of(&self, sub: u32) -> u32 {
        sub >> self.sub_shift
    }

    /// Sub-regions of a region that contain pages: the first, and one past the last.
    pub fn subregions_in(&self, region: u32) -> (u32, u32) {
        let lu = &self.lus[self.lu_of_region(region)];
        let first = region << self.sub_shift;
        let pages = lu.end_page - lu.first_page;
        let all = (lu.first_region << self.sub_shift) + pages.div_ceil(1 << self.page_shift);
        (first, (first + (1 << self.sub_shift)).min(all))
    }

    /// Pages of a sub-region, numbered over the drive: the first, and one past the last.
    #[inline]
    pub fn pages_of(&self, sub: u32) -> (u32, u32) {
        let lu = &self.lus[self.lu_of_region(self.region_of(sub))];
        let first = lu.first_page + ((sub - (lu.first_region << self.sub_shift)) << self.page_shift);
        (first, (first + (1 << self.page_shift)).min(lu.end_page))
    }

    /// Index of a page within its sub-region.
    #[inline]
    pub fn offset(&self, page: u32) -> u32 {
        let lu = &self.lus[self.lu_of_page(page)];
        (page - lu.first_page) & ((1 << self.page_shift) - 1)
    }

    /// Address of a sub-region on the wire: LUN, region within the logical unit, sub-region within the region.
    pub fn to_wire(&self, sub: u32) -> (u8, u16, u16) {
        let region = self.region_of(sub);
        let lun = self.lu_of_region(region);
        let within = region - self.lus[lun].first_region;
        (lun as u8, within as u16, (sub & ((1 << self.sub_shift) - 1)) as u16)
    }

    /// Region at an address on the wire; `None` if it does not exist or its logical unit has no HPB.
    pub fn region_from_wire(&self, lun: u8, region: u16) -> Option<u32> {
        let lu = self.lus.get(usize::from(lun)).filter(|lu| lu.hpb)?;
        (u32::from(region) < lu.regions()).then(|| lu.first_region + u32::from(region))
    }

    /// Sub-region at an address on the wire; `None` if it does not exist or its logical unit has no HPB.
    pub fn sub_from_wire(&self, lun: u8, region: u16, sub: u16) -> Option<u32> {
        let region = self.region_from_wire(lun, region)?;
        let (first, end) = self.subregions_in(region);
        let found = first.checked_add(u32::from(sub))?;
        (found < end).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::LuConfig;
    use super::*;
    use proptest::prelude::*;

    fn layout(lus: &[(u32, bool)], subregion_pages: u32, region_subregions: u32) -> Layout {
        let lus = lus.iter().map(|&(pages, hpb)| LuConfig { pages, hpb }).collect();
        Layout::new(&HpbConfig { lus, subregion_pages, region_subregions, ..HpbConfig::plain(1) })
    }

    #[test]
    fn a_request_that_leaves_its_unit_has_no_sub_region() {
        let layout = layout(&[(100, true), (50, false), (30, true)], 8, 4);
        assert_eq!(layout.subregions_of(96, 4), Some((12, 13)));
        assert_eq!(layout.subregions_of(96, 5), None);
        assert_eq!(layout.subregions_of(120, 1), None, "its unit has no HPB");
        // The third logical unit starts with region 4 + 2.
        assert_eq!(layout.subregions_of(150, 9), Some((24, 26)));
        assert_eq!(layout.to_wire(25), (2, 0, 1));
        assert_eq!(layout.sub_from_wire(2, 0, 1), Some(25));
        assert_eq!(
            (layout.sub_from_wire(1, 0, 0), layout.sub_from_wire(2, 1, 0), layout.sub_from_wire(9, 0, 0)),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn pages_and_sub_regions_agree(
            lus in prop::collection::vec((1u32..200, any::<bool>()), 1..4), pages in 0u32..4, subs in 0u32..3,
        ) {
            let layout = layout(&lus, 1 << pages, 1 << subs);
            let mut seen = 0;
            for lu in layout.lus() {
                for region in lu.first_region..lu.end_region {
                    let (first, end) = layout.subregions_in(region);
                    prop_assert!(first < end);
                    for sub in first..end {
                        let (from, to) = layout.pages_of(sub);
                        prop_assert!(from < to && from == seen);
                        seen = to;
                        prop_assert_eq!(layout.region_of(sub), region);
                        if lu.hpb {
                            prop_assert_eq!(layout.subregions_of(from, to - from), Some((sub, sub + 1)));
                            prop_assert_eq!(layout.offset(to - 1), to - 1 - from);
                            let (lun, of, at) = layout.to_wire(sub);
                            prop_assert_eq!(layout.sub_from_wire(lun, of, at), Some(sub));
                        }
                    }
                }
            }
            prop_assert_eq!(seen, lus.iter().map(|lu| lu.0).sum::<u32>());
        }
    }
}
