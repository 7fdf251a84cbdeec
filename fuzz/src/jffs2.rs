//! JFFS2 with wrong bytes, mounted for writing.
//!
//! The first byte chooses one of two file systems that Linux wrote (bit 0: the one on NOR that lost power), whether the CRCs
//! of the nodes that are changed are made right (bit 1), and whether summaries are believed (bit 2). The rest is patches:
//! number of the node (2 bytes), offset in it (2), number of bytes (1), bytes. A patch of node 65535 begins at byte `offset`
//! times 32 of the flash instead.

use std::sync::LazyLock;

use fs::compress::{Algorithm, Decompressor};
use fs::jffs2::media::crc;
use fs::jffs2::{Jffs2, Options};
use sim::seam::{FileSystem, Flash, Geometry, Ino, Medium, NewInode, Payload, RamFlash, ReadInto, RenameFlags};
use sim::{Cx, Ns, Peb};

use crate::memory;

const NAND: Geometry = Geometry {
    medium: Medium::Nand,
    pebs: 40,
    peb_bytes: 32_768,
    page_bytes: 2048,
    subpage_bytes: 2048,
    oob_bytes: 64,
};
const NOR: Geometry =
    Geometry { medium: Medium::Nor, pebs: 20, peb_bytes: 65_536, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };

/// An image on its flash, and the offset of each node in it.
type Image = (Geometry, Vec<u8>, Vec<usize>);

/// The images.
static IMAGES: LazyLock<[Image; 2]> = LazyLock::new(|| {
    let clean = include_bytes!("../../stack/fs/tests/images/jffs2/clean-nand.zst");
    let cut = include_bytes!("../../stack/fs/tests/images/jffs2/cut-nor.zst");
    [(NAND, &clean[..]), (NOR, &cut[..])].map(|(geometry, packed)| {
        let mut image = vec![0; geometry.bytes() as usize];
        Decompressor::new().decompress(Algorithm::Zstd, packed, &mut image).expect("an image of the tests");
        let nodes = (0..image.len() - 12).step_by(4).filter(|&at| image[at..at + 2] == [0x85, 0x19]).collect();
        (geometry, image, nodes)
    })
});

/// Makes the CRCs of a node's header right, and that of what follows it.
fn seal(bytes: &mut [u8], at: usize) {
    let ends: &[(usize, usize)] = match bytes[at + 2..at + 4] {
        [0x01, 0xe0] => &[(32, 32)],
        [0x02, 0xe0] => &[(60, 64)],
        [0x08, 0xe0] => &[(28, 28)],
        [0x06, 0x20] | [0x09, 0xe0] => &[(24, 24)],
        _ => &[],
    };
    for &(len, to) in [(8, 8)].iter().chain(ends) {
        if let Some(place) = bytes.get(at..at + to + 4) {
            let sum = crc(&place[..len]);
            bytes[at + to..at + to + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Mounts the file system, reads its files, writes, and collects garbage.
pub fn jffs2(data: &[u8]) {
    let Some((&flags, mut patches)) = data.split_first() else { return };
    let (geometry, image, nodes) = &IMAGES[usize::from(flags & 1)];
    let mut bytes = image.clone();
    while let [a, b, c, d, len, rest @ ..] = patches {
        let (number, offset) = (u16::from_le_bytes([*a, *b]), usize::from(u16::from_le_bytes([*c, *d])));
        let (new, rest) = rest.split_at(rest.len().min((*len).into()));
        patches = rest;
        let node = (number != u16::MAX).then(|| nodes[usize::from(number) % nodes.len()]);
        let at = node.map_or(offset * 32, |node| node + offset);
        let Some(place) = bytes.get_mut(at..at + new.len()) else { continue };
        place.copy_from_slice(new);
        if let Some(node) = node.filter(|_| flags & 2 != 0) {
            seal(&mut bytes, node);
        }
    }
    let cx = &mut Cx::new();
    let mut flash = RamFlash::new(*geometry);
    let unit = if geometry.medium == Medium::Nor { geometry.peb_bytes } else { geometry.page_bytes };
    for (peb, block) in (0..).zip(bytes.chunks(geometry.peb_bytes as usize)) {
        for (at, page) in (0..).step_by(unit as usize).zip(block.chunks(unit as usize)) {
            if page.iter().any(|&byte| byte != 0xff) {
                flash.program(cx, Peb(peb), at, Payload::Bytes(page)).expect("it is erased");
            }
        }
    }
    memory::bounded(bytes.len(), 8, 16 << 20, || {
        let options = Options { summary: flags & 4 != 0, ..Options::default() };
        let Ok(mut fs) = Jffs2::mount(flash, cx, options) else { return };
        let mut chunk = vec![0; 1 << 16];
        let mut dirs = vec![fs.root()];
        for _ in 0..64 {
            let Some(dir) = dirs.pop() else { break };
            let mut inos: Vec<Ino> = Vec::new();
            let _ = fs.readdir(cx, dir, 0, &mut |entry| {
                inos.push(entry.ino);
                true
            });
            for ino in inos {
                let Ok(attr) = fs.getattr(cx, ino) else { continue };
                for name in fs.listxattr(cx, ino).unwrap_or_default() {
                    let _ = fs.getxattr(cx, ino, &name);
                }
                for at in [0, attr.size.saturating_sub(5000), attr.size / 2] {
                    let _ = fs.read(cx, ino, at, ReadInto::Bytes(&mut chunk));
                }
                dirs.push(ino);
            }
        }
        let root = fs.root();
        if let Ok(made) = fs.create(cx, root, b"new", NewInode::of_root(0o644)) {
            let _ = fs.write(cx, made.ino, 4000, Payload::Bytes(&[7; 5000]));
            let _ = fs.rename(cx, (root, b"new"), (root, b"s"), RenameFlags::NONE);
        }
        for _ in 0..200 {
            cx.spend(Ns(3_000_000));
            let _ = fs.collect(cx);
        }
        fs.check_memory().expect("the books are right");
    });
}
