//! What Linux does with the flash: whether it refuses it, and where it reads something else than what is newest.

use sim::{Lnum, Peb};

use super::{Class, Findings, Place, Severity};
use crate::image::linux::{How, LebRead, LinuxVolume};
use crate::media::VolType;

impl Findings<'_, '_> {
    pub(super) fn linux(&mut self) {
        let linux = self.scan.linux();
        if let (How::Refused, Some(why)) = (linux.how, &linux.why) {
            let place = Place { peb: why.peb, offset: why.offset, volume: None };
            self.add(Severity::Error, Class::LinuxRefuses, place, format!("Linux refuses to attach: {}", why.what));
        }
        if linux.how == How::Fastmap {
            linux.volumes.iter().for_each(|volume| self.reads(volume));
        }
    }

    /// Compares what Linux reads of a volume, after an attach by fastmap, with what a scan finds.
    fn reads(&mut self, volume: &LinuxVolume) {
        let scan = self.scan;
        let place = Place::volume(volume.id);
        if volume.record.vol_type == VolType::Static && !volume.record.upd_marker {
            let ours = scan.volume(volume.id).data_bytes as i64;
            if volume.misses_lebs {
                let what = format!(
                    "Linux attaches by the fastmap, in which LEBs of static volume {} are missing: it calls the volume \
                     corrupted, and reads nothing of its {ours} bytes",
                    volume.id
                );
                self.add(Severity::Error, Class::LinuxReads, place, what);
            } else if volume.data_bytes != ours {
                let what = format!(
                    "Linux attaches by the fastmap, which says that volume {} has {} bytes; its headers say {ours}",
                    volume.id, volume.data_bytes
                );
                self.add(Severity::Error, Class::LinuxReads, place, what);
            }
        }
        self.stale(volume);
    }

    fn stale(&mut self, volume: &LinuxVolume) {
        let scan = self.scan;
        let (linux, dump) = (scan.linux(), scan.dump());
        let usable = (dump.geometry().leb_bytes() - volume.record.data_pad) as usize;
        let mut bytes = 0;
        let mut first: Option<(Lnum, Peb, Peb)> = None;
        for &lnum in volume.lebs.keys() {
            match linux.read(dump, volume, lnum) {
                LebRead::Erased => {}
                LebRead::Fails(peb) => {
                    let what = format!(
                        "Linux attaches by the fastmap, which says that PEB {peb} holds LEB {}:{lnum}; it does not: \
                         reading the LEB fails and makes the device read-only",
                        volume.id
                    );
                    self.add(Severity::Error, Class::LinuxReads, Place::volume(volume.id), what);
                }
                LebRead::Data(peb) => {
                    let Some(newest) = scan.lebs().get(&(volume.id, lnum)).filter(|leb| leb.peb != peb) else {
                        continue;
                    };
                    let (theirs, ours) = (scan.data(peb), scan.data(newest.peb));
                    bytes += theirs.iter().zip(ours.iter()).take(usable).filter(|(a, b)| a != b).count();
                    first.get_or_insert((lnum, peb, newest.peb));
                }
            }
        }
        if let Some((lnum, peb, newest)) = first {
            let what = format!(
                "Linux would read {bytes} stale bytes here: it attaches by the fastmap, and takes LEB {}:{lnum} from \
                 PEB {peb}; the newest is in PEB {newest}",
                volume.id
            );
            let place = Place::at(peb, dump.geometry().data_offset).of(volume.id);
            self.add(Severity::Error, Class::LinuxReads, place, what);
        }
    }
}
