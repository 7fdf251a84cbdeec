//! Packed images: every byte by hand, and the limits of what is packed. The other oracle, `ubinize` itself, is in the tests of
//! the command line.

use super::ini::{VolumeSection, parse, size};
use super::pack::{Image, Layout, Options, PackError};
use super::*;

const OPTIONS: Options = Options {
    peb_bytes: 16 << 10,
    min_io_bytes: 512,
    sub_page_bytes: None,
    vid_hdr_offset: None,
    erase_counter: 7,
    ubi_ver: 1,
    image_seq: 0x0bad_cafe,
};

fn section(id: u32, name: &str, vol_type: VolType) -> VolumeSection {
    VolumeSection {
        section: name.to_owned(),
        line: 1 + id,
        id,
        vol_type,
        name: name.as_bytes().to_vec(),
        alignment: 1,
        size: None,
        image: Some(b"file".to_vec()),
        flags: 0,
    }
}

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 250) as u8).collect()
}

/// All PEBs of an image.
fn packed(image: &Image, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..2).flat_map(|copy| image.table_peb(copy)).collect();
    for (volume, contents) in image.volumes().iter().zip(contents) {
        for (lnum, data) in (0..).zip(contents.chunks(volume.usable_leb_bytes as usize)) {
            bytes.extend(image.leb_peb(volume, Lnum(lnum), data));
        }
    }
    assert_eq!(bytes.len() as u64, image.bytes());
    assert_eq!(image.bytes(), image.pebs() * 16384);
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()).into()
}

