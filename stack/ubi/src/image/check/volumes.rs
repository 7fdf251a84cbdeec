//! Checks the volume table, and the LEBs against it.

use std::collections::BTreeMap;

use sim::{Lnum, Peb, VolId};

use super::{Class, Findings, Place, Severity};
use crate::image::scan::{Leb, Volume, is_known_internal};
use crate::media::{INTERNAL_VOLUME_START, LAYOUT_LEBS, LAYOUT_VOLUME_ID, VidHdr, VolType, VtblRecord, vtbl_slots};

impl Findings<'_, '_> {
    pub(super) fn volumes(&mut self) {
        self.table();
        self.layout_lebs();
        for volume in self.scan.volumes() {
            match &volume.record {
                Some(record) => self.recorded(&volume, record),
                None => self.orphan(&volume),
            }
            if volume.vol_type == VolType::Static {
                self.static_lebs(&volume);
            }
        }
        self.copies();
    }

    fn table(&mut self) {
        let (vtbl, data_at) = (self.scan.vtbl().clone(), self.scan.dump().geometry().data_offset);
        for (number, copy) in vtbl.copies.iter().enumerate() {
            let Some(peb) = copy.peb else {
                let what = format!("copy {number} of the volume table is missing");
                let severity = if vtbl.from.is_some() { Severity::Warning } else { Severity::Error };
                self.add(severity, Class::VtblCopy, Place::volume(VolId(LAYOUT_VOLUME_ID)), what);
                continue;
            };
            for &(slot, error) in &copy.broken {
                let what = format!("copy {number} of the volume table, record {slot}: {error}");
                let place = Place::at(peb, data_at + slot * VtblRecord::BYTES as u32);
                self.add(Severity::Error, Class::VtblRecord, place.of(VolId(slot)), what);
            }
        }
        if let (true, [Some(first), Some(second)]) = (vtbl.differ, [vtbl.copies[0].peb, vtbl.copies[1].peb]) {
            let at = self.first_difference(first, second);
            let taken = vtbl.from.unwrap_or(0);
            let what = format!(
                "the copies of the volume table (PEBs {first} and {second}) differ: Linux takes copy {taken} and \
                 rewrites the other"
            );
            self.add(Severity::Warning, Class::VtblDiffer, Place::at(second, data_at + at), what);
        }
        if vtbl.from.is_none() {
            let what = match vtbl.records.len() {
                0 => "no copy of the volume table is whole: volume names and sizes are lost".to_owned(),
                n => format!("no copy of the volume table is whole; {n} records were put together from both"),
            };
            self.add(Severity::Error, Class::VtblLost, Place::volume(VolId(LAYOUT_VOLUME_ID)), what);
        }
        self.records(&vtbl.records);
    }

    fn first_difference(&self, first: Peb, second: Peb) -> u32 {
        let (first, second) = (self.scan.data(first), self.scan.data(second));
        first.iter().zip(second.iter()).position(|(a, b)| a != b).unwrap_or(0) as u32
    }

    fn records(&mut self, records: &BTreeMap<u32, VtblRecord>) {
        let place = |id: u32| Place::volume(VolId(id));
        let mut names: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut autoresize = None;
        for (&id, record) in records {
            if let Some(first) = names.insert(&record.name, id) {
                let name = String::from_utf8_lossy(&record.name).into_owned();
                let what = format!("volumes {first} and {id} are both called {name:?}: Linux refuses the table");
                self.add(Severity::Error, Class::VolumeName, place(id), what);
            }
            if record.flags & VtblRecord::AUTORESIZE != 0
                && let Some(first) = autoresize.replace(id)
            {
                let what = format!("volumes {first} and {id} both ask to be resized, expected one at most");
                self.add(Severity::Error, Class::VolumeFlags, place(id), what);
            }
            if record.flags & !(VtblRecord::AUTORESIZE | VtblRecord::SKIP_CHECK) != 0 {
                let what =
                    format!("flags {:#04x}, expected only 0x01 (autoresize) and 0x02 (skip-check)", record.flags);
                self.add(Severity::Warning, Class::VolumeFlags, place(id), what);
            }
            if record.upd_marker {
                let what = "an update was interrupted: the contents are void until it is done again".to_owned();
                self.add(Severity::Error, Class::UpdateMarker, place(id), what);
            }
        }
        let reserved: u64 = records.values().map(|record| u64::from(record.reserved_pebs)).sum();
        let good = u64::from(self.scan.dump().geometry().pebs - self.scan.counts().bad);
        let needed = reserved + u64::from(LAYOUT_LEBS);
        if needed > good && !records.is_empty() {
            let what = format!("volumes and their table reserve {needed} PEBs, and {good} are good");
            if self.scan.is_never_attached() {
                let what = format!("{what}: the image, never attached, is for a larger flash");
                self.add(Severity::Note, Class::ReservedPebs, Place::default(), what);
            } else {
                self.add(Severity::Error, Class::ReservedPebs, Place::default(), what);
            }
        }
    }

    fn layout_lebs(&mut self) {
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let scan = self.scan;
        for (lnum, leb) in scan.lebs_of(VolId(LAYOUT_VOLUME_ID)).filter(|(lnum, _)| lnum.0 >= LAYOUT_LEBS) {
            let what = format!("LEB {lnum} of the layout volume, expected 0 or 1");
            let place = Place::at(leb.peb, vid_at + 12).of(VolId(LAYOUT_VOLUME_ID));
            self.add(Severity::Error, Class::LebOutOfRange, place, what);
        }
    }

