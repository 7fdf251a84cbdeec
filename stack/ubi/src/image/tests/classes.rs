//! Each kind of finding is found at its place: damage of each kind tests the check.

use super::*;

type Damage = fn(&mut Flash);

/// Kind, severity, PEB if any, and the damage that causes the finding.
const DAMAGES: &[(Class, Severity, Option<u32>, Damage)] = &[
    (Class::Truncated, Severity::Error, Some(79), |flash| flash.bytes.truncate(PEBS * PEB_BYTES - 100)),
    (Class::BadPeb, Severity::Note, Some(20), |flash| flash.peb(20).fill(0)),
    (Class::EcHeader, Severity::Error, Some(3), |flash| flash.peb(3)[10] ^= 1),
    (Class::EcHeader, Severity::Error, Some(3), |flash| flash.peb(3)[..64].fill(0xff)),
    (Class::EcHeader, Severity::Warning, Some(20), |flash| flash.peb(20)[10] ^= 1),
    (Class::EcHeader, Severity::Warning, Some(20), |flash| {
        flash.peb(20)[..64].fill(0xff);
        flash.peb(20)[5000] = 0;
    }),
    (Class::EcHeader, Severity::Error, Some(3), |flash| {
        flash.peb(3)[10] ^= 1;
        flash.peb(3)[VID_AT + 20] ^= 1;
    }),
    (Class::VidHeader, Severity::Error, Some(3), |flash| flash.peb(3)[VID_AT + 20] ^= 1),
    (Class::VidHeader, Severity::Warning, Some(20), |flash| flash.peb(20)[VID_AT] = 0),
    (Class::VidFields, Severity::Error, Some(3), |flash| {
        flash.put(3, &VidHdr { compat: 1, ..vid(VolType::Dynamic, 0, 0, 10) }, &[]);
    }),
    (Class::VidFields, Severity::Error, Some(3), |flash| {
        flash.put(3, &VidHdr { data_pad: 7, ..vid(VolType::Dynamic, 0, 0, 10) }, &[]);
    }),
    (Class::VidFields, Severity::Error, Some(3), |flash| {
        flash.put(3, &VidHdr { data_pad: u32::MAX, ..vid(VolType::Dynamic, 0, 0, 10) }, &[]);
    }),
    (Class::VidFields, Severity::Error, Some(3), |flash| {
        flash.put(3, &VidHdr { data_size: u32::MAX, ..vid(VolType::Dynamic, 0, 0, 10) }, &[]);
    }),
    (Class::VidFields, Severity::Error, Some(20), |flash| flash.put(20, &vid(VolType::Dynamic, 5000, 0, 99), &[])),
    (Class::VidFields, Severity::Error, Some(3), |flash| {
        flash.put(3, &VidHdr { used_ebs: 9, ..vid(VolType::Static, 0, 0, 10) }, &[]);
    }),
    (Class::Version, Severity::Error, Some(20), |flash| {
        let peb = flash.peb(20);
        peb[4] = 2;
        let sum = crc(&peb[..60]);
        peb[60..64].copy_from_slice(&sum.to_be_bytes());
    }),
    (Class::ImageSeq, Severity::Error, Some(20), |flash| flash.put_ec(20, 30, 99)),
    (Class::ImageSeq, Severity::Note, Some(20), |flash| flash.put_ec(20, 30, 0)),
    (Class::HeaderOffsets, Severity::Error, Some(20), |flash| {
        let hdr = EcHdr { ec: 30, vid_hdr_offset: 2048, data_offset: 4096, image_seq: IMAGE_SEQ };
        flash.peb(20)[..64].copy_from_slice(&hdr.encode());
    }),
    (Class::HeaderOffsets, Severity::Warning, Some(20), |flash| {
        let hdr = EcHdr { ec: 30, vid_hdr_offset: u32::MAX, data_offset: u32::MAX, image_seq: IMAGE_SEQ };
        flash.peb(20)[..64].copy_from_slice(&hdr.encode());
    }),
    (Class::SqnumTie, Severity::Error, Some(9), |flash| flash.put(9, &vid(VolType::Dynamic, 0, 1, 11), &[1; 9])),
    (Class::SqnumRepeat, Severity::Warning, Some(9), |flash| flash.put(9, &vid(VolType::Dynamic, 0, 2, 10), &[1; 9])),
    (Class::StaleLeb, Severity::Note, Some(4), |flash| flash.put(9, &vid(VolType::Dynamic, 0, 1, 90), &[1; 9])),
    (Class::StaleLeb, Severity::Warning, Some(9), |flash| {
        let torn = VidHdr { copy_flag: true, data_size: 9, data_crc: 1, ..vid(VolType::Dynamic, 0, 1, 90) };
        flash.put(9, &torn, &[1; 9]);
    }),
    (Class::FreeNotErased, Severity::Error, Some(20), |flash| flash.peb(20)[9999] = 0),
    (Class::TooManyCorrupt, Severity::Error, None, |flash| {
        for peb in 11..19 {
            flash.peb(peb)[VID_AT..][..2000].fill(0);
        }
    }),
    (Class::VtblLost, Severity::Error, None, |flash| {
        flash.peb(0)[DATA_AT] ^= 1;
        flash.peb(1)[DATA_AT + 172] ^= 1;
    }),
    (Class::VtblCopy, Severity::Warning, None, |flash| flash.peb(1)[VID_AT..].fill(0xff)),
    (Class::VtblRecord, Severity::Error, Some(1), |flash| flash.peb(1)[DATA_AT + 172 * 3] ^= 1),
    (Class::VtblDiffer, Severity::Warning, Some(1), |flash| {
        let table = Flash::table(&[record("other", 8, VolType::Dynamic)]);
        flash.put(1, &vid(VolType::Dynamic, LAYOUT_VOLUME_ID, 1, 2), &table);
    }),
    (Class::VolumeName, Severity::Error, None, |flash| {
        flash.put_table(&[record("rootfs", 8, VolType::Dynamic), record("rootfs", 2, VolType::Static)]);
    }),
    (Class::VolumeFlags, Severity::Error, None, |flash| {
        let grow = |record| VtblRecord { flags: VtblRecord::AUTORESIZE, ..record };
        flash.put_table(&records().into_iter().map(grow).collect::<Vec<_>>());
    }),
    (Class::VolumeFlags, Severity::Warning, None, |flash| {
        let odd = |record| VtblRecord { flags: 0x80, ..record };
        flash.put_table(&records().into_iter().map(odd).collect::<Vec<_>>());
    }),
    (Class::ReservedPebs, Severity::Error, None, |flash| {
        flash.put_table(&[record("rootfs", 79, VolType::Dynamic), record("boot", 2, VolType::Static)]);
    }),
    (Class::ReservedPebs, Severity::Error, None, |flash| {
        flash.put_table(&[record("rootfs", u32::MAX, VolType::Dynamic), record("boot", 2, VolType::Static)]);
    }),
    (Class::UpdateMarker, Severity::Error, None, |flash| {
        let updating = |record| VtblRecord { upd_marker: true, ..record };
        flash.put_table(&records().into_iter().map(updating).collect::<Vec<_>>());
    }),
    (Class::LebOutOfRange, Severity::Error, Some(20), |flash| flash.put(20, &vid(VolType::Dynamic, 0, 8, 90), &[])),
    (Class::LebOutOfRange, Severity::Error, Some(20), |flash| {
        flash.put(20, &vid(VolType::Dynamic, 0, u32::MAX, 90), &[]);
    }),
    (Class::LebOutOfRange, Severity::Error, Some(20), |flash| {
        flash.put(20, &vid(VolType::Dynamic, LAYOUT_VOLUME_ID, 2, 90), &[]);
    }),
    (Class::OrphanVolume, Severity::Warning, Some(20), |flash| flash.put(20, &vid(VolType::Dynamic, 5, 0, 90), &[])),
    (Class::OrphanVolume, Severity::Error, Some(20), |flash| flash.put(20, &vid(VolType::Dynamic, 100, 0, 90), &[])),
    (Class::InternalVolume, Severity::Error, Some(20), |flash| {
        flash.put(20, &VidHdr { compat: compat::REJECT, ..vid(VolType::Dynamic, 0x7fff_f777, 0, 90) }, &[]);
    }),
    (Class::InternalVolume, Severity::Note, Some(20), |flash| {
        flash.put(20, &VidHdr { compat: compat::PRESERVE, ..vid(VolType::Dynamic, 0x7fff_f777, 0, 90) }, &[]);
    }),
    (Class::StaticLebMissing, Severity::Error, None, |flash| flash.peb(6)[VID_AT..].fill(0xff)),
    (Class::StaticLebMissing, Severity::Error, None, |flash| flash.peb(7)[VID_AT..].fill(0xff)),
    (Class::StaticUsedEbs, Severity::Error, Some(7), |flash| {
        let (data_size, data_crc) = (100, crc(&[0x41; 100]));
        let hdr = VidHdr { data_size, used_ebs: 3, data_crc, ..vid(VolType::Static, 1, 1, 21) };
        flash.put(7, &hdr, &[0x41; 100]);
    }),
    (Class::DataCrc, Severity::Error, Some(7), |flash| flash.peb(7)[DATA_AT + 50] ^= 1),
    (Class::DataCrc, Severity::Error, Some(3), |flash| {
        flash.put(
            3,
            &VidHdr { copy_flag: true, data_size: 9, data_crc: 1, ..vid(VolType::Dynamic, 0, 0, 10) },
            &[1; 9],
        );
    }),
    (Class::LinuxRefuses, Severity::Error, Some(20), |flash| flash.put_ec(20, 30, 99)),
    (Class::LinuxReads, Severity::Error, Some(4), |flash| flash.put(20, &vid(VolType::Dynamic, 0, 1, 90), &[7; 9])),
    (Class::FastmapInvalid, Severity::Warning, Some(2), |flash| flash.peb(2)[DATA_AT + 5000] ^= 1),
    (Class::FastmapDisagrees, Severity::Error, Some(20), |flash| flash.put(20, &vid(VolType::Dynamic, 0, 2, 90), &[])),
];

