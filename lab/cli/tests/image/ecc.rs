//! `--ecc`: dumps of flashes that Linux wrote, with wrong bits, are read as if they had none; what cannot be corrected is
//! named. `tests/fixtures/nandsim/README.md` says how the dumps were made.

use std::fs;
use std::io::Read;
use std::process::Command;

use flate2::read::GzDecoder;

use super::support::{Bench, Ran};

/// A dump and what is known of it.
struct Dump {
    name: &'static str,
    gz: &'static [u8],
    /// As `--ecc` has it.
    ecc: &'static str,
    /// As the reports have it.
    code: &'static str,
    page: usize,
    oob: usize,
    pages_per_peb: usize,
    step: usize,
    /// Bits that the code corrects.
    bits: usize,
    /// Code bytes of step `s`.
    code_bytes: fn(usize) -> Vec<usize>,
    bad: Option<usize>,
}

const DUMPS: [Dump; 2] = [
    Dump {
        name: "ecc-hamming",
        gz: include_bytes!("../fixtures/nandsim/ubi-hamming-512.dump.gz"),
        ecc: "hamming",
        code: "hamming",
        page: 512,
        oob: 16,
        pages_per_peb: 32,
        step: 256,
        bits: 1,
        code_bytes: |step| if step == 0 { vec![0, 1, 2] } else { vec![3, 6, 7] },
        bad: Some(9),
    },
    Dump {
        name: "ecc-bch",
        gz: include_bytes!("../fixtures/nandsim/ubi-bch4-2048.dump.gz"),
        ecc: "bch",
        code: "bch:4/512",
        page: 2048,
        oob: 64,
        pages_per_peb: 64,
        step: 512,
        bits: 4,
        code_bytes: |step| (36 + 7 * step..43 + 7 * step).collect(),
        bad: None,
    },
];

impl Dump {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.gz).read_to_end(&mut bytes).expect("a gzip file");
        bytes
    }

    fn raw(&self) -> usize {
        self.page + self.oob
    }

    fn raw_peb(&self) -> usize {
        self.raw() * self.pages_per_peb
    }

    /// The options for reading.
    fn options(&self) -> String {
        format!("--ecc {}", self.ecc)
    }

    /// Flips as many bits as the code corrects in each step of the PEBs that are not bad: also bits of the code itself.
    /// Returns the number of steps.
    fn damage(&self, bytes: &mut [u8]) -> usize {
        let mut rng = sim::Seed(7).stream("test/ecc");
        let mut steps = 0;
        for (number, page) in bytes.chunks_exact_mut(self.raw()).enumerate() {
            if self.bad == Some(number / self.pages_per_peb) {
                continue;
            }
            for step in 0..self.page / self.step {
                let code = (self.code_bytes)(step);
                // The last byte of a code has bits without use.
                let mut places: Vec<usize> = (step * self.step..(step + 1) * self.step).collect();
                places.extend(code[..code.len() - 1].iter().map(|at| self.page + at));
                let mut flipped = Vec::new();
                while flipped.len() < self.bits {
                    let random = rng.bits() as usize;
                    let bit = (places[random / 8 % places.len()], random % 8);
                    if !flipped.contains(&bit) {
                        flipped.push(bit);
                        page[bit.0] ^= 1 << bit.1;
                    }
                }
                steps += 1;
            }
        }
        steps
    }

    /// A bench with the dump, `clean.bin`, and one with wrong bits, `u.ubi`; and the steps that have some.
    fn bench(&self, name: &str) -> (Bench, usize) {
        let bench = Bench::new(&format!("{}-{name}", self.name));
        let mut bytes = self.bytes();
        bench.put("clean.bin", &bytes);
        let steps = self.damage(&mut bytes);
        bench.put("u.ubi", &bytes);
        (bench, steps)
    }
}

fn firmware() -> Vec<u8> {
    (0..21_000u64).map(|i| (i * i / 5) as u8).collect()
}

/// The files that Linux was told to write.
fn holds_the_files(bench: &Bench, dir: &str) {
    let numbers: String = (1..=900).map(|n| format!("{n}\n")).collect();
    assert!(bench.get(&format!("{dir}/dir/numbers")) == numbers.as_bytes());
    assert!(bench.get(&format!("{dir}/dir/fw")) == firmware());
    assert_eq!(bench.get(&format!("{dir}/hello")), b"hello\n");
    assert_eq!(fs::read_link(bench.dir.join(dir).join("link")).unwrap().to_str(), Some("hello"));
}