/// Of a LEB of 15,360 bytes, 12,288 are usable at an alignment of 4,096 or of 6,144.
#[test]
fn every_byte_of_an_image_has_its_reason() {
    for (ubi_ver, vid_at, data_at, options) in [
        (1_u8, 512, 1024, OPTIONS),
        (2, 512, 1024, Options { ubi_ver: 2, ..OPTIONS }),
        (1, 512, 2048, Options { min_io_bytes: 2048, sub_page_bytes: Some(512), ..OPTIONS }),
        (1, 64, 128, Options { min_io_bytes: 1, ..OPTIONS }),
        (1, 1984, 2048, Options { vid_hdr_offset: Some(1984), ..OPTIONS }),
        (1, 512, 1024, Options { vid_hdr_offset: Some(0), ..OPTIONS }),
    ] {
        let layout = Layout::new(options).unwrap();
        let leb_bytes = 16_384 - data_at;
        assert_eq!(
            (
                layout.peb_bytes(),
                layout.vid_hdr_offset() as usize,
                layout.data_offset() as usize,
                layout.leb_bytes() as usize
            ),
            (16_384, vid_at, data_at, leb_bytes)
        );
        let aligned = VolumeSection { alignment: 4096, size: Some(200_000), ..section(4, "aligned", VolType::Dynamic) };
        let fixed = VolumeSection { alignment: 6144, ..section(1, "fixed", VolType::Static) };
        let empty = VolumeSection { image: None, size: Some(1), flags: 1, ..section(0, "empty", VolType::Dynamic) };
        let pad = [leb_bytes % 4096, leb_bytes % 6144, 0];
        let data = [contents(40_000), contents(3 * (leb_bytes - pad[1])), Vec::new()];
        let fixed_len = data[1].len();
        let sizes: Vec<u64> = data.iter().map(|data| data.len() as u64).collect();
        let sections = [aligned, VolumeSection { size: Some(4 * leb_bytes as u64), ..fixed }, empty];
        let image = layout.image(&sections, &sizes).unwrap();
        let bytes = packed(&image, &data);
        let lebs = [40_000_usize.div_ceil(leb_bytes - pad[0]), 3, 0];
        assert_eq!(image.pebs() as usize, 2 + lebs[0] + 3);
        let reserved = [200_000_usize.div_ceil(leb_bytes), 4, 1];
        assert_eq!(image.needed_pebs() as usize, 2 + 2 + reserved.iter().sum::<usize>());
        let mut expected = Vec::new();
        for (vol, count) in lebs.into_iter().enumerate() {
            let len = data[vol].len();
            expected.extend((0..count).map(|lnum| {
                let usable = leb_bytes - pad[vol];
                let data = &data[vol][lnum * usable..len.min((lnum + 1) * usable)];
                (vol, lnum, data)
            }));
        }
        for (peb, block) in bytes.chunks(16_384).enumerate() {
            let version = u64::from(ubi_ver) << 24;
            assert_eq!((&block[..4], word(block, 4), word(block, 8), word(block, 12)), (&b"UBI#"[..], version, 0, 7));
            assert_eq!(
                [word(block, 16), word(block, 20), word(block, 24)],
                [vid_at as u64, data_at as u64, 0x0bad_cafe]
            );
            assert_eq!(word(block, 60), crc(&block[..60]).into());
            assert!(block[64..vid_at].iter().all(|&byte| byte == 0xff));
            let vid = &block[vid_at..];
            assert_eq!((&vid[..4], word(vid, 60)), (&b"UBI!"[..], crc(&vid[..60]).into()));
            assert_eq!((word(vid, 36), word(vid, 40), word(vid, 44)), (0, 0, 0), "the sequence number is 0");
            let of_header = [4, 8, 12, 20, 24, 28, 32].map(|at| word(vid, at));
            let end = if peb < 2 {
                let table = (0..vtbl_slots(leb_bytes as u32)).flat_map(|slot| {
                    let of = image.volumes().iter().find(|volume| volume.id.0 == slot);
                    VtblRecord::encode(of.map(|volume| &volume.record))
                });
                let table: Vec<u8> = table.collect();
                assert_eq!(of_header, [version | 0x01_00_05, 0x7fff_efff, peb as u64, 0, 0, 0, 0]);
                assert_eq!(block[data_at..][..table.len()], table);
                data_at + table.len()
            } else {
                let (vol, lnum, data) = expected[peb - 2];
                let is_static = vol == 1;
                let kind = if is_static { 0x02_00_00 } else { 0x01_00_00 };
                let of_static = |value: u64| if is_static { value } else { 0 };
                let size = of_static(data.len() as u64);
                let sum = of_static(crc(data).into());
                let id = [4, 1, 0][vol];
                assert_eq!(of_header, [version | kind, id, lnum as u64, size, of_static(3), pad[vol] as u64, sum]);
                assert_eq!(block[data_at..][..data.len()], *data);
                data_at + data.len()
            };
            assert!(block[end..].iter().all(|&byte| byte == 0xff));
            assert!(block[vid_at + 64..data_at].iter().all(|&byte| byte == 0xff));
        }
        let record = &image.volumes()[0].record;
        assert_eq!(
            (record.reserved_pebs as usize, record.alignment, record.data_pad as usize),
            (reserved[0], 4096, pad[0])
        );
        assert_eq!((record.upd_marker, record.flags, image.volumes()[2].record.flags), (false, 0, 1));
        assert_eq!(image.volumes()[1].used_lebs, 3);
        assert_eq!(fixed_len as u64, image.volumes()[1].image_bytes);
        if ubi_ver == 1 {
            let dump = Dump::probe(&bytes, &Overrides::default()).unwrap();
            let scan = Scan::new(&dump);
            for (at, id) in [(0, 4), (1, 1)] {
                let found = scan.contents(VolId(id), false).unwrap();
                let all: Vec<u8> = found.lebs().flat_map(|leb| leb.unwrap_or_default().into_owned()).collect();
                assert_eq!(all[..data[at].len()], data[at], "volume {id}");
            }
        }
    }
}

