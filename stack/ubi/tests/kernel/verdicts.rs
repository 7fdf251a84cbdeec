//! What Linux made of each flash, as `.ci/kernel-ubi record` wrote it down, and what we make of it.

use nand::{Array, ArrayConfig};
use sim::seam::{LebError, LebVolume};
use sim::{Cx, Lnum, Peb};
use ubi::attach::{AttachedBy, attach_by_fastmap, attach_by_scan};
use ubi::image::linux::{self, LebRead, LinuxVolume};
use ubi::image::{Dump, Overrides, Scan};
use ubi::layout::Layout;
use ubi::{Config, Policy, Ubi};

use crate::bases::Small;

/// How a flash was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    Fastmap,
    Scan,
    /// By a scan, because the fastmap could not be used.
    FellBack,
    Refused,
    /// Linux itself failed.
    Died,
}

/// A verdict: Linux's or ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub how: How,
    pub is_read_only: bool,
    /// Highest erase counter.
    pub max_ec: u32,
    /// Volumes in the form of `guest/jobs/ubi.py`; empty if refused.
    pub volumes: String,
}

/// Linux's verdict on a flash of this name, and its first error or warning.
pub struct Recorded<'a> {
    pub name: &'a str,
    pub verdict: Verdict,
    pub said: &'a str,
}

/// Reads the rows of a recording. The first is the flash unchanged; volumes equal to its are `=`.
pub fn recorded(rows: &str) -> Vec<Recorded<'_>> {
    let mut first = String::new();
    rows.lines()
        .map(|row| {
            let columns: Vec<&str> = row.split('\t').collect();
            let [name, how, access, max_ec, volumes, said] = columns[..] else { panic!("six columns in {row:?}") };
            let how = match how {
                "fastmap" => How::Fastmap,
                "scan" => How::Scan,
                "fell-back" => How::FellBack,
                "refused" => How::Refused,
                "dies" => How::Died,
                _ => panic!("{how} in {row:?}"),
            };
            if first.is_empty() {
                volumes.clone_into(&mut first);
            }
            let volumes = match volumes {
                "=" => first.clone(),
                "-" => String::new(),
                other => other.to_owned(),
            };
            let verdict = Verdict { how, is_read_only: access == "ro", max_ec: max_ec.parse().unwrap_or(0), volumes };
            Recorded { name, verdict, said }
        })
        .collect()
}

