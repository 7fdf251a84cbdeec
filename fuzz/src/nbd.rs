//! What a client of an NBD server sends: the same requests come of it however it is cut into pieces, and those that are
//! not refused fit the export.

use runner::export::nbd::{Command, Export, Session, Step};

use crate::memory;

/// Bytes of a reply to the shortest option, 16 bytes, with both infos and an acknowledgement.
const TIMES: usize = 24;
const FIXED: usize = 4096;

/// Every step of a session, and what the client gets.
fn steps(export: &Export, data: &[u8], ahead: usize) -> (Vec<Step>, Vec<u8>) {
    let mut out = Vec::new();
    let mut session = Session::greet(&mut out);
    let (mut steps, mut used, mut there) = (Vec::new(), 0, ahead.min(data.len()));
    loop {
        let (more, step) = session.step(export, &data[used..there], &mut out);
        assert!(more <= there - used, "it used {more} of {} bytes", there - used);
        used += more;
        match step {
            Step::More if there == data.len() => return (steps, out),
            Step::More => there = (there + ahead).min(data.len()),
            Step::On => assert!(more > 0, "it stands still"),
            Step::Close(_) => {
                steps.push(step);
                return (steps, out);
            }
            Step::Request(request) => {
                if request.refused.is_none() && !matches!(request.command, Command::Flush | Command::Disconnect) {
                    let end = request.offset + u64::from(request.length);
                    assert!(end <= export.bytes && request.length > 0, "{request:?}");
                    assert!(request.offset % u64::from(export.least) == 0 && request.length % export.least == 0);
                    assert!(request.command == Command::Read || !export.read_only, "{request:?}");
                    let carries = matches!(request.command, Command::Read | Command::Write);
                    assert!(!carries || request.length <= export.most, "{request:?}");
                }
                steps.push(step);
                // Its data, as far as they are there: a session does not see them.
                used = (used + request.data as usize).min(data.len());
                there = there.max(used);
            }
        }
    }
}

/// The bytes of a client.
pub fn client(data: &[u8]) {
    for read_only in [false, true] {
        let name = "live".to_owned();
        let export = Export { name, bytes: 1 << 30, least: 512, preferred: 4096, most: 32 << 20, read_only };
        let whole = memory::bounded(data.len(), TIMES, FIXED, || steps(&export, data, data.len().max(1)));
        for ahead in [1, 7, 4096] {
            assert!(steps(&export, data, ahead) == whole, "pieces of {ahead} bytes give other requests");
        }
    }
}
