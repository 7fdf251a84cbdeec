//! Writes the seed corpus: `cargo run -p nandlab-fuzz --example seeds`. Needs `ubinize` (mtd-utils).

use std::path::{Path, PathBuf};
use std::process::Command;

use nandlab_fuzz::image::{self, RIGHT_FASTMAP, RIGHT_SUMS};
use ssd::device::hpb::{
    HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer, Operation, Recommendation, Subregion, UpToTwo,
};
use ssd::device::ufs::cdb::{Read10, ScsiCommand, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use ssd::device::ufs::upiu::{TaskAttribute, Transfer, with_data_segment};
use ssd::device::ufs::{
    Attribute, CommandUpiu, DescriptorIdn, DeviceDescriptor, Flag, GeometryDescriptor, Nexus, Query, QueryCode,
    QueryOpcode, QueryRequest, QueryResponse, ResponseUpiu, ScsiStatus, Sense, UnitDescriptor,
};
use ubi::media::{EcHdr, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, VidHdr, VolType, VtblRecord};
use workload::trace::{Format, ReadOptions, TraceReader, TraceWriter};

fn put(target: &str, name: &str, bytes: &[u8]) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("the corpus can be written");
    std::fs::write(folder.join(name), bytes).expect("the corpus can be written");
}

/// What `ubinize` makes of one dynamic and one static volume.
fn ubinized(scratch: &Path, peb: u32, page: u32, subpage: u32) -> Vec<u8> {
    let data = scratch.join("data");
    std::fs::write(&data, [0x42; 700]).expect("the scratch folder can be written");
    let ini = format!(
        "[a]\nmode=ubi\nimage={0}\nvol_id=0\nvol_type=dynamic\nvol_name=a\nvol_size=8KiB\n\
         [b]\nmode=ubi\nimage={0}\nvol_id=1\nvol_type=static\nvol_name=b\nvol_size=8KiB\nvol_flags=autoresize\n",
        data.display()
    );
    let (ini_path, out) = (scratch.join("ubi.ini"), scratch.join("ubi.img"));
    std::fs::write(&ini_path, ini).expect("the scratch folder can be written");
    let made = Command::new("ubinize")
        .args(["-p", &peb.to_string(), "-m", &page.to_string(), "-s", &subpage.to_string(), "-Q", "7", "-o"])
        .args([&out, &ini_path])
        .status()
        .expect("ubinize starts: it is in the package mtd-utils");
    assert!(made.success(), "ubinize failed");
    std::fs::read(out).expect("ubinize wrote it")
}

fn flagged(flags: u8, rest: &[u8]) -> Vec<u8> {
    [&[flags], rest].concat()
}

fn without_blank_end(mut image: Vec<u8>) -> Vec<u8> {
    let end = image.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
    image.truncate(end);
    image
}

/// Threads, children, calls in two parts, what was there before, and names with escapes.
const STRACE: &str = r#"10 1.0 openat(AT_FDCWD</data>, "z", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</data/z>
11 1.1 write(1</data/z>, "a"..., 4096 <unfinished ...>
10 1.2 lseek(4</data/d/\74x\76>, 0, SEEK_END) = 5000
11 1.3 <... write resumed>) = 4096
[pid 12] 1.4 renameat2(AT_FDCWD</data>, "d", 5</data/e>, "f", 0) = 0
12 1.5 ftruncate(4</data/e/f/\74x\76>, 7) = 0
12 1.6 unlinkat(AT_FDCWD</data>, "e/f", AT_REMOVEDIR) = -1 ENOTEMPTY (Directory not empty)
12 1.7 +++ exited with 0 +++
"#;

