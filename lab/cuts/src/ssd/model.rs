//! The oracle: allowed contents of each sector after a power cut.
//!
//! | promise | when |
//! |---|---|
//! | a completed write is kept | without a buffer, with FUA, or with the write cache off: at once; else from the next completed flush on |
//! | a sector has the contents of one of its writes | always: it is never torn, and never older than what is kept |
//! | a trimmed sector reads zeroes or old contents of its own | until it is written again and that is kept |
//! | a read returns the data written last; of a trimmed sector zeroes, or old contents of its own if the drive says so | while power is on |
//!
//! Contents include sector and version, so every finding can be described. Of pages and blocks it knows only the page
//! size, because trims discard whole pages.

use std::sync::Arc;

use sim::seam::{BlockOp, BlockRequest};

use super::known::Found;

pub(super) const SECTOR: usize = 512;
/// Mixes contents, so that no two words of a sector are equal and none is all ones.
const STIR: u64 = 0x9e37_79b9_7f4a_7c15;
/// What is mixed into each word.
const STIRRED: [u64; SECTOR / 8] = {
    let mut words = [0; SECTOR / 8];
    let mut at = 0;
    while at < words.len() {
        words[at] = STIR.wrapping_mul(at as u64);
        at += 1;
    }
    words
};

/// Sector and version of contents that are intact.
pub(super) type Decoded = Option<(u64, u32)>;

/// Requests whose sectors are copied with a clone of the model; those before are shared.
const RECENT: usize = 256;

/// Versions that may be in the cells, at least one. Mostly there is one alone, and then a clone allocates nothing.
#[derive(Clone, Debug)]
struct Versions {
    oldest: u32,
    newer: Vec<u32>,
}

impl Versions {
    const fn one(version: u32) -> Versions {
        Versions { oldest: version, newer: Vec::new() }
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.oldest).chain(self.newer.iter().copied())
    }

    /// Drops those before `version`, which is among them, or older than all.
    fn drop_before(&mut self, version: u32) {
        if self.oldest < version {
            self.newer.retain(|&other| other >= version);
            assert!(!self.newer.is_empty(), "version {version} is kept and was never written");
            self.oldest = self.newer.remove(0);
        }
    }
}

/// Allowed contents of a sector. Versions are numbers of requests, from 1; 0 is zeroes.
#[derive(Clone, Debug)]
struct Sector {
    /// Versions that may be in the cells, the oldest first.
    versions: Versions,
    /// The last version whose write completed.
    completed: u32,
    /// The request that trimmed it, if no write was kept since.
    trimmed: u32,
    /// Version that a read returns while power is on.
    now: u32,
    /// Whether it was trimmed since power is on, and not written since.
    discarded: bool,
}

impl Sector {
    fn kept(&mut self, version: u32) {
        if version > 0 {
            self.versions.drop_before(version);
            if self.trimmed < version {
                self.trimmed = 0;
            }
        }
    }
}

/// All promises of a drive.
#[derive(Clone, Debug)]
pub(super) struct Model {
    sectors: Vec<Sector>,
    /// Sectors written by each request: first, and one past the last. The first requests; those after them.
    wrote_first: Arc<Vec<(u64, u64)>>,
    wrote: Vec<(u64, u64)>,
    page: u64,
    /// Whether a trimmed sector may read as old contents of its own while power is on.
    shows_old: bool,
}

/// Version of a request, and for a flush the versions that had completed before it.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    version: u32,
    before: Vec<u32>,
}

impl Model {
    /// An empty drive of `sectors` sectors, with `page` sectors per page. `shows_old`: of
    /// [`TrimmedReads::Undefined`](ssd::device::TrimmedReads::Undefined).
    pub fn new(sectors: u64, page: u64, shows_old: bool) -> Model {
        let empty = Sector { versions: Versions::one(0), completed: 0, trimmed: 0, now: 0, discarded: false };
        Model {
            sectors: vec![empty; sectors as usize],
            wrote_first: Arc::default(),
            wrote: Vec::new(),
            page,
            shows_old,
        }
    }

    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Sectors per page.
    pub fn page(&self) -> u64 {
        self.page
    }

