//! App start-up: applications launched one after another, again and again, over a page cache.
//!
//! Each app has a contiguous region with its files. A launch reads from it: a *random* part of single pages, mostly the
//! same at each launch, and a *sequential* part from the beginning of the region. A few threads take these reads from
//! one list and work for a while after each. Pages that were read stay in the page cache as long as there is room.
//!
//! This is a model, not a recording: the user chooses all its numbers. Places are drawn, so two models with the same
//! numbers and seed are the same, request by request. Streams:
//!
//! | stream | draws |
//! |---|---|
//! | `apps/N/size` | size of app N's region |
//! | `apps/N/places` | places of its random reads |
//! | `apps/N/launch/C` | at its launch in cycle C: which reads go to fresh places, and where |
//! | `apps/N/writes/C` | places of its writes |

mod load;
mod page_cache;

use sim::seam::SECTOR_BYTES;
use sim::{Ns, Seed};
use thiserror::Error;

pub use load::{Cycle, Launch, LaunchLoad};
pub use page_cache::PageCache;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Sectors of a page.
pub const PAGE_SECTORS: u32 = PAGE_BYTES as u32 / SECTOR_BYTES;

/// Properties of a kind of apps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Mean size of an app's files, in pages.
    pub pages: u32,
    /// Random reads per launch, a page each.
    pub random_reads: u32,
    /// Pages of its sequential part.
    pub sequential_pages: u32,
    /// Processor time of a launch, summed over readers.
    pub cpu: Ns,
}

/// Order of the two parts of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The requests of the sequential part are spread evenly among the random reads.
    Mixed,
    /// The sequential part comes first.
    SequentialFirst,
    /// The random part comes first.
    RandomFirst,
}

/// Parameters of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Apps {
    /// Number of applications.
    pub apps: u32,
    /// How many of them are games, spread evenly among the others.
    pub games: u32,
    /// How often all apps are launched in turn.
    pub cycles: u32,
    /// First page of the area over which the apps' regions are spread evenly.
    pub first_page: u64,
    /// Pages of that area.
    pub area_pages: u64,
    /// Apps that are not games.
    pub app: Kind,
    /// Games.
    pub game: Kind,
    /// Sizes are drawn uniformly from mean · (1 − spread) to mean · (1 + spread); 0 to 1.
    pub spread: f64,
    /// Share of the random reads that go to fresh places at each launch, 0 to 1.
    pub fresh: f64,
    /// Pages per fragment of the apps' files. Fragments are scattered over the area in an order drawn once. 0 keeps
    /// each app's files together. A multiple of `request_pages`.
    pub fragment_pages: u32,
    /// Pages of a request of the sequential part.
    pub request_pages: u32,
    /// Order of the random and the sequential part.
    pub order: Order,
    /// Reading threads, each on its own core.
    pub readers: u32,
    /// Pages of the page cache.
    pub cache_pages: u32,
    /// Writes of one page per read, spread evenly among the reads; 0 to 1.
    pub writes: f64,
}

impl Apps {
    /// Kind of the `at`th app, and whether it is a game.
    pub fn kind(&self, at: u32) -> (&Kind, bool) {
        let is_game = is_one_of(u64::from(at), u64::from(self.games), u64::from(self.apps));
        (if is_game { &self.game } else { &self.app }, is_game)
    }

    /// Reads of a launch, including those served by the page cache.
    pub fn reads(&self, kind: &Kind) -> u64 {
        u64::from(kind.random_reads) + u64::from(kind.sequential_pages.div_ceil(self.request_pages.max(1)))
    }

    /// Reads of all launches of a run.
    pub fn all_reads(&self) -> u64 {
        u64::from(self.cycles) * (0..self.apps).map(|at| self.reads(self.kind(at).0)).sum::<u64>()
    }
}

/// Whether the `at`th of `of` items is one of `share` items spread evenly among them.
fn is_one_of(at: u64, share: u64, of: u64) -> bool {
    (at + 1) * share / of > at * share / of
}

