//! What is fuzzed: one function for each target of `targets/`, which `tests/replay.rs` calls too.
//!
//! A target takes any bytes and must return: no panic, no hang, and no more memory than its input allows. How much that
//! is stands beside each call of [`memory::bounded`], as a multiple of the input and a fixed part.

pub mod http;
pub mod image;
pub mod jffs2;
pub mod lab;
pub mod memory;
pub mod nbd;
pub mod oob_ecc;
pub mod strace;
pub mod trace;
pub mod ubifs;
pub mod vhost_blk;
pub mod wire;

use std::collections::BTreeMap;

use nand::{Array, ArrayConfig, NandsimFaults};
use runner::parts::Library;
use runner::run::GuestLog;
use runner::run::guest::log::digest;
use runner::schema::{self, Experiment};
use runner::subject::Subject;
use sim::seam::{Flash, Geometry, LebVolume, Medium};
use sim::{Cx, Lnum, Peb};
use ubi::image::counters::CounterEdit;
use ubi::image::{BadBlocks, Class, Dump, Extent, Input, Overrides, Scan, Severity, check, compare, ini};
use ubi::media::{EcHdr, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, VidHdr, VtblRecord, crc};
use ubi::{Config, Policy, Ubi};

/// A log of a guest: its head, a zero, its body. The first byte odd: the head's sum of the body is made right. One that is
/// accepted is accepted again as it is written.
pub fn guest_log(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let at = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let (Ok(head), body) = (std::str::from_utf8(&rest[..at]), rest.get(at + 1..).unwrap_or_default()) else { return };
    let mut head = head.to_owned();
    if flags & 1 == 1
        && let Some((before, after)) = head.split_once("body_sha256 = \"")
    {
        let after = after.split_once('"').map_or("", |(_, after)| after);
        head = format!("{before}body_sha256 = \"{}\"{after}", digest(body));
    }
    // Made once, for all.
    let _ = (schema::keys(), Library::embedded());
    memory::bounded(data.len(), 512, 1 << 20, || {
        let Ok(log) = GuestLog::parse(&head, body.to_vec().into()) else { return };
        let experiment = Experiment::resolve("title = 'x'\n[ssd]", &[]).expect("it has defaults");
        let _ = log.agrees(&experiment, Library::embedded());
        let (head, body) = log.files();
        let again = GuestLog::parse(&head, body.into_owned().into()).expect("it was just written");
        assert_eq!((again.head.job, again.head.mark), (log.head.job, log.head.mark));
    });
}

/// A target's name, and what it does with the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target by name, as in `Cargo.toml` and `corpus/`.
pub const TARGETS: [Target; 30] = [
    ("ec_hdr", ec_hdr),
    ("http", http::request),
    ("vid_hdr", vid_hdr),
    ("vtbl_record", vtbl_record),
    ("fastmap_pieces", fastmap_pieces),
    ("attach_scan", attach_scan),
    ("attach_fastmap", attach_fastmap),
    ("image_scan", image_scan),
    ("bad_blocks", bad_blocks),
    ("ini", ini),
    ("nandsim_faults", nandsim_faults),
    ("raw_dump", raw_dump),
    ("oob_ecc", oob_ecc::oob_ecc),
    ("fio_job", fio_job),
    ("experiment", experiment),
    ("part", part),
    ("study", lab::study),
    ("result", lab::result),
    ("trace_detect", trace::detect),
    ("trace_text", trace::text),
    ("trace_blktrace", trace::blktrace),
    ("trace_ntrace", trace::ntrace),
    ("strace", strace::strace),
    ("hpb_wire", wire::hpb),
    ("ufs_wire", wire::ufs),
    ("nbd", nbd::client),
    ("vhost_blk", vhost_blk::request),
    ("guest_log", guest_log),
    ("jffs2", jffs2::jffs2),
    ("ubifs", ubifs::ubifs),
];

