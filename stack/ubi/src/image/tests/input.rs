//! A dump that is read piece by piece gives what the same bytes in memory give, and no piece is large.

use std::cell::Cell;

use super::*;

/// Bytes that may only be read piece by piece.
#[derive(Debug)]
pub struct Pieces<'b> {
    pub bytes: &'b [u8],
    pub largest: Cell<usize>,
}

impl<'b> Pieces<'b> {
    pub fn new(bytes: &'b [u8]) -> Pieces<'b> {
        Pieces { bytes, largest: Cell::new(0) }
    }
}

impl Input for Pieces<'_> {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        self.largest.set(self.largest.get().max(length));
        into.extend_from_slice(&self.bytes[at as usize..][..length]);
    }
}

#[test]
fn pieces_give_what_memory_gives() {
    let mut damaged = Flash::new();
    damaged.peb(3)[VID_AT + 20] ^= 1;
    damaged.peb(20).fill(0);
    damaged.bytes.truncate(PEBS * PEB_BYTES - 5000);
    let oob = with_oob(&Flash::new().bytes, 2048, &[0xff; 64]);
    for bytes in [Flash::new().bytes, damaged.bytes, oob, b"UBI#".to_vec(), vec![0xff; 3 << 20]] {
        let given = Overrides::default();
        let pieces = Pieces::new(&bytes);
        match (Dump::probe(&bytes, &given), Dump::probe_input(&pieces, &given)) {
            (Ok(whole), Ok(pieces)) => {
                let (whole, pieces) = (Scan::new(&whole), Scan::new(&pieces));
                assert_eq!(check(&whole), check(&pieces));
                assert!(whole.pebs() == pieces.pebs() && whole.lebs() == pieces.lebs());
                for volume in whole.volumes() {
                    let lebs = |scan: &Scan<'_>| -> Vec<Option<Vec<u8>>> {
                        let contents = scan.contents(volume.id, true).unwrap();
                        contents.lebs().map(|leb| leb.map(|it| it.into_owned())).collect()
                    };
                    assert!(lebs(&whole) == lebs(&pieces));
                }
            }
            (whole, pieces) => assert_eq!(whole.map(|_| ()), pieces.map(|_| ())),
        }
        let largest = pieces.largest.get();
        assert!(largest <= (1 << 20) + 63, "{largest} bytes at once");
    }
}

/// Windows overlap, so that a header across two of them is found once.
#[test]
fn headers_across_windows_are_found() {
    for shift in [0, 1, 63, 64, 100, PEB_BYTES - 1] {
        let mut bytes = vec![0; (1 << 20) - 5 * PEB_BYTES - shift];
        bytes.extend(Flash::new().bytes);
        let pieces = Pieces::new(&bytes);
        let dump = Dump::probe_input(&pieces, &Overrides::default()).unwrap();
        let expected = Dump::probe(&bytes, &Overrides::default()).unwrap();
        assert_eq!(dump.geometry(), expected.geometry(), "shift {shift}");
        assert_eq!(dump.geometry().ec_headers, 79);
    }
}
