//! Volumes as the load of raw flash: does on a UBI device what `workload::volumes` says that their users do.

use std::collections::BTreeSet;

use nand::{Array, Store};
use sim::seam::{Flash, FlashError, LebError, LebVolume};
use sim::{Cx, Ns, Seed, VolId};
use ubi::media::VolType;
use ubi::{Stats, Ubi, UbiError, VolumeRequest, VolumeSize};
use workload::volumes::{Lebs, Limits, Op, Pattern, Volumes};

use super::flash::{Done, FlashRunError, Recorder, Rig, detached, latency};
use super::thread::Thread;
use crate::measure::outcome::flash::{Latency, VolumeFigures, VolumesOutcome};
use crate::schema::Experiment;
use crate::schema::limits::{DAYS_PER_YEAR, SECONDS_PER_DAY};
use crate::subject::RawFlash;

/// Longest run in years: 64 bits of nanoseconds hold little more.
const LONGEST_YEARS: f64 = 500.0;

/// A device, and the users of its volumes.
pub(super) struct Users<S> {
    device: Ubi<Array<S>>,
    load: Volumes,
    vol_ids: Vec<VolId>,
    figures: Vec<VolumeFigures>,
    /// Time of each volume's steps that completed no write yet.
    pending: Vec<Ns>,
    started: Ns,
    until: Ns,
    /// Key of the condition that `until` is.
    until_key: &'static str,
    most_bytes: u64,
    done: Done,
    /// How much later than its time the last step began.
    behind: Ns,
    buffer: Vec<u8>,
    /// LEBs that could not be read, with their volume.
    lost: BTreeSet<(usize, u32)>,
}

impl<S: Store> Users<S> {
    /// Makes the volumes and brings them into the state in which the load begins.
    /// Errors: those of the device, with the volume.
    pub fn fill(
        experiment: &Experiment,
        flash: &RawFlash,
        device: Ubi<Array<S>>,
        cx: &mut Cx,
    ) -> Result<Users<S>, FlashRunError> {
        let shape = Lebs { leb_bytes: flash.layout.leb_bytes, min_io_bytes: flash.layout.min_io_bytes };
        let load = Volumes::new(&flash.volumes, shape, Seed(experiment.seed));
        let longest = LONGEST_YEARS * DAYS_PER_YEAR * SECONDS_PER_DAY;
        let (seconds, until_key) = experiment.stop.first_time().unwrap_or((longest, "years"));
        let mut users = Users {
            device,
            vol_ids: Vec::new(),
            figures: Vec::new(),
            pending: vec![Ns::ZERO; flash.volumes.len()],
            started: Ns::ZERO,
            until: Ns((seconds.min(longest) * 1e9) as u64),
            until_key,
            most_bytes: experiment.stop.host_bytes.unwrap_or(u64::MAX),
            done: Done { writes: 0, host_bytes: 0 },
            behind: Ns::ZERO,
            buffer: Vec::new(),
            lost: BTreeSet::new(),
            load,
        };
        for volume in &flash.volumes {
            let (vol_type, pattern) = match volume.pattern {
                Pattern::Append { .. } => (VolType::Dynamic, "append"),
                Pattern::Rewrite { .. } => (VolType::Dynamic, "rewrite"),
                Pattern::Image { .. } => (VolType::Static, "image"),
                Pattern::Static { .. } => (VolType::Static, "static"),
            };
            let request =
                VolumeRequest { vol_type, ..VolumeRequest::dynamic(&volume.name, VolumeSize::Lebs(volume.lebs)) };
            let made = users.device.create_volume(cx, &request);
            users.vol_ids.push(made.map_err(|error| FlashRunError::volume(&volume.name, error))?);
            users.figures.push(VolumeFigures {
                name: volume.name.clone(),
                pattern: pattern.to_owned(),
                lebs: volume.lebs,
                ..VolumeFigures::default()
            });
        }
        let fill: Vec<_> = users.load.fill().collect();
        for (volume, op) in fill {
            users.put(cx, volume, op)?;
            users.device.flush(cx)?;
        }
        cx.wait_until(cx.now() + flash.shelf);
        users.started = cx.now();
        Ok(users)
    }

    /// Does an operation on a volume.
    #[inline]
    fn put(&mut self, cx: &mut Cx, volume: usize, op: Op) -> Result<(), FlashRunError> {
        let vol_id = self.vol_ids[volume];
        // Contents that tell volumes and writes apart, and are never those of an erased cell.
        let stamp = self.done.writes << 8 | (volume as u64 & 0x7f);
        let content = |data: &mut [u8]| {
            data.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&stamp.to_le_bytes()[..chunk.len()]));
        };
        let (device, buffer) = (&mut self.device, &mut self.buffer);
        let done = match op {
            Op::Write { lnum, offset, bytes, fresh } => device.volume(vol_id).and_then(|mut volume| {
                if fresh {
                    volume.unmap(cx, lnum)?;
                }
                Ok(volume.write(cx, lnum, offset, Array::<S>::offer(buffer, bytes, content))?)
            }),
            Op::Change { lnum, bytes } => device
                .volume(vol_id)
                .and_then(|mut volume| Ok(volume.change(cx, lnum, Array::<S>::offer(buffer, bytes, content))?)),
            Op::BeginUpdate { bytes } => device.begin_update(cx, vol_id, bytes),
            Op::UpdateLeb { lnum, bytes, of } => {
                device.update_leb(cx, vol_id, lnum, Array::<S>::offer(buffer, bytes, content), of)
            }
            Op::EndUpdate { bytes } => device.end_update(cx, vol_id, bytes),
            Op::Read { lnum, bytes } => device.volume(vol_id).and_then(|mut volume| {
                buffer.resize(bytes as usize, 0);
                Ok(volume.read(cx, lnum, 0, buffer)?)
            }),
        };
        done.map_err(|error| FlashRunError::volume(&self.figures[volume].name, error))
    }
}