/// The first `N` bytes, filled up with zeroes; the last four of the first `covered + 4` replaced by a right checksum if
/// the byte after them is odd, so that mutations get past it.
fn checksummed<const N: usize>(data: &[u8], covered: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let len = data.len().min(N);
    bytes[..len].copy_from_slice(&data[..len]);
    if data.get(N).is_some_and(|byte| byte & 1 == 1) {
        let sum = crc(&bytes[..covered]);
        bytes[covered..covered + 4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// An EC header that is accepted says the same when it is written again.
pub fn ec_hdr(data: &[u8]) {
    let bytes = checksummed::<{ EcHdr::BYTES }>(data, 60);
    if let Ok(hdr) = memory::bounded(data.len(), 0, 0, || EcHdr::decode(&bytes)) {
        assert_eq!(EcHdr::decode(&hdr.encode()), Ok(hdr));
    }
}

/// A VID header that is accepted says the same when it is written again.
pub fn vid_hdr(data: &[u8]) {
    let bytes = checksummed::<{ VidHdr::BYTES }>(data, 60);
    if let Ok(hdr) = memory::bounded(data.len(), 0, 0, || VidHdr::decode(&bytes)) {
        assert_eq!(VidHdr::decode(&hdr.encode()), Ok(hdr));
    }
}

/// A volume-table record that is accepted says the same when it is written again. Behind the record and its flag come
/// four bytes of LEB size.
pub fn vtbl_record(data: &[u8]) {
    let bytes = checksummed::<{ VtblRecord::BYTES }>(data, 168);
    let leb_bytes = data.get(VtblRecord::BYTES + 1..).and_then(|rest| rest.first_chunk()).copied();
    let leb_bytes = leb_bytes.map_or(126_976, u32::from_be_bytes);
    if let Ok(record) = memory::bounded(data.len(), 1, 256, || VtblRecord::decode(&bytes, leb_bytes)) {
        assert_eq!(VtblRecord::decode(&VtblRecord::encode(record.as_ref()), leb_bytes), Ok(record));
    }
}

/// Every piece of a fastmap, each read from the start of the input; one that is accepted comes back as written.
pub fn fastmap_pieces(data: &[u8]) {
    memory::bounded(data.len(), 4, 8192, || {
        let mut bytes = [0; FmPool::BYTES];
        if let Ok(piece) = FmSb::decode(data) {
            piece.encode(&mut bytes);
            assert_eq!(FmSb::decode(&bytes), Ok(piece));
        }
        bytes.fill(0);
        if let Ok(piece) = FmHdr::decode(data) {
            piece.encode(&mut bytes);
            assert_eq!(FmHdr::decode(&bytes), Ok(piece));
        }
        bytes.fill(0);
        if let Ok(piece) = FmPool::decode(data) {
            piece.encode(&mut bytes);
            assert_eq!(FmPool::decode(&bytes), Ok(piece));
        }
        bytes.fill(0);
        if let Ok(piece) = FmVolHdr::decode(data) {
            piece.encode(&mut bytes);
            assert_eq!(FmVolHdr::decode(&bytes), Ok(piece));
        }
        bytes.fill(0);
        if let Ok(piece) = FmEba::decode(data) {
            piece.encode(&mut bytes);
            assert_eq!(FmEba::decode(&bytes), Ok(piece));
        }
    });
}

/// Attach by scan of whatever the flash holds.
pub fn attach_scan(data: &[u8]) {
    attach(data, false);
}

/// Attach by fastmap, or by scan where the fastmap does not hold.
pub fn attach_fastmap(data: &[u8]) {
    attach(data, true);
}

/// Attaches; a device that comes up is consistent, its volumes can be read, and it can be written to and taken down.
fn attach(data: &[u8], fastmap: bool) {
    let flash = image::flash(data);
    let image_bytes = flash.geometry().bytes() as usize;
    // A device keeps some 150 bytes for each PEB beside the bytes of one LEB that it checks or copies: less than its
    // image where PEBs have 4 KiB. The fixed part is the statistics and the table of volumes.
    memory::bounded(image_bytes, 2, 256 << 10, || {
        let mut cx = Cx::new();
        let config = Config { fastmap, ..Config::linux(Policy::LINUX_6_7) };
        let Ok(mut ubi) = Ubi::attach(flash, &mut cx, &config) else { return };
        ubi.check();
        let volumes: Vec<_> = ubi.volume_infos().map(|info| (info.vol_id, info.leb_bytes)).collect();
        for (vol_id, leb_bytes) in volumes {
            let mut leb = vec![0; leb_bytes as usize];
            let Ok(mut volume) = ubi.open_volume(&mut cx, vol_id) else { continue };
            for lnum in (0..volume.lebs()).map(Lnum) {
                let _ = volume.read(&mut cx, lnum, 0, &mut leb);
            }
            let _ = volume.unmap(&mut cx, Lnum(0));
            let _ = volume.write(&mut cx, Lnum(0), 0, sim::seam::Payload::Bytes(&[]));
            ubi.check();
        }
        let (_, _) = ubi.detach(&mut cx);
    });
}

/// The diagnostic reader: any bytes are an image or are refused, and what it finds can be printed and extracted.
pub fn image_scan(data: &[u8]) {
    // The module promises about 1 KiB for each PEB, and PEBs of 512 bytes or more, beside one PEB without OOB.
    memory::bounded(data.len(), 4, 256 << 10, || {
        let Ok(dump) = Dump::probe(data, &Overrides::default()) else { return };
        let scan = Scan::new(&dump);
        let findings = check(&scan);
        // A device that is asked for lies within the dump, and a mixture is told.
        let devices = scan.devices();
        for device in &devices {
            let given = Overrides { image_seq: Some(device.image_seq), ..Overrides::default() };
            let pieces = Pieces(data);
            if let Ok(one) = Dump::probe_input(&pieces, &given) {
                let scan = Scan::new(&one);
                assert!(scan.image_seqs().keys().all(|&seq| seq == device.image_seq || seq == 0));
                assert!(check(&scan).iter().all(|it| it.severity != Severity::Error || it.class != Class::ImageSeq));
                assert_eq!(compare(&scan, &scan, Extent::Everything), []);
            }
        }
        if devices.len() > 1 {
            assert!(findings.iter().any(|it| it.severity == Severity::Error), "a mixture without an error");
        }
        // A few for each PEB, and a few for each of the 128 records of both tables: no flood.
        assert!(findings.len() <= 1024 + 16 * scan.pebs().len(), "{} findings", findings.len());
        let wear = scan.wear();
        assert_eq!(wear.ecs.len(), scan.pebs().len());
        for volume in scan.volumes() {
            let Ok(contents) = scan.contents(volume.id, true) else { continue };
            // A hostile LEB number makes a volume long on paper; only what is on the flash is walked here.
            for leb in contents.lebs().take(1 << 12).flatten() {
                assert!(leb.len() <= dump.geometry().peb_bytes as usize);
            }
        }
    });
    counters(data);
}

/// Counters that are set in whatever looks like UBI change nothing else, and can be read back.
fn counters(data: &[u8]) {
    let Ok(dump) = Dump::probe(data, &Overrides::default()) else { return };
    let with_header = |peb: &Peb| CounterEdit::new(&dump, BTreeMap::from([(*peb, 0)])).is_ok();
    let chosen: Vec<Peb> = (0..dump.geometry().pebs.min(4)).map(Peb).filter(with_header).collect();
    let wanted: BTreeMap<Peb, u64> = chosen.iter().map(|&peb| (peb, 1000 + u64::from(peb.0))).collect();
    let Ok(edit) = CounterEdit::new(&dump, wanted) else { return };
    let mut bytes = data.to_vec();
    edit.apply(&mut bytes);
    assert_eq!(bytes.len(), data.len());
    if let Some(&peb) = chosen.first() {
        let header =
            bytes[dump.file_offset(peb, 0) as usize..].first_chunk().map(|header| (header[4], EcHdr::decode(header)));
        if let Some((ubi::media::VERSION, header)) = header {
            assert_eq!(header.map(|header| header.ec), Ok(1000 + u64::from(peb.0)));
        }
    }
}

/// Bytes that are read piece by piece, as those of a file are.
#[derive(Debug)]
struct Pieces<'b>(&'b [u8]);

impl Input for Pieces<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0[at as usize..][..length]);
    }
}

