//! UBIFS with wrong bytes.
//!
//! The first byte chooses one of two file systems that Linux wrote (bit 0: the one that lost power), and whether the
//! checksums of the nodes that are changed are made right (bit 1). The rest is patches: number of the node (2 bytes), offset
//! in it (2), number of bytes (1), bytes. A patch of node 65535 begins at byte `offset` times 8 of the volume instead.

use std::sync::LazyLock;

use fs::compress::{Algorithm, Decompressor};
use fs::ubifs::Reader;
use fs::ubifs::media::ROOT_INO;
use sim::seam::{LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum};

use crate::memory;

const LEB: usize = 31_744;
const LEBS: u32 = 48;
/// LEBs that the images have.
const KEPT: usize = 18;
const MAGIC: [u8; 4] = [0x31, 0x18, 0x10, 0x06];

/// The images, and the offset of each node in them.
static IMAGES: LazyLock<[(Vec<u8>, Vec<usize>); 2]> = LazyLock::new(|| {
    let clean = include_bytes!("../../stack/fs/tests/images/clean.ubifs.zst");
    let cut = include_bytes!("../../stack/fs/tests/images/cut.ubifs.zst");
    [&clean[..], &cut[..]].map(|packed| {
        let mut image = vec![0; LEB * KEPT];
        Decompressor::new().decompress(Algorithm::Zstd, packed, &mut image).expect("an image of the tests");
        let nodes = (0..image.len() - 24).step_by(8).filter(|&at| image[at..at + 4] == MAGIC).collect();
        (image, nodes)
    })
});

/// Mounts the file system, checks it, and reads its files.
pub fn ubifs(data: &[u8]) {
    let Some((&flags, mut patches)) = data.split_first() else { return };
    let (image, nodes) = &IMAGES[usize::from(flags & 1)];
    let mut bytes = image.clone();
    while let [a, b, c, d, len, rest @ ..] = patches {
        let (number, offset) = (u16::from_le_bytes([*a, *b]), usize::from(u16::from_le_bytes([*c, *d])));
        let (new, rest) = rest.split_at(rest.len().min((*len).into()));
        patches = rest;
        let node = match number {
            u16::MAX => None,
            number => Some(nodes[usize::from(number) % nodes.len()]),
        };
        let at = node.map_or(offset * 8, |node| node + offset);
        let Some(place) = bytes.get_mut(at..at + new.len()) else { continue };
        place.copy_from_slice(new);
        if let Some(node) = node.filter(|_| flags & 2 != 0) {
            let len = u32::from_le_bytes(bytes[node + 16..node + 20].try_into().expect("four bytes")) as usize;
            let end = node + len.clamp(24, bytes.len() - node);
            let sum = !crc32fast::hash(&bytes[node + 8..end]);
            bytes[node + 4..node + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let cx = &mut Cx::new();
    let mut volume = RamVolume::new(LEBS, LEB as u32, 512);
    for (lnum, leb) in (0..).zip(bytes.chunks(LEB)) {
        volume.write(cx, Lnum(lnum), 0, Payload::Bytes(leb)).expect("there is room");
    }
    memory::bounded(bytes.len(), 8, 16 << 20, || {
        let Ok(mut reader) = Reader::mount(volume, cx) else { return };
        let _ = reader.check(cx).expect("a volume in memory");
        let mut chunk = vec![0; 1 << 16];
        let mut dirs = vec![ROOT_INO];
        for _ in 0..64 {
            let Some(dir) = dirs.pop() else { break };
            for entry in reader.entries(cx, dir).unwrap_or_default() {
                let _ = reader.lookup(cx, dir, &entry.name);
                let Ok(inode) = reader.inode(cx, entry.ino) else { continue };
                let _ = reader.attributes(cx, inode.ino);
                for at in [0, inode.size.saturating_sub(5000), inode.size / 2] {
                    let _ = reader.read(cx, inode.ino, inode.size, at, &mut chunk);
                }
                dirs.push(entry.ino);
            }
        }
    });
}
