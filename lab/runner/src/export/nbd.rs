//! NBD, the network block device protocol, as a server speaks it: bytes in, requests out.
//!
//! The protocol is the fixed newstyle of the NBD project's `doc/proto.md`, with structured replies to reads. Integers are
//! big-endian. [`Session`] reads what a client sends and writes what it gets during the handshake; it has no socket.

/// "NBDMAGIC", with which the server greets.
const GREETING: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", before each option.
const OPTION: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const STRUCTURED_REPLY: u32 = 0x668e_33ef;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Flags of the export.
mod flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DF: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
}

mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const UNSUPPORTED: u32 = 0x8000_0001;
    pub const INVALID: u32 = 0x8000_0003;
    pub const UNKNOWN: u32 = 0x8000_0006;
    pub const TOO_BIG: u32 = 0x8000_0009;
}

mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Most bytes of an option's data; a longer one is skipped.
const MOST_OPTION: u32 = 8 << 10;
/// Most options of a handshake: a client that sends more does not want to begin.
const MOST_OPTIONS: u32 = 64;
/// Bytes of a request before its data.
pub const REQUEST_BYTES: usize = 28;

/// What clients are offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name means it too.
    pub name: String,
    /// Bytes, a multiple of `least`.
    pub bytes: u64,
    /// Offsets and lengths are multiples of it.
    pub least: u32,
    /// Offsets and lengths should be multiples of it.
    pub preferred: u32,
    /// Most bytes of a read or write.
    pub most: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

impl Export {
    fn flags(&self) -> u16 {
        use flag::{DF, FLUSH, FUA, HAS_FLAGS, MULTI_CONN, READ_ONLY, TRIM, WRITE_ZEROES};
        let writes = if self.read_only { READ_ONLY } else { FUA | TRIM | WRITE_ZEROES };
        HAS_FLAGS | FLUSH | DF | MULTI_CONN | writes
    }
}

/// Why a request failed, as Linux numbers errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Error {
    /// A write to a device that was opened for reading only.
    Permission = 1,
    /// The device could not do it.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// A write beyond the end, or a device that accepts no more writes.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// No such request here.
    Unsupported = 95,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Data.
    Read,
    /// To write the data that follows.
    Write,
    /// To go, without a reply.
    Disconnect,
    /// That completed writes are durable.
    Flush,
    /// To discard.
    Trim,
    /// To write zeroes.
    WriteZeroes,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it wants.
    pub command: Command,
    /// Whether it is durable when it completes.
    pub fua: bool,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// The error to reply with, if it cannot be done.
    pub refused: Option<Error>,
    /// Bytes of data that follow it.
    pub data: u32,
}

/// What comes next of a client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until there are more bytes.
    More,
    /// Something was read; there may be more to read.
    On,
    /// A request; its data, if any, follows.
    Request(Request),
    /// The client is to be let go.
    Close(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client's flags are awaited.
    Flags,
    /// An option is awaited.
    Options,
    /// Data of an option that is too long are skipped, then it is refused.
    Skip { option: u32, left: u32 },
    /// Requests are awaited.
    Requests,
}

/// A client, from the greeting on.
#[derive(Clone, Debug)]
pub struct Session {
    phase: Phase,
    no_zeroes: bool,
    structured: bool,
    options: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Session {
    /// Greets a client: `out` is sent to it.
    pub fn greet(out: &mut Vec<u8>) -> Session {
        out.extend(GREETING.to_be_bytes());
        out.extend(OPTION.to_be_bytes());
        out.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Session { phase: Phase::Flags, no_zeroes: false, structured: false, options: 0 }
    }

    /// Whether the handshake is over.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Requests
    }

