//! Lists files of an image.

use std::collections::BTreeSet;
use std::fmt::Write;

use fs::ubifs::media::{Device, ItemType};
use fs::ubifs::{DirEntry, Inode};
use serde::Serialize;

use super::Files;
use super::walk::{letter, type_name};
use crate::error::CliError;
use crate::image::ls::printable;

/// A file, as documents and tables have it.
#[derive(Serialize)]
pub struct FileJson {
    /// Path from the root on, or the name in a listing of one directory.
    path: String,
    inode: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    mtime: Time,
    target: Option<String>,
    device: Option<[u32; 2]>,
    xattrs: Vec<String>,
    #[serde(skip)]
    item: ItemType,
}

#[derive(Serialize)]
struct Time {
    seconds: u64,
    nanos: u32,
}

/// The files in the directory at `path`, with those below it if `recursive`; or the file at `path`.
/// Errors: there is none; a node is damaged.
pub fn list(files: &mut Files<'_, '_>, path: &[u8], recursive: bool) -> Result<Vec<FileJson>, CliError> {
    let start = files.at(path)?;
    if start.item != ItemType::Dir {
        return Ok(vec![files.row(printable(path), &start)?]);
    }
    let base = printable(path).trim_matches('/').to_owned();
    let mut rows = Vec::new();
    let mut seen = BTreeSet::from([start.ino]);
    let mut dirs = vec![(start.ino, base)];
    while let Some((dir, base)) = dirs.pop() {
        let mut entries = files.reader.entries(&mut files.cx, dir).map_err(|error| files.failed(&error))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for DirEntry { name, ino, .. } in entries {
            let inode = files.reader.inode(&mut files.cx, ino).map_err(|error| files.failed(&error))?;
            let path = match recursive {
                true => format!("{base}/{}", printable(&name)),
                false => printable(&name),
            };
            if recursive && inode.item == ItemType::Dir && seen.insert(ino) {
                below.push((ino, path.clone()));
            }
            rows.push(files.row(path, &inode)?);
        }
        dirs.extend(below.into_iter().rev());
    }
    Ok(rows)
}

impl Files<'_, '_> {
    fn row(&mut self, path: String, inode: &Inode) -> Result<FileJson, CliError> {
        let is_device = matches!(inode.item, ItemType::BlockDevice | ItemType::CharDevice);
        let device = is_device.then(|| Device::decode(&inode.data).ok()).flatten();
        let mut xattrs = Vec::new();
        if inode.xattr_cnt > 0 {
            let found = self.reader.attributes(&mut self.cx, inode.ino).map_err(|error| self.failed(&error))?;
            xattrs = found.iter().map(|entry| printable(&entry.name)).collect();
        }
        Ok(FileJson {
            path,
            inode: inode.ino,
            kind: type_name(inode.item),
            mode: format!("{:04o}", inode.mode & 0o7777),
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            mtime: Time { seconds: inode.mtime.0, nanos: inode.mtime.1 },
            target: (inode.item == ItemType::Symlink).then(|| printable(&inode.data)),
            device: device.map(|Device { major, minor }| [major, minor]),
            xattrs,
            item: inode.item,
        })
    }
}

/// The files, one per line: type, permissions, links, owner, group, size or device, path.
pub fn text(rows: &[FileJson]) -> String {
    let width = |len: &dyn Fn(&FileJson) -> usize| rows.iter().map(len).max().unwrap_or(0);
    let size = |row: &FileJson| match row.device {
        Some([major, minor]) => format!("{major},{minor}"),
        None => row.size.to_string(),
    };
    let links = width(&|row| row.nlink.to_string().len());
    let owners = width(&|row| row.uid.to_string().len());
    let groups = width(&|row| row.gid.to_string().len());
    let sizes = width(&|row| size(row).len());
    let mut out = String::new();
    for row in rows {
        let kind = letter(row.item);
        let (size, nlink, uid, gid) = (size(row), row.nlink, row.uid, row.gid);
        let _ =
            write!(out, "{kind} {} {nlink:links$} {uid:owners$} {gid:groups$} {size:>sizes$} {}", row.mode, row.path);
        if let Some(target) = &row.target {
            let _ = write!(out, " -> {target}");
        }
        out.push('\n');
    }
    out
}
