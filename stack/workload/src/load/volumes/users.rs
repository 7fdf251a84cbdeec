//! The users of volumes: when each writes, and where.

use sim::{Lnum, Ns, Rng, Seed};

use super::{Lebs, Op, Volume};

/// So many bytes in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes, at least 1.
    pub bytes: u64,
    /// Time in which they are written.
    pub per: Ns,
}

/// Order of the places that a user rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Drawn uniformly.
    Random,
    /// One after the other, round and round.
    InTurn,
}

/// What the user of a volume does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Appends records, LEB after LEB. At the end of the volume the log goes on at its beginning: a LEB is unmapped just
    /// before it is written again. A record that does not fit into the rest of a LEB goes on in the next.
    Append {
        /// Bytes of records in time.
        rate: Rate,
        /// Bytes of a record; each is filled up to whole write units.
        write_bytes: u32,
    },
    /// Rewrites places of the contents. Each LEB that a write touches is changed atomically, with all that it holds.
    Rewrite {
        /// Bytes of writes in time.
        rate: Rate,
        /// Bytes of a write; places are multiples of it.
        write_bytes: u32,
        /// Bytes that the volume holds.
        bytes: u64,
        /// Order of the places.
        order: Order,
    },
    /// Replaces the contents by an update of the volume.
    Image {
        /// Bytes of the image.
        bytes: u64,
        /// Time between the beginnings of two updates, and before the first.
        every: Ns,
    },
    /// Writes nothing; perhaps reads all that the volume holds.
    Static {
        /// Bytes that the volume holds.
        bytes: u64,
        /// Time between the beginnings of two scans, and before the first.
        read_every: Option<Ns>,
    },
}

impl Pattern {
    /// Why the pattern cannot be that of a volume of `bytes`: the value at fault, and what it may be at most.
    pub fn misfit(&self, bytes: u64) -> Option<(&'static str, u64, u64)> {
        let beyond = |what, found: u64, most: u64| (found > most || found == 0).then_some((what, found, most));
        match *self {
            Pattern::Append { write_bytes, .. } => beyond("write_bytes", write_bytes.into(), bytes),
            Pattern::Rewrite { write_bytes, bytes: holds, .. } => {
                beyond("bytes", holds, bytes).or(beyond("write_bytes", write_bytes.into(), holds))
            }
            Pattern::Image { bytes: image, .. } => beyond("image_bytes", image, bytes),
            Pattern::Static { bytes: holds, .. } => beyond("bytes", holds, bytes),
        }
    }
}

/// Times of writes of equal size at a rate, to the nanosecond and without drift.
#[derive(Clone, Copy, Debug)]
struct Beat {
    /// Time of the next write, and the part of a nanosecond beyond it in units of 1 / `bytes`.
    next: u64,
    rest: u64,
    /// Time from one write to the next in the same units.
    whole: u64,
    part: u64,
    bytes: u64,
}

impl Beat {
    fn new(rate: Rate, write_bytes: u32) -> Beat {
        let (span, bytes) = (u128::from(write_bytes) * u128::from(rate.per.0), rate.bytes.max(1));
        let whole = u64::try_from(span / u128::from(bytes)).unwrap_or(u64::MAX);
        let part = (span % u128::from(bytes)) as u64;
        Beat { next: whole, rest: part, whole, part, bytes }
    }

    fn every(span: Ns) -> Beat {
        Beat::new(Rate { bytes: 1, per: span }, 1)
    }

    /// Time and rest of the write `n` after the next one.
    #[inline]
    fn after(&self, n: u64) -> (u64, u64) {
        let rest = u128::from(self.rest) + u128::from(n) * u128::from(self.part);
        // Most sums fit into 64 bits, whose division is the faster one.
        let (carry, rest) = match u64::try_from(rest) {
            Ok(rest) => (rest / self.bytes, rest % self.bytes),
            Err(_) => ((rest / u128::from(self.bytes)) as u64, (rest % u128::from(self.bytes)) as u64),
        };
        (self.next.saturating_add(self.whole.saturating_mul(n)).saturating_add(carry), rest)
    }

