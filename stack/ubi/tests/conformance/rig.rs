//! The one place where these tests use the crate's interface: a device on a flash, checked after each operation.

use sim::seam::{Flash, FlashError, Geometry, LebError, LebVolume, Medium, Payload, RamFlash};
use sim::{Cx, Lnum, VolId};
use ubi::attach::{AttachError, AttachInfo, FastmapUnusable, attach_by_fastmap, attach_by_scan, compare};
use ubi::layout::Layout;
use ubi::media::VolType;
use ubi::{Background, Config, Policy, Ubi, UbiError, VolumeInfo, VolumeRequest, VolumeSize};

/// NAND of 4 KiB PEBs and 256-byte pages: 20 volumes, a fastmap of several PEBs.
pub fn small_lebs(pebs: u32) -> Geometry {
    Geometry { medium: Medium::Nand, pebs, peb_bytes: 4096, page_bytes: 256, subpage_bytes: 256, oob_bytes: 8 }
}

/// NAND of 16 KiB PEBs and 512-byte pages: a fastmap of one PEB.
pub fn large_lebs(pebs: u32) -> Geometry {
    Geometry { medium: Medium::Nand, pebs, peb_bytes: 16 << 10, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 }
}

/// NAND whose pages are programmed in four parts.
pub fn sub_pages(pebs: u32) -> Geometry {
    Geometry { subpage_bytes: 128, ..large_lebs(pebs) }
}

/// NOR: bytes are programmed one by one.
pub fn nor(pebs: u32) -> Geometry {
    Geometry { medium: Medium::Nor, pebs, peb_bytes: 8192, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 }
}

/// {6.1, 6.7} × {pools reserved, not} × {fastmap on, off}.
pub fn grid() -> Vec<Config> {
    let mut configs = Vec::new();
    for policy in [Policy::LINUX_6_1, Policy::LINUX_6_7] {
        for fastmap_reserve_pools in [false, true] {
            for fastmap in [false, true] {
                configs.push(Config { fastmap, fastmap_reserve_pools, ..Config::linux(policy) });
            }
        }
    }
    configs
}

/// The configurations of the grid with fastmap on.
pub fn fastmap_grid() -> impl Iterator<Item = Config> {
    grid().into_iter().filter(|config| config.fastmap)
}

/// `len` bytes that depend on `seed`; none is 0xFF.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| ((seed.wrapping_mul(2_654_435_761) >> 7).wrapping_add(at * 7 + at / 251) % 251) as u8)
        .collect()
}

pub fn dynamic(name: &str, lebs: u32) -> VolumeRequest {
    VolumeRequest::dynamic(name, VolumeSize::Lebs(lebs))
}

pub fn fixed(name: &str, lebs: u32) -> VolumeRequest {
    VolumeRequest { vol_type: VolType::Static, ..dynamic(name, lebs) }
}

/// A device under test.
#[derive(Clone)]
pub struct Rig<F> {
    ubi: Option<Ubi<F>>,
    pub cx: Cx,
    pub config: Config,
    /// Whether a power cut is set: after one, the device's accounting is as in the middle of its work.
    pub power_may_go: bool,
}

impl Rig<RamFlash> {
    /// A blank flash without faults.
    pub fn blank(geometry: Geometry, config: &Config) -> Self {
        Rig::attach(RamFlash::new(geometry), config)
    }
}

impl<F: Flash> Rig<F> {
    pub fn attach(flash: F, config: &Config) -> Self {
        Rig::try_attach(flash, config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
    }

    pub fn try_attach(flash: F, config: &Config) -> Result<Self, AttachError> {
        let mut cx = Cx::new();
        let ubi = Ubi::attach(flash, &mut cx, config).map_err(|failure| failure.error)?;
        ubi.check();
        Ok(Rig { ubi: Some(ubi), cx, config: config.clone(), power_may_go: false })
    }

    pub fn ubi(&self) -> &Ubi<F> {
        self.ubi.as_ref().expect("attached")
    }

    pub fn flash(&mut self) -> &mut F {
        self.ubi.as_mut().expect("attached").flash_mut()
    }

    /// Runs one operation, and then asserts every invariant.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Ubi<F>, &mut Cx) -> T) -> T {
        let done = work(self.ubi.as_mut().expect("attached"), &mut self.cx);
        if !self.power_may_go {
            self.ubi().check();
        }
        done
    }

