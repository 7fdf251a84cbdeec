//! The host: draws requests one after another, keeps several outstanding, and does one step at a time.
//!
//! A request that overlaps an outstanding one waits until that is done, so that the result of a read is known. A step
//! submits a request or waits for a completion. Draws do not depend on what the drive did.

use std::sync::Arc;

use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Flash, Payload};
use sim::{Ns, Rng};
use ssd::Ssd;
use ssd::ftl::UnitFtl;
use ssd::host::Hpb;

use super::model::{Model, Promise};
use crate::check::{Broken, Check};

/// Kinds of requests, as named in `[workload.mix]` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A write.
    Write,
    /// A write with FUA.
    Fua,
    /// A read.
    Read,
    /// A trim.
    Trim,
    /// A flush.
    Flush,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Write, Kind::Fua, Kind::Read, Kind::Trim, Kind::Flush];

    /// Name of the kind in a file.
    pub fn name(self) -> &'static str {
        ["write", "fua", "read", "trim", "flush"][self as usize]
    }
}

/// Requests of the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// Total number of requests.
    pub requests: u32,
    /// Most outstanding requests.
    pub depth: u32,
    /// Most pages per request.
    pub most_pages: u32,
    /// Number of submission queues.
    pub queues: u16,
    /// Weight of each kind, in the order of [`Kind::ALL`].
    pub weights: [u32; 5],
}

impl Load {
    /// Default weights: mostly writes.
    pub const WEIGHTS: [u32; 5] = [60, 5, 20, 8, 7];

    /// Draws a request to a device of so many sectors, whose pages have `page` sectors.
    pub fn draw(&self, rng: &mut Rng, sectors: u64, page: u64) -> BlockRequest {
        let most = u64::from(self.most_pages);
        let len = match rng.below(4) {
            0 => 1 + rng.below(page),
            1 => page,
            2 => page * (1 + rng.below(most)),
            _ => 1 + rng.below(most * page),
        }
        .min(sectors);
        let mut first = rng.below(sectors - len + 1);
        if rng.chance(0.5) {
            first -= first % page;
        }
        // A third of the requests go to the first pages, which are so rewritten while outstanding.
        if rng.chance(0.3) {
            first %= (4 * page).min(sectors - len + 1);
        }
        let total: u64 = self.weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut ticket = rng.below(total);
        let kind = Kind::ALL.into_iter().find(|&kind| {
            let weight = u64::from(self.weights[kind as usize]);
            let hit = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            hit
        });
        let mut request = match kind {
            Some(Kind::Write | Kind::Fua) => BlockRequest::write(first, len as u32),
            Some(Kind::Trim) => BlockRequest::trim(first, len as u32),
            Some(Kind::Flush) => BlockRequest::flush(),
            Some(Kind::Read) | None => BlockRequest::read(first, len as u32),
        };
        request.fua = kind == Some(Kind::Fua);
        request.queue = rng.below(u64::from(self.queues)) as u16;
        request
    }
}

/// Why a step failed.
pub(super) enum Down {
    /// Power was lost.
    Power,
    /// A promise was broken.
    Broken(Broken),
    /// The drive takes no more writes, which is right if its blocks have failed.
    NoSpare(Broken),
}

impl Down {
    /// A request that failed with power on.
    fn failed(request: &BlockRequest, how: &str, error: &BlockError) -> Down {
        let broken = vec![Check::Works.broken(format!("{}: {how}: {error}", described(request)))];
        if matches!(error, BlockError::WornOut { .. }) { Down::NoSpare(broken) } else { Down::Broken(broken) }
    }
}

/// State of the host.
#[derive(Clone)]
pub(super) struct Host {
    load: Load,
    rng: Rng,
    next: BlockRequest,
    issued: u32,
    under_way: Vec<Option<(BlockRequest, Promise)>>,
    /// Whether writes are durable at completion.
    at_once: bool,
    /// The requests to submit instead of drawn ones.
    script: Option<Arc<[BlockRequest]>>,
}

impl Host {
    pub fn new(load: Load, mut rng: Rng, model: &Model, at_once: bool) -> Host {
        let next = load.draw(&mut rng, model.sectors(), model.page());
        Host { next, issued: 0, under_way: vec![None; load.depth as usize], load, rng, at_once, script: None }
    }

    /// The same host before its first request, with these requests.
    pub fn scripted(&self, script: Arc<[BlockRequest]>) -> Host {
        let next = script.first().copied().unwrap_or(self.next);
        let load = Load { requests: script.len() as u32, ..self.load.clone() };
        Host { next, issued: 0, load, script: Some(script), ..self.clone() }
    }

