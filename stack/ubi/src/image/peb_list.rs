//! PEB numbers as an argument: `3,17,40-42`.

use std::ops::RangeInclusive;

/// PEB numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PebList {
    ranges: Vec<RangeInclusive<u32>>,
}

impl PebList {
    /// Reads a list of numbers and ranges.
    /// Errors: what is wrong with the text.
    pub fn parse(text: &str) -> Result<PebList, String> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let found = if digits { text.parse::<u32>().ok() } else { None };
            found
                .filter(|&peb| peb <= i32::MAX as u32)
                .ok_or_else(|| format!("found {text:?}, expected PEB numbers as 3,17,40-42"))
        };
        let range = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            let (from, to) = (number(from)?, number(to)?);
            if from > to { Err(format!("found {text}, expected the lower PEB first")) } else { Ok(from..=to) }
        };
        Ok(PebList { ranges: text.split(',').map(range).collect::<Result<_, String>>()? })
    }

    /// A list of these PEBs.
    pub fn of(pebs: &[u32]) -> PebList {
        PebList { ranges: pebs.iter().map(|&peb| peb..=peb).collect() }
    }

    /// Whether the PEB is in the list.
    pub fn contains(&self, peb: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(&peb))
    }

    /// Each PEB of the list once, in order, if the ranges hold at most `most` in all.
    pub fn pebs(&self, most: u32) -> Option<Vec<u32>> {
        let count: u64 = self.ranges.iter().map(|range| u64::from(range.end() - range.start()) + 1).sum();
        (count <= u64::from(most)).then(|| {
            let mut pebs: Vec<u32> = self.ranges.iter().cloned().flatten().collect();
            pebs.sort_unstable();
            pebs.dedup();
            pebs
        })
    }

    /// The highest PEB.
    pub fn last(&self) -> Option<u32> {
        self.ranges.iter().map(|range| *range.end()).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges() {
        let list = PebList::parse("3,17,40-42").unwrap();
        assert_eq!((0..50).filter(|&peb| list.contains(peb)).collect::<Vec<_>>(), [3, 17, 40, 41, 42]);
        assert_eq!(list.last(), Some(42));
        assert_eq!(PebList::parse("40-42,3,41").unwrap().pebs(5), Some(vec![3, 40, 41, 42]));
        assert_eq!(PebList::parse("0-2147483647").unwrap().pebs(5), None);
        assert_eq!(PebList::of(&[17, 3]).pebs(2), Some(vec![3, 17]));
        for wrong in ["", "x", "3,,4", "5-3", "-3", "3-", "4294967295", "0x3", "1 ,2"] {
            assert!(PebList::parse(wrong).is_err(), "{wrong}");
        }
    }
}