    /// Whether reads have structured replies.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// Reads the next thing from `bytes`, of which it uses as many as it returns. What the client gets for it is
    /// appended to `out`.
    pub fn step(&mut self, export: &Export, bytes: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        match self.phase {
            Phase::Requests => self.request(export, bytes),
            Phase::Flags if bytes.len() < 4 => (0, Step::More),
            Phase::Flags => {
                let flags = u32_at(bytes, 0);
                if flags & u32::from(FIXED_NEWSTYLE) == 0 || flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                    return (4, Step::Close("its flags are not those of the fixed newstyle"));
                }
                self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
                self.phase = Phase::Options;
                (4, Step::On)
            }
            Phase::Skip { option, left } => {
                let skipped = bytes.len().min(left as usize);
                let left = left - skipped as u32;
                if left > 0 {
                    self.phase = Phase::Skip { option, left };
                    return (skipped, Step::More);
                }
                self.phase = Phase::Options;
                refuse(out, option, reply::TOO_BIG, "the option is too long");
                (skipped, Step::On)
            }
            Phase::Options if bytes.len() < 16 => (0, Step::More),
            Phase::Options => self.option(export, bytes, out),
        }
    }

    fn option(&mut self, export: &Export, bytes: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let (magic, option, length) = (u64_at(bytes, 0), u32_at(bytes, 8), u32_at(bytes, 12));
        if magic != OPTION {
            return (16, Step::Close("an option begins with wrong bytes"));
        }
        if length > MOST_OPTION {
            // It has no way to refuse this one.
            if option == option::EXPORT_NAME {
                return (16, Step::Close("the export's name is too long"));
            }
            self.phase = Phase::Skip { option, left: length };
            return (16, Step::On);
        }
        let Some(data) = bytes[16..].get(..length as usize) else { return (0, Step::More) };
        let used = 16 + data.len();
        self.options += 1;
        if self.options > MOST_OPTIONS {
            return (used, Step::Close("it sends options without end"));
        }
        match option {
            option::EXPORT_NAME => {
                if !is_name(export, data) {
                    return (used, Step::Close("there is no export of this name"));
                }
                out.extend(export.bytes.to_be_bytes());
                out.extend(export.flags().to_be_bytes());
                if !self.no_zeroes {
                    out.extend([0; 124]);
                }
                self.phase = Phase::Requests;
            }
            option::ABORT => {
                answer(out, option, reply::ACK, &[]);
                return (used, Step::Close("it aborts the handshake"));
            }
            option::LIST if data.is_empty() => {
                let mut server = (export.name.len() as u32).to_be_bytes().to_vec();
                server.extend(export.name.as_bytes());
                answer(out, option, reply::SERVER, &server);
                answer(out, option, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                answer(out, option, reply::ACK, &[]);
            }
            option::INFO | option::GO => match wanted_name(data) {
                None => refuse(out, option, reply::INVALID, "the option's lengths do not add up"),
                Some(name) if !is_name(export, name) => {
                    refuse(out, option, reply::UNKNOWN, "there is no export of this name")
                }
                Some(_) => {
                    inform(out, option, export);
                    if option == option::GO {
                        self.phase = Phase::Requests;
                    }
                }
            },
            // No context: nothing is known of blocks beyond their data.
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT if self.structured && data.len() >= 8 => {
                answer(out, option, reply::ACK, &[])
            }
            option::LIST | option::STRUCTURED_REPLY | option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                refuse(out, option, reply::INVALID, "the option's data are wrong here")
            }
            _ => refuse(out, option, reply::UNSUPPORTED, "the option is not known"),
        }
        (used, Step::On)
    }

    fn request(&self, export: &Export, bytes: &[u8]) -> (usize, Step) {
        if bytes.len() < REQUEST_BYTES {
            return (0, Step::More);
        }
        if u32_at(bytes, 0) != REQUEST {
            return (REQUEST_BYTES, Step::Close("a request begins with wrong bytes"));
        }
        let (flags, command) = (u16_at(bytes, 4), u16_at(bytes, 6));
        let (cookie, offset, length) = (u64_at(bytes, 8), u64_at(bytes, 16), u32_at(bytes, 24));
        // FUA on everything; no hole on WRITE_ZEROES; no fragments on READ.
        let (command, known) = match command {
            0 => (Some(Command::Read), 1 | 4),
            1 => (Some(Command::Write), 1),
            2 => (Some(Command::Disconnect), u16::MAX),
            3 => (Some(Command::Flush), 1),
            4 => (Some(Command::Trim), 1),
            6 => (Some(Command::WriteZeroes), 1 | 2),
            _ => (None, u16::MAX),
        };
        let has_range = !matches!(command, None | Some(Command::Flush | Command::Disconnect));
        let changes = matches!(command, Some(Command::Write | Command::Trim | Command::WriteZeroes));
        let carries = matches!(command, Some(Command::Read | Command::Write));
        let least = u64::from(export.least);
        let refused = if command.is_none() {
            Some(Error::Unsupported)
        } else if flags & !known != 0 {
            Some(Error::Invalid)
        } else if !has_range {
            None
        } else if changes && export.read_only {
            Some(Error::Permission)
        } else if carries && length > export.most {
            Some(Error::Overflow)
        } else if offset.checked_add(u64::from(length)).is_none_or(|end| end > export.bytes) {
            Some(if changes { Error::NoSpace } else { Error::Invalid })
        } else if !offset.is_multiple_of(least) || !u64::from(length).is_multiple_of(least) || length == 0 {
            Some(Error::Invalid)
        } else {
            None
        };
        let request = Request {
            command: command.unwrap_or(Command::Flush),
            fua: flags & 1 != 0,
            cookie,
            offset,
            length,
            refused,
            data: if command == Some(Command::Write) { length } else { 0 },
        };
        (REQUEST_BYTES, Step::Request(request))
    }
}