/// Volumes without the size of those whose update was interrupted, which have no contents: Linux tells what the headers on
/// flash say, we tell 0.
pub fn without_interrupted(volumes: &str) -> String {
    let one = |volume: &str| match volume.strip_suffix(":EBADF").and_then(|rest| rest.rsplit_once(':')) {
        Some((rest, _)) => format!("{}:EBADF", rest.replace("static!", "static")),
        None => volume.to_owned(),
    };
    volumes.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

/// Erase counter of each PEB that we find, by the fastmap or by a scan.
pub fn counters(small: &Small, bytes: &[u8], how: How) -> Vec<u32> {
    let mut array = Array::load(ArrayConfig::plain(small.geometry), bytes, false).expect("of the right length");
    let (cx, layout) = (&mut Cx::new(), Layout::new(&small.geometry, None).expect("a layout"));
    let info = match how {
        How::Fastmap => attach_by_fastmap(&mut array, cx, &layout).unwrap_or_else(|why| panic!("{why}")),
        _ => attach_by_scan(&mut array, cx, &layout).unwrap_or_else(|why| panic!("{why}")),
    };
    info.erase_counts.iter().map(|ec| ec.0).collect()
}

/// Our verdict, and why we refuse.
pub fn ours(small: &Small, bytes: &[u8]) -> (Verdict, String) {
    attached(small, bytes, true)
}

/// Our verdict without a fastmap: what is newest on flash.
pub fn scanned(small: &Small, bytes: &[u8]) -> Verdict {
    attached(small, bytes, false).0
}

fn attached(small: &Small, bytes: &[u8], fastmap: bool) -> (Verdict, String) {
    let array = Array::load(ArrayConfig::plain(small.geometry), bytes, false).expect("of the right length");
    let cx = &mut Cx::new();
    let mut ubi = match Ubi::attach(array, cx, &Config { fastmap, ..Config::linux(Policy::LINUX_6_7) }) {
        Ok(ubi) => ubi,
        Err(failure) => {
            let verdict = Verdict { how: How::Refused, is_read_only: false, max_ec: 0, volumes: String::new() };
            return (verdict, failure.error.to_string());
        }
    };
    let unused = ubi.notes().iter().find(|note| note.starts_with("fastmap not used")).cloned();
    let how = match (ubi.attached_by(), &unused) {
        (AttachedBy::Fastmap, _) => How::Fastmap,
        (AttachedBy::Scan, Some(_)) => How::FellBack,
        (AttachedBy::Scan, None) => How::Scan,
    };
    let infos: Vec<_> = ubi.volume_infos().collect();
    let mut volumes = Vec::new();
    for info in infos {
        let mut contents = vec![0; info.data_bytes as usize];
        let mut failed: Option<LebError> = None;
        let mut volume = ubi.volume(info.vol_id).expect("it exists");
        for (lnum, leb) in (0..).map(Lnum).zip(contents.chunks_mut(info.leb_bytes as usize)) {
            failed = failed.or(volume.read(cx, lnum, 0, leb).err());
        }
        let contents = match failed {
            // Linux gives no contents after an interrupted update.
            _ if info.record.upd_marker => "EBADF".to_owned(),
            None => format!("{:08x}", !ubi::media::crc(&contents)),
            Some(error) => format!("{error:?}"),
        };
        let name = printable(&info.record.name);
        let (vol_id, kind) = (info.vol_id, info.record.vol_type.name());
        volumes.push(format!("{vol_id}:{name}:{kind}:{}:{}:{contents}", info.record.reserved_pebs, info.data_bytes));
    }
    let verdict = Verdict {
        how,
        is_read_only: ubi.read_only().is_some(),
        max_ec: (0..small.geometry.pebs).map(|peb| ubi.erase_count(Peb(peb)).0).max().unwrap_or(0),
        volumes: volumes.join(" "),
    };
    (verdict, unused.unwrap_or_default())
}

/// The verdict that `nandlab image check` reports as Linux's, and the reason.
pub fn modelled(small: &Small, bytes: &[u8]) -> (Verdict, String) {
    let given = Overrides { peb_bytes: Some(small.geometry.peb_bytes), ..Overrides::default() };
    let dump = Dump::probe(bytes, &given).expect("UBI");
    let scan = Scan::new(&dump);
    let linux = scan.linux();
    let how = match linux.how {
        linux::How::Fastmap => How::Fastmap,
        linux::How::Scan => How::Scan,
        linux::How::FellBack => How::FellBack,
        linux::How::Refused => How::Refused,
    };
    let mut volumes = Vec::new();
    for volume in &linux.volumes {
        let leb_bytes = dump.geometry().leb_bytes() - volume.record.data_pad;
        let mut contents = vec![0xff; usize::try_from(volume.data_bytes).unwrap_or(0)];
        let mut fails = false;
        for (lnum, leb) in (0..).map(Lnum).zip(contents.chunks_mut(leb_bytes as usize)) {
            match linux.read(&dump, volume, lnum) {
                LebRead::Data(peb) => leb.copy_from_slice(&scan.data(peb)[..leb.len()]),
                LebRead::Erased => {}
                LebRead::Fails(_) => fails = true,
            }
        }
        let contents = if volume.record.upd_marker {
            "EBADF".to_owned() // an interrupted update: Linux gives no contents
        } else if fails || volume.data_bytes < 0 {
            "EINVAL".to_owned()
        } else {
            format!("{:08x}", !ubi::media::crc(&contents))
        };
        let missing = if volume.misses_lebs { "!" } else { "" };
        let LinuxVolume { id, record, data_bytes, .. } = volume;
        let (name, kind) = (printable(&record.name), record.vol_type.name());
        volumes.push(format!("{id}:{name}:{kind}{missing}:{}:{data_bytes}:{contents}", record.reserved_pebs));
    }
    let verdict = Verdict { how, is_read_only: linux.is_read_only, max_ec: 0, volumes: volumes.join(" ") };
    (verdict, linux.why.as_ref().map(|why| why.what.clone()).unwrap_or_default())
}

/// A name as `guest/jobs/ubi.py` prints it.
fn printable(name: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        0x00..=0x7f => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    name.iter().map(one).collect()
}
