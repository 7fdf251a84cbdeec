//! Mounting: the look at the flash, and what follows from it: how many names each inode has, and which have none.
//! Source: Linux 6.12, `fs/jffs2/build.c`.

use std::collections::BTreeMap;

use sim::seam::{Flash, Geometry};
use sim::{Cx, Peb};

use super::blocks::{Blocks, Obsoleting};
use super::damage::{Damages, Lost};
use super::device::Device;
use super::error::{Jffs2Error, Result};
use super::media::{Endian, HEADER_BYTES, Header, ROOT_INO};
use super::numbered::Numbered;
use super::scan::{Found, FoundName};
use super::space::Levels;
use super::xattrs::Xattrs;
use super::{Boot, Cache, Collected, Counters, Jffs2, Mounted, Options};
use crate::cache::CleanPages;
use crate::compress::{Compressor, Decompressor};

/// Type of a directory in an entry (`DT_DIR`).
const DT_DIR: u8 = 4;
/// Fewest eraseblocks of a file system: Linux mounts no fewer.
const FEWEST_BLOCKS: u32 = 5;

/// Byte order of the first node at the beginning of a block.
fn detect<F: Flash>(flash: &mut F, cx: &mut Cx) -> Result<Option<Endian>> {
    let mut head = [0; HEADER_BYTES];
    for block in (0..flash.geometry().pebs).map(Peb) {
        if flash.is_bad(block) || flash.geometry().peb_bytes < HEADER_BYTES as u32 {
            continue;
        }
        flash.read(cx, block, 0, &mut head).or_else(|error| match error {
            sim::seam::FlashError::Uncorrectable { .. } => Ok(Default::default()),
            other => Err(other),
        })?;
        let endian = Endian::of_magic([head[0], head[1]]);
        if let Some(endian) = endian.filter(|&endian| Header::read(endian, &head).is_ok()) {
            return Ok(Some(endian));
        }
    }
    Ok(None)
}

impl<F: Flash> Jffs2<F> {
    /// Mounts `flash`. One that is erased becomes an empty file system.
    /// Errors: the flash's; it holds something else; a node of a type that forbids it.
    pub fn mount(mut flash: F, cx: &mut Cx, options: Options) -> Result<Jffs2<F>> {
        let Geometry { pebs, peb_bytes, .. } = *flash.geometry();
        let wrong = |expected| Err(Jffs2Error::Geometry { blocks: pebs, bytes: peb_bytes, expected });
        if u64::from(pebs) * u64::from(peb_bytes) > u64::from(u32::MAX) {
            return wrong("less than 4 GiB");
        }
        if pebs < FEWEST_BLOCKS && !options.read_only {
            return wrong("5 eraseblocks");
        }
        if peb_bytes < 256 || !peb_bytes.is_multiple_of(4) {
            return wrong("eraseblocks of 256 bytes or more");
        }
        let endian = match options.endian {
            Some(endian) => endian,
            None => detect(&mut flash, cx)?.unwrap_or(Endian::Little),
        };
        let mut fs = Jffs2 {
            device: Device::new(flash, endian),
            blocks: Blocks::new(pebs, peb_bytes),
            caches: Numbered::new(),
            inodes: Numbered::new(),
            pages: CleanPages::new(options.page_cache_bytes),
            xattrs: Xattrs::default(),
            options,
            boot: options.boot.unwrap_or(Boot { at: cx.now(), ..Boot::default() }),
            levels: Levels::default(),
            highest_ino: ROOT_INO,
            to_check: Vec::new(),
            collected: Collected::default(),
            last_draw: (u64::MAX, 0),
            is_reserved: false,
            signals: 0,
            counters: Counters::default(),
            mounted: Mounted::default(),
            damages: Damages::default(),
            stale_summaries: Vec::new(),
            packer: Compressor::of_linux(),
            unpacker: Decompressor::new(),
            scratch: Vec::new(),
            unpacked: Vec::new(),
            to_write: Vec::new(),
            node: Vec::new(),
            broken: None,
            retries: Default::default(),
        };
        let began = cx.now();
        let found = fs.scan(cx)?;
        fs.mounted.scan = cx.now() - began;
        let names = found.names.values().map(BTreeMap::len).sum::<usize>();
        fs.boot.versions = fs.boot.versions.wrapping_add(found.sum);
        fs.build(found);
        fs.spend(cx, (names + fs.caches.len()) as u64, 0);
        fs.mounted.build = cx.now() - began - fs.mounted.scan;
        fs.cache(ROOT_INO);
        fs.blocks.rotate(fs.boot.versions);
        fs.levels = Levels::of(&fs.blocks, fs.marks_obsolete());
        fs.scratch = Vec::new();
        if !options.read_only {
            // Linux reads the root directory in the end. One that cannot be read is said to be so when somebody asks for it.
            if let Err(error @ Jffs2Error::Flash(_)) = fs.load(cx, ROOT_INO) {
                return Err(error);
            }
        }
        fs.to_check = fs.in_turn();
        fs.to_check.reverse();
        // Its thread begins later.
        (fs.blocks.is_to_erase, fs.signals) = (false, 0);
        Ok(fs)
    }