#[test]
fn as_many_wrong_bits_as_the_code_corrects_are_no_matter() {
    for dump in DUMPS {
        let (bench, steps) = dump.bench("corrected");
        let options = dump.options();
        let bits = steps * dump.bits;
        let check = bench.run(&format!("check {options} u.ubi --json")).ended(0).json();
        let all = dump.bytes().len() / dump.raw() * (dump.page / dump.step);
        let expected = serde_json::json!({
            "code": dump.code, "steps": all, "corrected_steps": steps, "corrected_bits": bits, "most_bits": dump.bits,
            "uncorrectable": 0, "places": [],
        });
        assert_eq!((&check["ecc"], &check["errors"], &check["warnings"]), (&expected, &0.into(), &0.into()));
        assert_eq!(check["file_systems"][0]["errors"], 0);
        let pebs = all / (dump.page / dump.step) / dump.pages_per_peb;
        let info = bench.run(&format!("info {options} u.ubi --json")).ended(0).json();
        assert_eq!((&info["ecc"], &info["geometry"]["pebs"]), (&expected, &pebs.into()));
        assert_eq!(info["geometry"]["ec_headers"], pebs - usize::from(dump.bad.is_some()));
        let text = bench.run(&format!("info {options} u.ubi")).ended(0).stdout;
        let line =
            format!("{}: {bits} bits corrected in {steps} of {all} steps, at most {} in one\n", dump.code, dump.bits);
        assert!(text.contains(&line), "{text}");

        let said = bench.run(&format!("extract {options} --no-owner u.ubi --volume data -o files")).ended(0);
        assert!(said.stderr.contains(&format!("ECC {line}")), "{}", said.stderr);
        holds_the_files(&bench, "files");
        bench.run(&format!("extract {options} u.ubi --volume firmware -o contents")).ended(0);
        assert!(bench.get("contents/0-firmware.img") == firmware());
        assert_eq!(bench.run(&format!("cat {options} u.ubi /hello")).ended(0).stdout, "hello\n");
        bench.run(&format!("compare {options} clean.bin u.ubi")).ended(0);
        for command in ["ls", "map", "pebs", "wear"] {
            let [with, without] = ["u.ubi", "clean.bin"].map(|file| bench.run(&format!("{command} {options} {file}")));
            assert_eq!(with.ended(0).stdout, without.ended(0).stdout, "{command}");
        }
        // Sizes that are given need not be guessed.
        let sizes = format!("--page-size {} --oob-size {}", dump.page, dump.oob);
        bench.run(&format!("check -q {options} {sizes} u.ubi")).ended(0);
        // A part of the file, and a pipe.
        let mut long = vec![0x55; 1000];
        long.extend(bench.get("u.ubi"));
        bench.put("long.bin", long);
        bench.run(&format!("check -q {options} --offset 1000 long.bin")).ended(0);
        let code = Command::new("sh")
            .arg("-c")
            .arg(format!("cat u.ubi | {} image check -q {options} -", env!("CARGO_BIN_EXE_nandlab")))
            .current_dir(&bench.dir)
            .output()
            .expect("there is a shell");
        Ran::new(&code).ended(0);
    }
}

#[test]
fn one_bit_more_is_named_where_it_is() {
    for dump in DUMPS {
        let (bench, steps) = dump.bench("lost");
        let options = dump.options();
        // A page of the firmware: its PEB, then the page after those of the headers, where a step gets one wrong bit more.
        let map = bench.run(&format!("map {options} u.ubi --json")).ended(0).json();
        let of_firmware = |leb: &&serde_json::Value| leb["volume"] == 0 && leb["leb"] == 0;
        let leb = map["lebs"].as_array().unwrap().iter().find(of_firmware).expect("LEB 0 of the firmware");
        let peb = leb["peb"].as_u64().unwrap() as usize;
        let (page, step) = (3, 1);
        let at = peb * dump.raw_peb() + page * dump.raw() + step * dump.step;
        bench.change(|bytes| {
            // Of 0xFF or 0x00 alone a wrong bit might be taken back. What Linux wrote there is neither.
            let clean = dump.bytes();
            let places = (at..at + dump.step).flat_map(|byte| (0..8).map(move |bit| (byte, 1u8 << bit)));
            let mut right = places.filter(|&(byte, bit)| bytes[byte] & bit == clean[byte] & bit);
            let (byte, bit) = right.nth(333).unwrap();
            bytes[byte] ^= bit;
        });
        let place = serde_json::json!({ "peb": peb, "page": page, "step": step, "file_offset": at });
        let check = bench.run(&format!("check {options} u.ubi --json")).ended(1).json();
        let ecc = &check["ecc"];
        assert_eq!((&ecc["uncorrectable"], &ecc["places"]), (&1.into(), &serde_json::json!([place])));
        assert_eq!(ecc["corrected_steps"], steps - 1);
        let finding = serde_json::json!({
            "severity": "error", "class": "ecc", "peb": peb, "offset": page * dump.page + step * dump.step,
            "file_offset": at, "volume": null, "what": format!("page {page}, step {step}: more wrong bits than the code corrects"),
        });
        let findings = check["findings"].as_array().unwrap();
        assert!(findings.contains(&finding), "{findings:?}");
        let is_error = |finding: &&serde_json::Value| finding["severity"] == "error";
        assert_eq!(check["errors"], findings.iter().filter(is_error).count());
        let named = format!("PEB {peb}, page {page}, step {step} (byte {at}): more wrong bits than ");
        let text = bench.run(&format!("check {options} u.ubi")).ended(1).stdout;
        assert!(text.contains(&format!("error[ecc] {named}the code corrects\n")), "{text}");
        let info = bench.run(&format!("info {options} u.ubi")).ended(1);
        assert!(info.stderr.contains(&format!("u.ubi: {named}{} corrects", dump.code)), "{}", info.stderr);
        assert!(info.stdout.contains("; 1 step not correctable\n"), "{}", info.stdout);

        // What does not need the step is whole.
        let files = bench.run(&format!("extract {options} --no-owner u.ubi --volume data -o files")).ended(0);
        assert!(!files.stderr.contains(&named), "{}", files.stderr);
        holds_the_files(&bench, "files");
        let lost = bench.run(&format!("extract {options} --damaged u.ubi --volume firmware -o contents")).ended(1);
        assert!(lost.stderr.contains(&named), "{}", lost.stderr);
        let (found, right) = (bench.get("contents/0-firmware.img"), firmware());
        let differ: Vec<usize> = (0..right.len()).filter(|&at| found[at] != right[at]).collect();
        assert!(!differ.is_empty() && differ.last().unwrap() - differ[0] < dump.step, "{differ:?}");
    }
}