impl<S: Store> Rig<S> for Users<S> {
    #[inline(always)]
    fn ubi(&self) -> Option<&Ubi<Array<S>>> {
        Some(&self.device)
    }

    #[inline(always)]
    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<S>>> {
        Some(&mut self.device)
    }

    #[inline(always)]
    fn stats(&self) -> Option<&Stats> {
        Some(self.device.stats())
    }

    #[inline(always)]
    fn array(&self) -> &Array<S> {
        self.device.flash()
    }

    #[inline(always)]
    fn free_blocks(&self) -> u32 {
        self.device.wear().free().len()
    }

    #[inline(always)]
    fn step(&mut self, writer: &mut Cx, recorder: &mut Recorder) -> Result<Option<&'static str>, FlashRunError> {
        let limits = Limits { until: self.until, host_bytes: self.most_bytes - self.done.host_bytes };
        let Some(step) = self.load.next(writer.now() - self.started, limits) else {
            writer.idle_until(self.started + self.until);
            return Ok(Some(self.until_key));
        };
        writer.idle_until(self.started + step.due);
        let began = writer.now();
        self.behind = began - (self.started + step.due);
        let done = self.put(writer, step.volume, step.op);
        writer.file(match step.op {
            Op::Write { .. } => "write",
            Op::Change { .. } => "change a LEB",
            Op::BeginUpdate { .. } | Op::UpdateLeb { .. } | Op::EndUpdate { .. } => "update",
            Op::Read { .. } => "read",
        });
        match (done, step.op) {
            (Err(error), Op::Read { lnum, .. }) if error.is_unreadable() => {
                self.figures[step.volume].lost_lebs += u32::from(self.lost.insert((step.volume, lnum.0)));
            }
            (done, op) => {
                done?;
                if let (false, Op::Write { lnum, .. } | Op::Change { lnum, .. } | Op::UpdateLeb { lnum, .. }) =
                    (self.lost.is_empty(), op)
                {
                    // Written again: it can be lost again.
                    self.lost.remove(&(step.volume, lnum.0));
                }
            }
        }
        let figures = &mut self.figures[step.volume];
        match step.op {
            Op::EndUpdate { .. } => figures.updates += 1,
            Op::Read { bytes, .. } => figures.read_bytes += u64::from(bytes),
            _ => {}
        }
        let pending = &mut self.pending[step.volume];
        *pending += writer.now() - began;
        if step.writes > 0 {
            recorder.writes(std::mem::take(pending), step.writes);
            figures.writes += step.writes;
            figures.host_bytes += step.host_bytes;
            self.done.writes += step.writes;
            self.done.host_bytes += step.host_bytes;
        }
        Ok((self.done.host_bytes >= self.most_bytes).then_some("host_bytes"))
    }

    /// The thread always ends before the next step.
    #[inline]
    fn background(&mut self, thread: &mut Thread, now: Ns) -> Result<(), UbiError> {
        thread.run_out(&mut self.device, now)
    }

    fn done(&self) -> Done {
        self.done
    }

    fn latency(&self, recorder: &Recorder) -> Vec<Latency> {
        vec![latency("write a LEB", &recorder.latency)]
    }

    fn into_array(self, writer: &mut Cx, keeps: bool) -> Result<Array<S>, FlashRunError> {
        detached(self.device, writer, keeps)
    }

    fn volumes(&self) -> Option<VolumesOutcome> {
        Some(VolumesOutcome { behind_ns: self.behind.0, programmed_bytes: Vec::new(), volumes: self.figures.clone() })
    }
}

impl FlashRunError {
    fn volume(name: &str, error: UbiError) -> FlashRunError {
        FlashRunError::Volume { name: name.to_owned(), error }
    }

    /// Whether data could not be read: too many wrong bits, or a checksum that does not match.
    fn is_unreadable(&self) -> bool {
        let of_flash = |error: &FlashError| matches!(error, FlashError::Uncorrectable { .. });
        match self {
            FlashRunError::Volume { error: UbiError::Flash(error), .. } => of_flash(error),
            FlashRunError::Volume { error: UbiError::Leb(LebError::Flash(error)), .. } => of_flash(error),
            FlashRunError::Volume { error: UbiError::Leb(LebError::Corrupt { .. }), .. } => true,
            _ => false,
        }
    }
}
