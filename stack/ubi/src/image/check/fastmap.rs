//! Checks the fastmap against the headers.
//!
//! A fastmap describes the past: since it was written, PEBs of the pools may have been used, and any PEB erased. A
//! difference that this explains is a note. Any other is an error, because Linux would attach by the fastmap.

use std::collections::{BTreeMap, BTreeSet};

use sim::{Peb, VolId};

use super::{Class, Findings, Place, Severity};
use crate::image::fastmap::{Fastmap, FastmapLists, FastmapVolume};
use crate::image::linux::How;
use crate::image::scan::{HeaderFault, PebState};
use crate::media::{INTERNAL_VOLUME_START, LAYOUT_LEBS, LAYOUT_VOLUME_ID, VolType};

impl Findings<'_, '_> {
    pub(super) fn fastmap(&mut self) {
        let scan = self.scan;
        let Some(fastmap) = scan.fastmap() else { return };
        let refused = scan.linux().why.as_ref().filter(|_| scan.linux().how == How::Refused);
        for fault in &fastmap.faults {
            if refused.is_some_and(|why| why.what == fault.what) {
                continue; // `linux` says it
            }
            let (severity, then) = match fault.is_refused {
                true => (Severity::Error, "Linux refuses to attach"),
                false => (Severity::Warning, "Linux does not use it and scans"),
            };
            let what = format!("fastmap: {}; {then}", fault.what);
            self.add(severity, Class::FastmapInvalid, Place::at(fault.peb, fault.offset), what);
        }
        if let Some(lists) = &fastmap.lists {
            self.listed(fastmap, lists);
            self.mappings(fastmap, lists);
        }
    }

    fn disagree(&mut self, severity: Severity, place: Place, what: String) {
        self.add(severity, Class::FastmapDisagrees, place, format!("fastmap: {what}"));
    }