/// The name in the data of INFO and GO, if their lengths add up.
fn wanted_name(data: &[u8]) -> Option<&[u8]> {
    let length = u32_at(data.get(..4)?, 0) as usize;
    let (name, rest) = data[4..].split_at_checked(length)?;
    let infos = usize::from(u16_at(rest.get(..2)?, 0));
    (rest.len() == 2 + 2 * infos).then_some(name)
}

fn is_name(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    answer(out, option, kind, why.as_bytes());
}

fn inform(out: &mut Vec<u8>, option: u32, export: &Export) {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend(export.bytes.to_be_bytes());
    data.extend(export.flags().to_be_bytes());
    answer(out, option, reply::INFO, &data);
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [export.least, export.preferred, export.most] {
        data.extend(bytes.to_be_bytes());
    }
    answer(out, option, reply::INFO, &data);
    answer(out, option, reply::ACK, &[]);
}

/// Appends a reply without data: success, or an error.
pub fn reply(out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
    out.extend(SIMPLE_REPLY.to_be_bytes());
    out.extend(error.map_or(0, |error| error as u32).to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// Appends the reply to a read that failed.
pub fn read_failed(out: &mut Vec<u8>, structured: bool, cookie: u64, error: Error) {
    if !structured {
        return reply(out, cookie, Some(error));
    }
    // Flag 1: the last chunk. Type 0x8001: an error, with a message of no bytes.
    chunk(out, 0x8001, cookie, 6);
    out.extend((error as u32).to_be_bytes());
    out.extend(0u16.to_be_bytes());
}

/// Appends the beginning of the reply to a read that succeeded: `length` bytes of data follow.
pub fn read_done(out: &mut Vec<u8>, structured: bool, cookie: u64, (offset, length): (u64, u32)) {
    if !structured {
        return reply(out, cookie, None);
    }
    // Type 1: data at an offset.
    chunk(out, 1, cookie, 8 + length);
    out.extend(offset.to_be_bytes());
}

fn chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: u32) {
    out.extend(STRUCTURED_REPLY.to_be_bytes());
    out.extend(1u16.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(length.to_be_bytes());
}
