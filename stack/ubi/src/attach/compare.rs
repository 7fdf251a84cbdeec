//! Compares a scan with an attach by fastmap.
//!
//! A fastmap describes the moment at which it was written, a scan the present. These differences are legitimate:
//!
//! | fastmap | scan | because |
//! |---|---|---|
//! | LEB in a PEB | LEB unmapped, the PEB free or to be erased | unmapped and erased after the fastmap was written |
//! | LEB unmapped, a PEB to be erased | LEB in that PEB | unmapped, not yet erased: a scan sees the old data again |
//! | LEB in a PEB since erased | LEB in a PEB to be erased | unmapped, erased, changed; the cut tore the new copy |
//! | LEB in a torn copy | LEB in a PEB to be erased | as before, but not yet erased: only the scan knows the original |
//! | to be erased | free | erased since; or allocated when the fastmap was written, and never written |
//! | to be erased | old fastmap | the header of a block outside the first PEBs was not read |
//! | old fastmap | to be erased | its erasure was cut: the EC header is gone, the VID header is not |
//! | fastmap block | old fastmap | a scan uses no fastmap |
//!
//! Erase counts are not compared if the scan finds a PEB that has to be erased: its header may be lost, and then its
//! count is the mean. Scrubbing is not compared: the scan reads more pages, and so sees more corrected bits.

use sim::Peb;

use super::{AttachInfo, PebFate};

/// Lists every disagreement between a scan and a fastmap of the same flash that is not legitimate (see the table
/// above). Empty if the fastmap can be trusted.
pub fn compare(scan: &AttachInfo, fastmap: &AttachInfo) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |same: bool, what: &str, scan: &dyn std::fmt::Debug, fastmap: &dyn std::fmt::Debug| {
        if !same {
            found.push(format!("{what}: {scan:?} by scan, {fastmap:?} by fastmap"));
        }
    };
    expect(scan.fates.len() == fastmap.fates.len(), "PEBs", &scan.fates.len(), &fastmap.fates.len());
    expect(scan.empty == fastmap.empty, "empty", &scan.empty, &fastmap.empty);
    expect(scan.layout_eba == fastmap.layout_eba, "layout volume", &scan.layout_eba, &fastmap.layout_eba);
    expect(scan.table == fastmap.table, "volume table", &scan.table, &fastmap.table);
    // If the scan saw a higher number, the device would use numbers twice.
    expect(scan.max_sqnum <= fastmap.max_sqnum, "highest sqnum", &scan.max_sqnum, &fastmap.max_sqnum);
    let seqs_agree = scan.image_seq == fastmap.image_seq || fastmap.image_seq == 0;
    expect(seqs_agree, "image_seq", &scan.image_seq, &fastmap.image_seq);
    expect(scan.read_only == fastmap.read_only, "read-only", &scan.read_only, &fastmap.read_only);
    expect(scan.volumes.len() == fastmap.volumes.len(), "volume slots", &scan.volumes.len(), &fastmap.volumes.len());
    if !found.is_empty() {
        return found;
    }
    compare_volumes(scan, fastmap, &mut found);
    for peb in (0..scan.fates.len() as u32).map(Peb) {
        compare_peb(scan, fastmap, peb, &mut found);
    }
    found
}

fn compare_volumes(scan: &AttachInfo, fastmap: &AttachInfo, found: &mut Vec<String>) {
    for (vol_id, pair) in scan.volumes.iter().zip(&fastmap.volumes).enumerate() {
        let (Some(by_scan), Some(by_fastmap)) = pair else {
            if pair.0.is_some() != pair.1.is_some() {
                found.push(format!("volume {vol_id} exists by one way only"));
            }
            continue;
        };
        if by_scan.record != by_fastmap.record {
            found.push(format!("volume {vol_id}: {:?} by scan, {:?} by fastmap", by_scan.record, by_fastmap.record));
        }
        let mut stale = false;
        for (lnum, leb) in by_scan.eba.iter().copied().zip(by_fastmap.eba.iter().copied()).enumerate() {
            let agree = match leb {
                (a, b) if a == b => true,
                (None, Some(peb)) => {
                    stale = true;
                    matches!(scan.fates[peb.at()], PebFate::Free | PebFate::Erase { .. })
                }
                (Some(peb), None) => matches!(fastmap.fates[peb.at()], PebFate::Erase { .. }),
                (Some(a), Some(b)) => {
                    let gone = matches!(scan.fates[b.at()], PebFate::Free | PebFate::Erase { .. });
                    gone && matches!(fastmap.fates[a.at()], PebFate::Erase { .. })
                }
                _ => false,
            };
            if !agree {
                found.push(format!("volume {vol_id} LEB {lnum}: {:?} by scan, {:?} by fastmap", leb.0, leb.1));
            }
        }
        let sizes = [by_scan, by_fastmap].map(|volume| (volume.used_ebs, volume.last_eb_bytes));
        if sizes[0] != sizes[1] && !stale {
            found.push(format!("volume {vol_id}: size {:?} by scan, {:?} by fastmap", sizes[0], sizes[1]));
        }
    }
}

fn compare_peb(scan: &AttachInfo, fastmap: &AttachInfo, peb: Peb, found: &mut Vec<String>) {
    use PebFate::*;
    let fates = (scan.fates[peb.at()], fastmap.fates[peb.at()]);
    let agree = match fates {
        // LEBs were compared above, by volume.
        (Used { vol_id: v, lnum: l, .. }, Used { vol_id, lnum, .. }) => (v, l) == (vol_id, lnum),
        (Free | Erase { .. }, Used { .. }) | (Used { .. } | Free | OldFastmap { .. }, Erase { .. }) => true,
        (Erase { .. }, Erase { .. } | OldFastmap { .. }) | (OldFastmap { .. }, Fastmap { .. }) => true,
        (scan, fastmap) => scan == fastmap,
    };
    if !agree {
        found.push(format!("PEB {peb}: {:?} by scan, {:?} by fastmap", fates.0, fates.1));
    }
    let (by_scan, by_fastmap) = (scan.erase_counts[peb.at()], fastmap.erase_counts[peb.at()]);
    let counts_agree = match fates {
        (Erase { .. }, _) => true,
        // Erased after the fastmap was written; a PEB allocated at that moment may never have been written.
        (Free, Used { .. }) => by_scan > by_fastmap,
        (Free, Erase { .. }) => by_scan >= by_fastmap,
        _ => by_scan == by_fastmap,
    };
    if !counts_agree {
        found.push(format!("PEB {peb}: erase count {by_scan} by scan, {by_fastmap} by fastmap"));
    }
}
