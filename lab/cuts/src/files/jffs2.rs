//! JFFS2 on raw flash, or in a volume of UBI.

use std::fmt;

use fs::compress::Unpacked;
use fs::jffs2::check::{Class, Finding, Severity};
use fs::jffs2::{Gluebi, Jffs2, KnownBad, Options};
use fs::model::history::{Leaves, Times};
use nand::{ArrayConfig, Bytes};
use runner::schema::limits::{Cuts as Section, KnownBad as Word};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::RawFlash;
use runner::subject::jffs::{Jffs as Subject, JffsLoad};
use sim::seam::{FileSystem, FileType, Flash, FsError, RenameFlags, SetAttr, Timestamp};
use sim::{CpuPrice, Cx, Ns};
use ubi::Config;

use super::calls::{Call, Kind};
use super::stage::{Down, Known, closed, down};
use super::{FilesPlan, Jffs2Plan, Jffs2UbiPlan, System};
use crate::check::{Broken, Check, verdict};
use crate::rules::Rules;
use crate::tape::Tape;
use crate::volume::{self, Volume};

/// Most passes of garbage collection in a row.
const MOST_PASSES: u32 = 200;
/// Most bytes of the target of a symbolic link.
const MOST_TARGET: usize = 254;
/// Most findings of a check in the description of a failure.
const SHOWN: usize = 4;

pub(super) const GOOD: KnownBad = KnownBad {
    skip_write_buffer: false,
    obsolete_first: false,
    no_deletion: false,
    no_padding: false,
    erase_early: false,
    trust_summary: false,
    drop_after_failure: false,
};

/// Deliberate mistakes of JFFS2 by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 7] = [
    (Word::None, GOOD),
    (Word::SkipWriteBuffer, KnownBad { skip_write_buffer: true, ..GOOD }),
    (Word::ObsoleteFirst, KnownBad { obsolete_first: true, ..GOOD }),
    (Word::NoDeletion, KnownBad { no_deletion: true, ..GOOD }),
    (Word::NoPadding, KnownBad { no_padding: true, ..GOOD }),
    (Word::EraseEarly, KnownBad { erase_early: true, ..GOOD }),
    (Word::TrustSummary, KnownBad { trust_summary: true, ..GOOD }),
];

thread_local! {
    /// Blocks that this thread has decompressed: from cut to cut most of a flash stays as it is.
    static UNPACKED: Unpacked = Unpacked::default();
}

/// What JFFS2 is on, and what is between that and the flash.
pub(crate) trait Ground: Clone + fmt::Debug + Send + Sync + 'static {
    /// What JFFS2 takes for its flash.
    type Flash: Flash + Clone + Send + Sync;

    /// It, on an erased flash. Errors: why it cannot be made.
    fn made(&self, array: &ArrayConfig, cx: &mut Cx) -> Result<Self::Flash, String>;

    /// It, with what is on the flash. Errors: why it cannot be opened.
    fn opened(&self, tape: Tape, cx: &mut Cx) -> Result<Self::Flash, String>;

    /// The flash.
    fn tape(flash: &Self::Flash) -> &Tape;

    /// The flash.
    fn tape_mut(flash: &mut Self::Flash) -> &mut Tape;

    /// The flash, as a loss of power leaves it.
    fn into_tape(flash: Self::Flash) -> Tape;

    /// The flash, after everything is on it.
    fn closed(flash: Self::Flash, cx: &mut Cx, call: &Call) -> Result<Tape, Down>;

    /// Does what there is to do in the background.
    fn background(flash: &mut Self::Flash, cx: &mut Cx) -> Result<(), FsError>;

    /// Checks what is promised below JFFS2.
    fn whole(flash: &Self::Flash) -> Result<(), Broken>;
}

/// Nothing: JFFS2 is on the flash itself.
#[derive(Clone, Debug)]
pub struct Bare;

impl Ground for Bare {
    type Flash = Tape;

    fn made(&self, array: &ArrayConfig, _: &mut Cx) -> Result<Tape, String> {
        let store = if array.geometry.oob_bytes > 0 { Bytes::with_oob() } else { Bytes::new() };
        Ok(Tape::new(array, store))
    }

    fn opened(&self, tape: Tape, _: &mut Cx) -> Result<Tape, String> {
        Ok(tape)
    }

    fn tape(flash: &Tape) -> &Tape {
        flash
    }

    fn tape_mut(flash: &mut Tape) -> &mut Tape {
        flash
    }

    fn into_tape(flash: Tape) -> Tape {
        flash
    }

    fn closed(flash: Tape, _: &mut Cx, _: &Call) -> Result<Tape, Down> {
        Ok(flash)
    }

    fn background(_: &mut Tape, _: &mut Cx) -> Result<(), FsError> {
        Ok(())
    }

    fn whole(_: &Tape) -> Result<(), Broken> {
        Ok(())
    }
}

/// A volume of UBI.
#[derive(Clone, Debug)]
pub struct InVolume {
    /// Attach parameters of UBI.
    pub ubi: Config,
    /// LEBs of the volume.
    pub lebs: u32,
}