fn main() {
    wire();
    let scratch = std::env::temp_dir().join(format!("nandlab-seeds-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");

    let ec = EcHdr { ec: 77, vid_hdr_offset: 512, data_offset: 1024, image_seq: 7 };
    put("ec_hdr", "ours", &ec.encode());
    put("ec_hdr", "right-sum", &[&ec.encode()[..], &[1]].concat());
    put("ec_hdr", "most-worn", &EcHdr { ec: 0x7fff_ffff, ..ec }.encode());
    let vid = VidHdr {
        vol_type: VolType::Static,
        copy_flag: true,
        compat: 0,
        vol_id: 1,
        lnum: 2,
        data_size: 700,
        used_ebs: 3,
        data_pad: 0,
        data_crc: 9,
        sqnum: 11,
    };
    put("vid_hdr", "static", &vid.encode());
    put("vid_hdr", "right-sum", &[&vid.encode()[..], &[1]].concat());
    put("vid_hdr", "dynamic", &VidHdr { vol_type: VolType::Dynamic, used_ebs: 0, ..vid }.encode());
    let record = VtblRecord {
        reserved_pebs: 10,
        alignment: 1,
        data_pad: 0,
        vol_type: VolType::Dynamic,
        upd_marker: false,
        name: b"rootfs".to_vec(),
        flags: VtblRecord::AUTORESIZE,
    };
    put("vtbl_record", "used", &VtblRecord::encode(Some(&record)));
    put("vtbl_record", "unused", &VtblRecord::encode(None));
    put("vtbl_record", "right-sum", &[&VtblRecord::encode(Some(&record))[..], &[1, 0, 1, 0xf0, 0]].concat());

    let piece = |bytes: usize, encode: &dyn Fn(&mut [u8])| {
        let mut buffer = vec![0; bytes];
        encode(&mut buffer);
        buffer
    };
    let sb = FmSb { data_crc: 5, blocks: vec![(3, 9), (30, 11)], sqnum: 0 };
    put("fastmap_pieces", "super-block", &piece(FmSb::BYTES, &|it| sb.encode(it)));
    let hdr = FmHdr { free: 1, used: 2, scrub: 3, bad: 4, erase: 5, volumes: 6 };
    put("fastmap_pieces", "header", &piece(FmHdr::BYTES, &|it| hdr.encode(it)));
    let pool = FmPool { max_size: 50, pebs: vec![7, 8, 9] };
    put("fastmap_pieces", "pool", &piece(FmPool::BYTES, &|it| pool.encode(it)));
    let volume = FmVolHdr { vol_id: 1, vol_type: 4, data_pad: 3, used_ebs: 4, last_eb_bytes: 5 };
    put("fastmap_pieces", "volume", &piece(FmVolHdr::BYTES, &|it| volume.encode(it)));
    put("fastmap_pieces", "eba", &piece(12, &|it| FmEba { reserved_pebs: 1 }.encode(it)));

    let small = ubinized(&scratch, 4096, 512, 512);
    for target in ["attach_scan", "attach_fastmap"] {
        put(target, "blank", &[]);
        put(target, "ubinize", &flagged(0, &small));
        put(target, "ours", &[1]);
        put(target, "ours-with-fastmap", &[2]);
        put(target, "another-sqnum", &flagged(1 | RIGHT_SUMS, &[9, 2, 44, 4, 0, 0, 1, 0]));
        put(target, "another-pool", &flagged(2 | RIGHT_SUMS | RIGHT_FASTMAP, &[1, 5, 100, 2, 0, 3]));
        let everything = flagged(2 | RIGHT_SUMS | RIGHT_FASTMAP, &[2, 4, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1, 3, 2, 8, 1, 5]);
        put(target, "a-record-and-a-header", &everything);
    }

    put("image_scan", "ubinize-4k", &small);
    put("image_scan", "ubinize-16k", &ubinized(&scratch, 16 << 10, 512, 512));
    put("image_scan", "ubinize-sub-pages", &ubinized(&scratch, 8 << 10, 1024, 512));
    put("image_scan", "ours", &without_blank_end(image::ours(false))[..14 * 4096]);
    let mut with_oob = Vec::new();
    for page in small.chunks_exact(512) {
        with_oob.extend_from_slice(page);
        with_oob.extend_from_slice(&[0xff; 16]);
    }
    put("image_scan", "ubinize-with-oob", &with_oob);
    put("image_scan", "cut-short", &small[..small.len() - 1000]);
    put("image_scan", "not-ubi", b"hsqs, but no UBI# here\0");

    // The length of the list, the list, and a flash of our own layer with a fastmap.
    let lists: [(&str, &str); 5] = [
        ("listed", "3,17,20-22"),
        ("padded", "padbad"),
        ("left-out", "skipbad"),
        ("both", "skipbad:9"),
        ("broken", "4-3,"),
    ];
    for (name, list) in lists {
        put("bad_blocks", name, &[&[list.len() as u8], list.as_bytes(), &[2]].concat());
    }
    // Two devices one after the other, by ubinize.
    let mut two = ubinized(&scratch, 1024, 1, 1);
    for header in two.clone().chunks(1024) {
        let mut header = header.to_vec();
        header[24..28].copy_from_slice(&8u32.to_be_bytes());
        let sum = ubi::media::crc(&header[..60]);
        header[60..64].copy_from_slice(&sum.to_be_bytes());
        two.extend_from_slice(&header);
    }
    put("image_scan", "two-devices", &two);

    let ini: [(&str, &[u8]); 4] = [
        ("whole", b"[rootfs]\nmode=ubi\nimage=root.img\nvol_id=0\nvol_size=100MiB\nvol_type=dynamic\nvol_name=rootfs\nvol_flags=autoresize\n"),
        ("two", b"# kernel\n[k]\nmode=ubi\nvol_id=0x1\nvol_type=static\nvol_name=\"kernel\"\nvol_size=4 MiB\nvol_alignment=2048\n[r]\nmode=ubi\nvol_id=01\nvol_name=r\nvol_size=1\n"),
        ("continued", b"[a]\nMODE = ubi ; as ubinize\nvol_id=0\nvol_name=a\\\n b\nvol_size=126976\n"),
        ("broken", b"[a\n=\nmode\n"),
    ];
    ini.iter().for_each(|(name, text)| put("ini", name, text));
    let faults: [(&str, &[u8]); 3] =
        [("all", b"3,0x10\n5:100,6\n64:2\n9:0"), ("octal", b"010\n0:0\n\n4294967295"), ("broken", b"3,,4\n:\n1:\n-1")];
    faults.iter().for_each(|(name, text)| put("nandsim_faults", name, text));
    put("raw_dump", "two-blocks", &flagged(0x10, &[0x5a; 2 * 2048]));
    put("raw_dump", "with-oob", &flagged(0x02, &[&[0x5a; 1024][..], &[0xff; 2048 + 64 - 1024]].concat()));
    put("raw_dump", "front", &flagged(0x34, &[0xa5; 512]));
    // Bits to flip: one in each of two steps, eight in one, and one too many.
    put("oob_ecc", "hamming", &flagged(0x80, b"hamming\0\x00\x11\x0f\xff"));
    put("oob_ecc", "bch-8", &flagged(0x81, b"bch:8\0\x00\x01\x01\x02\x02\x03\x03\x04\x04\x05\x05\x06\x06\x07\x0f\xff"));
    put("oob_ecc", "bch-1024", &flagged(0x84, b"bch:24/1024\0\x10\x01\x20\x02\x7f\xff"));
    put("oob_ecc", "bch-too-many", &flagged(0x81, b"bch:2\0\x00\x01\x01\x02\x02\x03"));
    put("oob_ecc", "page", &flagged(0x00, &[b"hamming\0".as_slice(), &[0x5a; 528]].concat()));
    put("raw_dump", "wrong-length", &flagged(0x10, &[0x5a; 2 * 2112]));

    traces();

    let jobs: [(&str, &[u8]); 6] = [
        ("mixed", b"[global]\nioengine=libaio\niodepth=8\ndirect=1\nbs=4k\n[a]\nrw=randrw\nrwmixread=70\nbssplit=4k/60:16k/40,8k\nsize=1m\nfsync=4\n[b]\nrw=write\nstonewall\nnumjobs=2\noffset_increment=512k\nsize=256k\nend_fsync=1\n"),
        ("paced", b"[a]\nrw=randread\nrate_iops=1000,,\nrate_process=poisson\nthinktime=10us\nthinktime_blocks=3\nramp_time=1ms\nruntime=5ms\ntime_based\nstartdelay=1ms-2ms\n[b]\nrw=rw\nrate=1m,500k\n"),
        ("skewed", b"[global]\nnorandommap=0\nio_size=2m\n[z]\nrw=randwrite\nrandom_distribution=zipf:1.2:0.25\n[p]\nrw=randread\nrandom_distribution=pareto:0.2\n[n]\nrw=randtrim\nrandom_distribution=normal:30\n[o]\nrw=randrw\nrandom_distribution=zoned:60/10:30/20:10/70,50/50:/\n[k]\nrw=randread\nrandom_distribution=zoned_abs:60/64k:40/1m\n"),
        ("ranges", b"[a]\nkb_base=1000\nrw=randtrimwrite\nbsrange=1ki-9ki,512-2048\nba=512\noffset=10%\nsize=50%\npercentage_random=40\nloops=3\nnumber_ios=77\nrandseed=0x7\nsync=dsync\n"),
        ("hostile-numbers", b"[a]\nsize=18446744073709551104\niodepth=65535\nnumjobs=4096\nloops=18446744073709551615\nbs=1g\nio_size=16384p\n[b]\nbs=512\nrw=randwrite\nnumjobs=4096\n"),
        ("broken", b"[a\n=\nrw=read:8\niodeph=1\ninclude x\n"),
    ];
    jobs.iter().for_each(|(name, text)| put("fio_job", name, text));
    put("fio_job", "many-jobs", b"[a]\n[b]\n[c]\n[d]\n[e]\n[f]\n[g]\n[h]\n".repeat(40).as_slice());

    std::fs::remove_dir_all(scratch).expect("the scratch folder goes");
}

/// The samples of `trace_detect` are written by hand; the other targets' seeds are made of them.
fn traces() {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/trace_detect");
    let sample = |name: &str| std::fs::read(samples.join(name)).expect("the samples are there");
    let texts = [
        ("msr.csv", Format::Msr),
        ("systor.csv", Format::Systor),
        ("tencent.csv", Format::Tencent),
        ("alibaba.csv", Format::Alibaba),
        ("spc.csv", Format::Spc),
        ("disksim.trace", Format::DiskSim),
        ("disksim-ms.trace", Format::DiskSimMs),
        ("blkparse.txt", Format::Blkparse),
        ("fio2.iolog", Format::Iolog2),
        ("fio3.iolog", Format::Iolog3),
    ];
    for (name, format) in texts {
        let number = Format::ALL.iter().position(|it| *it == format).expect("it is one of them") as u8;
        put("trace_text", name, &flagged(number, &sample(name)));
    }
    let recorded = include_str!("../../samples/logger.strace");
    let lines = |from: usize, count: usize| recorded.split_inclusive('\n').skip(from).take(count).collect::<String>();
    put("strace", "begins", lines(0, 24).as_bytes());
    put("strace", "rotates", lines(500, 24).as_bytes());
    put("strace", "by-hand", STRACE.as_bytes());
    for name in ["blktrace-le.bin", "blktrace-be.bin"] {
        put("trace_blktrace", name, &sample(name));
    }
    put("trace_blktrace", "cut-short", &sample("blktrace-le.bin")[..200]);
    for (name, format) in [("blkparse.txt", Format::Blkparse), ("alibaba.csv", Format::Alibaba)] {
        let text = sample(name);
        let mut reader = TraceReader::new(&text[..], format, ReadOptions::default());
        let mut writer = TraceWriter::new(Vec::new(), Format::Ntrace).expect("memory takes it");
        while let Some(record) = reader.next_record().expect("the sample is good") {
            writer.write(&record).expect("memory takes it");
        }
        let (bytes, _) = writer.finish().expect("memory takes it");
        put("trace_detect", &format!("{name}.ntrace"), &bytes);
        put("trace_ntrace", name, &flagged(0, &bytes));
        put("trace_ntrace", &format!("{name}-right-sums"), &flagged(1, &bytes));
    }
}

/// UFS and HPB: one of each command, packet and descriptor.
fn wire() {
    let hpb = [
        ("read", HpbCommand::Read(HpbRead { lba: 77, entry: *b"anyentry", blocks: 1, ..Default::default() })),
        ("read-buffer", HpbCommand::ReadBuffer(HpbReadBuffer { region: 3, subregion: 1, allocation_bytes: 8192 })),
        ("inactivate", HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region: 3 })),
        ("prefetch", HpbCommand::WriteBuffer(HpbWriteBuffer::Prefetch { lba: 77, read_id: 1, entries: 64 })),
        ("inactivate-all", HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll)),
    ];
    hpb.iter().for_each(|(name, command)| put("hpb_wire", name, &command.encode()));
    let told = Recommendation {
        operation: Operation::UpdateRegions,
        lun: 0,
        active: UpToTwo::new(&[Subregion { region: 3, subregion: 1 }]).expect("one"),
        inactive: UpToTwo::new(&[5, 6]).expect("two"),
    };
    put("hpb_wire", "recommendation", &told.encode());
    let nexus = Nexus { lun: 0, task_tag: 5, initiator: 0 };
    let good = ResponseUpiu { hpb_update_alert: true, ..ResponseUpiu::good(nexus) };
    put("hpb_wire", "recommendation-in-response", &with_data_segment(good.encode(), &told.encode()));
    put("hpb_wire", "cut-short", &[0xf8, 0, 1]);

    let commands = [
        ("read", Transfer::Read, ScsiCommand::Read(Read10 { lba: 77, blocks: 8, ..Default::default() })),
        ("write", Transfer::Write, ScsiCommand::Write(Write10 { lba: 77, blocks: 8, fua: true, ..Default::default() })),
        ("flush", Transfer::None, ScsiCommand::SynchronizeCache(SynchronizeCache10::default())),
        ("unmap", Transfer::Write, ScsiCommand::Unmap(Unmap { group: 0, list_bytes: 24 })),
    ];
    for (name, transfer, command) in commands {
        let cdb = command.encode();
        let attribute = TaskAttribute::Simple;
        let upiu = CommandUpiu { nexus, transfer, attribute, has_priority: false, expected_bytes: 8 << 12, cdb };
        put("ufs_wire", name, &upiu.encode());
    }
    put("ufs_wire", "unmap-list", &UnmapList::encode(&[UnmapRange { lba: 77, blocks: 8 }]));
    let failed = ResponseUpiu { status: ScsiStatus::CheckCondition, ..ResponseUpiu::good(nexus) };
    put("ufs_wire", "failed", &with_data_segment(failed.encode(), &Sense::INVALID_FIELD_IN_CDB.encode()));
    let query = |opcode, idn, value| Query { opcode, idn, index: 0, selector: 0, length_bytes: 0, value };
    let set = query(QueryOpcode::SetFlag, Flag::HpbReset.byte(), 0);
    put("ufs_wire", "set-flag", &QueryRequest { task_tag: 5, query: set, segment_bytes: 0 }.encode());
    let answer = |query| QueryResponse { task_tag: 5, code: QueryCode::Success, query, segment_bytes: 0 };
    let available = query(QueryOpcode::ReadAttribute, Attribute::WriteBoosterAvailable.byte(), 10);
    put("ufs_wire", "attribute", &answer(available).encode());
    let unit =
        UnitDescriptor { lu_enable: 2, logical_block_exponent: 12, logical_blocks: 1 << 24, ..Default::default() };
    let device = DeviceDescriptor { spec_version: 0x0310, extended_features: 0x180, ..Default::default() };
    let geometry = GeometryDescriptor { hpb_region_exponent: 15, hpb_subregion_exponent: 13, ..Default::default() };
    let descriptors: [(&str, DescriptorIdn, &[u8]); 3] = [
        ("unit", DescriptorIdn::Unit, &unit.encode()),
        ("device", DescriptorIdn::Device, &device.encode()),
        ("geometry", DescriptorIdn::Geometry, &geometry.encode()),
    ];
    for (name, idn, bytes) in descriptors {
        let read = query(QueryOpcode::ReadDescriptor, idn.byte(), 0);
        let read = Query { length_bytes: bytes.len() as u16, ..read };
        put("ufs_wire", name, &with_data_segment(answer(read).encode(), bytes));
    }
    let longer = [&[unit.encode()[0] + 3], &unit.encode()[1..], &[1, 2, 3]].concat();
    put("ufs_wire", "longer-unit", &longer);
}
