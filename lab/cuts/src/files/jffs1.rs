//! JFFS on raw flash.

use fs::jffs1::{Jffs1, KnownBad, MountGc, Options};
use fs::model::history::{Leaves, Times};
use fs::model::view::Everything;
use nand::{ArrayConfig, Bytes};
use runner::schema::limits::{Cuts as Section, KnownBad as Word};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::RawFlash;
use runner::subject::jffs::{Jffs as Subject, JffsLoad};
use sim::seam::{DeviceNumber, FsError, RenameFlags, SetAttr, Timestamp};
use sim::{CpuPrice, Cx};

use super::calls::{Call, Kind};
use super::stage::{Down, Known};
use super::{FilesPlan, Jffs1Plan, System};
use crate::check::{Broken, Check};
use crate::rules::Rules;
use crate::tape::Tape;

/// Most steps of the thread in a row.
const MOST_STEPS: u32 = 2_000;

const GOOD: KnownBad =
    KnownBad { forget_replaced: false, keep_cut_nodes: false, trust_data: false, clear_first: false };

/// Deliberate mistakes of JFFS by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 4] = [
    (Word::None, GOOD),
    (Word::ForgetReplaced, KnownBad { forget_replaced: true, ..GOOD }),
    (Word::TrustData, KnownBad { trust_data: true, ..GOOD }),
    (Word::ClearFirst, KnownBad { clear_first: true, ..GOOD }),
];

/// JFFS, with the flash that it is on.
#[derive(Clone, Debug)]
pub struct Jffs1OnFlash {
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// How it is mounted, with its deliberate mistakes.
    pub mount: Options,
}

impl Jffs1Plan {
    /// Plans the cuts of JFFS. The flash takes no time, and does not fail otherwise.
    /// Errors: the first key whose value is impossible.
    pub(crate) fn new(
        flash: &RawFlash,
        subject: &Subject<Options>,
        rules: Rules,
        cuts: &Section,
    ) -> Result<Jffs1Plan, ExperimentError> {
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of JFFS");
        };
        if rules.unstable {
            return wrong(
                "cuts.unstable",
                true,
                "`false`: JFFS erases a sector whose bits flip, with all that is in it",
            );
        }
        let JffsLoad::Program(load) = &subject.load else {
            return wrong("reboots", "it", "fsstress: power cuts interrupt no other load of a file system");
        };
        let system = Jffs1OnFlash {
            array: ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) },
            // No bit flips, so that five reads of the flash would find what one does.
            mount: Options { known_bad, cpu: CpuPrice::FREE, reread: false, ..subject.mount },
        };
        FilesPlan::of(system, load, rules, cuts)
    }
}

impl System for Jffs1OnFlash {
    type Fs = Jffs1<Tape>;
    const NAME: &'static str = "JFFS";
    const LEAVES: Leaves = Leaves { torn_blocks: true, times: Times::NonePromised };
    const RENAMES_IN_TWO: bool = false;
    const GROWS_IN_VAIN: bool = false;
    const REUSES_INODES: bool = true;
    const WRITES_AT_ONCE: bool = true;

    fn array(&self) -> &ArrayConfig {
        &self.array
    }

    fn epoch(&self) -> Timestamp {
        self.mount.epoch
    }

    /// An erased flash is an empty file system.
    fn fresh(&self, cx: &mut Cx) -> Result<Jffs1<Tape>, String> {
        Jffs1::mount(Tape::new(&self.array, Bytes::new()), cx, self.mount).map_err(|error| error.to_string())
    }

    fn bring_up(&self, tape: Tape, cx: &mut Cx) -> Result<Jffs1<Tape>, String> {
        Jffs1::mount(tape, cx, self.mount).map_err(|error| format!("JFFS cannot be mounted: {error}"))
    }

    fn tape(fs: &Jffs1<Tape>) -> &Tape {
        fs.flash()
    }

    fn tape_mut(fs: &mut Jffs1<Tape>) -> &mut Tape {
        fs.flash_mut()
    }

    fn into_tape(fs: Jffs1<Tape>) -> Tape {
        fs.unmount()
    }

    fn take_down(mut fs: Jffs1<Tape>, cx: &mut Cx, _: &Call) -> Result<Tape, Down> {
        is_mounted_alike(&mut fs, cx)?;
        Ok(fs.unmount())
    }

    /// Nothing waits: each call writes what it changes.
    fn wake(&self, _: &mut Jffs1<Tape>, _: &mut Cx) -> Result<(), FsError> {
        Ok(())
    }

    fn background(fs: &mut Jffs1<Tape>, cx: &mut Cx) -> Result<(), FsError> {
        for _ in 0..MOST_STEPS {
            if fs.next_wake().is_none() {
                break;
            }
            fs.wake(cx)?;
        }
        Ok(())
    }

    /// What is wrong is a panic, which the engine notes as a broken invariant.
    fn whole(fs: &Jffs1<Tape>) -> Result<(), Broken> {
        fs.check();
        Ok(())
    }

    fn structure(fs: &mut Jffs1<Tape>, cx: &mut Cx) -> Result<(), Down> {
        is_mounted_alike(fs, cx)
    }

    /// There are no hard links, extended attributes, exchanges and whiteouts, and half words for owners and devices.
    fn suited(call: Call, _: &mut Known) -> Option<Call> {
        match call {
            Call::Link { .. } | Call::SetXattr { .. } | Call::RemoveXattr { .. } => None,
            Call::Rename { flags, .. } if flags != RenameFlags::NONE && flags != RenameFlags::NO_REPLACE => None,
            Call::Make { kind: Kind::Symlink(ref target), .. } if target.is_empty() => None,
            Call::Make { node, at, kind: Kind::Special(file_type, device), mode } => {
                let device = DeviceNumber { major: device.major & 0xff, minor: device.minor & 0xff };
                Some(Call::Make { node, at, kind: Kind::Special(file_type, device), mode })
            }
            Call::SetAttr { change: SetAttr { flags: Some(_), .. }, .. } => None,
            Call::SetAttr { node, change } => {
                let half = |id: Option<u32>| id.map(|id| id & 0xffff);
                let (uid, gid) = (half(change.uid), half(change.gid));
                Some(Call::SetAttr { node, change: SetAttr { uid, gid, ..change } })
            }
            other => Some(other),
        }
    }
}

/// Mounts a copy of the flash: what is in memory must be there.
fn is_mounted_alike(fs: &mut Jffs1<Tape>, cx: &mut Cx) -> Result<(), Down> {
    let broken = |what: String| Down::Broken(vec![Check::Structure.broken(what)]);
    let mount = Options { mount_gc: MountGc::None, ..*fs.options() };
    let mut copy = fs.flash().clone();
    copy.black_box = None;
    copy.array.set_power_cut(None);
    let mut reader = Jffs1::mount(copy, cx, mount).map_err(|error| broken(format!("it cannot be opened: {error}")))?;
    let there = Everything::of(&mut reader, cx).map_err(|error| broken(format!("it cannot be checked: {error}")))?;
    let here = Everything::of(fs, cx).map_err(|error| match error.is_power_loss() {
        true => Down::Power,
        false => broken(format!("it cannot be read: {error}")),
    })?;
    let differs = here.difference(&mut there.model(mount.epoch), Jffs1OnFlash::LEAVES);
    differs.map_or(Ok(()), |what| Err(broken(format!("in memory {what}, by another mount"))))
}