impl Ground for InVolume {
    type Flash = Gluebi<Volume>;

    fn made(&self, array: &ArrayConfig, cx: &mut Cx) -> Result<Gluebi<Volume>, String> {
        volume::made(array, &self.ubi, self.lebs, cx).map(Gluebi::new)
    }

    fn opened(&self, tape: Tape, cx: &mut Cx) -> Result<Gluebi<Volume>, String> {
        volume::opened(tape, &self.ubi, cx).map(Gluebi::new)
    }

    fn tape(flash: &Gluebi<Volume>) -> &Tape {
        flash.volume().ubi().flash()
    }

    fn tape_mut(flash: &mut Gluebi<Volume>) -> &mut Tape {
        flash.volume_mut().flash_mut()
    }

    fn into_tape(flash: Gluebi<Volume>) -> Tape {
        flash.into_volume().into_ubi().into_flash()
    }

    fn closed(flash: Gluebi<Volume>, cx: &mut Cx, call: &Call) -> Result<Tape, Down> {
        closed(flash.into_volume(), cx, call)
    }

    fn background(flash: &mut Gluebi<Volume>, cx: &mut Cx) -> Result<(), FsError> {
        volume::background(flash.volume_mut(), cx)
    }

    fn whole(flash: &Gluebi<Volume>) -> Result<(), Broken> {
        volume::whole(flash.volume())
    }
}

/// JFFS2, with what it is on.
#[derive(Clone, Debug)]
pub struct Jffs2On<G> {
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// What is between JFFS2 and the flash.
    pub ground: G,
    /// How it is mounted, with its deliberate mistakes.
    pub mount: Options,
    /// How long the write buffer may wait.
    pub writeback: Ns,
}

impl Jffs2Plan {
    /// Plans the cuts of JFFS2 on raw flash. The flash takes no time, and does not fail otherwise.
    /// Errors: the first key whose value is impossible.
    pub(crate) fn new(
        flash: &RawFlash,
        subject: &Subject<Options>,
        rules: Rules,
        cuts: &Section,
    ) -> Result<Jffs2Plan, ExperimentError> {
        planned(Bare, flash, subject, rules, cuts)
    }
}

impl Jffs2UbiPlan {
    /// As [`Jffs2Plan::new`], in a volume of so many LEBs.
    /// Errors: the first key whose value is impossible.
    pub(crate) fn new(
        flash: &RawFlash,
        subject: &Subject<Options>,
        lebs: u32,
        rules: Rules,
        cuts: &Section,
    ) -> Result<Jffs2UbiPlan, ExperimentError> {
        planned(InVolume { ubi: flash.ubi.clone(), lebs }, flash, subject, rules, cuts)
    }
}

fn planned<G: Ground>(
    ground: G,
    flash: &RawFlash,
    subject: &Subject<Options>,
    rules: Rules,
    cuts: &Section,
) -> Result<FilesPlan<Jffs2On<G>>, ExperimentError> {
    let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
        return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of JFFS2");
    };
    if rules.unstable {
        return wrong("cuts.unstable", true, "`false`: JFFS2 takes what it read once for what is there");
    }
    let JffsLoad::Program(load) = &subject.load else {
        return wrong("reboots", "it", "fsstress: power cuts interrupt no other load of a file system");
    };
    let system = Jffs2On {
        array: ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) },
        ground,
        mount: Options { known_bad, cpu: CpuPrice::FREE, ..subject.mount },
        writeback: subject.writeback,
    };
    FilesPlan::of(system, load, rules, cuts)
}

fn failed(error: impl Into<FsError>) -> String {
    error.into().to_string()
}

fn mounted<G: Ground>(flash: G::Flash, cx: &mut Cx, options: Options) -> Result<Jffs2<G::Flash>, String> {
    let mut fs = Jffs2::mount(flash, cx, options).map_err(failed)?;
    UNPACKED.with(|unpacked| fs.know(unpacked));
    Ok(fs)
}

impl<G: Ground> System for Jffs2On<G> {
    type Fs = Jffs2<G::Flash>;
    const NAME: &'static str = "JFFS2";
    const LEAVES: Leaves = Leaves { torn_blocks: true, times: Times::MayBeOlder };
    const RENAMES_IN_TWO: bool = true;
    const GROWS_IN_VAIN: bool = true;
    const REUSES_INODES: bool = true;
    const WRITES_AT_ONCE: bool = false;

    fn array(&self) -> &ArrayConfig {
        &self.array
    }

    fn epoch(&self) -> Timestamp {
        self.mount.epoch
    }

    /// The root directory has a node: of one without, no time is known.
    fn fresh(&self, cx: &mut Cx) -> Result<Jffs2<G::Flash>, String> {
        let mut fs = mounted::<G>(self.ground.made(&self.array, cx)?, cx, self.mount)?;
        while fs.has_work() {
            fs.collect(cx).map_err(failed)?;
        }
        let (root, mode) = (fs.root(), SetAttr { mode: Some(0o755), ..SetAttr::default() });
        fs.setattr(cx, root, &mode).map_err(failed)?;
        let flash = fs.unmount(cx).map_err(failed)?;
        mounted::<G>(flash, cx, self.mount)
    }

