//! nandlab's UBI at work on a flash: attaches, reports, carries out a script, and leaves it.

use nand::{Array, ArrayConfig, Bytes, PowerCut};
use sim::seam::{FlashError, Geometry, LebError, LebVolume, Payload};
use sim::{Cx, Lnum, VolId};
use ubi::attach::{AttachedBy, PebFate, attach_by_fastmap, attach_by_scan};
use ubi::layout::Layout;
use ubi::media::VolType;
use ubi::record::{Op as Call, What};
use ubi::{Config, Policy, Ubi, UbiError, VolumeRequest, VolumeSize};

use super::script::{Op, text};

/// How a flash was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Fastmap,
    /// Because there is no fastmap, or because it cannot be used.
    Scan,
    Refused,
}

/// How a flash is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Detached.
    Clean,
    /// Attached, with nothing to do.
    Idle,
}

/// What an attach found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub how: How,
    pub is_read_only: bool,
    /// Volumes in the form of `guest/jobs/ubi.py`.
    pub volumes: String,
    /// Erase counter of each PEB, before the attach erased any.
    pub counters: Vec<u32>,
    /// Of each PEB, whether it waits for an erasure.
    pub erase: Vec<bool>,
    /// Notes of the attach, or why it was refused.
    pub said: String,
}

/// Attaches the flash in an image, and leaves the image as it is.
pub fn look(geometry: Geometry, image: &[u8]) -> Seen {
    let cx = &mut Cx::new();
    let config = Config::linux(Policy::LINUX_6_7);
    let mut ubi = match Ubi::attach(load(geometry, image), cx, &config) {
        Ok(ubi) => ubi,
        Err(failure) => {
            let (how, counters, said) = (How::Refused, Vec::new(), failure.error.to_string());
            return Seen { how, is_read_only: false, volumes: String::new(), counters, erase: Vec::new(), said };
        }
    };
    let layout = Layout::new(&geometry, None).expect("it attached");
    let mut array = load(geometry, image);
    let (how, info) = match ubi.attached_by() {
        AttachedBy::Fastmap => (How::Fastmap, attach_by_fastmap(&mut array, cx, &layout).ok()),
        AttachedBy::Scan => (How::Scan, attach_by_scan(&mut array, cx, &layout).ok()),
    };
    let info = info.expect("it attached");
    let counters = info.erase_counts.iter().map(|ec| ec.0).collect();
    let waits = |fate: &PebFate| matches!(fate, PebFate::Erase { .. } | PebFate::OldFastmap { .. });
    let erase = info.fates.iter().map(waits).collect();
    let (is_read_only, said) = (ubi.read_only().is_some(), ubi.notes().join("; "));
    Seen { how, is_read_only, volumes: volumes(&mut ubi), counters, erase, said }
}

/// Attaches the flash in an image, carries out the script, and leaves it. Returns the new image.
/// Errors: the first operation that failed.
pub fn turn(geometry: Geometry, policy: Policy, image: &[u8], script: &[Op], end: End) -> Result<Vec<u8>, String> {
    let cx = &mut Cx::new();
    let config = Config::linux(policy);
    let mut ubi = Ubi::attach(load(geometry, image), cx, &config).map_err(|failure| failure.to_string())?;
    for op in script {
        perform(&mut ubi, cx, op).map_err(|error| format!("{op}: {error}"))?;
        ubi.check();
    }
    Ok(image_of(&leave(ubi, cx, end).map_err(|error| error.to_string())?))
}

/// As [`turn`]. Returns the calls but moves, as a log of Linux's has them: `call,volume,leb,offset,bytes`.
/// Errors: as [`turn`].
pub fn calls(geometry: Geometry, policy: Policy, image: &[u8], script: &[Op]) -> Result<Vec<String>, String> {
    let cx = &mut Cx::new();
    let config = Config::linux(policy);
    let mut ubi = Ubi::attach(load(geometry, image), cx, &config).map_err(|failure| failure.to_string())?;
    ubi.set_record(Some(Vec::new()));
    for op in script {
        perform(&mut ubi, cx, op).map_err(|error| format!("{op}: {error}"))?;
    }
    let calls = ubi.recorded().filter_map(|event| {
        let What::Call { op, vol_id, lnum, offset, len } = event.what else { return None };
        let name = match op {
            Call::Map => "map",
            Call::Unmap => "unmap",
            Call::Write => "write",
            Call::WriteStatic => "write-static",
            Call::Change => "change",
            Call::Move => return None,
        };
        Some(format!("{name},{vol_id},{lnum},{offset},{len}"))
    });
    Ok(calls.collect())
}