    fn of(&mut self, request: &BlockRequest) -> &mut [Sector] {
        &mut self.sectors[request.sector as usize..request.end() as usize]
    }

    /// Records the submission of a request; appends its data to `data`.
    pub fn asked(&mut self, request: &BlockRequest, data: &mut Vec<u8>) -> Promise {
        let writes = request.op == BlockOp::Write;
        self.wrote.push(if writes { (request.sector, request.end()) } else { (0, 0) });
        let version = (self.wrote_first.len() + self.wrote.len()) as u32;
        if self.wrote.len() == RECENT {
            Arc::make_mut(&mut self.wrote_first).append(&mut self.wrote);
        }
        let mut before = Vec::new();
        match request.op {
            BlockOp::Write => {
                for sector in self.of(request) {
                    sector.versions.newer.push(version);
                    (sector.now, sector.discarded) = (version, false);
                }
                data.reserve(request.bytes() as usize);
                (request.sector..request.end()).for_each(|number| data.extend_from_slice(&contents(number, version)));
            }
            BlockOp::Trim => {
                let first = request.sector.next_multiple_of(self.page);
                let end = (request.end() / self.page * self.page).max(first);
                for sector in &mut self.sectors[first as usize..end as usize] {
                    (sector.trimmed, sector.now, sector.discarded) = (version, 0, true);
                }
            }
            BlockOp::Flush => before = self.sectors.iter().map(|sector| sector.completed).collect(),
            BlockOp::Read => {}
        }
        Promise { version, before }
    }

    /// Records the completion of a request; with `at_once` a write is kept from then on.
    pub fn done(&mut self, request: &BlockRequest, promise: &Promise, at_once: bool) {
        match request.op {
            BlockOp::Write => {
                for sector in self.of(request) {
                    sector.completed = promise.version;
                    if at_once {
                        sector.kept(promise.version);
                    }
                }
            }
            BlockOp::Flush => {
                self.sectors.iter_mut().zip(&promise.before).for_each(|(sector, &version)| sector.kept(version));
            }
            BlockOp::Read | BlockOp::Trim => {}
        }
    }

    /// Compares data read from `first` on, while power was on, with what was written last.
    pub fn reads(&self, first: u64, data: &[u8]) -> Vec<String> {
        let mut broken = Vec::new();
        for (number, found) in (first..).zip(data.chunks_exact(SECTOR)) {
            let now = self.sectors[number as usize].now;
            let is_old = || version_of(number, decode(found)).is_some_and(|found| self.may_show(number, found));
            if !is_contents(found, number, now) && !is_old() {
                broken.push(format!(
                    "sector {number} reads as {}; expected {}",
                    described(number, found),
                    version(now)
                ));
            }
        }
        broken
    }

    /// Whether the sectors of a page, from `first` on, hold what was written last.
    pub fn reads_as(&self, first: u64, found: Found<'_>) -> bool {
        let mut sectors = (first..).zip(&self.sectors[first as usize..][..self.page as usize]).enumerate();
        sectors.all(|(at, (number, sector))| found.version(at, number) == Some(sector.now))
    }

    /// Whether a read may return this version of a trimmed sector while power is on. A buffer may have held a newer one.
    fn may_show(&self, number: u64, version: u32) -> bool {
        self.shows_old && self.sectors[number as usize].discarded && self.ever(number, version)
    }

    /// By sector: the version that a read returns now.
    pub fn now(&self) -> Vec<u32> {
        self.sectors.iter().map(|sector| sector.now).collect()
    }

    /// Compares data read after a power cut with what is allowed, and adopts them.
    pub fn survived(&mut self, first: u64, data: &[u8]) -> Vec<String> {
        let mut broken = Vec::new();
        for (number, found) in (first..).zip(data.chunks_exact(SECTOR)) {
            match version_of(number, decode(found)) {
                Some(version) if self.may_be(number, version) => self.adopt(number, version),
                _ => broken.push(self.complain(number, found)),
            }
        }
        broken
    }