    fn bring_up(&self, tape: Tape, cx: &mut Cx) -> Result<Jffs2<G::Flash>, String> {
        let flash = self.ground.opened(tape, cx)?;
        mounted::<G>(flash, cx, self.mount).map_err(|error| format!("JFFS2 cannot be mounted: {error}"))
    }

    fn tape(fs: &Jffs2<G::Flash>) -> &Tape {
        G::tape(fs.flash())
    }

    fn tape_mut(fs: &mut Jffs2<G::Flash>) -> &mut Tape {
        G::tape_mut(fs.flash_mut())
    }

    fn into_tape(fs: Jffs2<G::Flash>) -> Tape {
        G::into_tape(fs.into_flash())
    }

    fn take_down(fs: Jffs2<G::Flash>, cx: &mut Cx, call: &Call) -> Result<Tape, Down> {
        let mount = Options { read_only: true, ..*fs.options() };
        let flash = fs.unmount(cx).map_err(|error| down(call, &error.into()))?;
        let broken = |what: String| Down::Broken(vec![Check::Structure.broken(what)]);
        let mut reader = Jffs2::mount(flash.clone(), cx, mount)
            .map_err(|error| broken(format!("it cannot be opened: {}", failed(error))))?;
        agree(&mut reader, cx)?;
        G::closed(flash, cx, call)
    }

    fn wake(&self, fs: &mut Jffs2<G::Flash>, cx: &mut Cx) -> Result<(), FsError> {
        if fs.flush_due(self.writeback).is_some_and(|due| due <= cx.now()) {
            fs.flush_waiting(cx)?;
        }
        Ok(())
    }

    fn background(fs: &mut Jffs2<G::Flash>, cx: &mut Cx) -> Result<(), FsError> {
        for _ in 0..MOST_PASSES {
            if !fs.has_work() || !fs.collect(cx)? {
                break;
            }
        }
        G::background(fs.flash_mut(), cx)
    }

    fn whole(fs: &Jffs2<G::Flash>) -> Result<(), Broken> {
        let mut broken = Broken::new();
        if let Err(what) = fs.check_memory() {
            broken.push(Check::Invariants.broken(what));
        }
        if let bytes @ 1.. = fs.space().bad {
            broken.push(Check::Blocks.broken(format!("{bytes} bytes are in bad eraseblocks")));
        }
        verdict(broken).and_then(|()| G::whole(fs.flash()))
    }

    fn structure(fs: &mut Jffs2<G::Flash>, cx: &mut Cx) -> Result<(), Down> {
        agree(fs, cx)?;
        Self::whole(fs).map_err(Down::Broken)
    }

    /// A directory is not renamed: a loss of power may leave it with two names, which the model does not know.
    fn suited(call: Call, known: &mut Known) -> Option<Call> {
        let whole = |time: Timestamp| Timestamp { nanos: 0, ..time };
        match call {
            Call::Rename { flags, .. } if flags != RenameFlags::NONE && flags != RenameFlags::NO_REPLACE => None,
            Call::Rename { ref from, .. } => {
                let dir = known.inos[&from.0].1;
                let moved = known.model.lookup(&mut Cx::new(), dir, &from.1);
                moved.is_ok_and(|attr| attr.file_type != FileType::Directory).then_some(call)
            }
            Call::Make { kind: Kind::Symlink(ref target), .. } if target.is_empty() || target.len() > MOST_TARGET => {
                None
            }
            Call::SetAttr { change: SetAttr { flags: Some(_), .. }, .. } => None,
            Call::SetAttr { node, change } => {
                let half = |id: Option<u32>| id.map(|id| id & 0xffff);
                let (atime, mtime) = (change.atime.map(whole), change.mtime.map(whole));
                let (uid, gid) = (half(change.uid), half(change.gid));
                Some(Call::SetAttr { node, change: SetAttr { atime, mtime, uid, gid, ..change } })
            }
            other => Some(other),
        }
    }
}

/// Checks that names and inodes agree. Torn nodes and halves of erased blocks are what a loss of power leaves: whether they
/// matter is seen by what can be read.
fn agree(fs: &mut Jffs2<impl Flash>, cx: &mut Cx) -> Result<(), Down> {
    let report = fs.check_files(cx).map_err(|error| {
        let error = FsError::from(error);
        match error.is_power_loss() {
            true => Down::Power,
            false => Down::Broken(vec![Check::Structure.broken(format!("it cannot be checked: {error}"))]),
        }
    })?;
    let counts = |finding: &&Finding| finding.class == Class::Files && finding.severity >= Severity::Warning;
    let shown = report.findings.iter().filter(counts).take(SHOWN).map(|finding| {
        let place = finding.place.map_or_else(String::new, |(block, offset)| format!("eraseblock {block}:{offset}: "));
        format!("{}: {place}{}", finding.class.name(), finding.what)
    });
    verdict(Check::Structure.each(shown).collect()).map_err(Down::Broken)
}
