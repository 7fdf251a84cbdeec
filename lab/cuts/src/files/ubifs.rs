//! UBIFS on UBI on a flash.

use fs::compress::Unpacked;
use fs::model::history::{Leaves, Times};
use fs::ubifs::check::{Class, Severity};
use fs::ubifs::{KnownBad, Options, Reader, Ubifs, mkfs};
use nand::ArrayConfig;
use runner::schema::limits::{Cuts as Section, KnownBad as Word};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::{FileSystem, RawFlash};
use sim::seam::{FsError, Timestamp};
use sim::{CpuPrice, Cx};
use ubi::Config;

use super::calls::Call;
use super::stage::{Down, Known, closed, down};
use super::{FilesPlan, System, UbifsPlan};
use crate::check::{Broken, Check, verdict};
use crate::rules::Rules;
use crate::tape::Tape;
use crate::volume::{self, Volume};

/// Most findings of a check in the description of a failure.
const SHOWN: usize = 4;

pub(super) const GOOD: KnownBad = KnownBad {
    skip_write_buffer: false,
    write_one_master: false,
    forget_orphans: false,
    clean_log_first: false,
    trust_heads: false,
};

/// Deliberate mistakes of UBIFS by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 5] = [
    (Word::None, GOOD),
    (Word::SkipWriteBuffer, KnownBad { skip_write_buffer: true, ..GOOD }),
    (Word::WriteOneMaster, KnownBad { write_one_master: true, ..GOOD }),
    (Word::ForgetOrphans, KnownBad { forget_orphans: true, ..GOOD }),
    (Word::TrustHeads, KnownBad { trust_heads: true, ..GOOD }),
];

thread_local! {
    /// Blocks that this thread has decompressed: from cut to cut most of a flash stays as it is.
    static UNPACKED: Unpacked = Unpacked::default();
}

/// UBIFS on a volume of UBI.
#[derive(Clone, Debug)]
pub struct UbifsOnUbi {
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// Attach parameters of UBI.
    pub ubi: Config,
    /// LEBs of the volume.
    pub lebs: u32,
    /// How the file system is made.
    pub format: mkfs::Options,
    /// How it is mounted, with its deliberate mistakes.
    pub mount: Options,
}

impl UbifsPlan {
    /// Plans the cuts of a file system. The flash takes no time, and does not fail otherwise.
    /// Errors: the first key whose value is impossible.
    pub(crate) fn new(
        flash: &RawFlash,
        file_system: &FileSystem,
        rules: Rules,
        cuts: &Section,
    ) -> Result<UbifsPlan, ExperimentError> {
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of UBIFS");
        };
        let FileSystem { lebs, format, mount, load, .. } = file_system;
        let system = UbifsOnUbi {
            array: ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) },
            ubi: flash.ubi.clone(),
            lebs: *lebs,
            format: *format,
            mount: Options { known_bad, cpu: CpuPrice::FREE, ..*mount },
        };
        FilesPlan::of(system, load, rules, cuts)
    }
}

impl System for UbifsOnUbi {
    type Fs = Ubifs<Volume>;
    const NAME: &'static str = "UBIFS";
    const LEAVES: Leaves = Leaves { torn_blocks: false, times: Times::All };
    const RENAMES_IN_TWO: bool = false;
    const GROWS_IN_VAIN: bool = false;
    const REUSES_INODES: bool = false;
    const WRITES_AT_ONCE: bool = false;

    fn array(&self) -> &ArrayConfig {
        &self.array
    }

    fn epoch(&self) -> Timestamp {
        self.mount.epoch
    }

    fn fresh(&self, cx: &mut Cx) -> Result<Ubifs<Volume>, String> {
        let volume = volume::made(&self.array, &self.ubi, self.lebs, cx)?;
        Ubifs::format(volume, cx, &self.format, self.mount).map_err(|error| error.to_string())
    }

    fn bring_up(&self, tape: Tape, cx: &mut Cx) -> Result<Ubifs<Volume>, String> {
        let volume = volume::opened(tape, &self.ubi, cx)?;
        let mut fs =
            Ubifs::mount(volume, cx, self.mount).map_err(|error| format!("UBIFS cannot be mounted: {error}"))?;
        UNPACKED.with(|unpacked| fs.know(unpacked));
        Ok(fs)
    }

    fn tape(fs: &Ubifs<Volume>) -> &Tape {
        fs.volume().ubi().flash()
    }

    fn tape_mut(fs: &mut Ubifs<Volume>) -> &mut Tape {
        fs.volume_mut().flash_mut()
    }

    fn into_tape(fs: Ubifs<Volume>) -> Tape {
        fs.lose_power().into_ubi().into_flash()
    }

    fn take_down(fs: Ubifs<Volume>, cx: &mut Cx, call: &Call) -> Result<Tape, Down> {
        let volume = fs.unmount(cx).map_err(|error| down(call, &error))?;
        structure(volume.clone(), cx, Severity::Warning).map_err(Down::Broken)?;
        closed(volume, cx, call)
    }

    fn wake(&self, fs: &mut Ubifs<Volume>, cx: &mut Cx) -> Result<(), FsError> {
        while fs.next_wake().is_some_and(|due| due <= cx.now()) {
            fs.wake(cx)?;
        }
        Ok(())
    }

    fn background(fs: &mut Ubifs<Volume>, cx: &mut Cx) -> Result<(), FsError> {
        volume::background(fs.volume_mut(), cx)
    }

    fn whole(fs: &Ubifs<Volume>) -> Result<(), Broken> {
        volume::whole(fs.volume())
    }

    fn structure(fs: &mut Ubifs<Volume>, cx: &mut Cx) -> Result<(), Down> {
        structure(fs.volume().clone(), cx, Severity::Error).map_err(Down::Broken)
    }

    fn suited(call: Call, _: &mut Known) -> Option<Call> {
        Some(call)
    }
}

/// Checks the whole file system on a volume; findings count from this severity on.
fn structure(volume: Volume, cx: &mut Cx, least: Severity) -> Result<(), Broken> {
    let broken = |what: String| vec![Check::Structure.broken(what)];
    let mut reader = Reader::mount(volume, cx).map_err(|error| broken(format!("it cannot be opened: {error}")))?;
    UNPACKED.with(|unpacked| reader.know(unpacked));
    let report = reader.check(cx).map_err(|error| broken(format!("it cannot be checked: {error}")))?;
    // Nothing is open when it is checked: an inode without a name is left over.
    let least_of = |class| if class == Class::Files { Severity::Warning } else { least };
    let found = report.findings.iter().filter(|finding| finding.severity >= least_of(finding.class));
    let shown = found.take(SHOWN).map(|finding| {
        let place = finding.place.map_or_else(String::new, |(lnum, offset)| format!("LEB {lnum}:{offset}: "));
        format!("{}: {place}{}", finding.class.name(), finding.what)
    });
    verdict(Check::Structure.each(shown).collect())
}
