//! Lists files of an image.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;
use sim::seam::{Attr, DeviceNumber, FileType};

use super::Files;
use super::opened::{Entry, Inode};
use super::walk::{letter, type_name};
use crate::error::CliError;
use crate::image::ls::printable;

/// A file, as documents and tables have it.
#[derive(Serialize)]
pub struct FileJson {
    /// Path from the root on, or the name in a listing of one directory.
    path: String,
    inode: u64,
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
    file_type: FileType,
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
    if start.attr.file_type != FileType::Directory {
        return Ok(vec![files.row(printable(path), &start)?]);
    }
    let base = printable(path).trim_matches('/').to_owned();
    let mut rows = Vec::new();
    let mut seen = BTreeSet::from([start.attr.ino]);
    let mut dirs = vec![(start.attr.ino, base)];
    while let Some((dir, base)) = dirs.pop() {
        let mut entries = files.fs.entries(&mut files.cx, dir).map_err(|error| files.failed(&error))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for Entry { name, ino, .. } in entries {
            let inode = files.fs.inode(&mut files.cx, ino).map_err(|error| files.failed(&error))?;
            let path = match recursive {
                true => format!("{base}/{}", printable(&name)),
                false => printable(&name),
            };
            if recursive && inode.attr.file_type == FileType::Directory && seen.insert(ino) {
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
        let Attr { ino, file_type, mode, uid, gid, nlink, size, mtime, .. } = inode.attr;
        let mut xattrs = Vec::new();
        if inode.may_have_xattrs {
            let found = self.fs.xattrs(&mut self.cx, ino).map_err(|error| self.failed(&error))?;
            xattrs = found.iter().map(|xattr| printable(&xattr.name)).collect();
        }
        Ok(FileJson {
            path,
            inode: ino.0,
            kind: type_name(file_type),
            mode: format!("{mode:04o}"),
            nlink,
            uid,
            gid,
            size,
            mtime: Time { seconds: mtime.seconds, nanos: mtime.nanos },
            target: (file_type == FileType::Symlink).then(|| printable(&inode.target)),
            device: inode.device.map(|DeviceNumber { major, minor }| [major, minor]),
            xattrs,
            file_type,
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
        let kind = letter(row.file_type);
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
