//! JFFS2 on a flash, with nothing between the two.

use fs::compress::Unpacked;
use fs::jffs2::check::{Class, Finding, Severity};
use fs::jffs2::{Jffs2, KnownBad, Options};
use fs::model::history::Leaves;
use nand::{ArrayConfig, Bytes};
use sim::seam::{FileSystem, FileType, FsError, RenameFlags, SetAttr, Timestamp};
use sim::{Cx, Ns};

use super::calls::{Call, Kind};
use super::stage::{Down, Known, down};
use super::{FilesPlan, Jffs2Plan, System};
use crate::cuts::check::{Broken, Check, verdict};
use crate::cuts::rules::Rules;
use crate::cuts::tape::Tape;
use crate::schema::limits::{Cuts as Section, KnownBad as Word};
use crate::schema::{ExperimentError, word, wrong};
use crate::subject::RawFlash;
use crate::subject::jffs::{Jffs as Subject, JffsLoad};

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

/// JFFS2 on raw flash.
#[derive(Clone, Debug)]
pub struct Jffs2OnFlash {
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// How it is mounted, with its deliberate mistakes.
    pub mount: Options,
    /// How long the write buffer may wait.
    pub writeback: Ns,
}

impl Jffs2Plan {
    /// Plans the cuts of JFFS2. The flash takes no time, and does not fail otherwise.
    /// Errors: the first key whose value is impossible.
    pub(in crate::cuts) fn new(
        flash: &RawFlash,
        subject: &Subject<Options>,
        rules: Rules,
        cuts: &Section,
    ) -> Result<Jffs2Plan, ExperimentError> {
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of JFFS2");
        };
        if rules.unstable {
            return wrong("cuts.unstable", true, "`false`: JFFS2 takes what it read once for what is there");
        }
        let JffsLoad::Program(load) = &subject.load else {
            return wrong("reboots", "it", "fsstress: power cuts interrupt no other load of a file system");
        };
        let system = Jffs2OnFlash {
            array: ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) },
            mount: Options { known_bad, ..subject.mount },
            writeback: subject.writeback,
        };
        FilesPlan::of(system, load, rules, cuts)
    }
}

fn failed(error: impl Into<FsError>) -> String {
    error.into().to_string()
}

impl Jffs2OnFlash {
    fn mount(&self, tape: Tape, cx: &mut Cx) -> Result<Jffs2<Tape>, String> {
        let mut fs = Jffs2::mount(tape, cx, self.mount).map_err(failed)?;
        UNPACKED.with(|unpacked| fs.know(unpacked));
        Ok(fs)
    }
}

impl System for Jffs2OnFlash {
    type Fs = Jffs2<Tape>;
    const NAME: &'static str = "JFFS2";
    const LEAVES: Leaves = Leaves { torn_blocks: true, old_times: true };
    const RENAMES_IN_TWO: bool = true;
    const GROWS_IN_VAIN: bool = true;
    const REUSES_INODES: bool = true;

    fn array(&self) -> &ArrayConfig {
        &self.array
    }

    fn epoch(&self) -> Timestamp {
        self.mount.epoch
    }

    /// The root directory has a node: of one without, no time is known.
    fn fresh(&self, cx: &mut Cx) -> Result<Jffs2<Tape>, String> {
        let store = if self.array.geometry.oob_bytes > 0 { Bytes::with_oob() } else { Bytes::new() };
        let mut fs = self.mount(Tape::new(&self.array, store), cx)?;
        while fs.has_work() {
            fs.collect(cx).map_err(failed)?;
        }
        let (root, mode) = (fs.root(), SetAttr { mode: Some(0o755), ..SetAttr::default() });
        fs.setattr(cx, root, &mode).map_err(failed)?;
        let tape = fs.unmount(cx).map_err(failed)?;
        self.mount(tape, cx)
    }

    fn bring_up(&self, tape: Tape, cx: &mut Cx) -> Result<Jffs2<Tape>, String> {
        self.mount(tape, cx).map_err(|error| format!("JFFS2 cannot be mounted: {error}"))
    }

    fn tape(fs: &Jffs2<Tape>) -> &Tape {
        fs.flash()
    }

    fn tape_mut(fs: &mut Jffs2<Tape>) -> &mut Tape {
        fs.flash_mut()
    }

    fn into_tape(fs: Jffs2<Tape>) -> Tape {
        fs.into_flash()
    }

    fn take_down(fs: Jffs2<Tape>, cx: &mut Cx, call: &Call) -> Result<Tape, Down> {
        let mount = Options { read_only: true, ..*fs.options() };
        let tape = fs.unmount(cx).map_err(|error| down(call, &error.into()))?;
        let broken = |what: String| Down::Broken(vec![Check::Structure.broken(what)]);
        let mut reader = Jffs2::mount(tape.clone(), cx, mount)
            .map_err(|error| broken(format!("it cannot be opened: {}", failed(error))))?;
        agree(&mut reader, cx)?;
        Ok(tape)
    }

    fn wake(&self, fs: &mut Jffs2<Tape>, cx: &mut Cx) -> Result<(), FsError> {
        if fs.flush_due(self.writeback).is_some_and(|due| due <= cx.now()) {
            fs.flush_waiting(cx)?;
        }
        Ok(())
    }

    fn background(fs: &mut Jffs2<Tape>, cx: &mut Cx) -> Result<(), FsError> {
        for _ in 0..MOST_PASSES {
            if !fs.has_work() || !fs.collect(cx)? {
                break;
            }
        }
        Ok(())
    }

    fn whole(fs: &Jffs2<Tape>) -> Result<(), Broken> {
        let mut broken = Broken::new();
        if let Err(what) = fs.check_memory() {
            broken.push(Check::Invariants.broken(what));
        }
        if let bytes @ 1.. = fs.space().bad {
            broken.push(Check::Blocks.broken(format!("{bytes} bytes are in bad eraseblocks")));
        }
        verdict(broken)
    }

    fn structure(fs: &mut Jffs2<Tape>, cx: &mut Cx) -> Result<(), Down> {
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
fn agree(fs: &mut Jffs2<Tape>, cx: &mut Cx) -> Result<(), Down> {
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