/// A list of bad blocks, and a flash whose dump leaves some out or pads them: the first byte is the length of the list,
/// then comes the list, then the flash as [`image::bytes`] reads it.
pub fn bad_blocks(data: &[u8]) {
    let (&length, rest) = data.split_first().unwrap_or((&0, &[]));
    let (list, rest) = rest.split_at(rest.len().min(usize::from(length)));
    let text = String::from_utf8_lossy(list);
    // A list of few bytes names a million PEBs at most.
    let Ok(bad) = memory::bounded(list.len(), 16, 17 << 20, || BadBlocks::parse(&text)) else { return };
    if let BadBlocks::Listed(pebs) | BadBlocks::Skipped(Some(pebs)) = &bad {
        assert!(pebs.is_sorted_by(|a, b| a < b) && pebs.len() <= 1 << 20, "{} PEBs", pebs.len());
    }
    let image = image::bytes(rest);
    let pieces = Pieces(&image);
    let Ok(dump) = Dump::probe_input(&pieces, &Overrides::default()) else { return };
    let in_dump = dump.geometry().pebs;
    let Ok(dump) = dump.with_bad_blocks(&bad) else { return };
    let known = dump.known_bad().pebs().len() as u32;
    assert!(dump.geometry().pebs == in_dump || dump.geometry().pebs == in_dump + known);
    if known < 1 << 10 {
        let scan = Scan::new(&dump);
        let findings = check(&scan);
        assert!(findings.len() <= 1024 + 16 * scan.pebs().len(), "{} findings", findings.len());
    }
}

