//! JFFS2 that is mounted for writing, on a flash or a volume of UBI that can lose power.

use fs::jffs2::{Compress, Counters, Gluebi, Jffs2, Jffs2Error, KnownBad, Options, Packer, media::Endian};
use fs::model::Tree;
use fs::model::history::{Leaves, Times};
use sim::Cx;
use sim::seam::{FileSystem, FileType, Flash, FsError, Geometry, Medium, RamVolume, RenameFlags, Timestamp};

use super::cut::Cut;
use super::cut_flash::CutFlash;
use super::ops::{At, Fill, Op, Which};
use super::run::{Failure, Step, Subject};

const EPOCH: Timestamp = Timestamp { seconds: 0, nanos: 0 };

/// Sizes of the flash, and how it is used.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub blocks: u32,
    pub block_bytes: u32,
    /// 1: NOR. Of a volume the least write.
    pub page_bytes: u32,
    pub summary: bool,
    pub endian: Endian,
    pub compress: Compress,
}

impl Shape {
    fn geometry(self) -> Geometry {
        let is_nor = self.page_bytes == 1;
        Geometry {
            medium: if is_nor { Medium::Nor } else { Medium::Nand },
            pebs: self.blocks,
            peb_bytes: self.block_bytes,
            page_bytes: self.page_bytes,
            subpage_bytes: self.page_bytes,
            oob_bytes: if is_nor { 0 } else { self.page_bytes / 32 },
        }
    }

    /// Ways of compressing, by a number.
    pub fn compress(number: u64) -> Compress {
        match number % 6 {
            0 => Compress::None,
            1 => Compress::Priority(Packer::ALL),
            2 => Compress::Size(Packer::ALL),
            3 => Compress::Priority(&[Packer::Zlib]),
            4 => Compress::Priority(&[Packer::Rtime]),
            _ => Compress::Priority(&[Packer::Lzo]),
        }
    }
}

/// What can lose power. Clones are the same.
pub trait Cuttable: Flash + Clone {
    fn make(shape: Shape, seed: u64) -> Self;
    /// Number of operations so far that a power cut can interrupt.
    fn events(&self) -> u64;
    /// Lets power fail in the event that follows `events` others; `None`: never.
    fn cut_after(&self, events: Option<u64>);
    fn power_cycle(&self, cx: &mut Cx);
}

impl Cuttable for CutFlash {
    fn make(shape: Shape, seed: u64) -> CutFlash {
        CutFlash::new(shape.geometry(), seed)
    }

    fn events(&self) -> u64 {
        CutFlash::events(self)
    }

    fn cut_after(&self, events: Option<u64>) {
        CutFlash::cut_after(self, events);
    }

    fn power_cycle(&self, _: &mut Cx) {
        CutFlash::power_cycle(self);
    }
}

impl Cuttable for Gluebi<Cut<RamVolume>> {
    fn make(shape: Shape, seed: u64) -> Self {
        Gluebi::new(Cut::new(RamVolume::new(shape.blocks, shape.block_bytes, shape.page_bytes), seed))
    }

    fn events(&self) -> u64 {
        self.volume().events()
    }

    fn cut_after(&self, events: Option<u64>) {
        self.volume().cut_after(events);
    }

    fn power_cycle(&self, cx: &mut Cx) {
        self.volume().power_cycle(cx);
    }
}

pub struct OnFlash<F = CutFlash> {
    fs: Option<Jffs2<F>>,
    flash: F,
    options: Options,
    before_unmount: Counters,
    /// Power may fail.
    may_be_cut: bool,
    /// Programs may fail.
    may_fail: bool,
}

fn failure(error: Jffs2Error) -> Failure {
    FsError::from(error).into()
}

impl<F: Cuttable> OnFlash<F> {
    /// An empty file system, mounted.
    pub fn new(shape: Shape, seed: u64) -> OnFlash<F> {
        OnFlash::known_bad(shape, seed, KnownBad::default())
    }

    /// The same with a deliberate mistake.
    pub fn known_bad(shape: Shape, seed: u64, known_bad: KnownBad) -> OnFlash<F> {
        let flash = F::make(shape, seed);
        let Shape { summary, compress, endian, .. } = shape;
        // None, one that is too small for most files, and one that is large enough.
        let page_cache_bytes = [0, 8192, 1 << 20][(seed % 3) as usize];
        let options = Options {
            endian: Some(endian),
            summary,
            compress,
            epoch: EPOCH,
            page_cache_bytes,
            known_bad,
            ..Options::default()
        };
        let mut fs = Jffs2::mount(flash.clone(), &mut Cx::new(), options).expect("it is erased");
        // A flash without any node, and with a block whose erasure was cut, is none of JFFS2's.
        let root = fs.root();
        let time = sim::seam::SetAttr { mode: Some(0o755), ..Default::default() };
        let cx = &mut Cx::new();
        while fs.has_work() {
            fs.collect(cx).expect("power is on");
        }
        fs.setattr(cx, root, &time).expect("there is room");
        fs.sync(cx).expect("power is on");
        OnFlash {
            fs: Some(fs),
            flash,
            options,
            before_unmount: Counters::default(),
            may_be_cut: false,
            may_fail: false,
        }
    }

