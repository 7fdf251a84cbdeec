//! A line of strace: process, time, name of the call, arguments, result.

use sim::Ns;

/// Why a line cannot be read.
pub(super) type Refused = &'static str;

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Name of the call.
    pub name: &'a str,
    /// Its arguments.
    pub args: Vec<&'a str>,
    /// What it returned, with the path of a descriptor behind it; `None` if nobody knows.
    pub result: Option<(i64, &'a str)>,
}

/// What stands at the beginning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Process or thread; 0 if the line does not say.
    pub process: u32,
    /// When the call began, since 1970.
    pub at: Ns,
    /// The rest of the line.
    pub rest: &'a str,
}

/// Reads the beginning of a line. `None` of a line of strace itself, and of an empty one.
/// Errors: no time in seconds.
pub(super) fn head(line: &str) -> Result<Option<Head<'_>>, Refused> {
    const TIME: Refused = "found no time in seconds since 1970 before the call, expected one as strace -ttt writes it";
    let line = line.trim_end();
    if line.is_empty() || line.starts_with("strace: ") {
        return Ok(None);
    }
    let (process, line) = match line.strip_prefix("[pid") {
        Some(rest) => rest.split_once(']').ok_or(TIME)?,
        None => match line.split_once(' ') {
            Some((first, rest)) if first.bytes().all(|byte| byte.is_ascii_digit()) => (first, rest),
            _ => ("0", line),
        },
    };
    let process = process.trim().parse().map_err(|_| "found a process that is no number of 32 bits")?;
    let (time, rest) = line.trim_start().split_once(' ').ok_or(TIME)?;
    Ok(Some(Head { process, at: seconds(time).ok_or(TIME)?, rest: rest.trim_start() }))
}

/// Seconds with at most nine decimals.
fn seconds(text: &str) -> Option<Ns> {
    let (whole, part) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let nanos = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos).map(Ns)
}

/// Reads a whole call.
/// Errors: no name, no result, or brackets that do not close.
pub(super) fn call(text: &str) -> Result<Line<'_>, Refused> {
    let (name, rest) = text.split_once('(').ok_or("found no call, expected a name and its arguments")?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("found no name of a call before its arguments");
    }
    let (args, end) = arguments(rest)?;
    let result = rest[end..].trim_start().strip_prefix("= ").ok_or("found no result, expected ` = ` and a number")?;
    Ok(Line { name, args, result: number(result) })
}

/// A number at the beginning of a text, and what follows it.
pub(super) fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.bytes().enumerate().position(|(at, byte)| !(byte.is_ascii_digit() || at == 0 && byte == b'-'));
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((number.parse().ok()?, rest))
}

