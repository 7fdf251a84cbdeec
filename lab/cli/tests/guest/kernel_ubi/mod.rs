//! nandlab's UBI and Linux's on the same flash: what one leaves, the other attaches in the same way and with the same
//! volumes and erase counters.

pub mod linux;
pub mod ours;
pub mod script;

use linux::{Linux, Turn};
use nand::{Array, ArrayConfig};
use ours::{End, How, Seen};
use script::{Last, Model};
use sim::seam::{Geometry, Medium};
use sim::{Cx, Seed};
use ubi::image::{Class, Dump, Finding, Overrides, Scan, Severity, check};
use ubi::media::EcHdr;
use ubi::{Config, Policy, Ubi};

/// Operations of a turn.
const OPERATIONS: usize = 12;

/// A geometry.
pub struct Bench {
    pub name: &'static str,
    pub geometry: Geometry,
    /// Whether a fastmap takes two PEBs: with such a one Linux asserts on its own flashes too.
    pub has_two_blocks: bool,
}

const fn bench(name: &'static str, pebs: u32, peb_bytes: u32, page_bytes: u32, subpage_bytes: u32) -> Bench {
    let medium = if page_bytes == 1 { Medium::Nor } else { Medium::Nand };
    let geometry = Geometry { medium, pebs, peb_bytes, page_bytes, subpage_bytes, oob_bytes: 0 };
    Bench { name, geometry, has_two_blocks: peb_bytes == 8192 }
}

/// Each kind of flash that Linux's UBI tells apart.
pub const BENCHES: [Bench; 10] = [
    bench("nor", 80, 16 << 10, 1, 1),
    bench("nor-64k", 70, 64 << 10, 1, 1),
    bench("nand512", 80, 16 << 10, 512, 512),
    bench("nand512-two", 96, 8 << 10, 512, 512),
    bench("nand2048-sub", 72, 16 << 10, 2048, 512),
    bench("nand2048", 72, 32 << 10, 2048, 2048),
    bench("nand2048-128k", 68, 128 << 10, 2048, 512),
    bench("nand4096", 68, 32 << 10, 4096, 4096),
    bench("nand4096-sub", 68, 64 << 10, 4096, 1024),
    bench("nand16384", 68, 128 << 10, 16384, 16384),
];

/// The rules of ours that belong to a version of Linux.
pub fn policy(version: &str) -> Policy {
    if version == "6.1" { Policy::LINUX_6_1 } else { Policy::LINUX_6_7 }
}

impl Bench {
    pub fn blank(&self) -> Vec<u8> {
        vec![0xff; self.geometry.bytes() as usize]
    }

    /// No volume yet, and room for so many LEBs that UBI has PEBs to work with.
    pub fn model(&self) -> Model {
        let array = Array::load(ArrayConfig::plain(self.geometry), &self.blank(), false).expect("of the right length");
        let Ok(ubi) = Ubi::attach(array, &mut Cx::new(), &Config::linux(Policy::LINUX_6_7)) else {
            panic!("{} does not attach", self.name)
        };
        Model::new(ubi.layout().leb_bytes, ubi.layout().min_io_bytes, ubi.available_pebs() * 3 / 4)
    }

    /// Whether this is all that Linux may say of a sound flash.
    pub fn is_silent(&self, said: &str) -> bool {
        said == "-" || (self.has_two_blocks && said.starts_with("UBI assert failed in ubi_wl_init"))
    }

    /// Erase counter in each PEB's header; `None` without a valid one.
    fn headers(&self, image: &[u8]) -> Vec<Option<u32>> {
        let pebs = image.chunks(self.geometry.peb_bytes as usize);
        pebs.map(|peb| Some(EcHdr::decode(peb.first_chunk()?).ok()?.ec as u32)).collect()
    }

    /// Errors that `nandlab image check` reports.
    fn errors(&self, image: &[u8]) -> Vec<Finding> {
        let given = Overrides { peb_bytes: Some(self.geometry.peb_bytes), ..Overrides::default() };
        let dump = Dump::probe(image, &given).expect("UBI");
        check(&Scan::new(&dump)).into_iter().filter(|finding| finding.severity == Severity::Error).collect()
    }

