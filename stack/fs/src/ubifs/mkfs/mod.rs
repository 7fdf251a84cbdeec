//! Makes a UBIFS file system from inodes, names and data that come one after another: what mkfs.ubifs does.
//!
//! Knows nodes and LEBs; knows no host file and no UBI. Holds one LEB, 2 bytes for a data node and 24 for another node;
//! LEBs go to a [`Sink`] as they are full, and the super block last. The image mounts clean: no journal, no orphans, one
//! commit. What is a matter of taste is as mkfs.ubifs 2.1.5 does it: data before their inode, the inode before the entry
//! that names it, LEBs of leaves before an empty LEB for garbage collection and those of the index.
//!
//! The caller numbers inodes with [`Mkfs::new_inode`], and gives the data of a file with [`Mkfs::data`], then
//! [`Mkfs::inode`], then [`Mkfs::entry`] for each of its names; a directory's inode ends it with [`Mkfs::end_dir`].

mod data;
mod index;
mod layout;
mod lpt;
mod space;

use sim::Lnum;
use sim::seam::is_zero;

use self::data::Packer;
use self::index::Leaves;
use self::space::Space;
use super::media::lpt::{LebProps, LptAddr, LptGeometry};
use super::media::{
    BLOCK_BYTES, Branch, COMMIT_START_BYTES, Compression, DentNode, FIRST_INO, Group, InodeNode, ItemType, Key,
    KeyHash, LOG_LNUM, MASTER_LNUMS, MAX_INLINE, MAX_NAME, Master, NodeType, REFERENCE_BYTES, ROOT_INO, SB_LNUM,
    SuperBlock, aligned, encode_commit_start, inode_flags, master_flags, pad, seal,
};

/// Where LEBs go: their numbers, and their contents up to what was never written. Each LEB comes once, in no order.
pub type Sink<'a, E> = Box<dyn FnMut(Lnum, &[u8]) -> Result<(), E> + 'a>;

/// How data are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// All in this way.
    Always(Compression),
    /// With LZO, and with zlib where that is smaller by this percentage.
    FavorLzo {
        /// Per cent by which zlib must be better, below 100.
        percent: u32,
    },
}

/// Most bytes of a journal that Linux makes at the first mount.
const FIRST_MOUNT_JOURNAL: u64 = 32 << 20;

/// Space that only root may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// `--reserved`: room for so many bytes of data, with their headers and their share of the index.
    Data(u64),
    /// A share of the main area.
    Share {
        /// Per cent of it.
        percent: u64,
        /// The most, in bytes.
        most: u64,
    },
}

/// Options of `mkfs.ubifs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--min-io-size`, in bytes. Below 8 it counts as 8.
    pub min_io_bytes: u32,
    /// `--leb-size`, in bytes.
    pub leb_bytes: u32,
    /// `--max-leb-cnt`: LEBs to which the file system may grow.
    pub max_lebs: u32,
    /// `--compr`.
    pub compress: Compress,
    /// `--fanout`: branches of an index node.
    pub fanout: u32,
    /// `--keyhash`.
    pub key_hash: KeyHash,
    /// `--jrn-size`, in bytes; an eighth of the LEBs, 8 MiB at most, if absent.
    pub journal_bytes: Option<u64>,
    /// `--log-lebs`; as many as the journal needs if absent.
    pub log_lebs: Option<u32>,
    /// `--orph-lebs`.
    pub orphan_lebs: u32,
    /// Space that only root may use.
    pub reserve: Reserve,
    /// `--space-fixup`: the first mount erases the free space.
    pub space_fixup: bool,
    /// As Linux makes it at the first mount: with all LEBs that it may have, all of them in the tree of LEB properties; with the index
    /// in the first LEB of the main area, and leaves in the second.
    pub is_first_mount: bool,
    /// UUID; made from the contents if absent.
    pub uuid: Option<[u8; 16]>,
}

impl Options {
    /// The defaults of mkfs.ubifs, for a flash of this geometry.
    pub const fn new(min_io_bytes: u32, leb_bytes: u32, max_lebs: u32) -> Options {
        Options {
            min_io_bytes,
            leb_bytes,
            max_lebs,
            compress: Compress::Always(Compression::Lzo),
            fanout: 8,
            key_hash: KeyHash::R5,
            journal_bytes: None,
            log_lebs: None,
            orphan_lebs: 1,
            reserve: Reserve::Data(0),
            space_fixup: false,
            is_first_mount: false,
            uuid: None,
        }
    }

