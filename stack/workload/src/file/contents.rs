//! Contents of files that a load only knows the length of: random bytes, of which a share can be compressed away.

use sim::seam::{FileSystem, FsError, Ino};
use sim::{Cx, Rng};

/// Unit in which contents are partly zero.
const BLOCK: usize = 512;

/// Draws contents.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    random: Rng,
    /// Share that is zero, in percent.
    zero_percent: usize,
    buffer: Vec<u8>,
}

impl Contents {
    pub fn new(random: Rng, compressible_percent: u32) -> Contents {
        Contents { random, zero_percent: compressible_percent as usize, buffer: Vec::new() }
    }

    /// Writes so many bytes into a file. Errors: the file system's; `NoSpace` if it took only some of them.
    pub fn write<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        bytes: u32,
    ) -> Result<(), FsError> {
        let Contents { random, zero_percent, buffer } = self;
        let data = fs.offer(buffer, bytes, |buffer| {
            for block in buffer.chunks_mut(BLOCK) {
                let drawn = block.len() - block.len() * *zero_percent / 100;
                for word in block[..drawn].chunks_mut(8) {
                    word.copy_from_slice(&random.bits().to_le_bytes()[..word.len()]);
                }
            }
        });
        match fs.write(cx, ino, offset, data)? {
            written if written == bytes => Ok(()),
            _ => Err(FsError::NoSpace),
        }
    }
}