    /// What flash has of an inode; made if it is new.
    pub(super) fn cache(&mut self, ino: u32) -> &mut Cache {
        self.highest_ino = self.highest_ino.max(ino);
        self.caches.get_or_insert_with(ino, || Cache {
            links: u32::from(ino == ROOT_INO),
            is_dir: ino == ROOT_INO,
            ..Cache::default()
        })
    }

    pub(super) fn obsolete_in_mount(&mut self, node: u32) {
        self.blocks.obsolete(node, Obsoleting { mounting: true, buffered: false, erase_soon: true });
    }

    /// Inodes in the order of Linux's hash table.
    /// Source: Linux 6.12, `calculate_inocache_hashsize` and `jffs2_add_ino_cache`.
    fn in_turn(&self) -> Vec<u32> {
        let size = (((self.blocks.bytes() >> 20) * 2) & !63).clamp(128, 1024);
        let mut inodes: Vec<u32> = self.caches.iter().map(|(ino, _)| ino).collect();
        inodes.sort_by_key(|&ino| (ino % size, ino));
        inodes
    }

    /// An inode without a name: its nodes are obsolete. Adds those that lose their last name by that to `dead`.
    /// Source: Linux 6.12, `jffs2_build_remove_unlinked_inode`.
    fn drop_dead(&mut self, ino: u32, how: Obsoleting, found: &mut Found, dead: &mut Vec<u32>) {
        let nodes = self.caches.get(ino).map(|cache| cache.nodes.clone()).unwrap_or_default();
        nodes.into_iter().rev().for_each(|node| self.blocks.obsolete(node, how));
        for name in found.names.remove(&ino).unwrap_or_default().into_values().filter(|name| name.ino != 0) {
            if let Some(cache) = self.caches.get_mut(name.ino).filter(|cache| cache.links > 0) {
                cache.links -= 1;
                if cache.links == 0 {
                    dead.push(name.ino);
                }
            }
        }
    }

    /// Counts the names of each inode. What has none goes, and so does what is in a directory that goes.
    fn build(&mut self, mut found: Found) {
        let mut lost = Vec::new();
        for (&dir, names) in &found.names {
            for (bytes, name) in names.iter().filter(|(_, name)| name.ino != 0) {
                match self.caches.get_mut(name.ino) {
                    Some(cache) => {
                        cache.links += 1;
                        cache.is_dir |= name.kind == DT_DIR;
                    }
                    None => lost.push((dir, bytes.clone(), *name)),
                }
            }
        }
        // Blocks are on their lists by now.
        let how = Obsoleting { mounting: false, buffered: false, erase_soon: true };
        for (_, _, FoundName { node, .. }) in &lost {
            self.blocks.obsolete(*node, how);
        }
        // Inodes in Linux's order, of each the nodes that were found last before others; then those of directories that went.
        let inodes = self.in_turn();
        let mut dead = Vec::new();
        for ino in inodes {
            if self.caches[ino].links == 0 {
                self.drop_dead(ino, how, &mut found, &mut dead);
            }
        }
        while let Some(ino) = dead.pop() {
            self.drop_dead(ino, how, &mut found, &mut dead);
        }
        // What was in a directory that is gone may be gone too: nodes are erased in any order.
        for (dir, name, FoundName { node, ino, .. }) in lost {
            if self.caches.get(dir).is_some_and(|cache| cache.links > 0) {
                self.note_lost(node, Some(dir), Lost::Name { name, ino }, &[]);
            }
        }
        // From now on a directory says which directory it is in.
        for (&dir, names) in &found.names {
            for name in names.values().filter(|name| name.ino != 0 && name.kind == DT_DIR) {
                if let Some(cache) = self.caches.get_mut(name.ino) {
                    cache.links = dir;
                }
            }
        }
        let caches = &self.caches;
        self.xattrs.build(|ino| caches.get(ino).is_some_and(|cache| cache.links > 0));
    }
}