    /// What Linux makes of an empty volume when it first mounts it: `create_default_filesystem` of `fs/ubifs/sb.c`, 6.12. The
    /// journal, log included, has 5 % of the LEBs and at most 32 MiB; the log is twice as large as its references.
    pub fn first_mount(min_io_bytes: u32, leb_bytes: u32, lebs: u32) -> Options {
        let options = Options::new(min_io_bytes, leb_bytes, lebs);
        let (lebs, leb) = (u64::from(lebs), u64::from(leb_bytes).max(1));
        let journal = (lebs * 5 / 100).max(5);
        let journal = if journal * leb > FIRST_MOUNT_JOURNAL { FIRST_MOUNT_JOURNAL / leb } else { journal };
        let reference = REFERENCE_BYTES.next_multiple_of(min_io_bytes.max(8) as usize) as u64;
        let log = (2 * reference * journal).div_ceil(leb) + 1;
        // What is not needed by the smallest file system of 17 LEBs.
        let has_room = lebs > 17 + 8;
        let log = if has_room { log + 1 } else { log };
        let orphans = if lebs > 17 + u64::from(has_room) + 1 { 2 } else { 1 };
        Options {
            journal_bytes: Some(journal.saturating_sub(log).max(3) * leb),
            log_lebs: Some(u32::try_from(log).unwrap_or(u32::MAX)),
            orphan_lebs: orphans,
            reserve: Reserve::Share { percent: 5, most: 5 << 20 },
            is_first_mount: true,
            ..options
        }
    }
}

/// An option that is impossible, or that does not go with the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {found}, expected {expected}")]
pub struct OptionError {
    /// Name of the option on the command line.
    pub option: &'static str,
    /// Its value.
    pub found: u64,
    /// Values allowed.
    pub expected: String,
}

/// Why a file system cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MkfsError<E> {
    /// The tree needs more LEBs.
    #[error("max_leb_cnt too low ({needed} needed)")]
    TooSmall {
        /// LEBs that it needs.
        needed: u32,
    },
    /// A number of inodes, bytes or attributes above what UBIFS has.
    #[error("{what}: found {found}, expected at most {most}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much was found.
        found: u64,
        /// How much UBIFS has.
        most: u64,
    },
    /// The sink failed.
    #[error(transparent)]
    Sink(E),
}

/// Owner, permissions and times of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last access: seconds since 1970, nanoseconds.
    pub atime: (i64, u32),
    /// Time of the last change of the inode.
    pub ctime: (i64, u32),
    /// Time of the last change of the data.
    pub mtime: (i64, u32),
    /// Of [`inode_flags`] those that a user sets: synchronous, immutable, append-only.
    pub flags: u32,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Name, with its name space.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// A new inode: its number, and a sequence number. Linux expects that every node of a file has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    ino: u32,
    creat_sqnum: u64,
}

/// A directory that is being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    inode: NewInode,
    bytes: u64,
    subdirs: u32,
    last: Vec<u8>,
}

impl Dir {
    fn new(inode: NewInode) -> Dir {
        Dir { inode, bytes: InodeNode::BYTES as u64, subdirs: 0, last: Vec::new() }
    }

    /// Its inode.
    pub const fn inode(&self) -> NewInode {
        self.inode
    }
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The super block.
    pub super_block: SuperBlock,
    /// The master node.
    pub master: Master,
    /// Fewest LEBs of a volume on which Linux mounts it.
    pub min_lebs: u32,
}

/// Bytes of an entry, as the sizes of directories and of extended attributes count it.
const fn entry_size(name: usize) -> u32 {
    aligned(DentNode::bytes_of(name) as u32)
}

/// A file system that is being made.
pub struct Mkfs<'a, E> {
    sb: SuperBlock,
    uuid: Option<[u8; 16]>,
    space: Space<'a, E>,
    leaves: Leaves,
    packer: Packer,
    last_ino: u32,
    /// Sequence number with which the root directory was created.
    root_creation: u64,
    /// Sequence number of the super block, if that is written before all else.
    super_block: Option<u64>,
}

impl<E> std::fmt::Debug for Mkfs<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mkfs").field("sb", &self.sb).field("last_ino", &self.last_ino).finish_non_exhaustive()
    }
}