    /// Compares what both found on the flash `before`, and the counters that Linux left with those that ours found.
    pub fn differences(&self, before: &[u8], ours: &Seen, theirs: &Turn, end: End) -> Vec<String> {
        let mut differ = Vec::new();
        let found = &theirs.found;
        if ours.how != found.how {
            differ.push(format!("ours {:?} ({}), Linux {:?} ({})", ours.how, ours.said, found.how, found.said));
        }
        if ours.is_read_only != found.is_read_only {
            differ.push(format!("read-only: ours {}, Linux {}", ours.is_read_only, found.is_read_only));
        }
        if [ours.how, found.how].contains(&How::Refused) {
            return differ;
        }
        if without_interrupted(&ours.volumes) != without_interrupted(&found.volumes) {
            differ.push(format!("volumes: ours {}, Linux {}", ours.volumes, found.volumes));
        }
        // On flash, a PEB has one more by each erasure of Linux, and one that was not erased is as before.
        for (peb, pair) in self.headers(before).into_iter().zip(self.headers(&theirs.image)).enumerate() {
            let ((was, Some(header)), erasures) = (pair, theirs.erasures[peb]) else { continue };
            let expected = if erasures > 0 { Some(ours.counters[peb] + erasures) } else { was };
            if expected != Some(header) {
                let ours = ours.counters[peb];
                differ.push(format!(
                    "PEB {peb}: ours {ours}, {was:?} on flash; {header} after {erasures} erasures by Linux"
                ));
            }
        }
        let kernel = if end == End::Clean { self.kernel_counters(theirs) } else { ours.counters.clone() };
        for (peb, (kernel, ours)) in kernel.iter().zip(&ours.counters).enumerate().filter(|(_, (a, b))| a != b) {
            differ.push(format!("PEB {peb}: ours {ours}, Linux {kernel} in its fastmap"));
        }
        let most = |counters: &mut dyn Iterator<Item = u32>| counters.max().unwrap_or(0);
        let least = most(&mut ours.counters.iter().copied());
        let highest = most(&mut ours.counters.iter().zip(&theirs.erasures).map(|(ec, more)| ec + more));
        if !(least..=highest).contains(&found.max_ec) {
            differ.push(format!("highest counter: ours {least}, Linux {}", found.max_ec));
        }
        differ
    }

    /// Erase counter of each PEB as Linux had it when it attached: from the fastmap that it left, without its erasures.
    pub fn kernel_counters(&self, turn: &Turn) -> Vec<u32> {
        let (after, headers) = (ours::look(self.geometry, &turn.image), self.headers(&turn.image));
        let last = |peb: usize| {
            // Erased after the fastmap was written.
            let lags = after.erase[peb] && turn.erasures[peb] > 0 && headers[peb] == Some(after.counters[peb] + 1);
            after.counters[peb] + u32::from(lags) - turn.erasures[peb]
        };
        (0..after.counters.len()).map(last).collect()
    }

    /// Attaches a flash here and there and compares.
    /// Errors: the differences.
    pub fn hold(&self, linux: &Linux, image: &[u8]) -> Result<(Seen, Turn), Vec<String>> {
        let ours = ours::look(self.geometry, image);
        let theirs = linux.turn(self.geometry, Some(image), &[], End::Clean).map_err(|error| vec![error])?;
        if self.is_stale(&ours, &theirs, image) {
            return Ok((ours, theirs));
        }
        let mut differ = self.differences(image, &ours, &theirs, End::Clean);
        let (found, left) = (&theirs.found.volumes, theirs.left.as_deref());
        if left.is_some_and(|left| without_interrupted(left) != without_interrupted(found)) {
            differ.push(format!("Linux read {found} and then {left:?}"));
        }
        if differ.is_empty() { Ok((ours, theirs)) } else { Err(differ) }
    }

    /// Whether Linux attaches by a fastmap with an old size of a static volume, where ours scans, and `check` says so. Linux
    /// writes no fastmap when an update ends; see `docs/design/ubi-linux.md`.
    pub fn is_stale(&self, ours: &Seen, theirs: &Turn, image: &[u8]) -> bool {
        let doubted = ours.said.contains("fastmap not used") && ours.said.contains("used_ebs");
        let differ = (ours.how, theirs.found.how) == (How::Scan, How::Fastmap);
        doubted && differ && self.errors(image).iter().any(|finding| finding.class == Class::LinuxReads)
    }