#[test]
fn every_kind_of_damage_is_named_at_its_place() {
    for (i, &(class, severity, peb, damage)) in DAMAGES.iter().enumerate() {
        let mut flash = Flash::new();
        damage(&mut flash);
        let findings = flash.findings();
        let is =
            |it: &&Finding| (it.class, it.severity) == (class, severity) && (peb.is_none() || it.peb == peb.map(Peb));
        assert!(findings.iter().any(|it| is(&it)), "damage {i}, {class:?} {severity:?} {peb:?}: {findings:#?}");
    }
}

#[test]
fn there_is_a_damage_for_every_kind() {
    for class in Class::ALL {
        assert!(DAMAGES.iter().any(|(it, ..)| it == class), "{class:?}");
    }
}

#[test]
fn an_image_of_ubinize_may_be_for_a_larger_flash() {
    let mut flash = Flash::new();
    flash.peb(2)[VID_AT..].fill(0xff);
    for peb in [0, 1, 3, 4, 5, 6, 7] {
        let hdr = VidHdr::decode(flash.peb(peb)[VID_AT..].first_chunk().unwrap()).unwrap();
        flash.peb(peb)[VID_AT..][..64].copy_from_slice(&VidHdr { sqnum: 0, ..hdr }.encode());
    }
    let table = [record("rootfs", 800, VolType::Dynamic), record("boot", 2, VolType::Static)];
    for copy in 0..2 {
        flash.put(copy, &vid(VolType::Dynamic, LAYOUT_VOLUME_ID, copy as u32, 0), &Flash::table(&table));
    }
    let findings = flash.findings();
    assert!(
        matches!(&findings[..], [Finding { severity: Severity::Note, class: Class::ReservedPebs, .. }]),
        "{findings:?}"
    );
}