impl<'a, E> Mkfs<'a, E> {
    /// Begins a file system. Errors: options that do not go together.
    pub fn new(options: &Options, sink: Sink<'a, E>) -> Result<Mkfs<'a, E>, OptionError> {
        let sb = layout::super_block(options)?;
        let mut space = Space::new(&sb, options.is_first_mount, sink);
        let root_creation = space.next_sqnum();
        let super_block = options.is_first_mount.then(|| space.next_sqnum());
        Ok(Mkfs {
            space,
            sb,
            uuid: options.uuid,
            leaves: Leaves::default(),
            packer: Packer::new(options.compress),
            last_ino: FIRST_INO,
            root_creation,
            super_block,
        })
    }

    /// Begins the root directory, to be called once.
    pub fn root(&self) -> Dir {
        Dir::new(NewInode { ino: ROOT_INO, creat_sqnum: self.root_creation })
    }

    /// Begins another directory. Errors: there are too many inodes.
    pub fn new_dir(&mut self) -> Result<Dir, MkfsError<E>> {
        Ok(Dir::new(self.new_inode()?))
    }

    /// Begins an inode. Errors: there are too many.
    pub fn new_inode(&mut self) -> Result<NewInode, MkfsError<E>> {
        /// Linux warns from here on, and refuses a little later.
        const MOST: u32 = 0xfff0_0000;
        if self.last_ino >= MOST {
            return Err(MkfsError::Limit { what: "inodes", found: MOST.into(), most: MOST.into() });
        }
        self.last_ino += 1;
        Ok(NewInode { ino: self.last_ino, creat_sqnum: self.space.next_sqnum() })
    }

    /// Adds data of a regular file from byte `offset` on, which begins a block; only the last data of a file may end in
    /// the middle of one. Blocks of zeroes are left out.
    /// Errors: the file is too large.
    pub fn data(&mut self, inode: NewInode, offset: u64, data: &[u8]) -> Result<(), MkfsError<E>> {
        assert!(offset.is_multiple_of(BLOCK_BYTES.into()), "data begin with a block");
        let end = offset + data.len() as u64;
        check_size(end)?;
        for (number, block) in (offset / u64::from(BLOCK_BYTES)..).zip(data.chunks(BLOCK_BYTES as usize)) {
            if is_zero(block) {
                continue;
            }
            let key = Key::data(inode.ino, u32::try_from(number).expect("the size was checked"));
            let branch = self.packer.put(&mut self.space, key, block).map_err(MkfsError::Sink)?;
            self.leaves.add_data(branch);
        }
        Ok(())
    }

    /// Adds the inode of what is no directory. `inline` is the target of a symbolic link, or the number of a device; of
    /// another file it is empty. `xattrs` are sorted by name.
    /// Errors: the file is too large; more attributes than UBIFS has.
    pub fn inode(
        &mut self,
        inode: NewInode,
        attributes: &Attributes,
        (size, nlink): (u64, u32),
        inline: &[u8],
        xattrs: &[Xattr],
    ) -> Result<(), MkfsError<E>> {
        check_size(size)?;
        limit("bytes of a link's target", inline.len(), MAX_INLINE)?;
        let host = self.host(inode, attributes, (size, nlink), inline);
        self.with_xattrs(host, xattrs)
    }

    /// Adds an entry to a directory. The entries of a directory come in the order of their names, as bytes.
    /// Errors: the name is too long.
    pub fn entry(&mut self, dir: &mut Dir, name: &[u8], inode: NewInode, item: ItemType) -> Result<(), MkfsError<E>> {
        assert!(dir.last.as_slice() < name, "the entries of a directory are sorted");
        limit("bytes of a name", name.len(), MAX_NAME)?;
        dir.last.clear();
        dir.last.extend_from_slice(name);
        dir.bytes += u64::from(entry_size(name.len()));
        dir.subdirs += u32::from(item == ItemType::Dir);
        let key = Key::dent(dir.inode.ino, self.sb.key_hash.of(name));
        self.put_entry(&DentNode { key, ino: inode.ino.into(), item, cookie: 0, name })
    }

    /// Adds the inode of a directory, all of whose entries were added.
    /// Errors: more attributes than UBIFS has.
    pub fn end_dir(&mut self, dir: &Dir, attributes: &Attributes, xattrs: &[Xattr]) -> Result<(), MkfsError<E>> {
        let host = self.host(dir.inode, attributes, (dir.bytes, 2 + dir.subdirs), &[]);
        self.with_xattrs(host, xattrs)
    }

    fn host<'i>(
        &self,
        inode: NewInode,
        attributes: &Attributes,
        (size, nlink): (u64, u32),
        data: &'i [u8],
    ) -> InodeNode<'i> {
        let time = |(seconds, nanos): (i64, u32)| (seconds.cast_unsigned(), nanos);
        let Attributes { mode, uid, gid, atime, ctime, mtime, flags } = *attributes;
        let compressed = if self.sb.compression == Compression::None { 0 } else { inode_flags::COMPRESSED };
        InodeNode {
            key: Key::inode(inode.ino),
            creat_sqnum: inode.creat_sqnum,
            size,
            atime: time(atime),
            ctime: time(ctime),
            mtime: time(mtime),
            nlink,
            uid,
            gid,
            mode,
            flags: flags | compressed,
            xattr_cnt: 0,
            xattr_size: 0,
            xattr_names: 0,
            compression: self.sb.compression,
            data,
        }
    }

    fn with_xattrs(&mut self, mut host: InodeNode<'_>, xattrs: &[Xattr]) -> Result<(), MkfsError<E>> {
        /// Bytes of the list of names that Linux hands out, with a zero after each.
        const NAMES: usize = 65_536;
        // Linux deletes an inode and its attributes in half a LEB.
        let most = self.sb.leb_bytes as usize / 2 / InodeNode::BYTES;
        limit("extended attributes of a file", xattrs.len(), most)?;
        let names: usize = xattrs.iter().map(|xattr| xattr.name.len()).sum();
        limit("bytes of the names of a file's extended attributes", names + xattrs.len(), NAMES)?;
        assert!(xattrs.is_sorted_by(|a, b| a.name < b.name), "the attributes are sorted by name");
        for Xattr { name, value } in xattrs {
            limit("bytes of an extended attribute's name", name.len(), MAX_NAME)?;
            limit("bytes of an extended attribute's value", value.len(), MAX_INLINE)?;
            let NewInode { ino, creat_sqnum } = self.new_inode()?;
            host.xattr_cnt += 1;
            host.xattr_size += entry_size(name.len()) + aligned((InodeNode::BYTES + value.len() + 1) as u32);
            host.xattr_names += name.len() as u32;
            self.put_inode(&InodeNode {
                key: Key::inode(ino),
                creat_sqnum,
                size: value.len() as u64,
                nlink: 1,
                mode: ItemType::File.mode() | 0o777,
                flags: inode_flags::XATTR,
                xattr_cnt: 0,
                xattr_size: 0,
                xattr_names: 0,
                data: value,
                ..host
            })?;
            let key = Key::xent(host.key.ino(), self.sb.key_hash.of(name));
            self.put_entry(&DentNode { key, ino: ino.into(), item: ItemType::File, cookie: 0, name })?;
        }
        self.put_inode(&host)
    }

    fn put_inode(&mut self, inode: &InodeNode<'_>) -> Result<(), MkfsError<E>> {
        self.leaf(inode.key, inode.bytes(), |node, sqnum| inode.encode(node, Group::None, sqnum))
    }

    fn put_entry(&mut self, entry: &DentNode<'_>) -> Result<(), MkfsError<E>> {
        self.leaf(entry.key, DentNode::bytes_of(entry.name.len()), |node, sqnum| entry.encode(node, Group::None, sqnum))
    }

    fn leaf(&mut self, key: Key, len: usize, build: impl FnOnce(&mut [u8], u64)) -> Result<(), MkfsError<E>> {
        let branch: Branch = self.space.node(key, len, build).map_err(MkfsError::Sink)?;
        self.leaves.add(branch);
        Ok(())
    }

    /// Writes index, LEB properties, log, masters and super block. The root directory was ended.
    /// Errors: the tree needs more LEBs than the file system may have; then nothing but LEBs of the main area was
    /// written.
    pub fn finish(self) -> Result<Made, MkfsError<E>> {
        let Mkfs { sb, uuid, space, leaves, last_ino, super_block, .. } = self;
        let mut space = space;
        let sink = MkfsError::Sink;
        let gc_lnum = space.begin_index().map_err(sink)?;
        let index = index::write(leaves, &mut space, sb.fanout as usize).map_err(sink)?;
        let (index_head_lnum, index_head_offset) = space.end().map_err(sink)?;
        let mut props = space.props();
        if super_block.is_some() {
            props.resize(
                props.len().max(sb.main_lebs() as usize),
                LebProps { free: sb.leb_bytes, ..LebProps::default() },
            );
        }
        let lebs = sb.main_first() + u32::try_from(props.len()).expect("LEBs are numbered in 32 bits");
        if lebs > sb.max_lebs {
            return Err(MkfsError::TooSmall { needed: lebs });
        }
        let mut sb = SuperBlock { lebs, ..sb };
        let tree = lpt::write(&LptGeometry::new(&sb), &props, sb.min_io_bytes, &mut space).map_err(sink)?;
        let lsave = tree.lsave.unwrap_or(LptAddr { lnum: 0, offset: 0 });
        let mut master = Master {
            highest_ino: last_ino.into(),
            commit: 0,
            flags: if super_block.is_some() { 0 } else { master_flags::NO_ORPHANS },
            log_lnum: LOG_LNUM,
            root_lnum: index.root.lnum,
            root_offset: index.root.offset,
            root_len: index.root.len,
            gc_lnum,
            index_head_lnum,
            index_head_offset,
            index_bytes: index.bytes,
            lpt_lnum: tree.root.lnum,
            lpt_offset: tree.root.offset,
            lpt_head_lnum: tree.head.lnum,
            lpt_head_offset: tree.head.offset,
            ltab_lnum: tree.ltab.lnum,
            ltab_offset: tree.ltab.offset,
            lsave_lnum: lsave.lnum,
            lsave_offset: lsave.offset,
            lscan_lnum: sb.main_first(),
            lebs,
            ..Master::default()
        };
        for leb in &props {
            master.total_free += u64::from(leb.free);
            master.total_dirty += u64::from(leb.dirty);
            if leb.is_index {
                master.index_lebs += 1;
                continue;
            }
            master.empty_lebs += u32::from(leb.free == sb.leb_bytes);
            let space = leb.free + leb.dirty;
            master.total_used += u64::from(sb.leb_bytes - space);
            let (dead, dark) = layout::dead_and_dark(&sb, space);
            master.total_dead += u64::from(dead);
            master.total_dark += u64::from(dark);
        }
        let mut node = [0; Master::BYTES];
        master.encode(&mut node);
        for lnum in MASTER_LNUMS {
            let sqnum = space.next_sqnum();
            put_node(&mut space, &sb, lnum, (NodeType::Master, sqnum), &mut node).map_err(sink)?;
        }
        sb.uuid = uuid.unwrap_or_else(|| uuid_of(space.digest(), &sb));
        let sqnum = space.next_sqnum();
        let mut log = vec![0; COMMIT_START_BYTES];
        encode_commit_start(master.commit, &mut log, sqnum);
        put_unit(&mut space, &sb, LOG_LNUM, log).map_err(sink)?;
        let mut node = [0; SuperBlock::BYTES];
        sb.encode(&mut node);
        let sqnum = super_block.unwrap_or_else(|| space.next_sqnum());
        put_node(&mut space, &sb, SB_LNUM, (NodeType::SuperBlock, sqnum), &mut node).map_err(sink)?;
        Ok(Made { super_block: sb, master, min_lebs: layout::min_lebs(&sb) })
    }
}