/// As [`turn`] on a blank flash, with a power cut. Returns the number of programs and erases, and what is left.
pub fn cut(geometry: Geometry, policy: Policy, script: &[Op], cut: Option<PowerCut>) -> (u64, Vec<u8>) {
    let cx = &mut Cx::new();
    let mut array = load(geometry, &vec![0xff; geometry.bytes() as usize]);
    array.set_power_cut(cut);
    let array = match Ubi::attach(array, cx, &Config::linux(policy)) {
        Err(failure) => failure.flash,
        Ok(mut ubi) => match script.iter().try_for_each(|op| perform(&mut ubi, cx, op)) {
            Ok(()) => ubi.detach(cx).0,
            Err(UbiError::Flash(FlashError::PowerLost) | UbiError::Leb(LebError::Flash(FlashError::PowerLost))) => {
                ubi.into_flash()
            }
            Err(error) => panic!("{error}"),
        },
    };
    assert_eq!(array.is_powered(), cut.is_none(), "the cut trips");
    (array.ops(), image_of(&array))
}

fn load(geometry: Geometry, image: &[u8]) -> Array<Bytes> {
    Array::load(ArrayConfig::plain(geometry), image, false).expect("of the right length")
}

fn image_of(array: &Array<Bytes>) -> Vec<u8> {
    let mut image = Vec::new();
    array.dump(false, &mut image).expect("memory does not fail");
    image
}

fn leave(ubi: Ubi<Array<Bytes>>, cx: &mut Cx, end: End) -> Result<Array<Bytes>, UbiError> {
    match end {
        End::Idle => Ok(ubi.into_flash()),
        End::Clean => {
            let (array, done) = ubi.detach(cx);
            done.map(|()| array)
        }
    }
}

fn perform(ubi: &mut Ubi<Array<Bytes>>, cx: &mut Cx, op: &Op) -> Result<(), UbiError> {
    match op {
        Op::Create { id, name, is_static, lebs, align, skip_check } => {
            let request = VolumeRequest {
                vol_id: Some(VolId(*id)),
                name: name.clone(),
                vol_type: if *is_static { VolType::Static } else { VolType::Dynamic },
                size: VolumeSize::Lebs(*lebs),
                alignment: *align,
                skip_check: *skip_check,
            };
            ubi.create_volume(cx, &request)?;
        }
        Op::Remove { id } => ubi.remove_volume(cx, VolId(*id))?,
        Op::Resize { id, lebs } => ubi.resize_volume(cx, VolId(*id), *lebs)?,
        Op::Rename { names } => {
            let names: Vec<(VolId, &str)> = names.iter().map(|(id, name)| (VolId(*id), name.as_str())).collect();
            ubi.rename_volumes(cx, &names)?;
        }
        Op::Update { id, tag, bytes } => ubi.update_volume(cx, VolId(*id), &text(*tag, *bytes))?,
        Op::Change { id, lnum, tag, bytes } => {
            ubi.volume(VolId(*id))?.change(cx, Lnum(*lnum), Payload::Bytes(&text(*tag, *bytes)))?;
        }
        Op::Write { id, lnum, offset, tag, bytes } => {
            ubi.volume(VolId(*id))?.write(cx, Lnum(*lnum), *offset, Payload::Bytes(&text(*tag, *bytes)))?;
        }
        Op::Map { id, lnum } => ubi.volume(VolId(*id))?.map(cx, Lnum(*lnum))?,
        Op::Unmap { id, lnum } => ubi.volume(VolId(*id))?.unmap(cx, Lnum(*lnum))?,
        Op::Settle => ubi.flush(cx)?,
    }
    Ok(())
}

/// What users can read. Linux gives no contents of a volume whose update was interrupted.
fn volumes(ubi: &mut Ubi<Array<Bytes>>) -> String {
    let cx = &mut Cx::new();
    let infos: Vec<_> = ubi.volume_infos().collect();
    let mut found = Vec::new();
    for info in infos {
        let mut bytes = vec![0; info.data_bytes as usize];
        let mut failed = info.record.upd_marker.then(|| "EBADF".to_owned());
        let mut volume = ubi.volume(info.vol_id).expect("it exists");
        for (lnum, leb) in (0..).map(Lnum).zip(bytes.chunks_mut(info.leb_bytes as usize)) {
            if let Err(error) = volume.read(cx, lnum, 0, leb) {
                failed.get_or_insert(format!("{error:?}"));
            }
        }
        let contents = failed.unwrap_or_else(|| format!("{:08x}", !ubi::media::crc(&bytes)));
        let (id, kind, name) = (info.vol_id, info.record.vol_type.name(), String::from_utf8_lossy(&info.record.name));
        found.push(format!("{id}:{name}:{kind}:{}:{}:{contents}", info.record.reserved_pebs, info.data_bytes));
    }
    found.join(" ")
}