/// `ubinize`'s ini files.
pub fn ini(data: &[u8]) {
    // A line of one byte can become a section with its place for every key.
    let sections = memory::bounded(data.len(), 256, 64 << 10, || ini::parse(data));
    if let Ok(sections) = sections {
        assert!(sections.len() <= 128, "more sections than volumes");
    }
}

/// Experiments: one that is read is read again from what is stored with its result, as the same, and what it describes is
/// built or refused.
pub fn experiment(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // The schema is made once, for all.
    let _ = (schema::keys(), Library::embedded());
    // A table can be three bytes; the fixed part is a whole experiment, copied for the values of its part.
    let read = memory::bounded(text.len(), 512, 512 << 10, || Experiment::resolve(&text, &[]));
    let Ok(experiment) = read else { return };
    let again = Experiment::resolve(&experiment.to_toml(), &[]);
    assert_eq!(again.as_ref(), Ok(&experiment));
    if let Ok(subject) = Subject::build(&experiment) {
        assert_eq!(matches!(subject, Subject::Drive(_)), experiment.ssd.is_some());
    }
}

/// Files of parts: one that is read is found by its name, and a chip makes an array.
pub fn part(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = schema::keys();
    let mut library = Library::embedded().clone();
    let known = library.parts().count();
    // Three bytes can be a key with its value; the fixed part is the experiment that checks a drive.
    if memory::bounded(text.len(), 512, 512 << 10, || library.add("part.toml", &text)).is_ok() {
        assert_eq!(library.parts().count(), known + 1);
        let name = library.parts().map(|part| part.head()).find(|head| head.file == "part.toml").map(|head| &head.name);
        let found = name.map(|name| library.part(name).map(|part| part.head().file.as_str()));
        assert_eq!(found, Some(Ok("part.toml")));
    }
}