    fn draw_next(&mut self, model: &Model) {
        self.next = match &self.script {
            Some(script) => script.get(self.issued as usize).copied().unwrap_or(self.next),
            None => self.load.draw(&mut self.rng, model.sectors(), model.page()),
        };
    }

    /// Whether all requests are done.
    pub fn is_done(&self) -> bool {
        self.issued == self.load.requests && self.under_way.iter().all(Option::is_none)
    }

    /// The request that the next step submits, if any.
    pub fn hands_over(&self) -> Option<&BlockRequest> {
        let meets = |other: &BlockRequest| other.sector < self.next.end() && self.next.sector < other.end();
        let free = self.under_way.iter().any(Option::is_none);
        let blocked = self.under_way.iter().flatten().any(|(other, _)| meets(other));
        (self.issued < self.load.requests && free && !blocked).then_some(&self.next)
    }

    /// Submits a request, or waits for a completion.
    pub fn step<F: Flash, M: UnitFtl>(&mut self, drive: &mut Hpb<Ssd<F, M>>, model: &mut Model) -> Result<(), Down> {
        let Some(&request) = self.hands_over() else { return self.wait(drive, model, Ns(u64::MAX)).map(drop) };
        let tag =
            self.under_way.iter().position(Option::is_none).expect("a request is handed over when a place is free");
        self.issued += 1;
        self.draw_next(model);
        let mut data = Vec::new();
        let promise = model.asked(&request, &mut data);
        match drive.submit(drive.device().now(), tag as u32, request, Payload::Bytes(&data)) {
            Ok(()) => {
                self.under_way[tag] = Some((request, promise));
                Ok(())
            }
            Err(BlockError::PowerLost) => Err(Down::Power),
            Err(error) => Err(Down::failed(&request, "refused", &error)),
        }
    }

    /// Takes a completion up to `until`. Returns whether there was one.
    fn wait<F: Flash, M: UnitFtl>(
        &mut self,
        drive: &mut Hpb<Ssd<F, M>>,
        model: &mut Model,
        until: Ns,
    ) -> Result<bool, Down> {
        let done = loop {
            // Advance from one event of the flash to the next, so that operations are under way when power fails.
            let next = drive.device().dispatcher().next_time();
            if let Some(done) = drive.next_done(next.map_or(until, |next| next.min(until))) {
                break done;
            }
            if drive.device().dispatcher().power_lost() {
                return Err(Down::Power);
            }
            if next.is_none_or(|next| next > until) {
                if until.0 < u64::MAX {
                    return Ok(false);
                }
                let what = "the drive stalled: requests are outstanding, and none completes";
                return Err(Down::Broken(vec![Check::Works.broken(what)]));
            }
        };
        let Some((request, promise)) = self.under_way[done.tag as usize].take() else {
            let what = format!("tag {} completed, but was not outstanding", done.tag);
            return Err(Down::Broken(vec![Check::Works.broken(what)]));
        };
        match done.result {
            Ok(()) => model.done(&request, &promise, self.at_once || request.fua),
            Err(BlockError::PowerLost) => return Err(Down::Power),
            Err(error) => return Err(Down::failed(&request, "failed", &error)),
        }
        if request.op == BlockOp::Read && !drive.device().dispatcher().power_lost() {
            let mut data = vec![0xee; request.bytes() as usize];
            drive.take(done.tag, &mut data);
            let broken = model.reads(request.sector, &data);
            if !broken.is_empty() {
                return Err(Down::Broken(Check::Reads.each(broken).collect()));
            }
        }
        Ok(true)
    }

    /// After a power cut: takes the completions up to that time.
    pub fn last_completions<F: Flash, M: UnitFtl>(
        &mut self,
        drive: &mut Hpb<Ssd<F, M>>,
        model: &mut Model,
    ) -> Result<(), Broken> {
        loop {
            match self.wait(drive, model, drive.device().now()) {
                Ok(true) => {}
                Ok(false) | Err(Down::Power) => return Ok(()),
                // Power was lost: what a drive without spare blocks answers then is of no account.
                Err(Down::NoSpare(_)) => {}
                Err(Down::Broken(what)) => return Err(what),
            }
        }
    }
}

/// Describes a request.
pub(crate) fn described(request: &BlockRequest) -> String {
    let what = match request.op {
        BlockOp::Flush => return "flush".to_owned(),
        BlockOp::Read => "read",
        BlockOp::Write => "write",
        BlockOp::Trim => "trim",
    };
    let fua = if request.fua { ", FUA" } else { "" };
    format!("{what} {} sectors at {}{fua}", request.sectors, request.sector)
}
