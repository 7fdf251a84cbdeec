//! What Linux does with a flash: attaches by fastmap, falls back to a scan, scans, or refuses; and which PEB it then
//! reads for each LEB.
//!
//! This is a model of Linux 6.12 with fastmap, for the reports of `check`: [`attach`](crate::attach) is more careful,
//! and trusts no fastmap that contradicts what is on flash. `tests/kernel` holds the model to what Linux did with
//! thousands of changed flashes. It knows no bit flips and no unreadable pages, because a dump has none.
//!
//! Memory: less than 100 bytes per PEB and one fastmap. Time: one read of each PEB's headers, and of data areas behind
//! broken VID headers and of copies.

mod fastmap;
mod headers;
mod volumes;

use std::borrow::Cow;
use std::collections::BTreeMap;

use sim::{Lnum, Peb, VolId};

use self::headers::Headers;
use super::dump::Dump;
use crate::media::{FM_MAX_START, MediaError, VidHdr, VtblRecord};

/// How Linux attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the fastmap.
    Fastmap,
    /// By a scan: there is no fastmap, or it did not look for one.
    Scan,
    /// By a scan, because the fastmap cannot be used.
    FellBack,
    /// Not at all.
    Refused,
}

/// Why Linux refuses a flash or its fastmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// PEB of the reason, if it is in one.
    pub peb: Option<Peb>,
    /// Byte offset in the PEB.
    pub offset: Option<u32>,
    /// What was found and what was expected.
    pub what: String,
}

/// A volume as Linux attached it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxVolume {
    /// Number of the volume.
    pub id: VolId,
    /// Its record in the volume table.
    pub record: VtblRecord,
    /// Whether it is a static volume that misses LEBs: Linux calls it corrupted, and its size 0.
    pub misses_lebs: bool,
    /// Bytes of contents: of a static volume the size of its data. A wrong fastmap makes it anything, even negative.
    pub data_bytes: i64,
    /// PEB of each mapped LEB.
    pub lebs: BTreeMap<Lnum, Peb>,
}

/// What Linux does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How it attaches.
    pub how: How,
    /// Why it refuses, or does not use the fastmap.
    pub why: Option<Reason>,
    /// Whether it attaches read-only, because an unknown internal volume requires it.
    pub is_read_only: bool,
    /// Volumes, by number; empty if refused.
    pub volumes: Vec<LinuxVolume>,
}

/// What a read of a LEB gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LebRead {
    /// 0xFF: it is not mapped.
    Erased,
    /// The data of this PEB.
    Data(Peb),
    /// An error, and the device becomes read-only: the fastmap says another LEB than the PEB holds.
    Fails(Peb),
}

impl Verdict {
    /// What Linux reads for LEB `lnum` of one of the volumes. After an attach by fastmap it reads the PEB's VID header
    /// first.
    pub fn read(&self, dump: &Dump<'_>, volume: &LinuxVolume, lnum: Lnum) -> LebRead {
        let Some(&peb) = volume.lebs.get(&lnum) else { return LebRead::Erased };
        if self.how != How::Fastmap {
            return LebRead::Data(peb);
        }
        if peb.0 >= dump.geometry().pebs {
            return LebRead::Fails(peb);
        }
        let bytes = dump.read(peb, dump.geometry().vid_hdr_offset, VidHdr::BYTES as u32);
        match bytes.first_chunk().map(VidHdr::decode) {
            Some(Ok(hdr)) if hdr.check(dump.geometry().leb_bytes()).is_err() => LebRead::Fails(peb),
            Some(Ok(hdr)) if (hdr.vol_id, hdr.lnum) == (volume.id.0, lnum.0) => LebRead::Data(peb),
            Some(Ok(_) | Err(MediaError::Field { .. })) => LebRead::Fails(peb),
            Some(Err(_)) | None => LebRead::Erased,
        }
    }
}

/// Why the attach, or a part of it, ends.
enum Stop {
    /// Linux refuses to attach.
    Refused(Reason),
    /// The fastmap cannot be used.
    Unusable(Reason),
}

impl Stop {
    fn refused<T>(peb: u32, offset: u32, what: impl ToString) -> Result<T, Stop> {
        Err(Stop::Refused(Reason { peb: Some(Peb(peb)), offset: Some(offset), what: what.to_string() }))
    }

    fn unusable<T>(peb: u32, offset: u32, what: impl ToString) -> Result<T, Stop> {
        Err(Stop::Unusable(Reason { peb: Some(Peb(peb)), offset: Some(offset), what: what.to_string() }))
    }

    fn refused_device<T>(what: impl ToString) -> Result<T, Stop> {
        Err(Stop::Refused(Reason { peb: None, offset: None, what: what.to_string() }))
    }
}

/// The flash as Linux sees it.
struct Device<'a> {
    dump: &'a Dump<'a>,
    bad: Vec<bool>,
    /// Whether the dump is an image that was never attached: then it may be for a larger flash.
    is_new: bool,
}

impl Device<'_> {
    fn pebs(&self) -> u32 {
        self.bad.len() as u32
    }

    fn read(&self, peb: u32, offset: u32, length: u32) -> Cow<'_, [u8]> {
        self.dump.read(Peb(peb), offset, length)
    }
}

/// What Linux does with `dump`, whose PEBs are bad where `bad` is true. `is_new`: no UBI ever wrote to it.
pub(super) fn verdict(dump: &Dump<'_>, bad: Vec<bool>, is_new: bool) -> Verdict {
    let device = Device { dump, bad, is_new };
    let mut headers = Headers::new(&device);
    let mut why = None;
    let done = attach(&device, &mut headers, &mut why);
    let is_read_only = headers.is_read_only;
    match done {
        Ok((how, volumes)) => Verdict { how, why, is_read_only, volumes },
        Err(Stop::Refused(reason) | Stop::Unusable(reason)) => {
            Verdict { how: How::Refused, why: Some(reason), is_read_only, volumes: Vec::new() }
        }
    }
}

fn attach<'d, 'a>(
    device: &'d Device<'a>,
    headers: &mut Headers<'d, 'a>,
    why: &mut Option<Reason>,
) -> Result<(How, Vec<LinuxVolume>), Stop> {
    let mut how = How::Scan;
    let mut from = 0;
    if device.pebs() > FM_MAX_START {
        headers.scan(0..FM_MAX_START, true)?;
        match headers.anchor().map(|anchor| fastmap::attach(device, headers, anchor)) {
            Some(Ok(found)) => {
                let volumes = volumes::attach(device, &found, true)?;
                return Ok((How::Fastmap, volumes));
            }
            Some(Err(Stop::Unusable(reason))) => {
                how = How::FellBack;
                *why = Some(reason);
                headers.forget();
            }
            Some(Err(refused)) => return Err(refused),
            None => {
                from = FM_MAX_START;
                *why = headers.broken.take();
            }
        }
    }
    headers.scan(from..device.pebs(), false)?;
    headers.judge()?;
    let volumes = volumes::attach(device, &headers.found, false)?;
    Ok((how, volumes))
}