    /// Detaches and attaches.
    pub fn reattach(&mut self) {
        let (flash, outcome) = self.ubi.take().expect("attached").detach(&mut self.cx);
        outcome.expect("detached cleanly");
        *self = Rig::attach(flash, &self.config);
    }

    /// Power fails between two operations, and returns.
    pub fn pull_plug(&mut self) {
        let flash = self.into_flash();
        *self = Rig::attach(flash, &self.config);
    }

    pub fn detach(mut self) -> F {
        let (flash, outcome) = self.ubi.take().expect("attached").detach(&mut self.cx);
        outcome.expect("detached cleanly");
        flash
    }

    /// The flash as after a power cut.
    #[allow(clippy::wrong_self_convention)]
    pub fn into_flash(&mut self) -> F {
        self.ubi.take().expect("attached").into_flash()
    }

    pub fn create(&mut self, request: &VolumeRequest) -> Result<VolId, UbiError> {
        self.run(|ubi, cx| ubi.create_volume(cx, request))
    }

    pub fn remove(&mut self, vol_id: VolId) -> Result<(), UbiError> {
        self.run(|ubi, cx| ubi.remove_volume(cx, vol_id))
    }

    pub fn resize(&mut self, vol_id: VolId, lebs: u32) -> Result<(), UbiError> {
        self.run(|ubi, cx| ubi.resize_volume(cx, vol_id, lebs))
    }

    pub fn rename(&mut self, renames: &[(VolId, &str)]) -> Result<(), UbiError> {
        self.run(|ubi, cx| ubi.rename_volumes(cx, renames))
    }

    pub fn update(&mut self, vol_id: VolId, data: &[u8]) -> Result<(), UbiError> {
        self.run(|ubi, cx| ubi.update_volume(cx, vol_id, data))
    }

    pub fn write(&mut self, vol_id: VolId, lnum: u32, offset: u32, data: &[u8]) -> Result<(), LebError> {
        self.leb(vol_id, |volume, cx| volume.write(cx, Lnum(lnum), offset, Payload::Bytes(data)))
    }

    pub fn change(&mut self, vol_id: VolId, lnum: u32, data: &[u8]) -> Result<(), LebError> {
        self.leb(vol_id, |volume, cx| volume.change(cx, Lnum(lnum), Payload::Bytes(data)))
    }

    pub fn map(&mut self, vol_id: VolId, lnum: u32) -> Result<(), LebError> {
        self.leb(vol_id, |volume, cx| volume.map(cx, Lnum(lnum)))
    }

    pub fn unmap(&mut self, vol_id: VolId, lnum: u32) -> Result<(), LebError> {
        self.leb(vol_id, |volume, cx| volume.unmap(cx, Lnum(lnum)))
    }

    pub fn sync(&mut self, vol_id: VolId) -> Result<(), LebError> {
        self.leb(vol_id, |volume, cx| volume.sync(cx))
    }

    pub fn read(&mut self, vol_id: VolId, lnum: u32, offset: u32, len: usize) -> Result<Vec<u8>, LebError> {
        let mut buf = vec![0x77; len];
        self.leb(vol_id, |volume, cx| volume.read(cx, Lnum(lnum), offset, &mut buf)).map(|()| buf)
    }

    pub fn read_leb(&mut self, vol_id: VolId, lnum: u32) -> Result<Vec<u8>, LebError> {
        let leb_bytes = self.info(vol_id).leb_bytes;
        self.read(vol_id, lnum, 0, leb_bytes as usize)
    }