/// Why a model is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AppsError {
    /// The regions do not fit into the area.
    #[error("the apps' files take {wanted} bytes, and the area has {area}")]
    NoRoom {
        /// Bytes of all files.
        wanted: u64,
        /// Bytes of the area.
        area: u64,
    },
    /// An app is smaller than its own sequential part.
    #[error("app {app} has {has} bytes of files, and its launch reads {wanted} in sequence")]
    TooSmall {
        /// Index of the app.
        app: u32,
        /// Its size, in bytes.
        has: u64,
        /// Its sequential part, in bytes.
        wanted: u64,
    },
    /// A launch that reads nothing.
    #[error("app {app} reads nothing at its launch")]
    ReadsNothing {
        /// Index of the app.
        app: u32,
    },
}

/// An app on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Whether it is a game.
    pub is_game: bool,
    /// First page of its region, on the device.
    pub first_page: u64,
    /// First page of its region, counted over the apps' pages alone.
    pub first_own: u32,
    /// First fragment of its region, counted over the apps' fragments.
    first_fragment: u32,
    /// Pages of its region.
    pub pages: u32,
    /// Places of its random reads, within the region.
    pub places: Vec<u32>,
}

/// One read or write of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// First page, within the app's region.
    pub page: u32,
    /// Number of pages.
    pub pages: u32,
    /// Whether it is a write.
    pub is_write: bool,
}

/// The apps laid out on a device.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Parameters of the model.
    pub model: Apps,
    /// The apps, in the order of launches.
    pub apps: Vec<App>,
    /// Place of each fragment in the area, and the fragment in each place.
    slots: Vec<u32>,
    owners: Vec<u32>,
    seed: Seed,
}

impl Installed {
    /// Draws sizes and places of the apps.
    /// Errors: [`AppsError`].
    pub fn new(model: Apps, seed: Seed) -> Result<Installed, AppsError> {
        let mut apps = Vec::with_capacity(model.apps as usize);
        let (mut own, mut fragments) = (0u64, 0u32);
        for at in 0..model.apps {
            let (kind, is_game) = model.kind(at);
            let spread = model.spread * (2.0 * seed.stream(&format!("apps/{at}/size")).unit() - 1.0);
            let pages = ((f64::from(kind.pages) * (1.0 + spread)) as u32).max(1);
            if pages < kind.sequential_pages {
                let (has, wanted) = (u64::from(pages) * PAGE_BYTES, u64::from(kind.sequential_pages) * PAGE_BYTES);
                return Err(AppsError::TooSmall { app: at, has, wanted });
            }
            if model.reads(kind) == 0 {
                return Err(AppsError::ReadsNothing { app: at });
            }
            let mut draws = seed.stream(&format!("apps/{at}/places"));
            let places = (0..kind.random_reads).map(|_| draws.below(u64::from(pages)) as u32).collect();
            let first_fragment = fragments;
            fragments += pages.div_ceil(model.fragment_pages.max(1));
            apps.push(App { is_game, first_page: own, first_own: own as u32, first_fragment, pages, places });
            own += u64::from(pages);
            // Checked on every addition, so that the sum fits into 32 bits.
            if own > model.area_pages.min(u64::from(u32::MAX)) {
                return Err(AppsError::NoRoom { wanted: own * PAGE_BYTES, area: model.area_pages * PAGE_BYTES });
            }
        }
        let (slots, owners) = scatter(&model, fragments, own, seed)?;
        let gaps = model.area_pages - own;
        for (at, app) in (0..).zip(&mut apps) {
            app.first_page += model.first_page + gaps * at / u64::from(model.apps);
        }
        Ok(Installed { model, apps, slots, owners, seed })
    }

    /// Page of the device that holds a page of an app.
    #[inline]
    pub fn place(&self, app: usize, page: u32) -> u64 {
        let of = &self.apps[app];
        match self.slots.get((of.first_fragment + page / self.model.fragment_pages.max(1)) as usize) {
            Some(&slot) => {
                let size = u64::from(self.model.fragment_pages);
                self.model.first_page + u64::from(slot) * size + u64::from(page) % size
            }
            None => of.first_page + u64::from(page),
        }
    }

    /// Page of an app that lies at `place` on the device.
    #[inline]
    pub fn page_at(&self, app: usize, place: u64) -> u32 {
        let of = &self.apps[app];
        if self.slots.is_empty() {
            return (place - of.first_page) as u32;
        }
        let size = u64::from(self.model.fragment_pages);
        let within = place - self.model.first_page;
        let fragment = self.owners[(within / size) as usize] - of.first_fragment;
        fragment * self.model.fragment_pages + (within % size) as u32
    }

