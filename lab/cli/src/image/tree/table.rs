//! The device table of `mkfs.ubifs -D`: files that the tree cannot hold, and owners and modes of those that it does.

use std::collections::BTreeMap;
use std::path::Path;

use fs::ubifs::media::{Device, ItemType};

use crate::error::CliError;

/// What the table says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Line of the table.
    pub line: u32,
    /// Type of the file.
    pub item: ItemType,
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device.
    pub device: Device,
}

/// A directory of the table, or a file in one.
#[derive(Debug, Default)]
pub struct Node {
    /// What the table says of it; `None` of a directory that is only part of a path.
    pub entry: Option<Entry>,
    /// What is in it.
    pub children: BTreeMap<Vec<u8>, Node>,
}

/// Why a line is refused: what was found, and a remedy.
type Refused = (String, &'static str);

/// Parses a table. Errors: a line that mkfs.ubifs refuses, or silently drops.
pub fn parse(path: &Path, text: &[u8]) -> Result<Node, CliError> {
    let mut root = Node::default();
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        add(&mut root, number, line).map_err(|(what, help)| CliError::Input {
            file: format!("{}:{number}", path.display()),
            what,
            help: help.to_owned(),
        })?;
    }
    Ok(root)
}

const COLUMNS: &str =
    "a line is: PATH TYPE MODE UID GID MAJOR MINOR START INCREMENT COUNT, with - for what has no meaning";

fn add(root: &mut Node, number: u32, line: &[u8]) -> Result<(), Refused> {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let &[path, kind, mode, uid, gid, ref rest @ ..] = &words[..] else {
        return Err((format!("found {} columns, expected 10", words.len()), COLUMNS));
    };
    if rest.len() > 5 {
        return Err((format!("found {} columns, expected 10", words.len()), COLUMNS));
    }
    let item = match kind {
        b"f" => ItemType::File,
        b"d" => ItemType::Dir,
        b"c" => ItemType::CharDevice,
        b"b" => ItemType::BlockDevice,
        b"p" => ItemType::Fifo,
        _ => return Err((format!("found type {}, expected f, d, c, b or p", shown(kind)), COLUMNS)),
    };
    let column = |at: usize| match rest.get(at).copied() {
        None | Some(b"-") => Ok(0),
        Some(word) => decimal(word),
    };
    let [major, minor, start, increment, count] = [column(0)?, column(1)?, column(2)?, column(3)?, column(4)?];
    let (mode, uid, gid) = (octal(mode)?, decimal(uid)?, decimal(gid)?);
    let entry = Entry { line: number, item, mode, uid, gid, device: Device { major, minor } };
    if !matches!(item, ItemType::CharDevice | ItemType::BlockDevice) && count != 0 {
        return Err((format!("found a count of {count}, expected none"), "only devices come in series"));
    }
    let path = steps(path)?;
    if count == 0 {
        return put(root, path, entry);
    }
    let Some((last, dir)) = path.split_last() else {
        return Err(("found /, expected the name of a device".to_owned(), COLUMNS));
    };
    let end = start.checked_add(count).filter(|_| count <= 1 << 16);
    let Some(end) = end else {
        return Err((format!("found a count of {count}, expected at most 65536"), COLUMNS));
    };
    for (step, at) in (0..).zip(start..end) {
        let name = [last, at.to_string().as_bytes()].concat();
        let path: Vec<&[u8]> = dir.iter().copied().chain([&name[..]]).collect();
        let Some(minor) = increment.checked_mul(step).and_then(|more| minor.checked_add(more)) else {
            return Err(("found minor numbers above 4294967295, expected smaller ones".to_owned(), COLUMNS));
        };
        put(root, path, Entry { device: Device { major, minor }, ..entry })?;
    }
    Ok(())
}

/// The names of a path. Errors: it is relative, or has `.` or `..` in it.
fn steps(path: &[u8]) -> Result<Vec<&[u8]>, Refused> {
    let Some(path) = path.strip_prefix(b"/") else {
        return Err((
            format!("found path {}, expected an absolute one", shown(path)),
            "begin it with /, the tree's root",
        ));
    };
    let steps: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|step| !step.is_empty()).collect();
    if steps.iter().any(|step| matches!(*step, b"." | b"..")) {
        return Err(("found . or .. in a path, expected names".to_owned(), "name the file without them"));
    }
    Ok(steps)
}

fn put(root: &mut Node, path: Vec<&[u8]>, entry: Entry) -> Result<(), Refused> {
    let mut node = root;
    for step in path {
        node = node.children.entry(step.to_vec()).or_default();
    }
    let Device { major, minor } = entry.device;
    if major >= 1 << 12 || minor >= 1 << 20 {
        let what = format!("found device {major}:{minor}, expected at most 4095:1048575");
        return Err((what, "Linux has no others"));
    }
    if let Some(first) = node.entry {
        return Err((format!("found a file that line {} has, expected another", first.line), "list each file once"));
    }
    node.entry = Some(entry);
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

fn decimal(word: &[u8]) -> Result<u32, Refused> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| (format!("found {}, expected a number or -", shown(word)), COLUMNS))
}

fn octal(word: &[u8]) -> Result<u32, Refused> {
    let number = std::str::from_utf8(word).ok().and_then(|word| u32::from_str_radix(word, 8).ok());
    let mode = number.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| (format!("found mode {}, expected an octal number up to 7777", shown(word)), COLUMNS))
}
