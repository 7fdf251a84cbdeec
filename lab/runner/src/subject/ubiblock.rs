//! A volume of UBI as a block device, on raw flash.
//!
//! The flash is formatted and the volume made before virtual time 0, which erases nothing: what a run erases is what its
//! load costs.

use sim::seam::{Flash, LebError, LebVolume, Payload, SECTOR_BYTES};
use sim::{Cx, Lnum, Ns};
use ubi::block::{Backing, BlockConfig, Form, OnUbi, UbiBlock};
use ubi::{Ubi, UbiError, VolumeRequest, VolumeSize};

use super::RawFlash;
use super::block::{BlockFacts, BlockKind};
use super::flash::attach_blank;
use crate::report::grouped;
use crate::schema::load::PreconditionKind;
use crate::schema::ubiblock as words;
use crate::schema::{Experiment, ExperimentError, word, wrong};

/// Name of the volume.
const VOLUME: &str = "block";

/// A ubiblock, ready to be made.
#[derive(Clone, Debug)]
pub struct Ubiblock {
    /// The flash and UBI.
    pub flash: RawFlash,
    /// Parameters of the block device.
    pub config: BlockConfig,
    /// LEBs of the volume.
    pub lebs: u32,
    /// LEBs that are written before the load begins.
    pub filled: u32,
}

/// A ubiblock on a flash.
pub type OnFlash<F> = UbiBlock<OnUbi<F>>;

impl Ubiblock {
    /// Builds a ubiblock on a flash. Errors: the first key whose value is impossible.
    pub(super) fn build(
        section: &words::Ubiblock,
        experiment: &Experiment,
        flash: RawFlash,
    ) -> Result<Ubiblock, ExperimentError> {
        let config = BlockConfig {
            form: match section.form {
                words::Form::ReadOnly => Form::ReadOnly,
                words::Form::V2Like => Form::V2Like,
                words::Form::UnmapFirst => Form::UnmapFirst,
                words::Form::Atomic => Form::Atomic,
            },
            cache_lebs: section.cache_lebs,
            idle: (section.idle_s > 0.0).then(|| Ns((section.idle_s * 1e9).round() as u64)),
            discard: section.discard,
            depth: section.depth,
            per_request: Ns((section.request_us * 1e3).round() as u64),
        };
        let device = attach_blank(&flash.array, &flash.ubi)?;
        let (free, leb_bytes) = (device.available_pebs(), u64::from(device.layout().leb_bytes));
        let wanted = section.size_bytes.div_ceil(leb_bytes);
        if free == 0 {
            let expected = "more: UBI needs every one for itself and for bad blocks";
            return wrong("nand.pebs", flash.array.geometry.pebs, expected);
        }
        if wanted > u64::from(free) {
            let most = grouped(u64::from(free) * leb_bytes);
            let found = format!("{} ({} LEBs)", grouped(section.size_bytes), grouped(wanted));
            return wrong(
                "ubiblock.size_bytes",
                found,
                format!("at most {most}: {} LEBs are free", grouped(free.into())),
            );
        }
        let lebs = if wanted == 0 { free } else { wanted as u32 };
        if config.form != Form::ReadOnly && config.cache_lebs > lebs {
            return wrong("ubiblock.cache_lebs", config.cache_lebs, format!("at most the {lebs} LEBs of the volume"));
        }
        let precondition = experiment.precondition.clone().unwrap_or_default();
        let filled = match precondition.kind {
            PreconditionKind::None => 0,
            PreconditionKind::Sequential => (f64::from(lebs) * precondition.fraction).round() as u32,
            PreconditionKind::Random | PreconditionKind::Steady => {
                let expected = "`none`, or `sequential`: each LEB written once. UBI maps whole LEBs, so a state of its \
                                pages, as a drive has, does not exist";
                return wrong("precondition.kind", word(&precondition.kind), expected);
            }
        };
        Ok(Ubiblock { flash, config, lebs, filled })
    }

    /// Capacity in bytes: whole sectors.
    pub fn bytes(&self) -> u64 {
        let bytes = u64::from(self.lebs) * u64::from(self.flash.layout.leb_bytes);
        bytes - bytes % u64::from(SECTOR_BYTES)
    }

    /// What its host knows of it.
    pub fn facts(&self) -> BlockFacts {
        let geometry = self.flash.array.geometry;
        let read_only = self.config.form == Form::ReadOnly;
        BlockFacts {
            kind: BlockKind::Ubiblock,
            bytes: self.bytes(),
            raw_bytes: geometry.bytes(),
            page_bytes: geometry.page_bytes,
            block_bytes: geometry.peb_bytes.into(),
            queues: 1,
            trims: self.config.discard && !read_only,
            caches: !read_only,
            fua: !read_only,
            read_only: read_only.then_some("it was opened for reading only"),
        }
    }

    /// Formats a flash, makes the volume and opens it at a time after everything before the load: the volume has
    /// `image` if there is one, else its first LEBs are written with zeroes as the experiment asks.
    /// Errors: faults of the flash.
    pub fn make<F: Flash>(&self, flash: F, image: Option<&[u8]>) -> Result<OnFlash<F>, UbiError> {
        let mut cx = Cx::new();
        let mut ubi = match Ubi::attach(flash, &mut cx, &self.flash.ubi) {
            Ok(ubi) => ubi,
            Err(failure) => unreachable!("a blank flash of this configuration was attached before: {}", failure.error),
        };
        ubi.flush(&mut cx)?;
        let vol_id = ubi.create_volume(&mut cx, &VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(self.lebs)))?;
        let mut volume = OnUbi::open(ubi, &mut cx, vol_id).map_err(|failure| failure.error)?;
        self.fill(&mut volume, &mut cx, image)?;
        while volume.background_works() > 0 {
            volume.step_background(&mut cx)?;
        }
        cx.wait_until(cx.now() + self.flash.shelf);
        let device = UbiBlock::new(volume, cx.now(), self.config.clone());
        Ok(device.unwrap_or_else(|error| unreachable!("the subject was built with this configuration: {error}")))
    }

    /// Writes what the volume holds before the load. Of an image, LEBs of 0xFF stay unmapped, which reads the same.
    fn fill<F: Flash>(&self, volume: &mut OnUbi<F>, cx: &mut Cx, image: Option<&[u8]>) -> Result<(), LebError> {
        let leb_bytes = self.flash.layout.leb_bytes;
        let mut leb = vec![0; if F::KEEPS_BYTES { leb_bytes as usize } else { 0 }];
        let Some(image) = image else {
            let data = if F::KEEPS_BYTES { Payload::Bytes(&leb) } else { Payload::Length(leb_bytes) };
            return (0..self.filled).try_for_each(|lnum| volume.write(cx, Lnum(lnum), 0, data));
        };
        for (lnum, piece) in (0..).zip(image.chunks(leb_bytes as usize)) {
            if piece.iter().all(|&byte| byte == 0xff) {
                continue;
            }
            let data = if F::KEEPS_BYTES {
                leb[..piece.len()].copy_from_slice(piece);
                leb[piece.len()..].fill(0xff);
                Payload::Bytes(&leb)
            } else {
                Payload::Length(leb_bytes)
            };
            volume.write(cx, Lnum(lnum), 0, data)?;
        }
        Ok(())
    }
}