/// The newer LEB is in a PEB that the fastmap lists as free: 1,999 of its bytes differ.
#[test]
fn bytes_that_linux_would_read_from_an_old_peb_are_counted() {
    let mut flash = Flash::new();
    flash.put(20, &vid(VolType::Dynamic, 0, 1, 90), &[1; 1]);
    let found = flash.findings().into_iter().find(|it| it.class == Class::LinuxReads).expect("a finding");
    assert!(found.what.starts_with("Linux would read 1999 stale bytes here: "), "{}", found.what);
    assert!(found.what.ends_with("takes LEB 0:1 from PEB 4; the newest is in PEB 20"), "{}", found.what);
}

/// Fields of a VID header by the format: `vol_id` at byte 8, `lnum` at 12.
#[test]
fn a_reason_of_linux_is_at_its_field() {
    let cases: [(Damage, u32, u32, &str); 2] = [
        (
            |flash| flash.put(20, &vid(VolType::Dynamic, LAYOUT_VOLUME_ID, 2, 90), &[]),
            20,
            VID_AT as u32 + 12,
            "3 LEBs of the layout volume, expected 2",
        ),
        (
            |flash| {
                flash.peb(1)[VID_AT..].fill(0xff);
                flash.put(20, &vid(VolType::Dynamic, LAYOUT_VOLUME_ID, 2, 90), &[]);
            },
            20,
            VID_AT as u32 + 12,
            "LEB 2 of the layout volume, expected 0 or 1",
        ),
    ];
    for (damage, peb, offset, what) in cases {
        let mut flash = Flash::new();
        flash.peb(2)[VID_AT..].fill(0xff); // no fastmap
        damage(&mut flash);
        flash.scanned(|scan| {
            let why = scan.linux().why.clone().expect("a reason");
            assert_eq!(why.what, what);
            if why.peb.is_some() {
                assert_eq!((why.peb, why.offset), (Some(Peb(peb)), Some(offset)), "{what}");
            }
        });
    }
}
