//! Linux's UBI at work on a flash, in the guest: attaches, reports, carries out a script, and leaves it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sim::seam::{Geometry, Medium};

use super::ours::{End, How};
use super::script::Op;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A guest whose Linux has this version, and a directory for its files.
pub struct Linux {
    /// The command `nandlab`.
    pub nandlab: PathBuf,
    /// `6.12` or `6.1`.
    pub version: String,
    /// Not below `/tmp`, which is the guest's own.
    pub dir: PathBuf,
}

/// What Linux found when it attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub how: How,
    pub is_read_only: bool,
    /// Highest erase counter.
    pub max_ec: u32,
    pub volumes: String,
    /// The first error or warning; `-` for none.
    pub said: String,
}

/// What Linux did.
#[derive(Clone, Debug)]
pub struct Turn {
    pub found: Found,
    /// Volumes after the script; `None` if it did not attach.
    pub left: Option<String>,
    /// Errors and warnings after the attach; `-` for none.
    pub said: String,
    /// The flash afterwards.
    pub image: Vec<u8>,
    /// Erasures of each PEB.
    pub erasures: Vec<u32>,
    /// Calls of UBI but moves, as `call,volume,leb,offset,bytes`.
    pub calls: Vec<String>,
}

impl Linux {
    /// Attaches the flash in an image (blank: `None`), carries out the script, and leaves it.
    /// Errors: what the guest said, if an operation failed or the run did.
    pub fn turn(&self, geometry: Geometry, image: Option<&[u8]>, script: &[Op], end: End) -> Result<Turn, String> {
        let word = if end == End::Clean { "clean" } else { "idle" };
        let file = self.experiment(geometry, script, word);
        let mut args = vec!["run", &file, "--flash", "after.bin", "--ubi-log", "ubi.csv", "--json", "--force"];
        if let Some(image) = image {
            self.keep("before.bin", image);
            args.extend(["--from", "before.bin"]);
        }
        let ran = self.run(&args);
        let result: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let said = result["guest"]["output"].as_str().unwrap_or_default();
        let failed = || format!("{said}{}", text(&ran.stderr));
        if !ran.status.success() {
            return Err(failed());
        }
        if !result["guest"]["refused"].is_null() {
            return Err(format!("the flash refused an operation of Linux: {}", result["guest"]["refused"]));
        }
        let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
        let found = match rows.first().map(Vec::as_slice) {
            Some(["found", how, access, max_ec, volumes, said]) => Found {
                how: match *how {
                    "fastmap" => How::Fastmap,
                    "scan" | "fell-back" => How::Scan,
                    _ => How::Refused,
                },
                is_read_only: *access == "ro",
                max_ec: max_ec.parse().unwrap_or(0),
                volumes: (*volumes).to_owned(),
                said: (*said).to_owned(),
            },
            _ => return Err(failed()),
        };
        let (left, said) = match (found.how, rows.get(1).map(Vec::as_slice)) {
            (How::Refused, _) => (None, "-".to_owned()),
            (_, Some(["left", volumes, said])) => (Some((*volumes).to_owned()), (*said).to_owned()),
            _ => return Err(failed()),
        };
        let (mut erasures, mut calls) = (vec![0; geometry.pebs as usize], Vec::new());
        let log = std::fs::read_to_string(self.dir.join("ubi.csv")).map_err(|error| error.to_string())?;
        for row in log.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
            match row[2] {
                "erase" => erasures[row[5].parse::<usize>().map_err(|error| error.to_string())?] += 1,
                "move" => {}
                call => calls.push([call, row[3], row[4], row[6], row[7]].join(",")),
            }
        }
        Ok(Turn { found, left, said, image: self.read("after.bin"), erasures, calls })
    }

    /// Carries out the script on a blank flash and cuts power at each of these places, as shares of all cuts. Returns the
    /// cuts and what they left.
    /// Errors: what the run said.
    pub fn cuts(&self, geometry: Geometry, script: &[Op], places: &[f64]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let file = self.experiment(geometry, script, "torn");
        // Without this cut there is an error with the number of cuts.
        let said = text(&self.run(&["cuts", &file, "--at", "4000000000"]).stderr);
        let words: Vec<&str> = said.split_whitespace().collect();
        let all = words.iter().position(|word| *word == "cuts,").and_then(|at| words[at - 1].parse::<u64>().ok());
        let all = all.ok_or(said)?;
        let mut kept = Vec::new();
        for place in places {
            let at = ((all as f64 * place) as u64).min(all - 1).to_string();
            let cut = self.run(&["cuts", &file, "--at", &at, "--flash", "after.bin", "--force"]);
            let story = text(&cut.stdout);
            let line = story.lines().find(|line| line.starts_with("cut ")).unwrap_or_default().to_owned();
            if !cut.status.success() || line.is_empty() {
                return Err(format!("cut {at}: {story}{}", text(&cut.stderr)));
            }
            kept.push((line, self.read("after.bin")));
        }
        Ok(kept)
    }

    fn experiment(&self, geometry: Geometry, script: &[Op], end: &str) -> String {
        let Geometry { medium, pebs, peb_bytes, page_bytes, subpage_bytes, .. } = geometry;
        let medium = if medium == Medium::Nor { "nor" } else { "nand" };
        let (dir, version) = (self.dir.display(), &self.version);
        let lines: String = script.iter().map(|op| format!("{op}\n")).collect();
        self.keep("script", lines.as_bytes());
        let file = format!(
            "title = \"Linux's UBI\"\n[nand]\nmedium = '{medium}'\npebs = {pebs}\npeb_bytes = {peb_bytes}\n\
             page_bytes = {page_bytes}\nsubpage_bytes = {subpage_bytes}\n[guest]\nlinux = '{version}'\nmemory_mib = 128\n\
             hung_s = 60\ncheck = 'true'\njob = \"python3 {TOP}/guest/jobs/ubi.py turn '{dir}/script' {end}\"\n\
             [cuts]\ntear = ['clean', 'prefix', 'random-bits']\necc = 'blind'\nsecond_cut = false\n"
        );
        self.keep("turn.toml", file.as_bytes());
        "turn.toml".to_owned()
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(&self.nandlab).args(args).current_dir(&self.dir).output().expect("nandlab starts")
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir.join(name), bytes).expect("the directory is writable");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(Path::new(&self.dir).join(name)).expect("the run wrote it")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
