//! Reads the whole drive and compares it with the model: through the host path, but for pages whose cells are known.

use std::ops::Range;

use sim::seam::{BlockDevice, BlockRequest, Payload};
use sim::{Ns, Rng};

use super::drive::{Drive, Layer};
use super::known::{Found, Seen, place};
use super::model::Model;
use crate::check::{Broken, Check, verdict};

/// Pages per request.
const READ_PAGES: u64 = 16;
/// Pages that are read although they were seen.
pub(super) const DRAWN_PAGES: u64 = 8;

/// How what is read is compared with the model, from a sector on.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    check: Check,
    bytes: fn(&mut Model, u64, &[u8]) -> Vec<String>,
    found: fn(&mut Model, u64, Found<'_>) -> bool,
}

/// After a power-on.
pub(super) const SURVIVED: Judge = Judge { check: Check::Contents, bytes: Model::survived, found: Model::survived_as };
/// While power is on.
pub(super) const READS: Judge = Judge {
    check: Check::Reads,
    bytes: |model, first, data| model.reads(first, data),
    found: |model, first, found| model.reads_as(first, found),
};

/// What need not be read again.
pub(super) struct Skip<'s, 'a> {
    pub seen: &'s mut Seen<'a>,
    /// Draws the pages that are read all the same.
    pub rng: Rng,
    /// Whether what is read now is kept in `seen`, for another read that follows soon.
    pub keep: bool,
}

/// Reads the whole drive and compares it with the model. Pages that were seen already, and are right, are skipped, but
/// for a few drawn ones: a fault of the host path alone is so met sooner or later.
pub(super) fn read_all<M: Layer>(
    drive: &mut Drive<M>,
    model: &mut Model,
    judge: Judge,
    skip: Option<Skip<'_, '_>>,
) -> Result<(), Broken> {
    let (page, pages) = (model.page(), model.sectors() / model.page());
    let read = |pages: Range<u64>| BlockRequest::read(pages.start * page, ((pages.end - pages.start) * page) as u32);
    let mut broken = Broken::new();
    let Some(mut skip) = skip else {
        for first in (0..pages).step_by(READ_PAGES as usize) {
            read_at_once(drive, model, judge, &[read(first..pages.min(first + READ_PAGES))], &mut broken)?;
        }
        return verdict(broken);
    };
    let drawn = skip.rng.below(pages.div_ceil(DRAWN_PAGES));
    let mut is_right = |lpn: u64| {
        lpn / DRAWN_PAGES != drawn
            && skip.seen.page(drive, lpn as u32).is_some_and(|found| (judge.found)(model, lpn * page, found))
    };
    let mut left: Vec<Range<u64>> = Vec::new();
    for lpn in (0..pages).filter(|&lpn| !is_right(lpn)) {
        match left.last_mut() {
            Some(last) if last.end == lpn && lpn - last.start < READ_PAGES => last.end += 1,
            _ => left.push(lpn..lpn + 1),
        }
    }
    let cells = drive.device().dispatcher().cells().flash().array.store().clone();
    let mut places = vec![None; if skip.keep { pages as usize } else { 0 }];
    let requests: Vec<BlockRequest> = left.iter().cloned().map(read).collect();
    let at_once = drive.queue_depth() as usize;
    for (left, requests) in left.chunks(at_once).zip(requests.chunks(at_once)) {
        let read_now = || left.iter().cloned().flatten().filter(|_| skip.keep);
        read_now().for_each(|lpn| places[lpn as usize] = place(drive, lpn as u32));
        // Sent together: in a gap between two of them, programs that are under way would go on, and the power cut that
        // follows would find fewer of them.
        read_at_once(drive, model, judge, requests, &mut broken)?;
        // A page that was moved meanwhile was read somewhere else.
        for lpn in read_now() {
            let at = &mut places[lpn as usize];
            *at = at.filter(|_| *at == place(drive, lpn as u32));
        }
    }
    verdict(broken)?;
    if skip.keep {
        skip.seen.keep(cells, places, model.now());
    }
    Ok(())
}

/// Reads through the host path and compares what comes. There are at most as many requests as may be outstanding.
fn read_at_once<M: Layer>(
    drive: &mut Drive<M>,
    model: &mut Model,
    judge: Judge,
    requests: &[BlockRequest],
    broken: &mut Broken,
) -> Result<(), Broken> {
    for (tag, &request) in (0..).zip(requests) {
        let asked = drive.submit(drive.device().now(), tag, request, Payload::Length(0));
        asked.map_err(|error| vec![Check::Works.broken(format!("a read is refused: {error}"))])?;
    }
    for _ in requests {
        let Some(done) = drive.next_done(Ns(u64::MAX)) else {
            return Err(vec![Check::Works.broken("the drive stalled in a read")]);
        };
        let request = requests[done.tag as usize];
        match done.result {
            Ok(()) => {
                let mut data = vec![0xee; request.bytes() as usize];
                drive.take(done.tag, &mut data);
                broken.extend(judge.check.each((judge.bytes)(model, request.sector, &data)));
            }
            Err(error) => {
                let (first, last) = (request.sector, request.end() - 1);
                broken.push(Check::Works.broken(format!("sectors {first} to {last} cannot be read: {error:?}")));
            }
        }
    }
    Ok(())
}