    /// Pages of all apps together.
    pub fn pages(&self) -> u32 {
        self.apps.last().map_or(0, |app| app.first_own + app.pages)
    }

    /// The reads and writes of an app's launch in a cycle, in order; replaces the contents of `asks`.
    pub fn plan(&self, app: u32, cycle: u32, asks: &mut Vec<Ask>) {
        asks.clear();
        let model = &self.model;
        let (kind, _) = model.kind(app);
        let of = &self.apps[app as usize];
        let mut draws = self.seed.stream(&format!("apps/{app}/launch/{cycle}"));
        let mut written = self.seed.stream(&format!("apps/{app}/writes/{cycle}"));
        let reads = model.reads(kind);
        let sequential = reads - u64::from(kind.random_reads);
        let writes = (reads as f64 * model.writes).round() as u64;
        let mut places = of.places.iter();
        let mut at_sequential = 0;
        for read in 0..reads {
            let is_sequential = match model.order {
                Order::Mixed => is_one_of(read, sequential, reads),
                Order::SequentialFirst => read < sequential,
                Order::RandomFirst => read >= reads - sequential,
            };
            if is_sequential {
                let pages = model.request_pages.min(kind.sequential_pages - at_sequential);
                asks.push(Ask { page: at_sequential, pages, is_write: false });
                at_sequential += pages;
            } else {
                let known = places.next().copied().unwrap_or(0);
                let page = if draws.chance(model.fresh) { draws.below(u64::from(of.pages)) as u32 } else { known };
                asks.push(Ask { page, pages: 1, is_write: false });
            }
            if is_one_of(read, writes, reads) {
                asks.push(Ask { page: written.below(u64::from(of.pages)) as u32, pages: 1, is_write: true });
            }
        }
    }
}

