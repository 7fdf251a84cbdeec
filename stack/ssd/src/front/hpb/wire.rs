//! What the two sides of HPB say to each other, as bytes and back.
//!
//! On the wire regions are numbered within their logical unit and sub-regions within their region. A number that the
//! layout does not have is not taken over: whoever sent it is not believed.

use super::cdb::{HpbCommand, HpbReadBuffer, HpbWriteBuffer};
use super::device::Advice;
use super::entry::ENTRY_BYTES;
use super::host::Command;
use super::layout::Layout;
use super::response::{Recommendation, Subregion, UpToTwo};

impl Advice {
    /// As a response carries it: the logical unit is that of whatever it names first.
    pub fn to_wire(&self, layout: &Layout) -> Recommendation {
        let subs = self.active.as_slice();
        let first =
            self.inactive.as_slice().first().copied().or_else(|| subs.first().map(|&sub| layout.region_of(sub)));
        let lu = first.map_or(0, |region| layout.lu_of_region(region));
        let base = layout.lus()[lu].first_region;
        let active = subs.iter().map(|&sub| {
            let (_, region, subregion) = layout.to_wire(sub);
            Subregion { region, subregion }
        });
        let inactive = self.inactive.as_slice().iter().map(|&region| (region - base) as u16);
        Recommendation {
            operation: self.operation,
            lun: lu as u8,
            active: UpToTwo::of(active),
            inactive: UpToTwo::of(inactive),
        }
    }

    /// As a host takes it.
    pub fn from_wire(told: &Recommendation, layout: &Layout) -> Advice {
        let active = told.active.as_slice().iter();
        let inactive = told.inactive.as_slice().iter();
        Advice {
            operation: told.operation,
            active: UpToTwo::of(active.filter_map(|at| layout.sub_from_wire(told.lun, at.region, at.subregion))),
            inactive: UpToTwo::of(inactive.filter_map(|&region| layout.region_from_wire(told.lun, region))),
        }
    }
}

impl Command {
    /// As a command of the wire, and the logical unit that it is sent to. `pre_request` is the first page and the
    /// number of entries of a pre-request.
    pub fn to_wire(self, layout: &Layout, pre_request: (u32, usize)) -> (u8, HpbCommand) {
        match self {
            Command::Load { sub } => {
                let (lun, region, subregion) = layout.to_wire(sub);
                let (from, to) = layout.pages_of(sub);
                let allocation_bytes = (to - from) * ENTRY_BYTES;
                (lun, HpbCommand::ReadBuffer(HpbReadBuffer { region, subregion, allocation_bytes }))
            }
            Command::Inactivate { region } => {
                let lu = layout.lu_of_region(region);
                let region = (region - layout.lus()[lu].first_region) as u16;
                (lu as u8, HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region }))
            }
            Command::InactivateAll => (0, HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll)),
            Command::PreRequest { id } => {
                let (page, entries) = pre_request;
                let lu = layout.lu_of_page(page);
                let lba = page - layout.lus()[lu].first_page;
                let prefetch = HpbWriteBuffer::Prefetch { lba, read_id: id, entries: entries as u16 };
                (lu as u8, HpbCommand::WriteBuffer(prefetch))
            }
        }
    }

    /// As a device takes it; `None` of a region that there is not, and of HPB READ, which is no command of the
    /// worker's.
    pub fn from_wire(lun: u8, command: &HpbCommand, layout: &Layout) -> Option<Command> {
        Some(match *command {
            HpbCommand::Read(_) => return None,
            HpbCommand::ReadBuffer(HpbReadBuffer { region, subregion, .. }) => {
                Command::Load { sub: layout.sub_from_wire(lun, region, subregion)? }
            }
            HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region }) => {
                Command::Inactivate { region: layout.region_from_wire(lun, region)? }
            }
            HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll) => Command::InactivateAll,
            HpbCommand::WriteBuffer(HpbWriteBuffer::Prefetch { read_id, .. }) => Command::PreRequest { id: read_id },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{HpbConfig, LuConfig};
    use super::*;
    use crate::front::hpb::response::Operation;

    fn layout() -> Layout {
        let lus = [(100, true), (50, false), (70, true)].map(|(pages, hpb)| LuConfig { pages, hpb }).to_vec();
        Layout::new(&HpbConfig { lus, subregion_pages: 8, region_subregions: 2, ..HpbConfig::plain(1) })
    }

    #[test]
    fn what_is_advised_comes_over_as_it_was() {
        let layout = layout();
        // Regions 0 to 6 are of the first unit, 7 to 10 of the second, 11 to 15 of the third.
        let advice = Advice {
            operation: Operation::UpdateRegions,
            active: UpToTwo::of([24, 29].into_iter()),
            inactive: UpToTwo::of([11].into_iter()),
        };
        let told = advice.to_wire(&layout);
        assert_eq!((told.lun, told.inactive.as_slice()), (2, &[0][..]));
        assert_eq!(Advice::from_wire(&Recommendation::decode(&told.encode()).unwrap(), &layout), advice);
    }

    #[test]
    fn commands_come_over_as_they_were() {
        let layout = layout();
        for command in [
            Command::Load { sub: 24 },
            Command::Inactivate { region: 12 },
            Command::InactivateAll,
            Command::PreRequest { id: 3 },
        ] {
            let (lun, told) = command.to_wire(&layout, (5, 9));
            let told = HpbCommand::decode(&told.encode()).unwrap();
            assert_eq!(Command::from_wire(lun, &told, &layout), Some(command));
        }
    }

    #[test]
    fn a_region_that_there_is_not_is_not_believed() {
        let beyond = HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region: 5 });
        assert_eq!(Command::from_wire(2, &beyond, &layout()), None);
        let of_nothing = Recommendation {
            operation: Operation::UpdateRegions,
            lun: 1,
            active: UpToTwo::of([Subregion { region: 0, subregion: 0 }].into_iter()),
            inactive: UpToTwo::default(),
        };
        assert!(Advice::from_wire(&of_nothing, &layout()).active.as_slice().is_empty(), "that unit has no HPB");
    }
}