#[test]
fn options_are_refused_beyond_their_limits() {
    let made = |options: Options| match Layout::new(options) {
        Ok(_) => "good",
        Err(PackError::Option { option, .. }) => option,
        Err(other) => panic!("{other}"),
    };
    for (options, expected) in [
        (Options { peb_bytes: 512, min_io_bytes: 1, ..OPTIONS }, "good"),
        (Options { peb_bytes: 511, min_io_bytes: 1, ..OPTIONS }, "--peb-size"),
        (Options { peb_bytes: 2 << 20, ..OPTIONS }, "good"),
        (Options { peb_bytes: (2 << 20) + 512, ..OPTIONS }, "--peb-size"),
        (Options { peb_bytes: 16_384 + 256, ..OPTIONS }, "--peb-size"),
        (Options { min_io_bytes: 384, ..OPTIONS }, "--min-io-size"),
        (Options { min_io_bytes: 0, ..OPTIONS }, "--min-io-size"),
        (Options { sub_page_bytes: Some(512), ..OPTIONS }, "good"),
        (Options { sub_page_bytes: Some(1024), ..OPTIONS }, "--sub-page-size"),
        (Options { sub_page_bytes: Some(96), ..OPTIONS }, "--sub-page-size"),
        (Options { erase_counter: 0x7fff_ffff, ..OPTIONS }, "good"),
        (Options { erase_counter: 0x8000_0000, ..OPTIONS }, "--erase-counter"),
        (Options { vid_hdr_offset: Some(64), ..OPTIONS }, "good"),
        (Options { vid_hdr_offset: Some(56), ..OPTIONS }, "--vid-hdr-offset"),
        (Options { vid_hdr_offset: Some(516), ..OPTIONS }, "--vid-hdr-offset"),
        (Options { vid_hdr_offset: Some(520), ..OPTIONS }, "good"),
        // The data begin at 15,872: 512 bytes are left, room for two records. At 16,384 none is.
        (Options { vid_hdr_offset: Some(15_808), ..OPTIONS }, "good"),
        (Options { vid_hdr_offset: Some(15_816), ..OPTIONS }, "--peb-size"),
        // On a NOR 172 bytes are left for the last offset with room for a record.
        (Options { min_io_bytes: 1, vid_hdr_offset: Some(16_384 - 172 - 64 - 4), ..OPTIONS }, "good"),
        (Options { min_io_bytes: 1, vid_hdr_offset: Some(16_384 - 172 - 64 + 4), ..OPTIONS }, "--peb-size"),
        (Options { vid_hdr_offset: Some(u32::MAX - 7), ..OPTIONS }, "--peb-size"),
    ] {
        assert_eq!(made(options), expected, "{options:?}");
    }
}

#[test]
fn volumes_are_refused_beyond_their_limits() {
    let layout = Layout::new(OPTIONS).unwrap();
    let refusal = |sections: &[VolumeSection], sizes: &[u64]| match layout.image(sections, sizes) {
        Ok(_) => "good".to_owned(),
        Err(PackError::Volume { line, what, .. }) => format!("{line}: {what}"),
        Err(other) => panic!("{other}"),
    };
    let of = |change: fn(&mut VolumeSection), bytes: u64| {
        let mut section = section(0, "v", VolType::Dynamic);
        change(&mut section);
        refusal(&[section], &[bytes])
    };
    // 89 records of 172 bytes fit into 15,360.
    assert_eq!(of(|v| v.id = 88, 1), "good");
    assert_eq!(of(|v| v.id = 89, 1), "1: has vol_id 89, expected one below 89");
    assert_eq!(of(|v| v.alignment = 512, 1), "good");
    assert_eq!(of(|v| v.alignment = 14_848, 1), "good");
    assert_eq!(of(|v| v.alignment = 15_360, 1), "1: has vol_alignment 15360, expected less than the LEB's 15360 bytes");
    assert_eq!(of(|v| v.alignment = 768, 1), "1: has vol_alignment 768, expected 1 or a multiple of 512");
    assert_eq!(of(|_| {}, 0), "1: has image file, which is empty");
    assert_eq!(of(|v| v.size = Some(100), 100), "good");
    assert_eq!(of(|v| v.size = Some(99), 100), "1: has image file of 100 bytes, expected at most vol_size, 99");
    let most = 15_360 * 0x7fff_ffff_u64;
    assert_eq!(of(|v| v.size = Some(15_360 * 0x7fff_ffff), 1), "good");
    assert_eq!(
        of(|v| v.size = Some(15_360 * 0x7fff_ffff + 1), 1),
        format!("1: has vol_size {}, expected at most 2147483647 LEBs of 15360 bytes", most + 1)
    );
    // Aligned to 8,192, half a LEB is lost: two whole LEBs of contents take four.
    let told = "1: has image file that takes 4 LEBs of 8192 bytes at this vol_alignment, and vol_size reserves 2";
    assert_eq!(of(|v| v.alignment = 8192, 30_720), told);
    assert_eq!(of(|v| (v.alignment, v.size) = (8192, Some(61_440)), 30_720), "good");
    let (a, b) = (section(0, "a", VolType::Dynamic), section(1, "b", VolType::Dynamic));
    let two = |change: fn(&mut VolumeSection, &mut VolumeSection)| {
        let (mut a, mut b) = (a.clone(), b.clone());
        change(&mut a, &mut b);
        refusal(&[a, b], &[1, 1])
    };
    assert_eq!(two(|_, _| {}), "good");
    assert_eq!(two(|_, b| b.id = 0), "2: has vol_id 0, as [a] in line 1 has");
    assert_eq!(two(|_, b| b.name = b"a".to_vec()), "2: has vol_name \"a\", as [a] in line 1 has");
    assert_eq!(two(|a, _| a.flags = 1), "good");
    assert_eq!(two(|a, b| (a.flags, b.flags) = (1, 1)), "2: has vol_flags autoresize, as [a] in line 1 has");
    assert_eq!(two(|a, b| (a.flags, b.flags) = (2, 2)), "good");
}

