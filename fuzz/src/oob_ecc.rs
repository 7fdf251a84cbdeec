//! Pages with code bytes in their OOB, from fuzzed bytes.
//!
//! The first byte chooses page and OOB, the text up to the next zero the code. The rest: if bit 7 of the first byte is set,
//! places of bits to flip (2 bytes each) in a page of a pattern with right code bytes; else the page itself.

use nand::{Code, PageEcc};

use crate::memory;

/// Sizes of a page and its OOB.
const SIZES: [(u32, u32); 8] =
    [(512, 16), (2048, 64), (4096, 128), (256, 8), (4096, 224), (8192, 448), (2048, 128), (1024, 7)];

/// A code that fits corrects what it says, and finds nothing wrong in what it corrected.
pub fn oob_ecc(data: &[u8]) {
    let Some((&shape, rest)) = data.split_first() else { return };
    let at = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let Some(code) = std::str::from_utf8(&rest[..at]).ok().and_then(|text| text.parse::<Code>().ok()) else { return };
    assert_eq!(code.to_string().parse(), Ok(code));
    let rest = rest.get(at + 1..).unwrap_or_default();
    let (page_bytes, oob_bytes) = SIZES[usize::from(shape & 7)];
    // Field, table of remainders and the page.
    memory::bounded(data.len(), 4, 1 << 20, || {
        let Ok(ecc) = PageEcc::new(code, page_bytes, oob_bytes) else { return };
        let mut raw = vec![0xff; ecc.raw_bytes()];
        let mut flipped = Vec::new();
        if shape & 0x80 == 0 {
            let len = rest.len().min(raw.len());
            raw[..len].copy_from_slice(&rest[..len]);
        } else {
            (0u32..).zip(&mut raw[..page_bytes as usize]).for_each(|(at, byte)| *byte = (at * at / 3 + at) as u8);
            ecc.encode(&mut raw);
            flipped.extend(
                rest.chunks_exact(2)
                    .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])) % (8 * u64::from(page_bytes))),
            );
            flipped.sort_unstable();
            flipped.dedup();
        }
        let right = raw.clone();
        flip(&mut raw, &flipped);
        let step_bits = 8 * u64::from(code.step_bytes());
        for step in 0..ecc.steps() {
            let mut wrong = Vec::new();
            let found = ecc.wrong_bits(&raw, step, &mut wrong);
            assert!(wrong.len() <= code.bits() as usize, "more corrections than the code has");
            let of_step: Vec<u64> = flipped.iter().copied().filter(|bit| bit / step_bits == step as u64).collect();
            if shape & 0x80 != 0 && of_step.len() <= code.bits() as usize {
                wrong.sort_unstable();
                assert_eq!((found, &wrong), (Ok(()), &of_step), "step {step}");
            }
            if found.is_ok() {
                flip(&mut raw, &wrong);
                if code == Code::Hamming && shape & 0x80 == 0 {
                    // Its two bits without use may be wrong beside one that is corrected.
                    continue;
                }
                let mut again = Vec::new();
                assert_eq!((ecc.wrong_bits(&raw, step, &mut again), again.len()), (Ok(()), 0), "step {step}");
            } else {
                assert!(wrong.is_empty());
            }
        }
        if shape & 0x80 != 0 && flipped.is_empty() {
            assert!(raw == right);
        }
    });
}

fn flip(raw: &mut [u8], bits: &[u64]) {
    bits.iter().for_each(|bit| raw[(bit / 8) as usize] ^= 1 << (bit % 8));
}