    #[inline]
    fn advance(&mut self, writes: u64) {
        (self.next, self.rest) = self.after(writes);
    }

    /// How many of the next `most` writes come before `time`.
    #[inline]
    fn before(&self, time: Ns, most: u64) -> u64 {
        if most == 0 || self.after(most - 1).0 < time.0 {
            return most;
        }
        let (mut low, mut high) = (0, most - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.after(middle).0 < time.0 { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// When a user goes on.
pub(super) enum Next {
    At(Ns),
    WhenDone,
}

/// Where a user is.
#[derive(Clone, Debug)]
pub(super) struct User {
    shape: Lebs,
    lebs: u32,
    beat: Option<Beat>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// Where the log goes on, and how much of a record is still to be written there.
    Append { write_bytes: u32, lnum: u32, offset: u32, left: u32 },
    /// Number of the next write in turn, and the part of a write that is still to be done.
    Rewrite { write_bytes: u32, bytes: u64, rng: Option<Rng>, turn: u64, left: Option<(u64, u64)> },
    /// The next LEB of an update; `None` between two.
    Image { bytes: u64, at: Option<u32> },
    /// The next LEB of a scan.
    Static { bytes: u64, at: u32 },
}

impl User {
    pub(super) fn new(volume: &Volume, shape: Lebs, seed: Seed) -> User {
        let capacity = u64::from(volume.lebs) * u64::from(shape.leb_bytes);
        assert_eq!(volume.pattern.misfit(capacity), None, "the pattern of volume {:?}", volume.name);
        let (beat, place) = match volume.pattern {
            Pattern::Append { rate, write_bytes } => {
                (Some(Beat::new(rate, write_bytes)), Place::Append { write_bytes, lnum: 0, offset: 0, left: 0 })
            }
            Pattern::Rewrite { rate, write_bytes, bytes, order } => {
                let rng = (order == Order::Random).then(|| seed.stream(&format!("workload/volumes/{}", volume.name)));
                let place = Place::Rewrite { write_bytes, bytes, rng, turn: 0, left: None };
                (Some(Beat::new(rate, write_bytes)), place)
            }
            Pattern::Image { bytes, every } => (Some(Beat::every(every)), Place::Image { bytes, at: None }),
            Pattern::Static { bytes, read_every } => (read_every.map(Beat::every), Place::Static { bytes, at: 0 }),
        };
        User { shape, lebs: volume.lebs, beat, place }
    }

    /// When the next write, update or scan is due.
    #[inline]
    pub(super) fn due(&self) -> Ns {
        Ns(self.beat.map_or(u64::MAX, |beat| beat.next))
    }

    /// When the user goes on after a step.
    #[inline]
    pub(super) fn next(&self) -> Next {
        match self.place {
            Place::Rewrite { left: Some(_), .. } | Place::Image { at: Some(_), .. } => Next::WhenDone,
            Place::Static { at, .. } if at > 0 => Next::WhenDone,
            _ => Next::At(self.due()),
        }
    }

    /// Operations before the load begins.
    pub(super) fn fill(&self) -> impl Iterator<Item = Op> + use<> {
        let shape = self.shape;
        let (updated, changed) = match self.place {
            Place::Append { .. } => (0, 0),
            Place::Rewrite { bytes, .. } => (0, bytes),
            Place::Image { bytes, .. } | Place::Static { bytes, .. } => (bytes, 0),
        };
        let begin = (updated > 0).then_some(Op::BeginUpdate { bytes: updated });
        let lebs = parts(updated, shape).map(move |(lnum, bytes)| Op::UpdateLeb { lnum, bytes, of: updated });
        let end = (updated > 0).then_some(Op::EndUpdate { bytes: updated });
        let changes = parts(changed, shape).map(move |(lnum, bytes)| Op::Change { lnum, bytes: padded(bytes, shape) });
        begin.into_iter().chain(lebs).chain(end).chain(changes)
    }

    /// The next operation, the writes that it completes and their bytes. Nobody else writes before `alone_until`; more
    /// writes than it takes to reach `most_bytes` are not completed at once.
    #[inline]
    pub(super) fn step(&mut self, alone_until: Ns, most_bytes: u64) -> (Op, u64, u64) {
        let User { shape, lebs, beat, place } = self;
        let (shape, lebs) = (*shape, *lebs);
        let beat = beat.as_mut().expect("a user without a rate is never due");
        match place {
            Place::Append { write_bytes, lnum, offset, left } => {
                let record = padded(*write_bytes, shape);
                let room = shape.leb_bytes - *offset;
                let at = (Lnum(*lnum), *offset);
                let fresh = *offset == 0;
                let first = if *left > 0 { *left } else { record };
                // The first record of a LEB is a step of its own: it also waits for a PEB.
                let (bytes, writes) = if first > room || fresh || *left > 0 {
                    let bytes = first.min(room);
                    *left = first - bytes;
                    (bytes, u64::from(*left == 0))
                } else {
                    let fit = u64::from(room / record).min(most_bytes.div_ceil(u64::from(*write_bytes))).max(1);
                    let writes = beat.before(alone_until, fit).max(1);
                    (writes as u32 * record, writes)
                };
                *offset += bytes;
                if *offset == shape.leb_bytes {
                    (*lnum, *offset) = ((*lnum + 1) % lebs, 0);
                }
                if writes > 0 {
                    beat.advance(writes);
                }
                (Op::Write { lnum: at.0, offset: at.1, bytes, fresh }, writes, writes * u64::from(*write_bytes))
            }
            Place::Rewrite { write_bytes, bytes, rng, turn, left } => {
                let size = u64::from(*write_bytes);
                let (from, to) = left.take().unwrap_or_else(|| {
                    let places = *bytes / size;
                    let place = rng.as_mut().map_or(*turn % places, |rng| rng.below(places));
                    *turn += 1;
                    (place * size, (place + 1) * size)
                });
                let leb = u64::from(shape.leb_bytes);
                let lnum = from / leb;
                let goes_on = (lnum + 1) * leb;
                let holds = (*bytes - lnum * leb).min(leb) as u32;
                let op = Op::Change { lnum: Lnum(lnum as u32), bytes: padded(holds, shape) };
                if goes_on < to {
                    *left = Some((goes_on, to));
                    return (op, 0, 0);
                }
                beat.advance(1);
                (op, 1, size)
            }
            Place::Image { bytes, at } => match *at {
                None => {
                    *at = Some(0);
                    (Op::BeginUpdate { bytes: *bytes }, 0, 0)
                }
                Some(next) => match part(*bytes, next, shape) {
                    Some(length) => {
                        *at = Some(next + 1);
                        (Op::UpdateLeb { lnum: Lnum(next), bytes: length, of: *bytes }, 1, length.into())
                    }
                    None => {
                        *at = None;
                        beat.advance(1);
                        (Op::EndUpdate { bytes: *bytes }, 0, 0)
                    }
                },
            },
            Place::Static { bytes, at } => {
                let length = part(*bytes, *at, shape).expect("a scan ends at the last LEB");
                let op = Op::Read { lnum: Lnum(*at), bytes: length };
                *at += 1;
                if part(*bytes, *at, shape).is_none() {
                    *at = 0;
                    beat.advance(1);
                }
                (op, 0, 0)
            }
        }
    }
}

fn padded(bytes: u32, shape: Lebs) -> u32 {
    bytes.next_multiple_of(shape.min_io_bytes)
}

/// Bytes of contents of length `bytes` in a LEB; `None` if they end before it.
fn part(bytes: u64, lnum: u32, shape: Lebs) -> Option<u32> {
    let leb = u64::from(shape.leb_bytes);
    let before = u64::from(lnum) * leb;
    (bytes > before).then(|| (bytes - before).min(leb) as u32)
}

/// The LEBs of contents of length `bytes`, and their bytes in each.
fn parts(bytes: u64, shape: Lebs) -> impl Iterator<Item = (Lnum, u32)> {
    (0..).map_while(move |lnum| part(bytes, lnum, shape).map(|length| (Lnum(lnum), length)))
}