    pub fn is_mapped(&mut self, vol_id: VolId, lnum: u32) -> bool {
        self.leb(vol_id, |volume, _| volume.is_mapped(Lnum(lnum)))
    }

    /// Opens as a user does: an unchecked static volume is checked.
    pub fn open(&mut self, vol_id: VolId) -> Result<(), UbiError> {
        self.run(|ubi, cx| ubi.open_volume(cx, vol_id).map(|_| ()))
    }

    pub fn step(&mut self) -> Result<Background, UbiError> {
        self.run(|ubi, cx| ubi.step_background(cx))
    }

    /// Everything that a static volume or an updated one holds.
    pub fn contents(&mut self, vol_id: VolId, bytes: usize) -> Result<Vec<u8>, LebError> {
        let leb_bytes = self.info(vol_id).leb_bytes as usize;
        let mut all = Vec::new();
        for (lnum, at) in (0..).zip((0..bytes).step_by(leb_bytes)) {
            all.extend(self.read(vol_id, lnum, 0, leb_bytes.min(bytes - at))?);
        }
        Ok(all)
    }

    pub fn info(&self, vol_id: VolId) -> VolumeInfo {
        self.ubi().volume_infos().find(|info| info.vol_id == vol_id).expect("the volume exists")
    }

    pub fn names(&self) -> Vec<(u32, String)> {
        let name = |info: VolumeInfo| (info.vol_id.0, String::from_utf8(info.record.name).expect("ASCII"));
        self.ubi().volume_infos().map(name).collect()
    }

    fn leb<T>(&mut self, vol_id: VolId, work: impl FnOnce(&mut dyn LebVolume, &mut Cx) -> T) -> T {
        self.run(|ubi, cx| work(&mut ubi.volume(vol_id).expect("the volume exists"), cx))
    }
}

impl<F: Flash + Clone> Rig<F> {
    /// The results of both ways of attaching. The fastmap's is `None` if there is none; panics if there is an unusable
    /// one.
    pub fn both_ways(&self) -> (AttachInfo, Option<AttachInfo>) {
        let mut flash = self.ubi().flash().clone();
        let mut cx = Cx::new();
        let layout = Layout::new(flash.geometry(), self.config.vid_hdr_offset).expect("attached before");
        let scan = attach_by_scan(&mut flash, &mut cx, &layout).expect("a scan is always right");
        let fastmap = match attach_by_fastmap(&mut flash, &mut cx, &layout) {
            Ok(info) => Some(info),
            Err(FastmapUnusable::NotFound) => None,
            // A block was retired, or a static volume updated, after the fastmap was written.
            Err(FastmapUnusable::Invalid { why, .. })
                if why.ends_with("PEBs are bad") || why.ends_with("other LEBs are mapped") =>
            {
                None
            }
            Err(unusable) => panic!("the fastmap cannot be used: {unusable}"),
        };
        (scan, fastmap)
    }

    /// Asserts that both ways of attaching agree, as far as they should; returns whether there is a fastmap.
    pub fn both_ways_agree(&self) -> bool {
        let (scan, fastmap) = self.both_ways();
        if let Some(fastmap) = &fastmap {
            let mut differences = compare(&scan, fastmap);
            if !self.config.policy.count_in_place_erases {
                // Linux 6.1 does not count erasures of fastmap blocks that are rewritten in place.
                differences.retain(|what| !what.contains("erase count"));
            }
            assert_eq!(differences, Vec::<String>::new());
        }
        fastmap.is_some()
    }
}

/// Checks that a request is refused because of this field.
pub fn is_bad<T: std::fmt::Debug>(outcome: Result<T, UbiError>, field: &str) {
    match outcome {
        Err(UbiError::BadRequest { what, .. }) if what == field => {}
        other => panic!("{field} should have been refused: {other:?}"),
    }
}

pub fn is_power_loss(error: &LebError) -> bool {
    matches!(error, LebError::Flash(FlashError::PowerLost))
}
