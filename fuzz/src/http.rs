//! What a browser asks of the page of a run.

use std::net::{Ipv4Addr, SocketAddr};

use runner::export::http::{Answer, MOST_HEAD, answer};

/// A head, in one piece and grown byte by byte: a decision does not change with what follows a whole head, and an endless one is
/// refused.
pub fn request(data: &[u8]) {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let whole = answer(data, at);
    if data.len() >= MOST_HEAD {
        assert_ne!(whole, Answer::More);
    }
    let first = (0..=data.len()).map(|end| answer(&data[..end], at)).find(|&answer| answer != Answer::More);
    assert_eq!(first.unwrap_or(Answer::More), whole);
}
