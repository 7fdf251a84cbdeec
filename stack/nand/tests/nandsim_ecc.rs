//! The codes held against Linux 6.12: pages that its simulator stored, damaged ones among them, and what it read of them.
//! `fixtures/nandsim-ecc/README.md` says how they were made.

use std::io::Read;

use flate2::Crc;
use flate2::read::GzDecoder;
use nand::{Code, PageEcc};

macro_rules! flash {
    ($name:literal, $code:expr) => {
        (
            $name,
            $code,
            include_bytes!(concat!("fixtures/nandsim-ecc/", $name, ".bin.gz")).as_slice(),
            include_str!(concat!("fixtures/nandsim-ecc/", $name, ".tsv")),
        )
    };
}

const fn bch(bits: u32) -> Code {
    Code::Bch { bits, step_bytes: 512 }
}

/// Name, code, stored pages with OOB, and a line about each.
const FLASHES: [(&str, Code, &[u8], &str); 8] = [
    flash!("hamming-512", Code::Hamming),
    flash!("hamming-2048", Code::Hamming),
    flash!("hamming-4096", Code::Hamming),
    flash!("bch1-2048", bch(1)),
    flash!("bch4-2048", bch(4)),
    flash!("bch4-4096", bch(4)),
    flash!("bch8-2048", bch(8)),
    flash!("bch8-4096", bch(8)),
];

/// A page before it was damaged, and what Linux read after that.
struct Page {
    data: Vec<u8>,
    flipped: Vec<u64>,
    /// Bits that Linux corrected, and steps that it could not.
    corrected: u64,
    failed: u64,
    crc_of_read: u32,
}

impl Page {
    fn parse(line: &str, page_bytes: usize) -> Page {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, seed, flipped, corrected, failed, crc] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let mut state = number(seed);
        let data = (0..page_bytes).map(|_| match kind {
            "erased" => 0xff,
            "zero" => 0,
            _ => {
                state = (state * 1_103_515_245 + 12345) & 0x7fff_ffff;
                [0x00, 0xa7, 0x3d, 0xfe][(state >> 28 & 3) as usize]
            }
        });
        Page {
            data: data.collect(),
            flipped: if flipped == "-" { Vec::new() } else { flipped.split(',').map(number).collect() },
            corrected: number(corrected),
            failed: number(failed),
            crc_of_read: number(crc) as u32,
        }
    }
}

fn flip(raw: &mut [u8], bits: &[u64]) {
    bits.iter().for_each(|bit| raw[(bit / 8) as usize] ^= 1 << (bit % 8));
}

/// Sizes of page and OOB, and the pages with what Linux stored of each.
fn pages(stored: &[u8], lines: &str) -> (u32, u32, Vec<(Page, Vec<u8>)>) {
    let mut bytes = Vec::new();
    GzDecoder::new(stored).read_to_end(&mut bytes).unwrap();
    let (head, lines) = lines.split_once('\n').unwrap();
    let [_, page, _, oob] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
    let (page, oob): (u32, u32) = (page.parse().unwrap(), oob.parse().unwrap());
    let raw = bytes.chunks_exact((page + oob) as usize).map(<[u8]>::to_vec);
    let pages: Vec<_> = lines.lines().map(|line| Page::parse(line, page as usize)).zip(raw).collect();
    assert_eq!((pages.len(), bytes.len()), (14, 14 * (page + oob) as usize));
    (page, oob, pages)
}

#[test]
fn code_bytes_are_those_of_linux() {
    for (name, code, stored, lines) in FLASHES {
        let (page_bytes, oob_bytes, pages) = pages(stored, lines);
        let ecc = PageEcc::new(code, page_bytes, oob_bytes).unwrap();
        for (at, (page, stored)) in pages.iter().enumerate() {
            let mut ours = page.data.clone();
            ours.resize(ecc.raw_bytes(), 0xff);
            ecc.encode(&mut ours);
            flip(&mut ours, &page.flipped);
            assert!(ours == *stored, "{name}, page {at}");
        }
    }
}

#[test]
fn what_is_corrected_and_what_is_not_is_as_linux_has_it() {
    let mut failed = 0;
    for (name, code, stored, lines) in FLASHES {
        let (page_bytes, oob_bytes, pages) = pages(stored, lines);
        let ecc = PageEcc::new(code, page_bytes, oob_bytes).unwrap();
        for (at, (page, stored)) in pages.into_iter().enumerate() {
            let mut bits = Vec::new();
            let steps = (0..ecc.steps()).map(|step| ecc.wrong_bits(&stored, step, &mut bits));
            let uncorrectable = steps.filter(Result::is_err).count() as u64;
            assert_eq!((bits.len() as u64, uncorrectable), (page.corrected, page.failed), "{name}, page {at}");
            let mut read = stored;
            flip(&mut read, &bits);
            let mut crc = Crc::new();
            crc.update(&read[..page_bytes as usize]);
            assert_eq!(crc.sum(), page.crc_of_read, "{name}, page {at}");
            if uncorrectable == 0 && page.flipped.len() as u64 == page.corrected && name != "bch1-2048" {
                assert!(read[..page_bytes as usize] == page.data, "{name}, page {at}");
            }
            failed += uncorrectable;
        }
    }
    // t + 1 wrong bits in data, in data and code bytes, in code bytes alone, and of an erased page.
    assert!(failed >= 24, "{failed}");
}

#[test]
fn codes_that_linux_has_no_layout_for_are_refused() {
    let fits = |code: &str, page, oob| PageEcc::new(code.parse().unwrap(), page, oob).is_ok();
    // Of 64 bytes of OOB, nandsim takes BCH up to 9 bits: 4 steps of 15 bytes and two for the mark.
    for (code, page, oob, expected) in [
        ("hamming", 512, 16, true),
        ("hamming", 256, 8, true),
        ("hamming", 2048, 64, true),
        ("hamming", 2048, 128, true),
        ("hamming", 8192, 128, false),
        ("hamming", 4096, 224, false),
        ("hamming", 2048, 0, false),
        ("bch:9", 2048, 64, true),
        ("bch:10", 2048, 64, false),
        ("bch", 512, 16, false),
        ("bch:24/1024", 4096, 224, true),
        ("bch:4000000000", 2048, 64, false),
        ("bch:1/2048", 1024, 64, false),
        ("bch", 0, 64, false),
    ] {
        assert_eq!(fits(code, page, oob), expected, "{code} on {page} and {oob}");
    }
}

#[test]
fn codes_are_read_and_written_as_text() {
    for (text, code) in [
        ("hamming", Code::Hamming),
        ("bch", bch(4)),
        ("bch:8", bch(8)),
        ("bch:24/1024", Code::Bch { bits: 24, step_bytes: 1024 }),
    ] {
        assert_eq!(text.parse(), Ok(code));
        assert_eq!(code.to_string().parse(), Ok(code));
    }
    for text in ["", "bch:", "bch:0", "bch:4/", "bch:4/100", "bch:-1", "hamming:", "hamming:1", "rs", "BCH"] {
        let error = text.parse::<Code>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}