/// Arguments up to the closing bracket, and where the text after it begins.
fn arguments(text: &str) -> Result<(Vec<&str>, usize), Refused> {
    let bytes = text.as_bytes();
    let (mut args, mut from, mut depth, mut at) = (Vec::new(), 0, 0u32, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = closing(bytes, at + 1, b'"')?,
            // A path stands behind a descriptor; its own `>` are escaped.
            b'<' if at > 0 && (bytes[at - 1].is_ascii_digit() || text[..at].ends_with("AT_FDCWD")) => {
                at = closing(bytes, at + 1, b'>')?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                if !text[from..at].trim().is_empty() {
                    args.push(text[from..at].trim());
                }
                return Ok((args, at + 1));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err("found a call without an end, expected `)` after its arguments")
}

/// Where a text ends that began with a quote or bracket.
fn closing(bytes: &[u8], from: usize, with: u8) -> Result<usize, Refused> {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == with => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    Err("found a text without an end, expected a quote or `>` after it")
}

/// A name in quotes as bytes.
/// Errors: no quotes, or a text that strace has cut off.
pub(super) fn quoted(arg: &str) -> Result<Vec<u8>, Refused> {
    let inner = arg.strip_prefix('"').ok_or("found no path in quotes")?;
    let inner = inner.strip_suffix('"').ok_or("found a path that was cut off, expected all of it")?;
    Ok(unescaped(inner))
}

/// A descriptor, with its path if it has one: pipes, sockets and the like have none.
/// Errors: no number; no path, though each has one with `-y`.
pub(super) fn descriptor(arg: &str) -> Result<(i64, Option<Vec<u8>>), Refused> {
    let (number, rest) = number(arg).ok_or("found no file descriptor")?;
    Ok((number, path_of(rest)?))
}

/// The path behind a descriptor.
/// Errors: none is there.
pub(super) fn path_of(rest: &str) -> Result<Option<Vec<u8>>, Refused> {
    const BARE: Refused = "found a file descriptor without its path, expected strace -y";
    let inner = rest.strip_prefix('<').ok_or(BARE)?;
    let end = closing(inner.as_bytes(), 0, b'>').map_err(|_| BARE)?;
    let path = inner[..end].strip_suffix(" (deleted)").unwrap_or(&inner[..end]);
    Ok(path.starts_with('/').then(|| unescaped(path)))
}

/// Bytes of a text with C's escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        let Some(&next) = bytes.get(at).filter(|_| byte == b'\\') else {
            found.push(byte);
            continue;
        };
        let (radix, from, most) = match next {
            b'0'..=b'7' => (8, at, 3),
            b'x' => (16, at + 1, 2),
            _ => (0, at + 1, 0),
        };
        let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(radix);
        let digits = (0..most).take_while(|count| digit(from + count).is_some()).count();
        let value = (from..from + digits).fold(0, |value, at| value * radix + digit(at).unwrap_or(0));
        at = from + digits;
        found.push(match next {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            // The highest octal number is cut as C cuts it.
            _ if most > 0 => value as u8,
            other => other,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_a_process_or_without() {
        let read = |line| head(line).map(|head| head.map(|head| (head.process, head.at.0, head.rest)));
        assert_eq!(read("12  1700000000.000001 sync() = 0"), Ok(Some((12, 1_700_000_000_000_001_000, "sync() = 0"))));
        assert_eq!(read("[pid  7] 1.5 sync() = 0"), Ok(Some((7, 1_500_000_000, "sync() = 0"))));
        assert_eq!(read("1.000000001 +++ exited with 0 +++\n"), Ok(Some((0, 1_000_000_001, "+++ exited with 0 +++"))));
        assert_eq!((read(""), read("strace: Process 9 attached")), (Ok(None), Ok(None)));
        for line in ["sync() = 0", "12:00:01 sync() = 0", "7 12:00:01.5 sync() = 0", "1. sync()", "99999999999 1.0 x"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn arguments_end_where_strace_ends_them() {
        let line = call(r#"writev(3</a\76\", b>, [{iov_base="x)\"", iov_len=3}, {}], 2)   = 3 <0.1>"#).unwrap();
        assert_eq!(line.args, [r#"3</a\76\", b>"#, r#"[{iov_base="x)\"", iov_len=3}, {}]"#, "2"]);
        assert_eq!((line.name, line.result), ("writev", Some((3, " <0.1>"))));
        let line = call(r#"openat(AT_FDCWD</>, ") = 9", O_RDONLY) = -1 ENOENT (No such file or directory)"#).unwrap();
        assert_eq!((line.args.len(), line.result.unwrap().0), (3, -1));
        assert_eq!(call("sync() = ?").unwrap(), Line { name: "sync", args: vec![], result: None });
        assert_eq!(call("f(1 << 2, a < b) = 0x7f").unwrap().result, Some((0, "x7f")));
        for text in ["sync", "(1) = 2", "a b() = 1", "read(3", "read(\"", "read(3</a", "read() 0", "read(1) ="] {
            assert!(call(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_bytes() {
        assert_eq!(quoted(r#""a \"q\" \\ \303\244\n\x7f\0""#).unwrap(), b"a \"q\" \\ \xc3\xa4\n\x7f\0");
        assert!(quoted("\"abc\"...").is_err() && quoted("abc").is_err());
        assert_eq!(descriptor(r"4</d/\74x\76>(deleted)"), Ok((4, Some(b"/d/<x>".to_vec()))));
        assert_eq!(descriptor("4</d/a (deleted)>"), Ok((4, Some(b"/d/a".to_vec()))));
        assert_eq!(descriptor("4<pipe:[17]>"), Ok((4, None)));
        assert!(descriptor("4").is_err() && descriptor("fd").is_err());
    }
}
