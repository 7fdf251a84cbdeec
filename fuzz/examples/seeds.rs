//! Writes the seed corpus: `cargo run --manifest-path fuzz/Cargo.toml --example seeds`. Needs `ubinize` (mtd-utils).

use std::path::{Path, PathBuf};
use std::process::Command;

use nandlab_fuzz::image::{self, RIGHT_FASTMAP, RIGHT_SUMS};
use ubi::media::{EcHdr, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, VidHdr, VolType, VtblRecord};

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

fn main() {
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
    let volume = FmVolHdr { vol_id: 1, vol_type: 2, data_pad: 3, used_ebs: 4, last_eb_bytes: 5 };
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
    put("raw_dump", "wrong-length", &flagged(0x10, &[0x5a; 2 * 2112]));

    std::fs::remove_dir_all(scratch).expect("the scratch folder goes");
}
