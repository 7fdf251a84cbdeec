//! A drive for clients: requests and replies of NBD, byte by byte, and what a served drive counts.

use runner::export::nbd::{Command, Error, Export, Request, Session, Step, read_done, read_failed, reply};
use runner::run::Prepared;
use runner::run::live::{Clients, Live, LiveDrive};
use sim::Ns;
use sim::seam::BlockRequest;

fn export(read_only: bool) -> Export {
    Export { name: "live".to_owned(), bytes: 1 << 20, least: 512, preferred: 4096, most: 65_536, read_only }
}

/// A session whose handshake is done by EXPORT_NAME, and the reply: size and flags.
fn opened(export: &Export) -> (Session, Vec<u8>) {
    let mut session = Session::greet(&mut Vec::new());
    let mut reply_bytes = Vec::new();
    for bytes in [&b"\0\0\0\x03"[..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"] {
        assert_eq!(session.step(export, bytes, &mut reply_bytes), (bytes.len(), Step::On));
    }
    (session, reply_bytes)
}

fn request(flags: u16, command: u16, offset: u64, length: u32, read_only: bool) -> Request {
    let export = export(read_only);
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(7u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    match opened(&export).0.step(&export, &bytes, &mut Vec::new()) {
        (28, Step::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Source: "Transmission flags" of the NBD project's `proto.md`: HAS_FLAGS 0, READ_ONLY 1, SEND_FLUSH 2, SEND_FUA 3, SEND_TRIM 5,
/// SEND_WRITE_ZEROES 6, SEND_DF 7, CAN_MULTI_CONN 8.
#[test]
fn an_export_offers_what_it_can() {
    let bits = |bits: &[u32]| bits.iter().fold(0u16, |all, bit| all | 1 << bit);
    for (read_only, flags) in [(false, bits(&[0, 2, 3, 5, 6, 7, 8])), (true, bits(&[0, 1, 2, 7, 8]))] {
        let (_, reply_bytes) = opened(&export(read_only));
        assert_eq!(reply_bytes[..8], (1u64 << 20).to_be_bytes());
        assert_eq!(reply_bytes[8..10], flags.to_be_bytes(), "read-only: {read_only}");
    }
}

/// Source: "Request types" of `proto.md`.
#[test]
fn each_command_is_known_by_its_number_and_may_be_durable() {
    for (number, command, data) in [
        (0, Command::Read, 0),
        (1, Command::Write, 4096),
        (3, Command::Flush, 0),
        (4, Command::Trim, 0),
        (6, Command::WriteZeroes, 0),
    ] {
        for fua in [false, true] {
            let found = request(fua.into(), number, 8192, 4096, false);
            assert_eq!((found.command, found.fua, found.refused), (command, fua, None), "{number}");
            assert_eq!((found.cookie, found.offset, found.length, found.data), (7, 8192, 4096, data));
        }
    }
}

/// Source: "Error values" of `proto.md`: ENOSPC for a write beyond the end, EINVAL for a read, EPERM for a write to a read-only export.
#[test]
fn a_request_that_cannot_be_done_gets_the_error_of_its_kind() {
    let end = 1 << 20;
    for (command, changes) in [(0, false), (1, true), (4, true), (6, true)] {
        let beyond = if changes { Error::NoSpace } else { Error::Invalid };
        assert_eq!(request(0, command, end - 512, 1024, false).refused, Some(beyond), "{command}");
        assert_eq!(request(0, command, 0, 512, true).refused, changes.then_some(Error::Permission), "{command}");
        assert_eq!(request(0, command, 100, 512, false).refused, Some(Error::Invalid), "{command}");
    }
    assert_eq!(request(0, 0, 0, 65_536 + 512, false).refused, Some(Error::Overflow));
    assert_eq!(request(0, 4, 0, 65_536 + 512, false).refused, None, "a trim carries no data");
    assert_eq!(request(0, 99, 0, 0, false).refused, Some(Error::Unsupported));
}

/// Source: "Structured reply chunk message" of `proto.md`: bit 15 of the type says that it is an error.
#[test]
fn a_chunk_says_whether_it_is_an_error() {
    let bytes = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    };
    let chunk = |kind: u16, length: u32, rest: &[u8]| {
        let mut bytes = vec![0x66, 0x8e, 0x33, 0xef, 0, 1];
        bytes.extend(kind.to_be_bytes());
        bytes.extend(7u64.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(rest);
        bytes
    };
    assert_eq!(bytes(&|out| read_failed(out, true, 7, Error::Io)), chunk(0x8001, 6, &[0, 0, 0, 5, 0, 0]));
    assert_eq!(bytes(&|out| read_done(out, true, 7, (512, 1024))), chunk(1, 8 + 1024, &512u64.to_be_bytes()));
    let simple = |error: u8| [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, error][..], &7u64.to_be_bytes()].concat();
    assert_eq!(bytes(&|out| reply(out, 7, None)), simple(0));
    assert_eq!(bytes(&|out| read_failed(out, false, 7, Error::Io)), simple(5));
}

/// A client that does its requests one after another, and how many of them failed.
struct Client {
    requests: Vec<BlockRequest>,
    failed: u64,
}

impl Clients for Client {
    fn serve(&mut self, drive: &mut dyn LiveDrive) -> Result<(), String> {
        for &request in &self.requests {
            drive.submit(drive.now(), 0, request, None, 0).map_err(|error| error.to_string())?;
            let done = drive.next_done(Ns(u64::MAX)).ok_or("the drive stalled")?;
            self.failed += u64::from(done.result.is_err());
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        vec!["client".to_owned()]
    }
}

const DRIVE: &str = "title = 't'\n[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 64\npages = 32\nendurance = 1000\n\
                     over_provisioning_percent = 30\n[precondition]\nkind = 'sequential'\n";

fn served(more: &str, requests: Vec<BlockRequest>) -> (runner::measure::Outcome, u64) {
    let mut client = Client { requests, failed: 0 };
    let live = Live { clients: &mut client, image: None, keep: None, keep_flash: None };
    let prepared = Prepared::resolve(&format!("{DRIVE}{more}"), &[]).unwrap_or_else(|error| panic!("{error}"));
    let found = prepared.serve(live, &mut |_| ()).unwrap();
    (found, client.failed)
}

/// A client's requests wait nowhere but in the drive, and the conditions of the experiment do not end them.
#[test]
fn what_clients_ask_for_is_counted_and_nothing_stops_them() {
    let requests = (0..200).map(|at| BlockRequest::read(at * 8, 8)).collect();
    let (found, failed) = served("[workload]\n[stop]\nrequests = 50\ndrive_writes = 1\nmax_erases = 1\n", requests);
    let read = found.drive().unwrap().op("read").unwrap();
    assert_eq!((read.count, read.bytes, read.errors, failed), (200, 200 * 4096, 0, 0));
    assert_eq!((found.measured.stopped_by.as_str(), found.experiment.stop.requests), ("workload", 0));
    assert!(read.time.iter().all(|(part, _)| part != "host"), "{:?}", read.time);
    let parts: f64 = read.time.iter().map(|(_, ns)| ns).sum();
    assert!(read.mean_ns > 1000.0 && (parts - read.mean_ns).abs() < 1e-6 * read.mean_ns, "{read:?}");
}

#[test]
fn a_request_that_failed_for_a_client_is_an_error_of_the_result() {
    let worn = "[faults]\nbit_errors = true\nrated_ecc_bits = 8\necc_bits = 1\nworn_cycles = 3000\nshelf_s = '1y'\n";
    let requests = (0..1000).map(|at| BlockRequest::read(at * 8, 8)).collect();
    let (found, failed) = served(&format!("[workload]\n{worn}"), requests);
    assert!(failed > 0, "the cells are too worn for the ECC");
    assert_eq!(found.drive().unwrap().op("read").unwrap().errors, failed);
    assert!(found.metrics().value("faults.lost").unwrap() >= failed as f64);
}