#[test]
fn convert_corrects_and_computes_what_linux_wrote() {
    for dump in DUMPS {
        let (bench, steps) = dump.bench("convert");
        let ecc = dump.options();
        let sizes =
            format!("--peb-size {} --page-size {} --oob-size {}", dump.page * dump.pages_per_peb, dump.page, dump.oob);
        let said =
            bench.run(&format!("convert {sizes} {ecc} --bb dumpbad --to raw u.ubi corrected.bin --json")).ended(0);
        assert_eq!(said.json()["ecc"]["corrected_bits"], steps * dump.bits);
        bench.run(&format!("convert {sizes} --bb dumpbad --to raw clean.bin raw.bin")).ended(0);
        assert!(bench.get("corrected.bin") == bench.get("raw.bin"));
        let bad = dump.bad.map_or(String::new(), |bad| format!("--bad-blocks {bad}"));
        let said = bench.run(&format!("convert {sizes} {ecc} {bad} --to oob corrected.bin oob.bin --json")).ended(0);
        assert!(said.json()["ecc"].is_null() && said.stderr.is_empty(), "{said:?}");
        let (mut ours, linux) = (bench.get("oob.bin"), bench.get("clean.bin"));
        if let Some(bad) = dump.bad {
            let at = bad * dump.raw_peb();
            ours[at..at + dump.raw_peb()].copy_from_slice(&linux[at..at + dump.raw_peb()]);
        }
        assert!(ours == linux, "{}: not as Linux wrote it", dump.name);

        // Two steps of PEB 2 with one wrong bit more than the code corrects.
        let at = |page: usize, step: usize| 2 * dump.raw_peb() + page * dump.raw() + step * dump.step;
        let clean = dump.bytes();
        bench.change(|bytes| {
            for (page, step) in [(5, 1), (7, 0)] {
                let raw = at(page, 0)..at(page + 1, 0);
                bytes[raw.clone()].copy_from_slice(&clean[raw]);
                (0..=dump.bits).for_each(|bit| bytes[at(page, step) + 11 * bit] ^= 1 << bit);
            }
        });
        let lost = bench.run(&format!("convert {sizes} {ecc} --to raw u.ubi lost.bin")).ended(1);
        for (page, step) in [(5, 1), (7, 0)] {
            let named = format!("u.ubi: PEB 2, page {page}, step {step} (byte {}): more wrong bits", at(page, step));
            assert!(lost.stderr.contains(&named), "{}", lost.stderr);
        }
        assert!(lost.stdout.contains("; 2 steps not correctable\n"), "{}", lost.stdout);
    }
}

#[test]
fn a_code_that_cannot_be_is_refused() {
    let bench = Bench::new("ecc-refused");
    bench.put("u.ubi", DUMPS[1].bytes());
    bench.run("check --ecc hamming:3 u.ubi").ended(2);
    bench.run("check --ecc bch:10 u.ubi").refused("bch:10/512 on pages of 2048 bytes with OOB of 64");
    bench.run("convert --to raw --ecc bch:10 u.ubi raw.bin").refused("expected code bytes that leave two bytes");
    bench.run("convert --to raw u.ubi raw.bin").ended(0);
    bench.run("check --ecc bch raw.bin").refused("the sizes of a page and its OOB are not known");
    fs::create_dir_all(bench.dir.join("m")).unwrap();
    for args in [
        &["mount", "--ecc", "bch", "--rw", "u.ubi", "m"][..],
        &["mount", "--ecc", "bch", "--overlay", "o", "u.ubi", "m"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        let ran = command.args(args).current_dir(&bench.dir).output().expect("the command runs");
        Ran::new(&ran).refused("expected an image that is only read");
    }
    // The wrong code for a flash: nearly nothing fits.
    let wrong = bench.run("info --ecc hamming u.ubi").ended(1);
    assert!(wrong.stderr.contains("more steps with more wrong bits than hamming corrects"), "{}", wrong.stderr);
}
