//! ATA, UFS and HPB on the wire: golden bytes made by hand from the layouts, rejected bytes, round trips, and a drive whose
//! host communicates with it in bytes.

mod answers;
mod ata;
mod descriptors;
mod device;
mod hpb;
mod link;
mod properties;
mod ufs;

use ssd::device::ufs::WireError;

/// The format and the offset of the value that a decoder rejected. Panics if it accepted the bytes.
fn refused<T: std::fmt::Debug>(outcome: Result<T, WireError>) -> (&'static str, usize) {
    match outcome {
        Err(WireError::Value { format, at, .. }) => (format, at),
        other => panic!("not refused for a value: {other:?}"),
    }
}

/// Checks that every prefix of `bytes` is rejected as too short, with its length, and that bytes after it change
/// nothing.
fn takes_no_prefix<T: std::fmt::Debug + PartialEq>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, WireError>) {
    for len in 0..bytes.len() {
        match decode(&bytes[..len]) {
            Err(WireError::Short { found, expected, .. }) => assert!(found == len && expected > len, "{len} bytes"),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    let whole = decode(bytes).expect("the whole is good");
    assert_eq!(decode(&[bytes, &[0xa5; 7]].concat()), Ok(whole));
}
