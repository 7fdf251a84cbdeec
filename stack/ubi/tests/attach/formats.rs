//! Every structure on flash against bytes put together from the tables of the format (`ubi-media.h`), and every field at its
//! limits.

use ubi::layout::Layout;
use ubi::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_MAX_BLOCKS, FM_MAX_POOL, FM_MAX_START, FM_MIN_POOL, FM_SB_VOLUME_ID, FmEba, FmHdr,
    FmPool, FmSb, FmVolHdr, INTERNAL_VOLUME_START, LAYOUT_COMPAT, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_ERASE_COUNT,
    MAX_VOLUMES, MediaError, VERSION, VidHdr, VolType, VtblRecord, compat, fastmap_bytes, vtbl_slots,
};
use ubi::{Config, Policy};

use crate::support::{copy_of, dynamic, fixed, geometry, internal, record};

/// CRC-32 bit by bit: reflected, 0xEDB88320, from all ones, not inverted.
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

/// Bytes from a table of fields: offset, length, value; the rest is zero.
fn table(len: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for &(at, len, value) in fields {
        bytes[at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    }
    bytes
}

/// The same, with a checksum of all before it at the end.
fn summed(len: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut bytes = table(len, fields);
    let sum = crc(&bytes[..len - 4]);
    bytes[len - 4..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn what<T>(decoded: Result<T, MediaError>) -> &'static str {
    match decoded {
        Ok(_) => "good",
        Err(MediaError::Magic { .. }) => "magic",
        Err(MediaError::Crc { .. }) => "crc",
        Err(MediaError::Short { .. }) => "short",
        Err(MediaError::Field { what, .. }) => what,
    }
}

#[test]
fn the_numbers_of_the_format_are_linuxs() {
    assert_eq!((EcHdr::MAGIC, VidHdr::MAGIC), (0x5542_4923, 0x5542_4921));
    assert_eq!((EcHdr::BYTES, VidHdr::BYTES, VtblRecord::BYTES), (64, 64, 172));
    assert_eq!((VERSION, MAX_ERASE_COUNT, MAX_VOLUMES), (1, 0x7fff_ffff, 128));
    assert_eq!((INTERNAL_VOLUME_START, LAYOUT_VOLUME_ID), (0x7fff_efff, 0x7fff_efff));
    assert_eq!((LAYOUT_COMPAT, LAYOUT_LEBS), (5, 2));
    assert_eq!([compat::DELETE, compat::READ_ONLY, compat::PRESERVE, compat::REJECT], [1, 2, 4, 5]);
    assert_eq!((FM_SB_VOLUME_ID, FM_DATA_VOLUME_ID), (0x7fff_f000, 0x7fff_f001));
    assert_eq!((FM_MAX_START, FM_MAX_BLOCKS, FM_MIN_POOL, FM_MAX_POOL), (64, 32, 8, 256));
    assert_eq!(
        [FmSb::BYTES, FmHdr::BYTES, FmPool::BYTES, FmVolHdr::BYTES, FmEba::HEADER_BYTES],
        [312, 32, 1048, 32, 8]
    );
    assert_eq!((VtblRecord::AUTORESIZE, VtblRecord::SKIP_CHECK, VtblRecord::NAME_MAX), (1, 2, 127));
    // 172 bytes a record, at most 128: 22,016 bytes.
    assert_eq!([171, 172, 343, 344, 22_015, 22_016, 99_999].map(vtbl_slots), [0, 1, 1, 2, 127, 128, 128]);
    // 312 + 32 + 2 × 1048 + 129 × 40 = 7,600, and 12 for each PEB.
    for (pebs, leb, lebs) in [(100, 8800, 1), (100, 8799, 2), (1000, 9800, 2), (1000, 19_600, 1), (1000, 19_599, 2)] {
        assert_eq!(fastmap_bytes(pebs, leb), u64::from(leb) * lebs, "{pebs} PEBs, LEBs of {leb}");
    }
    assert_eq!([VolType::Dynamic.name(), VolType::Static.name()], ["dynamic", "static"]);
    assert_eq!([VolType::Dynamic.in_fastmap(), VolType::Static.in_fastmap()], [3, 4]);
    for byte in 0..=255 {
        let known = |types: [u8; 2]| types.iter().position(|&other| other == byte);
        let place =
            |decoded: Result<VolType, MediaError>| decoded.ok().map(|kind| usize::from(kind == VolType::Static));
        assert_eq!(place(VolType::decode(byte)), known([1, 2]));
        assert_eq!(place(VolType::decode_in_fastmap(byte)), known([3, 4]));
    }
}

#[test]
fn an_erase_counter_header_is_its_table() {
    let fields = [
        (0, 4, 0x5542_4923),
        (4, 1, 1),
        (8, 8, 0x7654_3210),
        (16, 4, 0x1122_3344),
        (20, 4, 0x5566_7788),
        (24, 4, 0x99aa_bbcc),
    ];
    let hdr = EcHdr { ec: 0x7654_3210, vid_hdr_offset: 0x1122_3344, data_offset: 0x5566_7788, image_seq: 0x99aa_bbcc };
    assert_eq!(hdr.encode()[..], summed(64, &fields));
    let decode = |fields: &[(usize, usize, u64)]| EcHdr::decode(summed(64, fields)[..].try_into().unwrap());
    assert_eq!(decode(&fields), Ok(hdr));
    let changed = |field| what(decode(&[&fields[..], &[field]].concat()));
    assert_eq!(changed((0, 4, 0x5542_4921)), "magic");
    assert_eq!((changed((4, 1, 0)), changed((4, 1, 2))), ("version", "version"));
    assert_eq!((changed((8, 8, 0x7fff_ffff)), changed((8, 8, 0x8000_0000))), ("good", "ec"));
    assert_eq!((changed((8, 8, 1 << 40)), changed((40, 8, 5))), ("ec", "good"));
    assert_eq!(what(EcHdr::decode(table(64, &fields)[..].try_into().unwrap())), "crc");
}

#[test]
fn a_volume_identifier_header_is_its_table() {
    let fields = [
        (0, 4, 0x5542_4921),
        (4, 1, 1),
        (5, 1, 2),
        (6, 1, 1),
        (7, 1, 4),
        (8, 4, 0x0102_0304),
        (12, 4, 0x1112_1314),
        (20, 4, 0x2122_2324),
        (24, 4, 0x3132_3334),
        (28, 4, 0x4142_4344),
        (32, 4, 0x5152_5354),
        (40, 8, 0x6162_6364_6566_6768),
    ];
    let hdr = VidHdr {
        vol_type: VolType::Static,
        copy_flag: true,
        compat: 4,
        vol_id: 0x0102_0304,
        lnum: 0x1112_1314,
        data_size: 0x2122_2324,
        used_ebs: 0x3132_3334,
        data_pad: 0x4142_4344,
        data_crc: 0x5152_5354,
        sqnum: 0x6162_6364_6566_6768,
    };
    assert_eq!(hdr.encode()[..], summed(64, &fields));
    let decode = |fields: &[(usize, usize, u64)]| VidHdr::decode(summed(64, fields)[..].try_into().unwrap());
    assert_eq!(decode(&fields), Ok(hdr));
    let changed = |field| what(decode(&[&fields[..], &[field]].concat()));
    assert_eq!(changed((0, 4, 0x5542_4923)), "magic");
    assert_eq!([0, 1, 3].map(|kind| changed((5, 1, kind))), ["vol_type", "good", "vol_type"]);
    assert_eq!([0, 1, 2].map(|flag| changed((6, 1, flag))), ["good", "good", "copy_flag"]);
    assert_eq!(changed((4, 1, 9)), "good", "Linux does not look at the version");
    assert_eq!(what(VidHdr::decode(table(64, &fields)[..].try_into().unwrap())), "crc");
}

/// The limits of `validate_vid_hdr` in `io.c`, for LEBs of 15,360 bytes.
#[test]
fn a_volume_identifier_header_says_what_is_possible() {
    let leb = 15_360;
    let check = |hdr: VidHdr| match hdr.check(leb) {
        Err(MediaError::Field { what, .. }) => what,
        other => other.map_or("another error", |()| "good"),
    };
    let copy = copy_of(&[1; 100], dynamic(3, 4, 5));
    let whole = fixed(3, 1, 4, leb, 5);
    let last = fixed(3, 3, 4, 100, 5);
    for (hdr, expected) in [
        (dynamic(0, 0, 1), "good"),
        (copy, "good"),
        (whole, "good"),
        (last, "good"),
        (dynamic(127, 0, 1), "good"),
        (dynamic(128, 0, 1), "vol_id"),
        (dynamic(0x7fff_effe, 0, 1), "vol_id"),
        (internal(0x7fff_efff, 0, 5, 1), "good"),
        (internal(0x7fff_ffff, 0, 1, 1), "good"),
        (internal(0x8000_0000, 0, 1, 1), "vol_id"),
        (dynamic(0, 0x7fff_ffff, 1), "good"),
        (dynamic(0, 0x8000_0000, 1), "lnum"),
        (VidHdr { data_size: 0x8000_0000, ..copy }, "data_size"),
        (VidHdr { used_ebs: 0x8000_0000, ..whole }, "used_ebs"),
        (VidHdr { data_pad: 0x8000_0000, ..whole }, "data_pad"),
        (VidHdr { compat: 1, ..dynamic(0, 0, 1) }, "compat of a user volume"),
        (internal(0x7fff_f000, 0, 0, 1), "compat of an internal volume"),
        (internal(0x7fff_f000, 0, 2, 1), "good"),
        (internal(0x7fff_f000, 0, 3, 1), "compat of an internal volume"),
        (internal(0x7fff_f000, 0, 4, 1), "good"),
        (internal(0x7fff_f000, 0, 6, 1), "compat of an internal volume"),
        (VidHdr { data_pad: leb / 2 - 1, ..dynamic(0, 0, 1) }, "good"),
        (VidHdr { data_pad: leb / 2, ..dynamic(0, 0, 1) }, "data_pad"),
        (VidHdr { data_size: leb, ..copy }, "good"),
        (VidHdr { data_size: leb + 1, ..copy }, "data_size"),
        (VidHdr { data_size: 0, ..copy }, "data_size"),
        (VidHdr { used_ebs: 1, ..copy }, "used_ebs"),
        (VidHdr { used_ebs: 1, ..dynamic(0, 0, 1) }, "used_ebs"),
        (VidHdr { data_crc: 1, ..dynamic(0, 0, 1) }, "data_crc"),
        (VidHdr { data_size: 1, ..dynamic(0, 0, 1) }, "data_size"),
        (VidHdr { used_ebs: 0, ..whole }, "used_ebs"),
        (VidHdr { data_size: 0, ..last }, "data_size"),
        (VidHdr { lnum: 4, ..last }, "lnum"),
        (VidHdr { data_size: leb - 1, ..whole }, "data_size"),
        (VidHdr { data_size: leb - 1, ..last }, "good"),
        (VidHdr { lnum: 2, data_size: leb - 10, data_pad: 10, ..whole }, "good"),
        (VidHdr { lnum: 2, data_size: leb, data_pad: 10, ..whole }, "data_size"),
        (VidHdr { data_crc: 7, copy_flag: true, ..whole }, "good"),
    ] {
        assert_eq!(check(hdr), expected, "{hdr:?}");
    }
}

#[test]
fn a_record_of_the_volume_table_is_its_table() {
    let mut fields = vec![
        (0, 4, 0x0102_0304),
        (4, 4, 1000),
        (8, 4, 360),
        (12, 1, 2),
        (13, 1, 1),
        (14, 2, 3),
        (16, 3, 0x61_6263),
        (144, 1, 3),
    ];
    let decode =
        |fields: &[(usize, usize, u64)]| VtblRecord::decode(summed(172, fields)[..].try_into().unwrap(), 15_360);
    let expected = VtblRecord {
        reserved_pebs: 0x0102_0304,
        alignment: 1000,
        data_pad: 360,
        upd_marker: true,
        flags: 3,
        ..record("abc", VolType::Static, 1)
    };
    assert_eq!(VtblRecord::encode(Some(&expected))[..], summed(172, &fields));
    assert_eq!(VtblRecord::encode(None)[..], summed(172, &[]));
    assert_eq!((decode(&fields), decode(&[])), (Ok(Some(expected)), Ok(None)));
    let changed = |more: &[(usize, usize, u64)]| what(decode(&[&fields[..], more].concat()));
    assert_eq!(changed(&[(0, 4, 0)]), "reserved_pebs", "an unused record is all zero");
    for at in [4, 100, 144, 167] {
        assert_eq!(what(decode(&[(at, 1, 1)])), "reserved_pebs", "byte {at}");
    }
    assert_eq!(changed(&[(4, 4, 0)]), "alignment");
    assert_eq!(changed(&[(4, 4, 15_361)]), "alignment");
    assert_eq!(changed(&[(4, 4, 15_360), (8, 4, 0)]), "good");
    assert_eq!((changed(&[(8, 4, 359)]), changed(&[(8, 4, 361)])), ("data_pad", "data_pad"));
    assert_eq!([0, 1, 2, 3].map(|kind| changed(&[(12, 1, kind)])), ["vol_type", "good", "good", "vol_type"]);
    assert_eq!([0, 1, 2].map(|marker| changed(&[(13, 1, marker)])), ["good", "good", "upd_marker"]);
    assert_eq!(
        (changed(&[(14, 2, 2)]), changed(&[(14, 2, 4)]), changed(&[(14, 2, 0)])),
        ("name_len", "name_len", "name_len")
    );
    assert_eq!(changed(&[(17, 1, 0)]), "name_len", "NUL within the name");
    assert_eq!(changed(&[(14, 2, 0), (16, 3, 0)]), "name_len", "no name");
    assert_eq!(what(VtblRecord::decode(table(172, &fields)[..].try_into().unwrap(), 15_360)), "crc");
    // The longest name, whose NUL is the last byte of the field.
    fields.extend((16..143).map(|at| (at, 1, 0x78)));
    fields.push((14, 2, 127));
    let longest = decode(&fields).unwrap().unwrap();
    assert_eq!(longest.name, [0x78; 127]);
    assert_eq!(VtblRecord::encode(Some(&longest))[..], summed(172, &fields));
    assert_eq!(what(decode(&[&fields[..], &[(143, 1, 0x78), (14, 2, 128)]].concat())), "name_len");
}

#[test]
fn the_pieces_of_a_fastmap_are_their_tables() {
    // The super block.
    let mut fields =
        vec![(0, 4, 0x7b11_d69f), (4, 1, 1), (8, 4, 0xaabb_ccdd), (12, 4, 32), (272, 8, 0x0102_0304_0506_0708)];
    fields.extend((0..32).flat_map(|i| [(16 + 4 * i, 4, 1000 + i as u64), (144 + 4 * i, 4, 5000 + i as u64)]));
    let blocks = (0..32).map(|i| (1000 + i, 5000 + i)).collect();
    let sb = FmSb { data_crc: 0xaabb_ccdd, blocks, sqnum: 0x0102_0304_0506_0708 };
    let mut bytes = vec![0; 312];
    sb.encode(&mut bytes);
    assert_eq!(bytes, table(312, &fields));
    assert_eq!(FmSb::decode(&bytes), Ok(sb));
    let changed = |field| what(FmSb::decode(&table(312, &[&fields[..], &[field]].concat())));
    assert_eq!(
        (changed((0, 4, 0)), changed((4, 1, 2)), changed((4, 1, 0))),
        ("magic", "fm_sb.version", "fm_sb.version")
    );
    assert_eq!([0, 1, 32, 33].map(|used| changed((12, 4, used))), ["used_blocks", "good", "good", "used_blocks"]);
    assert_eq!(what(FmSb::decode(&bytes[..311])), "short");
    assert_eq!((FmSb::DATA_CRC_AT, FmVolHdr::VOL_TYPE_AT), (8, 8));

    // The header.
    let fields = [(0, 4, 0xd4b8_2ef7), (4, 4, 11), (8, 4, 12), (12, 4, 13), (16, 4, 14), (20, 4, 15), (24, 4, 16)];
    let hdr = FmHdr { free: 11, used: 12, scrub: 13, bad: 14, erase: 15, volumes: 16 };
    let mut bytes = vec![0; 32];
    hdr.encode(&mut bytes);
    assert_eq!((&bytes, FmHdr::decode(&bytes)), (&table(32, &fields), Ok(hdr)));
    assert_eq!((what(FmHdr::decode(&bytes[..31])), what(FmHdr::decode(&[0; 32]))), ("short", "magic"));

    // A full pool.
    let mut fields = vec![(0, 4, 0x67af_4d08), (4, 2, 256), (6, 2, 200)];
    fields.extend((0..256).map(|i| (8 + 4 * i, 4, 70_000 + i as u64)));
    let pool = FmPool { max_size: 200, pebs: (70_000..70_256).collect() };
    let mut bytes = vec![0; 1048];
    pool.encode(&mut bytes);
    assert_eq!((&bytes, FmPool::decode(&bytes)), (&table(1048, &fields), Ok(pool)));
    let changed = |field| what(FmPool::decode(&table(1048, &[&fields[..], &[field]].concat())));
    assert_eq!(
        (changed((4, 2, 257)), changed((6, 2, 256)), changed((6, 2, 257))),
        ("pool size", "good", "pool max_size")
    );
    assert_eq!((changed((0, 4, 1)), what(FmPool::decode(&bytes[..1047]))), ("magic", "short"));

    // A volume's header and the head of its table.
    let fields = [(0, 4, 0xfa37_0ed1), (4, 4, 21), (8, 1, 4), (12, 4, 23), (16, 4, 24), (20, 4, 25)];
    let hdr = FmVolHdr { vol_id: 21, vol_type: 4, data_pad: 23, used_ebs: 24, last_eb_bytes: 25 };
    let mut bytes = vec![0; 32];
    hdr.encode(&mut bytes);
    assert_eq!((&bytes, FmVolHdr::decode(&bytes)), (&table(32, &fields), Ok(hdr)));
    assert_eq!((what(FmVolHdr::decode(&bytes[..31])), what(FmVolHdr::decode(&[0; 32]))), ("short", "magic"));
    let mut bytes = vec![0; 8];
    FmEba { reserved_pebs: 31 }.encode(&mut bytes);
    assert_eq!(bytes, table(8, &[(0, 4, 0xf0c0_40a8), (4, 4, 31)]));
    assert_eq!(FmEba::decode(&bytes), Ok(FmEba { reserved_pebs: 31 }));
    assert_eq!((what(FmEba::decode(&bytes[..7])), what(FmEba::decode(&[0; 8]))), ("short", "magic"));
}

/// What `io_init` of `build.c` makes of page, sub-page and the VID header's offset.
#[test]
fn offsets_follow_from_the_geometry() {
    type Offsets = (u32, u32, u32, u32, u32, u32);
    let of = |page_bytes: u32, subpage_bytes: u32, offset: Option<u32>| -> Result<Offsets, &'static str> {
        let shape = sim::seam::Geometry { page_bytes, subpage_bytes, ..geometry(64) };
        let layout = Layout::new(&shape, offset).map_err(|error| error.what)?;
        let Layout { vid_hdr_offset, vid_hdr_aloffset, vid_hdr_alsize, ec_hdr_alsize, data_offset, leb_bytes, .. } =
            layout;
        assert_eq!((layout.pebs, layout.peb_bytes), (64, 16 << 10));
        assert_eq!((layout.min_io_bytes, layout.hdrs_min_io_bytes), (page_bytes, subpage_bytes));
        Ok((vid_hdr_offset, vid_hdr_aloffset, vid_hdr_alsize, ec_hdr_alsize, data_offset, leb_bytes))
    };
    assert_eq!(of(512, 512, None), Ok((512, 512, 512, 512, 1024, 15_360)));
    assert_eq!(of(2048, 512, None), Ok((512, 512, 512, 512, 2048, 14_336)));
    assert_eq!(of(512, 128, None), Ok((128, 128, 128, 128, 512, 15_872)));
    assert_eq!(of(1, 1, None), Ok((64, 64, 64, 64, 128, 16_256)));
    assert_eq!(of(32, 32, None), Ok((64, 64, 64, 64, 128, 16_256)));
    // Given offsets: unaligned within a sub-page, over the end of one, and in a later page.
    assert_eq!(of(2048, 512, Some(1984)), Ok((1984, 1536, 512, 512, 2048, 14_336)));
    assert_eq!(of(2048, 512, Some(1988)), Ok((1988, 1536, 1024, 512, 4096, 12_288)));
    assert_eq!(of(512, 512, Some(4096)), Ok((4096, 4096, 512, 512, 4608, 11_776)));
    assert_eq!(of(1, 1, Some(68)), Ok((68, 68, 64, 64, 132, 16_252)));
    // The last offset that leaves a page of data, and the first that does not.
    assert_eq!(of(512, 512, Some(15_296)), Ok((15_296, 14_848, 512, 512, 15_360, 1024)));
    assert_eq!(of(512, 512, Some(15_808)), Ok((15_808, 15_360, 512, 512, 15_872, 512)));
    assert_eq!(of(512, 512, Some(15_812)), Err("the VID header offset"));
    for offset in [0, 60, 66, 508, 16_384, u32::MAX - 3] {
        assert_eq!(of(512, 512, Some(offset)), Err("the VID header offset"), "{offset}");
    }
    assert_eq!(of(768, 768, None), Err("the min. I/O unit"));
    assert_eq!(
        (of(512, 0, None), of(512, 1024, None), of(512, 96, None)),
        (Err("the sub-page size"), Err("the sub-page size"), Err("the sub-page size"))
    );
    assert_eq!(of(32_768, 512, None), Err("the PEB size"));
}

/// `CONFIG_MTD_UBI_WL_THRESHOLD` and `CONFIG_MTD_UBI_BEB_LIMIT` of `Kconfig`, and what the kernel does without parameters.
#[test]
fn the_defaults_are_the_kernels() {
    for policy in [Policy::LINUX_6_1, Policy::LINUX_6_7] {
        let expected = Config {
            vid_hdr_offset: None,
            wl_threshold: 4096,
            beb_per_1024: 20,
            chip_pebs: None,
            fastmap: true,
            fastmap_room: false,
            fastmap_reserve_pools: false,
            policy,
            image_seq: 1,
        };
        assert_eq!(Config::linux(policy), expected);
    }
    assert_eq!(Policy::by_name("linux-6.1"), Some(Policy::LINUX_6_1));
    assert_eq!(Policy::by_name("linux-6.7"), Some(Policy::LINUX_6_7));
    assert_eq!(Policy::by_name("linux-6.8"), None);
    assert!(Policy::NAMES.iter().all(|name| Policy::by_name(name).is_some()));
    // Twenty in 1,024 of the chip, rounded up.
    let reserve = |pebs| Config::linux(Policy::LINUX_6_7).beb_limit(pebs);
    assert_eq!([0, 1, 51, 52, 1024, 1025].map(reserve), [0, 1, 1, 2, 20, 21]);
}