    /// Hands a flash to and fro: in each round ours changes volumes and contents, and then Linux. Each finds the fastmap,
    /// the volumes and the counters of the other.
    /// Errors: where and what differs.
    pub fn ping_pong(&self, linux: &Linux, rounds: usize) -> Result<(), String> {
        let mut rng = Seed(rounds as u64).stream(self.name);
        let (mut model, mut image) = (self.model(), self.blank());
        for round in 0..rounds {
            let place = |who: &str, what: Vec<String>| format!("round {round}, {who}: {}", what.join("; "));
            let mut end = || if rng.chance(0.5) { End::Clean } else { End::Idle };
            let ends = [end(), end()];
            let before = self.headers(&image);
            let script = model.draw(&mut rng, OPERATIONS, Last::Table);
            image = ours::turn(self.geometry, policy(&linux.version), &image, &script, ends[0])
                .map_err(|error| place("ours", vec![error]))?;
            self.sound(&model, &before, &image).map_err(|what| place("ours", what))?;

            let (before, ours) = (self.headers(&image), ours::look(self.geometry, &image));
            let had = model.volumes();
            let script = model.draw(&mut rng, OPERATIONS, Last::Table);
            let turn = linux.turn(self.geometry, Some(&image), &script, ends[1]);
            let turn = turn.map_err(|error| place("Linux", vec![error]))?;
            let mut differ = self.differences(&image, &ours, &turn, ends[1]);
            let calls = ours::calls(self.geometry, policy(&linux.version), &image, &script);
            let calls = calls.map_err(|error| place("ours", vec![error]))?;
            if let Some(at) = (0..calls.len().max(turn.calls.len())).find(|&at| calls.get(at) != turn.calls.get(at)) {
                differ.push(format!("call {at}: ours {:?}, Linux {:?}", calls.get(at), turn.calls.get(at)));
            }
            if turn.found.how != How::Fastmap || turn.found.volumes != had {
                differ.push(format!("found by {:?} {}, expected {had}", turn.found.how, turn.found.volumes));
            }
            if turn.left.as_ref() != Some(&model.volumes()) {
                differ.push(format!("left {:?}, expected {}", turn.left, model.volumes()));
            }
            if !self.is_silent(&turn.found.said) || turn.said != "-" {
                differ.push(format!("it says {}, {}", turn.found.said, turn.said));
            }
            differ.extend(self.sound(&model, &before, &turn.image).err().unwrap_or_default());
            if !differ.is_empty() {
                return Err(place("Linux", differ));
            }
            image = turn.image;
        }
        Ok(())
    }

    /// Checks that ours attaches a flash by fastmap, with the volumes of the model; that no counter fell; and that `check`
    /// finds no error.
    fn sound(&self, model: &Model, before: &[Option<u32>], image: &[u8]) -> Result<(), Vec<String>> {
        let seen = ours::look(self.geometry, image);
        let mut wrong: Vec<String> =
            self.errors(image).into_iter().map(|finding| format!("check: {}", finding.what)).collect();
        if seen.how != How::Fastmap || seen.volumes != model.volumes() {
            wrong.push(format!(
                "attached by {:?} {} ({}), expected {}",
                seen.how,
                seen.volumes,
                seen.said,
                model.volumes()
            ));
        }
        for (peb, pair) in before.iter().zip(self.headers(image)).enumerate() {
            if let (Some(before), Some(now)) = pair
                && now < *before
            {
                wrong.push(format!("the counter of PEB {peb} fell from {before} to {now}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// Volumes without the size of those whose update was interrupted: they have no contents, Linux tells how much the headers
/// of the old or new ones say, and ours 0.
fn without_interrupted(volumes: &str) -> String {
    let one = |volume: &str| match volume.strip_suffix(":EBADF").and_then(|rest| rest.rsplit_once(':')) {
        Some((rest, _)) => format!("{}:EBADF", rest.replace("static!", "static")),
        None => volume.to_owned(),
    };
    volumes.split(' ').map(one).collect::<Vec<_>>().join(" ")
}