    fn recorded(&mut self, volume: &Volume, record: &VtblRecord) {
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let scan = self.scan;
        for (lnum, Leb { peb, vid, .. }) in scan.lebs_of(volume.id) {
            let mut differs = |offset: u32, what: String| {
                self.add(Severity::Error, Class::VidFields, Place::at(*peb, vid_at + offset).of(volume.id), what);
            };
            if vid.vol_type != record.vol_type {
                let (found, expected) = (vid.vol_type.name(), record.vol_type.name());
                differs(5, format!("LEB {lnum} is of a {found} volume, expected {expected} as in the volume table"));
            }
            if vid.data_pad != record.data_pad {
                let (found, expected) = (vid.data_pad, record.data_pad);
                differs(28, format!("LEB {lnum} has data_pad {found}, expected {expected} as in the volume table"));
            }
            if lnum.0 >= record.reserved_pebs {
                let what = format!("LEB {lnum}, expected one below {}, what the volume reserves", record.reserved_pebs);
                let place = Place::at(*peb, vid_at + 12).of(volume.id);
                self.add(Severity::Error, Class::LebOutOfRange, place, what);
            }
        }
        let usable_lebs = record.reserved_pebs.min(scan.believable_lebs());
        if usable_lebs < record.reserved_pebs && !scan.is_never_attached() {
            let what = format!("reserves {} LEBs, more than this flash could have", record.reserved_pebs);
            self.add(Severity::Error, Class::ReservedPebs, Place::volume(volume.id), what);
        }
    }

    fn orphan(&mut self, volume: &Volume) {
        let slots = vtbl_slots(self.scan.dump().geometry().leb_bytes());
        let lebs = self.scan.lebs_of(volume.id).count();
        let peb = self.scan.lebs_of(volume.id).next().map(|(_, leb)| leb.peb);
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let place = peb.map_or(Place::default(), |peb| Place::at(peb, vid_at + 8)).of(volume.id);
        let (severity, why) = match self.scan.vtbl().from {
            _ if volume.id.0 >= slots => (Severity::Error, "no volume table has such a number"),
            Some(_) => (Severity::Warning, "a removal was interrupted, and Linux erases them"),
            None => (Severity::Warning, "the volume table is not whole"),
        };
        let what = format!("{lebs} LEBs of volume {}, which the table does not have: {why}", volume.id);
        self.add(severity, Class::OrphanVolume, place, what);
    }

    fn static_lebs(&mut self, volume: &Volume) {
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let scan = self.scan;
        let Some((_, first)) = scan.lebs_of(volume.id).next() else {
            return;
        };
        let used_ebs = first.vid.used_ebs;
        let mut next = 0;
        let mut missing: Vec<(u32, u32)> = Vec::new();
        for (lnum, Leb { peb, vid, .. }) in scan.lebs_of(volume.id) {
            if lnum.0 > next {
                missing.push((next, lnum.0 - 1));
            }
            next = lnum.0.saturating_add(1);
            let at = |offset: u32| Place::at(*peb, vid_at + offset).of(volume.id);
            if vid.used_ebs != used_ebs {
                let what = format!("LEB {lnum} has used_ebs {}, expected {used_ebs} as in the first LEB", vid.used_ebs);
                self.add(Severity::Error, Class::StaticUsedEbs, at(24), what);
            }
            let is_last = lnum.0.checked_add(1) == Some(used_ebs);
            if !is_last && vid.data_size != volume.usable_leb_bytes {
                let (found, expected) = (vid.data_size, volume.usable_leb_bytes);
                let what = format!("LEB {lnum} has data_size {found}, expected {expected} in all but the last");
                self.add(Severity::Error, Class::VidFields, at(20), what);
            }
            self.data_crc(volume.id, lnum, *peb, vid);
        }
        if next < used_ebs {
            missing.push((next, used_ebs - 1));
        }
        for (from, to) in missing {
            let which = if from == to { format!("LEB {from} is") } else { format!("LEBs {from} to {to} are") };
            let what = format!("{which} missing, expected all {used_ebs} LEBs of a static volume");
            self.add(Severity::Error, Class::StaticLebMissing, Place::volume(volume.id), what);
        }
    }

    /// Checks copies in dynamic volumes. Later writes may go beyond `data_size`. A torn copy loses to its original; one
    /// that is used although its checksum is wrong has no original left.
    fn copies(&mut self) {
        let scan = self.scan;
        for (&(volume, lnum), leb) in scan.lebs() {
            let is_static = leb.vid.vol_type == VolType::Static && volume.0 < INTERNAL_VOLUME_START;
            if leb.vid.copy_flag
                && !is_static
                && !is_known_internal(volume)
                && !scan.data_crc_matches(leb.peb, &leb.vid)
            {
                self.data_crc(volume, lnum, leb.peb, &leb.vid);
            }
        }
    }

    fn data_crc(&mut self, volume: VolId, lnum: Lnum, peb: Peb, vid: &VidHdr) {
        if !self.scan.data_crc_matches(peb, vid) {
            let what = format!("data of LEB {lnum} do not match data_crc {:#010x}", vid.data_crc);
            let data_at = self.scan.dump().geometry().data_offset;
            self.add(Severity::Error, Class::DataCrc, Place::at(peb, data_at).of(volume), what);
        }
    }
}
