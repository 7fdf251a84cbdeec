//! Write buffers, compared with naive models.

use proptest::prelude::*;
use ssd::cache::{BufferConfig, Evicted, Inserted, Policy, WriteBuffer};

fn buffer(policy: Policy, capacity: u32, lpns: u32, group_pages: u32) -> WriteBuffer {
    WriteBuffer::new(BufferConfig { policy, capacity, lpns, group_pages }).unwrap()
}

/// Evicts one victim and returns its pages, padding in parentheses.
fn victim(buffer: &mut WriteBuffer) -> String {
    let mut out = Vec::new();
    buffer.victim(&mut out);
    buffer.check();
    for page in out.iter().filter(|page| !page.padding) {
        buffer.release(page.slot.unwrap());
    }
    let show = |page: &Evicted| if page.padding { format!("({})", page.lpn) } else { page.lpn.to_string() };
    out.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn write(buffer: &mut WriteBuffer, lpns: &[u32]) {
    for &lpn in lpns {
        assert_ne!(buffer.insert(lpn), Inserted::Full);
        buffer.check();
    }
}

/// The three ideas of Kim and Ahn (FAST '08), on blocks of four pages as in the paper's figures.
#[test]
fn bplru_moves_a_whole_block_when_one_of_its_pages_is_written_again() {
    let mut buffer = buffer(Policy::Bplru, 8, 64, 4);
    write(&mut buffer, &[12, 15, 5, 6, 9, 10, 0, 2]);
    write(&mut buffer, &[15]);
    // Page 12 was not written recently, but another page of its block was. So block 1 is evicted first.
    assert_eq!(victim(&mut buffer), "(4) 5 6 (7)");
    assert_eq!(victim(&mut buffer), "(8) 9 10 (11)");
    assert_eq!(victim(&mut buffer), "0 (1) 2 (3)");
    assert_eq!(victim(&mut buffer), "12 (13) (14) 15");
    assert_eq!(victim(&mut buffer), "");
    assert_eq!((buffer.counts().groups, buffer.counts().padding, buffer.counts().hits), (4, 8, 1));
}

#[test]
fn bplru_sends_a_block_written_in_order_to_the_back() {
    let mut buffer = buffer(Policy::Bplru, 12, 64, 4);
    write(&mut buffer, &[0, 5, 8, 9, 10, 11]);
    assert_eq!(victim(&mut buffer), "8 9 10 11");
    // A block written out of order, or with a page missing, is not moved to the end.
    write(&mut buffer, &[12, 14, 13, 15, 17, 18, 19]);
    assert_eq!(victim(&mut buffer), "0 (1) (2) (3)");
    assert_eq!(buffer.counts().compensations, 1);
}

#[test]
fn a_block_of_which_a_page_was_trimmed_meanwhile_was_not_written_in_order() {
    for trimmed in [8, 9] {
        let mut buffer = buffer(Policy::Bplru, 12, 64, 4);
        write(&mut buffer, &[0, 8, 9]);
        assert!(!buffer.trim(trimmed), "it is not under way");
        write(&mut buffer, &[10, 11]);
        assert_eq!(buffer.counts().compensations, 0, "page {trimmed} is missing");
        write(&mut buffer, &[8, 9, 10, 11]);
        assert_eq!((victim(&mut buffer).as_str(), buffer.counts().compensations), ("8 9 10 11", 1));
        assert_eq!(victim(&mut buffer), "0 (1) (2) (3)");
    }
}

#[test]
fn padding_and_compensation_can_be_left_out() {
    let mut unpadded = buffer(Policy::BplruUnpadded, 8, 64, 4);
    write(&mut unpadded, &[5, 6, 0]);
    assert_eq!((victim(&mut unpadded).as_str(), unpadded.counts().padding), ("5 6", 0));
    let mut uncompensated = buffer(Policy::BplruUncompensated, 8, 64, 4);
    write(&mut uncompensated, &[0, 8, 9, 10, 11]);
    assert_eq!((victim(&mut uncompensated).as_str(), uncompensated.counts().compensations), ("0 (1) (2) (3)", 0));
}

#[test]
fn the_last_block_of_a_drive_may_be_short() {
    let mut buffer = buffer(Policy::Bplru, 8, 10, 4);
    write(&mut buffer, &[0, 8, 9]);
    assert_eq!(victim(&mut buffer), "8 9");
    write(&mut buffer, &[9]);
    assert_eq!([victim(&mut buffer), victim(&mut buffer)], ["0 (1) (2) (3)", "(8) 9"]);
}

#[test]
fn fifo_forgets_rewrites_and_lru_does_not() {
    for (policy, first) in [(Policy::Fifo, "1"), (Policy::Lru, "2"), (Policy::None, "1")] {
        let mut buffer = buffer(policy, 4, 64, 1);
        write(&mut buffer, &[1, 2, 3, 1]);
        assert_eq!(victim(&mut buffer), first, "{policy:?}");
        assert_eq!(buffer.counts().hits, u64::from(policy != Policy::None));
    }
}

#[test]
fn a_page_written_again_while_under_way_is_found_in_its_new_slot() {
    for policy in Policy::ALL {
        let mut buffer = buffer(policy, 4, 64, 2);
        let Inserted::New(old) = buffer.insert(7) else { panic!() };
        let mut out = Vec::new();
        buffer.drain(&mut out);
        assert_eq!(out, [Evicted { lpn: 7, slot: Some(old), padding: false }]);
        assert_eq!(buffer.lookup(7), Some(old), "still readable");
        let Inserted::New(new) = buffer.insert(7) else { panic!() };
        assert_eq!(buffer.lookup(7), Some(new));
        assert_eq!(buffer.slots_under_way().collect::<Vec<_>>(), [old]);
        assert!(!buffer.release(old), "older contents");
        assert_eq!(buffer.lookup(7), Some(new));
        buffer.check();
    }
}

#[test]
fn a_padding_page_whose_write_is_under_way_is_taken_from_its_slot() {
    let mut buffer = buffer(Policy::Bplru, 4, 64, 2);
    let Inserted::New(slot) = buffer.insert(6) else { panic!() };
    let mut out = Vec::new();
    buffer.drain(&mut out);
    write(&mut buffer, &[7]);
    out.clear();
    buffer.victim(&mut out);
    assert_eq!(out[0], Evicted { lpn: 6, slot: Some(slot), padding: true });
}

#[test]
fn a_full_buffer_says_so_and_changes_nothing() {
    for policy in Policy::ALL {
        let mut buffer = buffer(policy, 1, 8, 4);
        write(&mut buffer, &[3]);
        let counts = *buffer.counts();
        assert_eq!(buffer.insert(4), Inserted::Full, "{policy:?}");
        assert_eq!((buffer.lookup(4), *buffer.counts()), (None, counts));
        buffer.check();
    }
}

#[test]
fn a_buffer_without_room_or_pages_is_refused_with_the_reason() {
    let config = |capacity, lpns, group_pages| BufferConfig { policy: Policy::Bplru, capacity, lpns, group_pages };
    for (config, said) in [
        (config(0, 8, 4), "pages of the write buffer: found 0, expected 1 to 2^28"),
        (config(8, 0, 4), "logical pages: found 0, expected 1 to 2^32 - 2"),
        (config(8, 8, 0), "pages of a write buffer's group: found 0, expected 1 to 2^28"),
    ] {
        assert_eq!(WriteBuffer::new(config).unwrap_err().to_string(), said);
    }
    assert_eq!(Policy::by_name("bplru"), Some(Policy::Bplru));
    assert_eq!(Policy::by_name("arc"), None);
}

/// The model: plain lists with linear searches.
struct Naive {
    config: BufferConfig,
    /// Dirty pages with their versions, the next victim last; under BPLRU, the order is that of `groups`.
    dirty: Vec<(u32, u64)>,
    /// Groups with the length of their run in order, the next victim last.
    groups: Vec<(u32, u32)>,
    under_way: Vec<(u32, u64)>,
    /// The newest version of each page that a lookup finds.
    newest: Vec<(u32, u64)>,
}

impl Naive {
    fn find(&self, lpn: u32) -> Option<u64> {
        self.newest.iter().find(|&&(own, _)| own == lpn).map(|&(_, version)| version)
    }

    fn insert(&mut self, lpn: u32, version: u64) -> bool {
        let held = self.dirty.iter().position(|&(own, _)| own == lpn);
        let policy = self.config.policy;
        match held {
            Some(at) if policy != Policy::None => {
                self.dirty[at].1 = version;
                if policy != Policy::Fifo {
                    let page = self.dirty.remove(at);
                    self.dirty.insert(0, page);
                }
            }
            _ if self.dirty.len() + self.under_way.len() == self.config.capacity as usize => return false,
            _ => self.dirty.insert(0, (lpn, version)),
        }
        self.newest.retain(|&(own, _)| own != lpn);
        self.newest.push((lpn, version));
        if policy.by_group() {
            let pages = self.config.group_pages;
            let (group, offset) = (lpn / pages, lpn % pages);
            let run = match self.groups.iter().position(|&(own, _)| own == group) {
                Some(at) => self.groups.remove(at).1,
                None => 0,
            };
            let run = if run == offset { run + 1 } else { u32::from(offset == 0) };
            let size = pages.min(self.config.lpns - group * pages);
            if run == size && size > 1 && policy != Policy::BplruUncompensated {
                self.groups.push((group, 0));
            } else {
                self.groups.insert(0, (group, run));
            }
        }
        true
    }

    /// The next victim's pages: page, version (`None` for padding read from the flash), whether it is padding.
    fn victim(&mut self, padded: bool) -> Vec<(u32, Option<u64>, bool)> {
        if !self.config.policy.by_group() {
            let Some((lpn, version)) = self.dirty.pop() else { return Vec::new() };
            self.under_way.push((lpn, version));
            return vec![(lpn, Some(version), false)];
        }
        let Some((group, _)) = self.groups.pop() else { return Vec::new() };
        let mut out = Vec::new();
        let first = group * self.config.group_pages;
        for lpn in first..(first + self.config.group_pages).min(self.config.lpns) {
            if let Some(at) = self.dirty.iter().position(|&(own, _)| own == lpn) {
                let (_, version) = self.dirty.remove(at);
                self.under_way.push((lpn, version));
                out.push((lpn, Some(version), false));
            } else if padded && self.config.policy != Policy::BplruUnpadded {
                out.push((lpn, self.find(lpn), true));
            }
        }
        out
    }

    fn trim(&mut self, lpn: u32) {
        let dirty = self.dirty.len();
        self.dirty.retain(|&(own, _)| own != lpn);
        self.newest.retain(|&(own, _)| own != lpn);
        if self.dirty.len() < dirty && self.config.policy.by_group() {
            let pages = self.config.group_pages;
            let left = self.dirty.iter().any(|&(own, _)| own / pages == lpn / pages);
            self.groups.retain(|&(group, _)| left || group != lpn / pages);
            self.groups.iter_mut().filter(|group| group.0 == lpn / pages).for_each(|group| group.1 = 0);
        }
    }

    fn release(&mut self, version: u64) {
        self.under_way.retain(|&(_, own)| own != version);
        self.newest.retain(|&(_, own)| own != version);
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Write(u32),
    Run(u32, u32),
    Victim,
    Release(usize),
    Drain,
    Trim(u32),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => (0u32..48).prop_map(Move::Write),
        4 => (0u32..6).prop_map(Move::Write),
        3 => (0u32..48, 1u32..9).prop_map(|(first, count)| Move::Run(first, count)),
        5 => Just(Move::Victim),
        6 => (0usize..9).prop_map(Move::Release),
        1 => Just(Move::Drain),
        2 => (0u32..48).prop_map(Move::Trim),
    ];
    prop::collection::vec(one, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Contents are version numbers in an array of the test's own by slot, as a drive keeps its pages.
    #[test]
    fn a_buffer_does_what_the_naive_one_does(
        policy in prop::sample::select(Policy::ALL.to_vec()), capacity in 1u32..20, lpns in 6u32..48, group_pages in 1u32..9,
        moves in moves(),
    ) {
        let config = BufferConfig { policy, capacity, lpns, group_pages };
        let mut buffer = WriteBuffer::new(config).unwrap();
        let mut naive = Naive { config, dirty: vec![], groups: vec![], under_way: vec![], newest: vec![] };
        let mut contents = vec![0u64; capacity as usize];
        let mut version = 0;
        for one in moves {
            let (first, count) = match one {
                Move::Write(lpn) => (lpn % lpns, 1),
                Move::Run(first, count) => (first % lpns, count),
                _ => (0, 0),
            };
            for lpn in (first..first + count).take_while(|&lpn| lpn < lpns) {
                version += 1;
                let taken = match buffer.insert(lpn) {
                    Inserted::Hit(slot) | Inserted::New(slot) => {
                        contents[slot as usize] = version;
                        true
                    }
                    Inserted::Full => false,
                };
                prop_assert_eq!(taken, naive.insert(lpn, version));
            }
            let mut out = Vec::new();
            let mut expected = Vec::new();
            match one {
                Move::Victim => {
                    let count = buffer.victim(&mut out);
                    prop_assert_eq!(count, out.len());
                    expected = naive.victim(true);
                }
                Move::Drain => {
                    buffer.drain(&mut out);
                    while !naive.dirty.is_empty() {
                        expected.extend(naive.victim(false));
                    }
                }
                Move::Release(nth) => {
                    let under_way: Vec<_> = buffer.slots_under_way().collect();
                    if let Some(&slot) = under_way.get(nth) {
                        let written = contents[slot as usize];
                        let newest = naive.newest.iter().any(|&(_, version)| version == written);
                        prop_assert_eq!(buffer.release(slot), newest);
                        naive.release(written);
                    }
                }
                Move::Trim(lpn) => {
                    let under_way = naive.under_way.iter().any(|&(own, _)| own == lpn % lpns);
                    prop_assert_eq!(buffer.trim(lpn % lpns), under_way);
                    naive.trim(lpn % lpns);
                }
                Move::Write(_) | Move::Run(..) => {}
            }
            let got: Vec<_> = out
                .iter()
                .map(|page| (page.lpn, page.slot.map(|slot| contents[slot as usize]), page.padding))
                .collect();
            prop_assert_eq!(got, expected);
            buffer.check();
            prop_assert_eq!(buffer.dirty() as usize, naive.dirty.len());
            prop_assert_eq!(buffer.under_way() as usize, naive.under_way.len());
            for lpn in 0..lpns {
                prop_assert_eq!(buffer.lookup(lpn).map(|slot| contents[slot as usize]), naive.find(lpn));
            }
        }
        let counts = *buffer.counts();
        prop_assert_eq!(
            counts.misses,
            counts.evictions + counts.trimmed + u64::from(buffer.dirty()),
            "every page taken in is written, trimmed or still there"
        );
    }
}