#[test]
fn an_ini_file_says_what_it_says_and_no_more() {
    let text = "# a comment\n[ Root ] ; another\r\nMODE = ubi\nvol_id=0x10 # here too\nvol_name='a # b'\nimage=/x/y z\n\n\
                ; and\n[two]\nmode=ubi\nvol_id=010\nvol_type=static\nvol_name=\"t\"\nima\\\nge=\\\r\nfi\\\nle\nvol_size=3KiB\n\
                vol_alignment=2048\nvol_flags=skip-check\n[three]\nmode=ubi\nvol_id=0\nvol_name=x\nvol_size=5\nvol_flags=autoresize";
    let sections = parse(text.as_bytes()).unwrap();
    let expected = [
        VolumeSection {
            section: "root".into(),
            line: 2,
            id: 16,
            vol_type: VolType::Dynamic,
            name: b"a # b".to_vec(),
            alignment: 1,
            size: None,
            image: Some(b"/x/y z".to_vec()),
            flags: 0,
        },
        VolumeSection {
            section: "two".into(),
            line: 9,
            id: 8,
            vol_type: VolType::Static,
            name: b"t".to_vec(),
            alignment: 2048,
            size: Some(3072),
            image: Some(b"file".to_vec()),
            flags: 2,
        },
        VolumeSection {
            section: "three".into(),
            line: 21,
            id: 0,
            vol_type: VolType::Dynamic,
            name: b"x".to_vec(),
            alignment: 1,
            size: Some(5),
            image: None,
            flags: 1,
        },
    ];
    assert_eq!(sections, expected);
    let sizes: [(&str, Option<u64>); 10] = [
        ("0", Some(0)),
        ("1KiB", Some(1024)),
        ("3 MiB", Some(3 << 20)),
        ("0x10GiB", Some(16 << 30)),
        ("017", Some(15)),
        ("08", None),
        ("+1", None),
        ("", None),
        ("1KB", None),
        ("17179869184GiB", None),
    ];
    for (text, expected) in sizes {
        assert_eq!(size(text.as_bytes()), expected, "{text}");
    }
    let name = |len: usize| format!("[v]\nmode=ubi\nvol_id=127\nvol_name={}\nimage=i\n", "n".repeat(len));
    assert!(parse(name(127).as_bytes()).is_ok() && parse(name(128).as_bytes()).is_err());
}
