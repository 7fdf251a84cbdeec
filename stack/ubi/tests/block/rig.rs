//! A host with one request or several, devices to ask, and a volume that notes what is done to it.

use nand::{Array, ArrayConfig, Bytes, Store};
use sim::seam::{
    BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Flash, FlashError, Geometry, LebError, LebVolume,
    Medium, Payload, RamVolume, SECTOR_BYTES,
};
use sim::{Cx, Lnum, Ns, Peb, VolId};
use ubi::block::{Backing, BlockConfig, Form, OnUbi, UbiBlock};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

/// The forms that write.
pub const WRITING: [Form; 3] = [Form::V2Like, Form::UnmapFirst, Form::Atomic];

/// Bytes of a sector.
pub const SECTOR: usize = SECTOR_BYTES as usize;

/// NAND of 4 KiB PEBs and 256-byte pages: a LEB has 3584 bytes, 7 sectors in 14 pages.
pub const NAND: Geometry =
    Geometry { medium: Medium::Nand, pebs: 72, peb_bytes: 4096, page_bytes: 256, subpage_bytes: 256, oob_bytes: 8 };

/// As [`NAND`], but with a page more: every second LEB ends in the middle of a sector.
pub const UNEVEN: Geometry = Geometry { peb_bytes: 4096 + 256, ..NAND };

pub fn without_fastmap() -> Config {
    Config { fastmap: false, ..Config::linux(Policy::LINUX_6_7) }
}

pub fn block(form: Form, cache_lebs: u32) -> BlockConfig {
    BlockConfig { form, cache_lebs, ..BlockConfig::default() }
}

/// A formatted device with a volume "v" of `lebs` LEBs and nothing left to do for the background. Faults begin then.
pub fn formatted<S: Store>(array: ArrayConfig, store: S, config: &Config, lebs: u32) -> OnUbi<Array<S>> {
    let mut cx = Cx::new();
    let mut flash = Array::new(array, store);
    flash.suspend_faults(true);
    let mut ubi = Ubi::attach(flash, &mut cx, config).expect("a blank flash");
    let vol_id = ubi.create_volume(&mut cx, &VolumeRequest::dynamic("v", VolumeSize::Lebs(lebs))).expect("room");
    ubi.flush(&mut cx).expect("no faults");
    ubi.flash_mut().suspend_faults(false);
    open(ubi, vol_id)
}

/// As [`formatted`], on a NAND that takes no time.
pub fn plain(geometry: Geometry, config: &Config, lebs: u32) -> OnUbi<Array<Bytes>> {
    formatted(ArrayConfig::plain(geometry), Bytes::new(), config, lebs)
}

fn open<F: Flash>(ubi: Ubi<F>, vol_id: VolId) -> OnUbi<F> {
    OnUbi::open(ubi, &mut Cx::new(), vol_id).unwrap_or_else(|failure| panic!("{}", failure.error))
}

/// Attaches the flash of a volume anew, as after a power cut.
pub fn attach_again<F: Flash>(volume: OnUbi<F>, power_on: impl FnOnce(&mut F)) -> OnUbi<F> {
    let config = volume.ubi().config().clone();
    let mut flash = volume.into_ubi().into_flash();
    power_on(&mut flash);
    let ubi = Ubi::attach(flash, &mut Cx::new(), &config).unwrap_or_else(|failure| panic!("{}", failure.error));
    ubi.check();
    let vol_id = ubi.find_volume("v").expect("the volume is there");
    open(ubi, vol_id)
}

/// `sectors` sectors that depend on `version` and on their number.
pub fn pattern(version: u32, sector: u64, sectors: u32) -> Vec<u8> {
    (sector..sector + u64::from(sectors)).flat_map(|sector| one_sector(version, sector)).collect()
}

/// A sector: its version and number, and a body of neither 0x00 nor 0xFF.
fn one_sector(version: u32, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (at, byte) in (0..).zip(&mut bytes) {
        *byte = 1 + (version.wrapping_mul(31).wrapping_add(sector as u32 * 7 + at) % 250) as u8;
    }
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes[4..12].copy_from_slice(&sector.to_le_bytes());
    bytes
}

/// A host with one request at a time.
pub struct Host<V> {
    pub device: UbiBlock<V>,
    pub now: Ns,
}

impl<V: Backing> Host<V> {
    pub fn new(volume: V, config: BlockConfig) -> Host<V> {
        Host { device: UbiBlock::new(volume, Ns::ZERO, config).expect("possible"), now: Ns::ZERO }
    }