/// nandsim's fault strings: four lines.
pub fn nandsim_faults(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    memory::bounded(text.len(), 32, 4096, || {
        let mut lines = text.split('\n').chain(std::iter::repeat(""));
        let mut next = || lines.next().unwrap_or_default();
        if let Ok(faults) = NandsimFaults::parse(next(), next(), next(), next(), 1) {
            assert!(faults.bad_blocks.len() <= text.len() && faults.weak_pages.len() <= text.len());
        }
    });
}

/// Raw dumps: the first byte says what device they shall be of.
pub fn raw_dump(data: &[u8]) {
    let Some((&shape, dump)) = data.split_first() else { return };
    let (page_bytes, oob_bytes) = if shape & 1 == 0 { (512, 16) } else { (2048, 64) };
    let (with_oob, front) = (shape & 2 != 0, shape & 4 != 0);
    let geometry = Geometry {
        medium: Medium::Nand,
        pebs: u32::from(shape >> 4) + 1,
        peb_bytes: 4 * page_bytes,
        page_bytes,
        subpage_bytes: 512,
        oob_bytes,
    };
    let config = ArrayConfig::plain(geometry);
    let load = if front { Array::load_front } else { Array::load };
    // The device's size counts: a short image for its front still makes a whole device.
    memory::bounded(nand::image::dump_bytes(&geometry, true) as usize, 4, 64 << 10, || {
        let Ok(mut array) = load(config, dump, with_oob) else { return };
        array.check();
        let mut page = vec![0; page_bytes as usize];
        for peb in (0..geometry.pebs).map(Peb) {
            array.read(&mut Cx::new(), peb, 0, &mut page).expect("no faults are planned");
        }
        let mut back = Vec::with_capacity(dump.len());
        array.dump(with_oob, &mut back).expect("memory takes it");
        assert!(front || back == dump, "a dump comes back as it was loaded");
    });
}

/// fio job files: what is parsed makes a generator that stays on the device, and runs to a limit.
pub fn fio_job(data: &[u8]) {
    const SECTORS: u64 = 4096;
    let text = String::from_utf8_lossy(data);
    // Four bytes can make a job.
    let jobs = memory::bounded(text.len(), 512, 64 << 10, || workload::fio::parse(&text));
    let Ok(jobs) = jobs else { return };
    for job in jobs.iter().take(4) {
        for clone in [0, job.numjobs - 1] {
            // A shuffled map of 4,096 blocks, zones and streams.
            memory::bounded(text.len(), 8, 64 << 10, || {
                let Ok(mut generator) = workload::fio::Generator::new(job, clone, SECTORS, sim::Seed(1)) else {
                    return;
                };
                let (first, len) = generator.region();
                assert!(len > 0 && first + len <= SECTORS);
                for request in generator.by_ref().take(500).filter(|request| request.sectors > 0) {
                    assert!(request.sector >= first && request.end() <= first + len, "{request:?} outside the region");
                }
            });
        }
    }
    if jobs.iter().map(|job| job.numjobs).sum::<u32>() > 8 {
        return;
    }
    let mut disk = sim::seam::RamDisk::new(SECTORS, 8, 2, sim::Ns::from_us(50));
    let limits = workload::drive::Limits { requests: 1000, until: sim::Ns::from_s(3600) };
    if let Ok(mut load) = workload::fio::FioLoad::new(&jobs, SECTORS, sim::Seed(1)) {
        let report = workload::drive::run(&mut disk, &mut load, sim::Ns::ZERO, limits, &mut ());
        let done: u64 = report.jobs.iter().map(|job| job.requests() + job.ramp_requests).sum();
        assert_eq!(done, report.issued, "a request is lost");
    }
}