    fn listed(&mut self, fastmap: &Fastmap, lists: &FastmapLists) {
        let scan = self.scan;
        let mut in_list: BTreeMap<Peb, &'static str> =
            fastmap.blocks.iter().map(|&(peb, _)| (peb, "its own blocks")).collect();
        let every = lists.listed().map(|(name, peb, _)| (name, peb)).chain(lists.pooled());
        for (name, peb) in every {
            if peb.at() >= scan.pebs().len() {
                let what = format!("PEB {peb} in {name}, expected one of the dump's {}", scan.pebs().len());
                self.disagree(Severity::Error, Place::default(), what);
                continue;
            }
            if let Some(other) = in_list.insert(peb, name) {
                let what = format!("PEB is in {name} and in {other}");
                self.disagree(Severity::Error, Place::at(peb, 0), what);
            }
        }
        for (peb, state) in scan.pebs().iter().enumerate() {
            let peb = Peb(peb as u32);
            if !matches!(state, PebState::Bad(_)) && !in_list.contains_key(&peb) {
                let what = format!("{} PEB is in no list", state.name());
                self.disagree(Severity::Error, Place::at(peb, 0), what);
            }
        }
        let (found, counted) = (lists.hdr.bad, scan.counts().bad);
        if found != counted {
            self.disagree(Severity::Warning, Place::default(), format!("{found} bad PEBs, found {counted}"));
        }
        for (name, peb, ec) in lists.listed() {
            let Some(state) = scan.pebs().get(peb.at()) else { continue };
            let vid_at = scan.dump().geometry().vid_hdr_offset;
            if let PebState::Bad(_) = state {
                self.disagree(Severity::Error, Place::at(peb, 0), format!("bad PEB in the list of {name} ones"));
            }
            if let (PebState::Used { vid, .. }, "free") = (state, name) {
                let what = format!("PEB is free, and holds LEB {}:{}", vid.vol_id, vid.lnum);
                self.disagree(Severity::Error, Place::at(peb, vid_at), what);
            }
            let Some(header) = state.ec() else { continue };
            match header.ec.cmp(&u64::from(ec.0)) {
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    let what = format!("erase counter {ec}, the header has {}: erased since", header.ec);
                    self.disagree(Severity::Note, Place::at(peb, 8), what);
                }
                std::cmp::Ordering::Less => {
                    let what = format!("erase counter {ec}, the header has {}, which is less", header.ec);
                    self.disagree(Severity::Error, Place::at(peb, 8), what);
                }
            }
        }
    }

    fn mappings(&mut self, fastmap: &Fastmap, lists: &FastmapLists) {
        let scan = self.scan;
        let vid_at = scan.dump().geometry().vid_hdr_offset;
        let pooled: BTreeMap<Peb, &'static str> = lists.pooled().map(|(name, peb)| (peb, name)).collect();
        let erased_later: BTreeSet<Peb> = lists.erase.iter().map(|&(peb, _)| peb).collect();
        let mut mapped: BTreeMap<(VolId, u32), Peb> = BTreeMap::new();
        for volume in &lists.volumes {
            self.volume_header(volume);
            for (lnum, peb) in volume.mapped() {
                mapped.insert((volume.id(), lnum.0), peb);
                let leb = format!("LEB {}:{lnum} in PEB {peb}", volume.id());
                match scan.pebs().get(peb.at()) {
                    None => self.disagree(
                        Severity::Error,
                        Place::volume(volume.id()),
                        format!("{leb}, expected one of the dump's {}", scan.pebs().len()),
                    ),
                    Some(PebState::Used { vid, .. }) if (VolId(vid.vol_id), vid.lnum) == (volume.id(), lnum.0) => {}
                    Some(PebState::Used { vid, .. }) => self.disagree(
                        Severity::Error,
                        Place::at(peb, vid_at).of(volume.id()),
                        format!("{leb}, which holds LEB {}:{}", vid.vol_id, vid.lnum),
                    ),
                    Some(PebState::Free { .. } | PebState::Erased) => self.disagree(
                        Severity::Note,
                        Place::at(peb, vid_at).of(volume.id()),
                        format!("{leb}, which is erased: unmapped since"),
                    ),
                    // Linux looks at the VID header before it first reads the LEB, and unmaps it.
                    Some(PebState::CorruptEc { fault, vid, is_half_erased })
                        if *is_half_erased || vid.is_none() || *fault == HeaderFault::Erased =>
                    {
                        let left = match () {
                            () if *is_half_erased => "both headers are broken",
                            () if vid.is_none() => "there is no VID header",
                            () => "there is no EC header, and the VID header is broken",
                        };
                        self.disagree(
                            Severity::Warning,
                            Place::at(peb, vid_at).of(volume.id()),
                            format!("{leb}, where {left}, as if an erasure had lost power: unmapped since"),
                        );
                    }
                    Some(state) => self.disagree(
                        Severity::Error,
                        Place::at(peb, vid_at).of(volume.id()),
                        format!("{leb}, which is {}", state.name()),
                    ),
                }
            }
        }
        for (&(volume, lnum), leb) in scan.lebs() {
            let is_ours = volume.0 < INTERNAL_VOLUME_START || volume.0 == LAYOUT_VOLUME_ID;
            if !is_ours || leb.vid.sqnum > fastmap.sqnum && pooled.contains_key(&leb.peb) {
                continue;
            }
            match mapped.get(&(volume, lnum.0)) {
                Some(&peb) if peb == leb.peb => {}
                found => {
                    let found = found.map_or("unmapped".to_owned(), |peb| format!("in PEB {peb}"));
                    let (severity, why) = match () {
                        () if erased_later.contains(&leb.peb) => (Severity::Note, ", which waits to be erased"),
                        () if pooled.contains_key(&leb.peb) => (Severity::Note, ", in a pool"),
                        () => (Severity::Error, ""),
                    };
                    let what = format!("LEB {volume}:{lnum} is {found}, and PEB {} holds it{why}", leb.peb);
                    self.disagree(severity, Place::at(leb.peb, vid_at).of(volume), what);
                }
            }
        }
    }

    fn volume_header(&mut self, volume: &FastmapVolume) {
        let scan = self.scan;
        let id = volume.id();
        if id.0 == LAYOUT_VOLUME_ID {
            if volume.eba.len() != LAYOUT_LEBS as usize {
                let what = format!("{} LEBs of the layout volume, expected {LAYOUT_LEBS}", volume.eba.len());
                self.disagree(Severity::Error, Place::volume(id), what);
            }
            return;
        }
        let Some(record) = scan.vtbl().records.get(&id.0) else {
            self.disagree(Severity::Error, Place::volume(id), format!("volume {id} is not in the volume table"));
            return;
        };
        // An invalid type was reported as a fault already.
        let vol_type = VolType::decode_in_fastmap(volume.hdr.vol_type).unwrap_or(record.vol_type);
        let said = (vol_type.name(), volume.hdr.data_pad, volume.eba.len() as u64);
        let expected = (record.vol_type.name(), record.data_pad, u64::from(record.reserved_pebs));
        if said != expected {
            let what = format!(
                "volume {id} is {}, data_pad {}, {} LEBs, expected {}, {}, {} as in the volume table",
                said.0, said.1, said.2, expected.0, expected.1, expected.2
            );
            self.disagree(Severity::Error, Place::volume(id), what);
        }
    }
}