/// The UUID of a file system with these contents (version 8 of RFC 9562).
fn uuid_of(contents: u128, sb: &SuperBlock) -> [u8; 16] {
    let mut node = [0; SuperBlock::BYTES];
    sb.encode(&mut node);
    let mut uuid = space::digest(contents, &node).to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Writes a node alone into a LEB.
fn put_node<E>(
    space: &mut Space<'_, E>,
    sb: &SuperBlock,
    lnum: u32,
    (node_type, sqnum): (NodeType, u64),
    node: &mut [u8],
) -> Result<(), E> {
    seal(node, node_type, Group::None, sqnum);
    put_unit(space, sb, lnum, node.to_vec())
}

/// Writes bytes at the beginning of a LEB, padded to whole write units.
fn put_unit<E>(space: &mut Space<'_, E>, sb: &SuperBlock, lnum: u32, mut bytes: Vec<u8>) -> Result<(), E> {
    let used = bytes.len();
    bytes.resize(used.next_multiple_of(sb.min_io_bytes as usize), 0);
    pad(&mut bytes[used..]);
    space.put(lnum, &bytes)
}

fn limit<E>(what: &'static str, found: usize, most: usize) -> Result<(), MkfsError<E>> {
    if found <= most { Ok(()) } else { Err(MkfsError::Limit { what, found: found as u64, most: most as u64 }) }
}

fn check_size<E>(size: u64) -> Result<(), MkfsError<E>> {
    const MOST: u64 = (super::media::MAX_BLOCK as u64 + 1) * BLOCK_BYTES as u64;
    if size <= MOST { Ok(()) } else { Err(MkfsError::Limit { what: "bytes of a file", found: size, most: MOST }) }
}
