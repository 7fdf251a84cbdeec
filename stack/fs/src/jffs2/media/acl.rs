//! Access control lists, which JFFS2 has in a format of its own.
//! Source: Linux 6.12, `fs/jffs2/acl.h` and `include/uapi/linux/posix_acl_xattr.h`.

use super::Endian;

/// Version of the format on flash.
const ON_FLASH: u32 = 1;
/// Version of the format of the attribute.
const ATTRIBUTE: u32 = 2;
/// Tags of entries that name a user or a group.
const NAMED: [u16; 2] = [0x02, 0x08];
/// Who an entry without a name is for.
const NOBODY: u32 = u32::MAX;

/// The value of `system.posix_acl_access` or `system.posix_acl_default` by what is on flash. `None`: it is no such list.
pub fn acl(endian: Endian, bytes: &[u8]) -> Option<Vec<u8>> {
    let (version, mut rest) = bytes.split_at_checked(4)?;
    if endian.u32(version, 0) != ON_FLASH {
        return None;
    }
    let mut out = ATTRIBUTE.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(4)?;
        let (tag, permissions) = (endian.u16(head, 0), endian.u16(head, 2));
        let (id, after) = match NAMED.contains(&tag) {
            true => {
                let (id, after) = after.split_at_checked(4)?;
                (endian.u32(id, 0), after)
            }
            false => (NOBODY, after),
        };
        out.extend(tag.to_le_bytes());
        out.extend(permissions.to_le_bytes());
        out.extend(id.to_le_bytes());
        rest = after;
    }
    Some(out)
}

/// What is on flash by the value of `system.posix_acl_access` or `system.posix_acl_default`. `None`: it is no such list.
pub fn encode_acl(endian: Endian, value: &[u8]) -> Option<Vec<u8>> {
    let (version, rest) = value.split_first_chunk()?;
    if u32::from_le_bytes(*version) != ATTRIBUTE || !rest.len().is_multiple_of(8) {
        return None;
    }
    let mut out = vec![0; 4];
    endian.put32(&mut out, 0, ON_FLASH);
    for entry in rest.chunks(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let at = out.len();
        out.resize(at + if NAMED.contains(&tag) { 8 } else { 4 }, 0);
        endian.put16(&mut out, at, tag);
        endian.put16(&mut out, at + 2, u16::from_le_bytes([entry[2], entry[3]]));
        if NAMED.contains(&tag) {
            endian.put32(&mut out, at + 4, u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `user::rw-, user:7:r--, group::---, mask::r--, other::---`, by the layouts of Linux's headers.
    #[test]
    fn a_list_is_what_the_kernel_makes_of_it() {
        let flash = [0, 0, 0, 1, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0, 0, 7, 0, 4, 0, 0, 0, 0x10, 0, 4, 0, 0x20, 0, 0];
        let entry = |tag: u8, permissions: u8, id: u32| [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat();
        let expected = [
            vec![2, 0, 0, 0],
            entry(1, 6, u32::MAX),
            entry(2, 4, 7),
            entry(4, 0, u32::MAX),
            entry(0x10, 4, u32::MAX),
            entry(0x20, 0, u32::MAX),
        ];
        assert_eq!(acl(Endian::Big, &flash), Some(expected.concat()));
        assert_eq!(encode_acl(Endian::Big, &expected.concat()), Some(flash.to_vec()));
        assert_eq!(encode_acl(Endian::Big, &expected.concat()[..20]), Some(flash[..16].to_vec()));
        assert_eq!(encode_acl(Endian::Big, &expected.concat()[..19]), None);
        assert_eq!(acl(Endian::Little, &flash), None);
        assert_eq!(acl(Endian::Big, &flash[..27]), None);
    }
}