    /// One that may lose power.
    pub fn cut(shape: Shape, seed: u64, known_bad: KnownBad) -> OnFlash<F> {
        OnFlash { may_be_cut: true, ..OnFlash::known_bad(shape, seed, known_bad) }
    }

    /// What was done up to the last unmount.
    pub fn before_unmount(&self) -> Counters {
        self.before_unmount
    }
}

impl OnFlash<CutFlash> {
    /// One of which so many of 1000 programs fail.
    pub fn failing(self, per_mille: u64) -> OnFlash<CutFlash> {
        self.flash.fail(per_mille);
        OnFlash { may_fail: true, ..self }
    }
}

impl<F: Cuttable> Subject for OnFlash<F> {
    type Fs = Jffs2<F>;

    fn fs(&mut self) -> &mut Self::Fs {
        self.fs.as_mut().expect("it is mounted")
    }

    fn epoch(&self) -> Timestamp {
        EPOCH
    }

    fn events(&self) -> u64 {
        self.flash.events()
    }

    fn cut_after(&mut self, events: Option<u64>) {
        self.flash.cut_after(events);
    }

    fn remount(&mut self, cx: &mut Cx, clean: bool) -> Result<(), Failure> {
        if let Some(fs) = self.fs.take() {
            self.before_unmount = *fs.counters();
            if let (true, Some(why)) = (clean, fs.failed()) {
                return Err(Failure::GaveUp(why.to_owned()));
            }
            if clean {
                fs.unmount(cx).map_err(failure)?;
            }
        }
        self.flash.power_cycle(cx);
        self.fs = Some(Jffs2::mount(self.flash.clone(), cx, self.options).map_err(failure)?);
        Ok(())
    }

    fn idle(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        for _ in 0..200 {
            if !self.fs().has_work() || !self.fs().collect(cx)? {
                break;
            }
        }
        Ok(self.fs().flush_waiting(cx)?)
    }

    fn check(&mut self, _: &mut Cx) -> Result<(), String> {
        self.fs().check_memory()
    }

    fn changes_in_vain(&self) -> bool {
        true
    }

    fn leaves(&self) -> Leaves {
        Leaves { torn_blocks: true, times: Times::MayBeOlder }
    }

    fn renames_in_two(&self) -> bool {
        self.may_be_cut
    }

    fn may_give_up(&self) -> bool {
        self.may_fail
    }

    /// Linux writes the time of the last change of an inode only with other attributes, and each write of a file as its last access. Where nodes become obsolete on
    /// flash, a name that is removed leaves the directory's times there as they were.
    fn comparable(&self, tree: &mut Tree) {
        for node in tree.nodes.values_mut() {
            node.attr.ctime = Timestamp::default();
            match node.attr.file_type {
                FileType::Directory => node.attr.mtime = Timestamp::default(),
                FileType::Regular => node.attr.atime = Timestamp::default(),
                _ => {}
            }
        }
    }
}

/// A step as JFFS2 can do it; `None` if it cannot.
pub fn suited(step: &Step) -> Option<Step> {
    let ends = |at: &At| at.path.iter().all(|name| name.len() != 255);
    let whole = |time: Timestamp| Timestamp { nanos: 0, ..time };
    let op = |op: &Op| -> Option<Op> {
        let mut op = op.clone();
        match &mut op {
            Op::Rename(_, _, flags) if matches!(*flags, RenameFlags(2 | 4 | 5)) => return None,
            Op::Symlink(_, 255..=4095) => return None,
            Op::Setxattr(_, _, Fill { length: 4097.., .. }, _) => return None,
            Op::Times(_, atime, mtime) => (*atime, *mtime) = (whole(*atime), whole(*mtime)),
            _ => {}
        }
        op.places().into_iter().all(|at| ends(at)).then_some(op)
    };
    Some(match step {
        Step::Flags(..) => return None,
        Step::Op(one) => Step::Op(op(one)?),
        Step::List(dir, first, ops) if dir.as_ref().is_none_or(ends) => {
            Step::List(dir.clone(), *first, ops.iter().filter_map(op).collect())
        }
        Step::Fsync(Which::Named(at), _) if !ends(at) => return None,
        Step::List(..) => return None,
        other => other.clone(),
    })
}