/// Draws where fragments lie, and the inverse; empty if files are kept together.
/// Errors: the area has no room for so many fragments.
fn scatter(model: &Apps, fragments: u32, own: u64, seed: Seed) -> Result<(Vec<u32>, Vec<u32>), AppsError> {
    if model.fragment_pages == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let all = model.area_pages / u64::from(model.fragment_pages);
    if u64::from(fragments) > all {
        return Err(AppsError::NoRoom { wanted: own * PAGE_BYTES, area: model.area_pages * PAGE_BYTES });
    }
    let mut slots: Vec<u32> = (0..all as u32).collect();
    let mut draws = seed.stream("apps/fragments");
    for at in 0..fragments as usize {
        let other = at + draws.below(all - at as u64) as usize;
        slots.swap(at, other);
    }
    slots.truncate(fragments as usize);
    let mut owners = vec![u32::MAX; all as usize];
    for (fragment, &slot) in (0..).zip(&slots) {
        owners[slot as usize] = fragment;
    }
    Ok((slots, owners))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A model of a few small apps.
    pub(crate) fn small() -> Apps {
        let app = Kind { pages: 200, random_reads: 20, sequential_pages: 30, cpu: Ns::from_us(700) };
        let game = Kind { pages: 600, random_reads: 10, sequential_pages: 90, cpu: Ns::from_us(1900) };
        Apps {
            apps: 6,
            games: 2,
            cycles: 3,
            first_page: 10,
            area_pages: 4000,
            app,
            game,
            spread: 0.3,
            fresh: 0.2,
            fragment_pages: 0,
            request_pages: 8,
            order: Order::Mixed,
            readers: 2,
            cache_pages: 10_000,
            writes: 0.0,
        }
    }

    fn plan(installed: &Installed, app: u32, cycle: u32) -> Vec<Ask> {
        let mut asks = vec![Ask { page: 9, pages: 9, is_write: true }];
        installed.plan(app, cycle, &mut asks);
        asks
    }

    #[test]
    fn the_same_seed_installs_and_launches_the_same() {
        let install = |seed| Installed::new(small(), Seed(seed)).unwrap();
        let (one, again, other) = (install(1), install(1), install(2));
        assert_eq!((&one.apps, plan(&one, 3, 2)), (&again.apps, plan(&again, 3, 2)));
        assert_ne!(one.apps, other.apps);
        assert_ne!(plan(&one, 3, 1), plan(&one, 3, 2), "a part is drawn anew");
        let same = Installed::new(Apps { fresh: 0.0, ..small() }, Seed(1)).unwrap();
        assert_eq!(plan(&same, 3, 1), plan(&same, 3, 2));
    }

    #[test]
    fn regions_lie_in_the_area_and_do_not_overlap() {
        let installed = Installed::new(small(), Seed(1)).unwrap();
        assert_eq!(installed.apps.iter().map(|app| app.is_game).collect::<Vec<_>>(), [false, false, true].repeat(2));
        let mut end = 10;
        for app in &installed.apps {
            assert!(app.first_page >= end);
            end = app.first_page + u64::from(app.pages);
            let mean = if app.is_game { 600.0 } else { 200.0 };
            assert!((f64::from(app.pages) - mean).abs() <= 0.3 * mean, "{app:?}");
        }
        assert!(end <= 4010);
        assert_eq!(installed.pages(), installed.apps.iter().map(|app| app.pages).sum());
    }

    #[test]
    fn fragments_lie_all_over_the_area_each_in_a_place_of_its_own() {
        let installed = Installed::new(Apps { fragment_pages: 16, ..small() }, Seed(1)).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for (at, app) in installed.apps.iter().enumerate() {
            for page in 0..app.pages {
                let place = installed.place(at, page);
                assert!((10..4010).contains(&place) && seen.insert(place), "page {page} of app {at} at {place}");
                assert_eq!(installed.page_at(at, place), page);
                assert_eq!((place - 10) % 16, u64::from(page % 16));
            }
        }
        let gaps = seen.iter().zip(seen.iter().skip(1)).filter(|(a, b)| *b - *a > 1).count();
        assert!(gaps > 20, "{gaps} gaps: the fragments lie together");
        let full = Apps { fragment_pages: 64, area_pages: 2100, ..small() };
        assert!(matches!(Installed::new(full, Seed(1)), Err(AppsError::NoRoom { .. })));
    }

    #[test]
    fn a_launch_reads_both_parts_in_the_order_asked_for() {
        let parts = |order| {
            let installed = Installed::new(Apps { order, fresh: 0.0, ..small() }, Seed(1)).unwrap();
            let asks = plan(&installed, 0, 0);
            // 20 random reads, and 30 pages in requests of 8.
            assert_eq!((asks.len(), asks.iter().map(|ask| ask.pages).sum::<u32>()), (24, 50));
            let sequential: Vec<_> =
                (0..4).map(|at| Ask { page: 8 * at, pages: 8.min(30 - 8 * at), is_write: false }).collect();
            let places: Vec<_> = sequential.iter().map(|ask| asks.iter().position(|it| it == ask).unwrap()).collect();
            let random = asks.iter().enumerate().filter(|(at, _)| !places.contains(at)).map(|(_, ask)| ask.page);
            assert!(random.eq(installed.apps[0].places.iter().copied()));
            places
        };
        assert_eq!(parts(Order::SequentialFirst), [0, 1, 2, 3]);
        assert_eq!(parts(Order::RandomFirst), [20, 21, 22, 23]);
        assert_eq!(parts(Order::Mixed), [5, 11, 17, 23]);
    }

    #[test]
    fn writes_come_in_the_share_asked_for() {
        let installed = Installed::new(Apps { writes: 0.25, ..small() }, Seed(1)).unwrap();
        let asks = plan(&installed, 0, 0);
        assert_eq!((asks.len(), asks.iter().filter(|ask| ask.is_write).count()), (30, 6));
    }

    #[test]
    fn a_model_that_cannot_be_says_why() {
        let refused = |model| Installed::new(model, Seed(1)).unwrap_err().to_string();
        assert!(refused(Apps { area_pages: 1000, ..small() }).contains("and the area has 4096000"));
        let app = Kind { sequential_pages: 1000, ..small().app };
        assert!(refused(Apps { app, ..small() }).starts_with("app 0 has "));
        let app = Kind { sequential_pages: 0, random_reads: 0, ..small().app };
        assert_eq!(refused(Apps { app, ..small() }), "app 0 reads nothing at its launch");
    }
}
