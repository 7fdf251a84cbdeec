//! LEBs, volumes and their contents.

use super::*;

fn place(flash: &Flash, lnum: u32) -> Peb {
    flash.scanned(|scan| scan.lebs()[&(VolId(0), Lnum(lnum))].peb)
}

#[test]
fn the_newer_of_two_has_the_leb_unless_it_is_a_torn_copy() {
    let mut flash = Flash::new();
    flash.put(9, &vid(VolType::Dynamic, 0, 1, 90), &[7; 9]);
    assert_eq!(place(&flash, 1), Peb(9));
    let copy = VidHdr { copy_flag: true, data_size: 9, data_crc: crc(&[7; 9]), ..vid(VolType::Dynamic, 0, 1, 90) };
    flash.put(9, &copy, &[7; 9]);
    assert_eq!(place(&flash, 1), Peb(9));
    flash.put(9, &copy, &[7; 8]);
    assert_eq!(place(&flash, 1), Peb(4));
    // If none is intact, the newest is used.
    let older = VidHdr { copy_flag: true, data_size: 9, data_crc: 1, ..vid(VolType::Dynamic, 0, 1, 80) };
    flash.put(4, &older, &[7; 9]);
    assert_eq!(place(&flash, 1), Peb(9));
}

#[test]
fn one_whole_copy_of_the_table_is_enough() {
    let mut flash = Flash::new();
    flash.peb(0)[DATA_AT + 20] ^= 1;
    flash.scanned(|scan| {
        assert_eq!(scan.vtbl().from, Some(1));
        assert_eq!(scan.volumes().len(), 2);
    });
}

#[test]
fn contents_come_back_as_written() {
    let flash = Flash::new();
    flash.scanned(|scan| {
        let rootfs = scan.contents(VolId(0), false).unwrap();
        let lebs: Vec<_> = rootfs.lebs().collect();
        assert_eq!(rootfs.bytes(), 4 * u64::from(LEB_BYTES));
        assert_eq!(lebs.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true]);
        let boot = scan.contents(VolId(1), false).unwrap();
        let bytes: Vec<u8> = boot.lebs().flat_map(|leb| leb.unwrap().into_owned()).collect();
        assert_eq!(bytes.len() as u64, boot.bytes());
        assert_eq!((bytes.len(), bytes[0], bytes[LEB_BYTES as usize]), (LEB_BYTES as usize + 100, 0x40, 0x41));
    });
}

#[test]
fn a_damaged_static_volume_is_given_only_when_asked_for() {
    let mut flash = Flash::new();
    flash.peb(7)[DATA_AT] ^= 1;
    flash.scanned(|scan| {
        let error = scan.contents(VolId(1), false).err().unwrap();
        assert_eq!(error, ContentsError::DataCrc { id: VolId(1), lnum: Lnum(1), peb: Peb(7) });
        assert!(scan.contents(VolId(1), true).is_ok());
    });
    flash.peb(6)[VID_AT..].fill(0xff);
    flash.scanned(|scan| {
        let error = scan.contents(VolId(1), false).err().unwrap();
        assert_eq!(error, ContentsError::LebMissing { id: VolId(1), lnum: Lnum(0), last: 1 });
    });
    assert!(Flash::new().scanned(|scan| scan.contents(VolId(9), false).is_err()));
}

#[test]
fn a_leb_number_that_lies_makes_no_long_volume() {
    let mut flash = Flash::new();
    flash.put_table(&[record("rootfs", u32::MAX, VolType::Dynamic), record("boot", 2, VolType::Static)]);
    flash.put(20, &vid(VolType::Dynamic, 0, u32::MAX - 1, 90), &[]);
    flash.scanned(|scan| assert_eq!(scan.volumes()[0].last, Some(Lnum(3))));
}

#[test]
fn wear_has_the_bins_of_the_kernels_histograms() {
    let wear = Flash::new().scanned(|scan| scan.wear());
    let counts = wear.all.bins.map(|bin| bin.count);
    assert_eq!(counts, [0, 79, 0, 0, 0, 0]);
    assert_eq!((wear.all.total.min, wear.all.total.avg(), wear.all.total.max), (10, 49, 89));
    let histogram = wear::histogram([0, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 99_999, 100_000, u32::MAX]);
    assert_eq!(histogram.bins.map(|bin| bin.count), [2; 6]);
    assert_eq!(histogram.bins.map(|bin| (bin.min, bin.max))[5], (100_000, u32::MAX));
}

#[test]
fn an_ini_file_says_what_is_wrong_with_it() {
    let good = "[v]\nmode=ubi\nvol_id=0\nvol_name=x\nimage=i\n";
    let cases = [
        ("", "line 1: found no section"),
        ("mode=ubi\n", "line 1: found \"mode=ubi\", expected a section"),
        ("[v\n", "line 1: found \"[v\", expected a closing ]"),
        ("[v]\nmode\n", "line 2: found \"mode\", expected key=value"),
        ("[v]\nvol_ids=0\n", "line 2: [v] has an unknown key \"vol_ids\""),
        ("[v]\n[v]\n", "line 2: section [v] comes a second time"),
        ("[v]\nmode=ubi\nmode=ubi\n", "line 3: [v] has mode a second time"),
        ("[v]\n", "line 1: [v] has no mode"),
        ("[v]\nmode=mtd\n", "expected ubi"),
        ("[v]\nmode=ubi\n", "line 1: [v] has no vol_id"),
        ("[v]\nmode=ubi\nvol_id=128\n", "line 3: [v] has vol_id = \"128\", expected a number from 0 to 127"),
        ("[v]\nmode=ubi\nvol_id=5junk\n", "expected a number from 0 to 127"),
        ("[v]\nmode=ubi\nvol_id=0\n", "has no vol_name"),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=\n", "expected 1 to 127 bytes"),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=\"x\n", "expected a closing \""),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=x\n", "neither image nor vol_size"),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=x\nvol_size=1\nvol_type=static\n", "is static and has no image"),
    ];
    for (text, expected) in cases {
        let error = ini::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let more = [
        ("vol_size=1.5MiB", "vol_size"),
        ("vol_size=0", "vol_size"),
        ("vol_size=99999999999GiB", "vol_size"),
        ("vol_type=Static", "did you mean static?"),
        ("vol_flags=autoresiz", "did you mean autoresize?"),
        ("vol_flags=skip-check", "only static volumes are checked"),
        ("vol_alignment=0", "1 to the LEB size"),
        ("vol_aligment=8", "did you mean vol_alignment?"),
    ];
    for (line, expected) in more {
        let error = ini::parse(format!("{good}{line}\n").as_bytes()).unwrap_err();
        assert!(format!("{error} {}", error.help).contains(expected), "{error} {}", error.help);
    }
    assert_eq!(ini::parse(good.as_bytes()).unwrap().len(), 1);
}