    /// Whether the sectors of a page, from `first` on, hold what is allowed after a power cut. If all do, adopts them.
    pub fn survived_as(&mut self, first: u64, found: Found<'_>) -> bool {
        let versions =
            || (first..first + self.page).enumerate().map(|(at, number)| (number, found.version(at, number)));
        let allowed = versions().all(|(number, version)| version.is_some_and(|version| self.may_be(number, version)));
        if allowed {
            for (at, number) in (first..first + self.page).enumerate() {
                self.adopt(number, found.version(at, number).expect("all are intact"));
            }
        }
        allowed
    }

    fn adopt(&mut self, number: u64, version: u32) {
        let sector = &mut self.sectors[number as usize];
        if sector.versions.oldest != version || !sector.versions.newer.is_empty() {
            sector.versions = Versions::one(version);
        }
        // A trim recorded in a checkpoint may be forgotten with it.
        (sector.completed, sector.now, sector.discarded) = (version, version, false);
    }

    fn may_be(&self, number: u64, version: u32) -> bool {
        let sector = &self.sectors[number as usize];
        sector.versions.oldest == version
            || sector.versions.newer.contains(&version)
            || sector.trimmed > 0 && (version == 0 || self.ever(number, version))
    }

    /// Whether this version of a sector was ever written.
    fn ever(&self, number: u64, version: u32) -> bool {
        let index = (version as usize).wrapping_sub(1);
        let wrote = self.wrote_first.get(index).or_else(|| self.wrote.get(index - self.wrote_first.len()));
        wrote.is_some_and(|&(first, end)| (first..end).contains(&number))
    }

    fn complain(&self, number: u64, found: &[u8]) -> String {
        let sector = &self.sectors[number as usize];
        let mut legal: Vec<String> = sector.versions.iter().map(version).collect();
        if sector.trimmed > 0 {
            legal.push(format!("anything it ever was (request {} trimmed it)", sector.trimmed));
        }
        format!("sector {number} is {}; expected {}", described(number, found), legal.join(", or "))
    }
}

/// Contents of a sector in one of its versions; zeroes in version 0.
fn contents(number: u64, version: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if version > 0 {
        let mark = u64::from(version) << 32 | number;
        for (word, stir) in bytes.chunks_exact_mut(8).zip(STIRRED) {
            word.copy_from_slice(&(mark ^ stir).to_le_bytes());
        }
    }
    bytes
}

/// Sector and version of contents, if they are intact.
pub(super) fn decode(found: &[u8]) -> Decoded {
    let mark = u64::from_le_bytes(found[..8].try_into().ok()?);
    let (number, version) = (mark & u64::from(u32::MAX), (mark >> 32) as u32);
    is_contents(found, number, version).then_some((number, version))
}

/// Whether a sector holds [`contents`]`(number, version)`.
fn is_contents(found: &[u8], number: u64, version: u32) -> bool {
    let (mark, stir) = if version > 0 { (u64::from(version) << 32 | number, u64::MAX) } else { (0, 0) };
    // All words without a branch between them: whole sectors are nearly always right.
    let differs = found.chunks_exact(8).zip(STIRRED).fold(0, |differs, (word, stirred)| {
        let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        differs | (word ^ mark ^ (stirred & stir))
    });
    found.len() == SECTOR && differs == 0
}

/// The version of a sector that was found in it; zeroes are version 0 of every sector.
pub(super) fn version_of(number: u64, found: Decoded) -> Option<u32> {
    found.filter(|&(of, version)| of == number || version == 0).map(|(_, version)| version)
}

fn version(version: u32) -> String {
    if version == 0 { "zeroes".to_owned() } else { format!("what request {version} wrote") }
}

