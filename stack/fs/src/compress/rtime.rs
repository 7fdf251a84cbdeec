//! JFFS2's run-length code: each byte is followed by how many bytes after it repeat what came after the same byte last.
//! Source: Linux 6.12, `fs/jffs2/compr_rtime.c`.

/// Compresses `data`. `None` if it does not fit into `out`, or becomes no shorter.
pub fn compress(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut last = [0usize; 256];
    let (mut at, mut len) = (0, 0);
    while let Some(&byte) = data.get(at) {
        let pair = out.get_mut(len..len + 2)?;
        at += 1;
        let from = std::mem::replace(&mut last[usize::from(byte)], at);
        let run = data[at..].iter().zip(&data[from..]).take(255).take_while(|(here, there)| here == there).count();
        pair.copy_from_slice(&[byte, run as u8]);
        at += run;
        len += 2;
    }
    (len < at).then_some(len)
}

/// Decompresses `data` into `out`, which it fills. `None` if the data are damaged.
pub fn decompress(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut last = [0usize; 256];
    let (mut at, mut pairs) = (0, data.chunks_exact(2));
    while at < out.len() {
        let &[byte, run] = pairs.next()? else { return None };
        out[at] = byte;
        at += 1;
        let from = std::mem::replace(&mut last[usize::from(byte)], at);
        let run = usize::from(run);
        if at + run > out.len() {
            return None;
        }
        for step in 0..run {
            out[at + step] = out[from + step];
        }
        at += run;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand. The first `a` finds nothing to repeat but the beginning of the data, which is where it stands itself.
    #[test]
    fn a_byte_is_followed_by_the_length_of_what_it_repeats() {
        let mut out = [0; 64];
        // `a` at 0 repeats from 0 on: six more. Then `b`, which was never seen, repeats from 0 on: none.
        assert_eq!(compress(b"aaaaaaab", &mut out), Some(4));
        assert_eq!(out[..4], [b'a', 6, b'b', 0]);
        let mut back = [0; 8];
        assert_eq!(decompress(&[b'a', 6, b'b', 0], &mut back), Some(8));
        assert_eq!(&back, b"aaaaaaab");
        // xyz, and again: the second x repeats what came after the first.
        let mut back = [0; 6];
        assert_eq!(decompress(&[b'x', 0, b'y', 0, b'z', 0, b'x', 2], &mut back), Some(6));
        assert_eq!(&back, b"xyzxyz");
    }

    #[test]
    fn what_would_grow_or_is_cut_is_refused() {
        assert_eq!(compress(b"abcdef", &mut [0; 64]), None);
        assert_eq!(decompress(b"a", &mut [0; 2]), None);
        assert_eq!(decompress(&[b'a', 9], &mut [0; 4]), None);
    }
}