    /// Submits a request now and waits until it is done.
    pub fn ask(&mut self, request: BlockRequest, data: &[u8]) -> BlockDone {
        let payload = if request.op == BlockOp::Write { Payload::Bytes(data) } else { Payload::Length(0) };
        if let Err(error) = self.device.submit(self.now, 0, request, payload) {
            return BlockDone { tag: 0, at: self.now, result: Err(error) };
        }
        let done = self.device.next_done(Ns(u64::MAX)).expect("an answer");
        assert!(done.at >= self.now, "{done:?} of a request at {:?}", self.now);
        self.now = done.at;
        done
    }

    pub fn write(&mut self, version: u32, sector: u64, sectors: u32) -> Result<(), BlockError> {
        self.ask(BlockRequest::write(sector, sectors), &pattern(version, sector, sectors)).result
    }

    pub fn flush(&mut self) -> Result<(), BlockError> {
        self.ask(BlockRequest::flush(), &[]).result
    }

    pub fn trim(&mut self, sector: u64, sectors: u32) -> Result<(), BlockError> {
        self.ask(BlockRequest::trim(sector, sectors), &[]).result
    }

    pub fn read(&mut self, sector: u64, sectors: u32) -> Result<Vec<u8>, BlockError> {
        self.ask(BlockRequest::read(sector, sectors), &[]).result?;
        let mut data = vec![0x77; sectors as usize * SECTOR];
        self.device.take(0, &mut data);
        Ok(data)
    }

    /// Lets time pass without a request.
    pub fn wait(&mut self, span: Ns) {
        self.now += span;
        assert_eq!(self.device.next_done(self.now), None);
    }
}

/// What was done to a [`Noted`] volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// LEB, offset, bytes.
    Read(u32, u32, usize),
    Write(u32),
    Change(u32),
    Unmap(u32),
}

/// Memory as a volume, which notes what is done to it and fails on demand.
#[derive(Clone)]
pub struct Noted {
    pub ram: RamVolume,
    pub calls: Vec<Call>,
    /// A LEB that cannot be read.
    pub unreadable: Option<u32>,
    /// Why writes, changes and unmappings are refused.
    pub refuses: Option<LebError>,
    /// How often they were.
    pub refused: u32,
    /// Works of a background that never comes to an end; each takes a millisecond.
    pub works: u64,
    /// Works done.
    pub worked: u64,
}

impl Noted {
    pub fn new(lebs: u32, leb_bytes: u32) -> Noted {
        Noted {
            ram: RamVolume::new(lebs, leb_bytes, 256),
            calls: Vec::new(),
            unreadable: None,
            refuses: None,
            refused: 0,
            works: 0,
            worked: 0,
        }
    }

    /// What was done since the last question.
    pub fn heard(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    fn may_be_written(&mut self) -> Result<(), LebError> {
        self.refused += u32::from(self.refuses.is_some());
        self.refuses.clone().map_or(Ok(()), Err)
    }
}

impl LebVolume for Noted {
    fn keeps_bytes() -> bool {
        true
    }
    fn lebs(&self) -> u32 {
        self.ram.lebs()
    }
    fn leb_bytes(&self) -> u32 {
        self.ram.leb_bytes()
    }
    fn min_io_bytes(&self) -> u32 {
        self.ram.min_io_bytes()
    }
    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.calls.push(Call::Read(lnum.0, offset, buf.len()));
        if self.unreadable == Some(lnum.0) {
            return Err(FlashError::Uncorrectable { peb: Peb(9), offset: 512 }.into());
        }
        self.ram.read(cx, lnum, offset, buf)
    }
    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        assert!(!self.ram.is_mapped(lnum), "LEB {lnum} was written over");
        self.may_be_written()?;
        self.calls.push(Call::Write(lnum.0));
        self.ram.write(cx, lnum, offset, data)
    }
    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.may_be_written()?;
        self.calls.push(Call::Change(lnum.0));
        self.ram.change(cx, lnum, data)
    }
    fn map(&mut self, _: &mut Cx, _: Lnum) -> Result<(), LebError> {
        unreachable!("a block device does not map")
    }
    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.may_be_written()?;
        self.calls.push(Call::Unmap(lnum.0));
        self.ram.unmap(cx, lnum)
    }
    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.ram.is_mapped(lnum)
    }
    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        unreachable!("a flush does not wait for erasures")
    }
}

impl Backing for Noted {
    const KEEPS_BYTES: bool = true;
    fn background_works(&self) -> u64 {
        self.works
    }
    fn step_background(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        cx.spend(Ns::from_ms(1));
        self.worked += 1;
        Ok(())
    }
}