/// Describes the contents found in a sector.
fn described(number: u64, found: &[u8]) -> String {
    match decode(found) {
        Some((_, 0)) => "zeroes".to_owned(),
        Some((of, found)) if of == number => version(found),
        Some((number, version)) => format!("what request {version} wrote to sector {number}"),
        None if found.iter().all(|&byte| byte == 0xff) => "erased cells".to_owned(),
        None => "torn".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn after(requests: &[(BlockRequest, bool)]) -> Model {
        let mut model = Model::new(8, 2, false);
        for (request, done) in requests {
            let promise = model.asked(request, &mut Vec::new());
            if *done {
                model.done(request, &promise, false);
            }
        }
        model
    }

    fn may_be(model: &Model, number: u64) -> Vec<u32> {
        (0..10).filter(|&version| model.clone().survived(number, &contents(number, version)).is_empty()).collect()
    }

    #[test]
    fn what_was_written_before_a_completed_flush_is_kept_and_nothing_else() {
        let write = (BlockRequest::write(0, 4), true);
        let model = after(&[write, write, (BlockRequest::flush(), true), write, (BlockRequest::write(2, 1), false)]);
        assert_eq!([0, 2, 6].map(|number| may_be(&model, number)), [vec![2, 4], vec![2, 4, 5], vec![0]]);
        let unflushed = after(&[write, (BlockRequest::flush(), false)]);
        assert_eq!(may_be(&unflushed, 0), [0, 1]);
    }

    /// Of what completes while a flush is under way the flush promises nothing, but of what completed before it.
    #[test]
    fn a_flush_keeps_what_had_completed_when_it_was_asked_for() {
        let mut model = after(&[(BlockRequest::write(0, 4), true), (BlockRequest::write(0, 2), true)]);
        let ask = |model: &mut Model, request: BlockRequest| (request, model.asked(&request, &mut Vec::new()));
        let early = ask(&mut model, BlockRequest::write(2, 2));
        let flush = ask(&mut model, BlockRequest::flush());
        let late = ask(&mut model, BlockRequest::write(0, 2));
        for (request, promise) in [early, late, flush] {
            model.done(&request, &promise, false);
        }
        assert_eq!([0, 2, 4].map(|number| may_be(&model, number)), [vec![2, 5], vec![1, 3], vec![0]]);
    }

    #[test]
    fn a_trimmed_page_may_be_anything_it_was_until_it_is_written_and_kept() {
        let requests =
            [(BlockRequest::write(0, 4), true), (BlockRequest::flush(), true), (BlockRequest::trim(1, 3), true)];
        let model = after(&requests);
        assert_eq!([0, 1, 2, 3].map(|number| may_be(&model, number)), [vec![1], vec![1], vec![0, 1], vec![0, 1]]);
        assert!(model.reads(2, &[0; 512]).is_empty() && !model.reads(1, &[0; 512]).is_empty());
    }

    /// A trim is no excuse for what was written behind it and kept.
    #[test]
    fn what_was_written_after_a_trim_and_flushed_is_all_there_may_be() {
        let (write, trim) = ((BlockRequest::write(0, 4), true), (BlockRequest::trim(0, 4), true));
        let kept = after(&[write, trim, write, (BlockRequest::flush(), true)]);
        assert_eq!([0, 3].map(|number| may_be(&kept, number)), [vec![3], vec![3]]);
        let before = after(&[write, trim, write, (BlockRequest::flush(), false)]);
        assert_eq!(may_be(&before, 0), [0, 1, 3]);
        let trimmed_again = after(&[write, trim, write, (BlockRequest::flush(), true), trim]);
        assert_eq!(may_be(&trimmed_again, 0), [0, 1, 3]);
    }

    /// The first requests are kept apart from the recent ones, and nothing shows of that.
    #[test]
    fn a_trimmed_page_may_be_what_any_of_a_thousand_requests_wrote() {
        let mut model = Model::new(8, 2, false);
        for turn in 0..1000 {
            let write = BlockRequest::write(2 * (turn % 4), 2);
            let promise = model.asked(&write, &mut Vec::new());
            model.done(&write, &promise, true);
        }
        let trim = BlockRequest::trim(0, 2);
        let promise = model.asked(&trim, &mut Vec::new());
        model.done(&trim, &promise, true);
        // Requests 1, 5, 9 and so on wrote the first page.
        for version in 1..=1001 {
            let known = model.clone().survived(0, &contents(0, version)).is_empty();
            assert_eq!(known, version % 4 == 1 && version < 1001, "version {version}");
        }
        assert!(model.clone().survived(2, &contents(2, 998)).is_empty());
        assert!(!model.clone().survived(2, &contents(2, 994)).is_empty(), "not trimmed: the last alone");
    }

    /// What was gone once does not come back: not after the next cut either.
    #[test]
    fn what_was_found_after_a_cut_is_all_there_may_be_after_the_next() {
        let write = (BlockRequest::write(0, 2), true);
        for found in 0..4 {
            let mut model = after(&[write, write, write]);
            assert!(model.survived(0, &contents(0, found)).is_empty());
            assert!(model.survived_as(0, Found::Versions(&[found, 3])));
            assert_eq!([0, 1].map(|number| may_be(&model, number)), [vec![found], vec![3]]);
        }
    }

    #[test]
    fn while_power_is_on_a_sector_is_what_was_written_last_or_zeroes_if_that_was_trimmed() {
        let (write, trim) = ((BlockRequest::write(0, 4), true), (BlockRequest::trim(2, 2), true));
        let mut model = after(&[write, write, trim]);
        for version in 0..4 {
            let reads = |number| model.reads(number, &contents(number, version)).is_empty();
            assert_eq!([0, 2].map(reads), [version == 2, version == 0], "version {version}");
            let page = |first| model.reads_as(first, Found::Versions(&[version; 2]));
            assert_eq!([0, 2].map(page), [version == 2, version == 0], "version {version}");
        }
        assert!(!model.reads_as(0, Found::Versions(&[2, 1])) && !model.reads_as(0, Found::Versions(&[1, 2])));
        assert!(!model.survived_as(2, Found::Versions(&[2, 3])), "version 3 is a trim");
    }

    /// Sectors 2 and 3 are trimmed; then sector 3 is written, and then power is lost, after which all is as it was found.
    #[test]
    fn a_trimmed_sector_may_read_as_anything_it_was_where_the_drive_promises_nothing_else() {
        let write = BlockRequest::write(0, 4);
        let mut model = Model::new(8, 2, true);
        let reads = |model: &Model, number| -> Vec<u32> {
            (0..9).filter(|&version| model.reads(number, &contents(number, version)).is_empty()).collect()
        };
        for request in [write, write, BlockRequest::trim(2, 2)] {
            model.asked(&request, &mut Vec::new());
        }
        assert_eq!([0, 2, 3, 4].map(|number| reads(&model, number)), [vec![2], vec![0, 1, 2], vec![0, 1, 2], vec![0]]);
        assert!(!model.reads(2, &contents(3, 1)).is_empty() && !model.reads(2, &[0xff; SECTOR]).is_empty());
        model.asked(&BlockRequest::write(3, 1), &mut Vec::new());
        assert_eq!([2, 3].map(|number| reads(&model, number)), [vec![0, 1, 2], vec![4]]);
        assert!(model.survived_as(2, Found::Versions(&[1, 4])));
        assert_eq!([2, 3].map(|number| reads(&model, number)), [vec![1], vec![4]]);
    }

    /// Words that differ by the same bits do not make up for each other, and a sector of zeroes is one too.
    #[test]
    fn a_sector_of_which_any_two_words_differ_is_not_what_was_written() {
        for version in [0, 1, 700] {
            let whole = contents(5, version);
            assert!(is_contents(&whole, 5, version) && !is_contents(&whole[..SECTOR - 8], 5, version));
            for (first, second) in (0..64).flat_map(|second| (0..=second).map(move |first| (first, second))) {
                for flipped in [0x01, 0x80, 0xff] {
                    let mut torn = whole;
                    BTreeSet::from([first, second]).iter().for_each(|word| torn[word * 8 + 3] ^= flipped);
                    assert!(!is_contents(&torn, 5, version), "words {first} and {second} of version {version}");
                    assert!(decode(&torn).is_none(), "words {first} and {second} of version {version}");
                }
            }
        }
    }

    #[test]
    fn torn_contents_and_those_of_another_sector_are_told() {
        let mut model = after(&[(BlockRequest::write(0, 4), true)]);
        assert_eq!(
            model.survived(1, &contents(2, 1)),
            ["sector 1 is what request 1 wrote to sector 2; expected zeroes, or what request 1 wrote"]
        );
        let mut torn = contents(1, 1);
        torn[511] ^= 1;
        assert_eq!(model.survived(1, &torn).len(), 1);
    }
}
