//! Images made by `ubinize` of mtd-utils attach, and every LEB holds what was packed into it.
#![expect(clippy::disallowed_methods, reason = "the tool reads and writes files")]

use std::path::{Path, PathBuf};
use std::process::Command;

use sim::seam::{Flash, Geometry, Medium};
use sim::{Cx, EraseCount, Peb};
use ubi::attach::{AttachInfo, PebFate, TableCopy, attach_by_scan};
use ubi::layout::Layout;
use ubi::media::{VolType, VtblRecord};

use crate::support::*;

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("nandlab-attach-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pattern(seed: u32, len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn ubinize(folder: &Path, geometry: &Geometry, vid_hdr_offset: Option<u32>, ini: &str) -> Vec<u8> {
    let (ini_path, out) = (folder.join("ubi.ini"), folder.join("ubi.img"));
    std::fs::write(&ini_path, ini).unwrap();
    let mut tool = Command::new("ubinize");
    tool.env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
    tool.arg("-o").arg(&out).args(["-p", &geometry.peb_bytes.to_string(), "-m", &geometry.page_bytes.to_string()]);
    tool.args(["-s", &geometry.subpage_bytes.to_string(), "-e", "7", "-Q", "12345"]);
    if let Some(offset) = vid_hdr_offset {
        tool.args(["-O", &offset.to_string()]);
    }
    let output = match tool.arg(&ini_path).output() {
        Ok(output) => output,
        Err(error) => panic!("ubinize does not start ({error}); install it: apt-get install mtd-utils"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(out).unwrap()
}

/// The contents of a volume: its mapped LEBs, one after another.
fn contents(flash: &mut TestFlash, layout: &Layout, info: &AttachInfo, vol_id: usize) -> Vec<u8> {
    let volume = info.volumes[vol_id].as_ref().unwrap();
    let usable = (layout.leb_bytes - volume.record.data_pad) as usize;
    let mut all = Vec::new();
    for peb in volume.eba.iter().flatten() {
        let mut leb = vec![0; usable];
        flash.read(&mut Cx::new(), *peb, layout.data_offset, &mut leb).unwrap();
        all.extend(leb);
    }
    all
}

fn attaches(page_bytes: u32, subpage_bytes: u32, peb_bytes: u32, vid_hdr_offset: Option<u32>) {
    let medium = if page_bytes == 1 { Medium::Nor } else { Medium::Nand };
    let geometry = Geometry { medium, pebs: 40, peb_bytes, page_bytes, subpage_bytes, oob_bytes: 0 };
    let layout = Layout::new(&geometry, vid_hdr_offset).unwrap();
    let leb = layout.leb_bytes;
    let name = format!("{page_bytes}-{subpage_bytes}-{peb_bytes}-{}", layout.vid_hdr_offset);
    let folder = Folder::new(&name);
    let (data, kernel) = (pattern(1, 2 * leb + leb / 3), pattern(2, leb + 777));
    std::fs::write(folder.0.join("data"), &data).unwrap();
    std::fs::write(folder.0.join("kernel"), &kernel).unwrap();
    let ini = format!(
        "[data]\nmode=ubi\nimage={folder}/data\nvol_id=0\nvol_type=dynamic\nvol_name=data\nvol_size={}\n\
         [kernel]\nmode=ubi\nimage={folder}/kernel\nvol_id=3\nvol_type=static\nvol_name=kernel\nvol_size={}\n\
         [rest]\nmode=ubi\nvol_id=7\nvol_type=dynamic\nvol_name=the rest\nvol_size={}\nvol_flags=autoresize\n\
         vol_alignment={page_bytes}\n",
        6 * leb,
        4 * leb,
        leb,
        folder = folder.0.display(),
    );
    let bytes = ubinize(&folder.0, &geometry, vid_hdr_offset, &ini);
    let mut image = Image::blank(geometry);
    image.layout = layout;
    image.bytes[..bytes.len()].copy_from_slice(&bytes);
    let made = bytes.len() / peb_bytes as usize;
    assert_eq!(made, 2 + 3 + 2, "{name}: table, data, kernel");

    let mut flash = image.flash();
    let info = attach_by_scan(&mut flash, &mut Cx::new(), &layout).unwrap();
    assert_eq!((info.empty, info.image_seq, info.table), (false, 12345, [TableCopy::Good; 2]), "{name}");
    assert_eq!(info.layout_eba, [Some(Peb(0)), Some(Peb(1))], "{name}");
    assert!(info.fates[..made].iter().all(|fate| matches!(fate, PebFate::Used { scrub: false, .. })), "{name}");
    assert!(info.fates[made..].iter().all(|fate| *fate == ERASE), "{name}");
    assert!(info.erase_counts.iter().all(|ec| *ec == EraseCount(7)), "{name}");

    let volume = |vol_id: usize| info.volumes[vol_id].as_ref().unwrap();
    let shape = |vol_id| {
        let VtblRecord { name, vol_type, reserved_pebs, flags, .. } = volume(vol_id).record.clone();
        (String::from_utf8(name).unwrap(), vol_type, reserved_pebs, flags)
    };
    assert_eq!(info.volumes.iter().flatten().count(), 3, "{name}");
    assert_eq!(shape(0), ("data".to_owned(), VolType::Dynamic, 6, 0), "{name}");
    assert_eq!(shape(3), ("kernel".to_owned(), VolType::Static, 4, 0), "{name}");
    assert_eq!((shape(7).0, shape(7).3), ("the rest".to_owned(), VtblRecord::AUTORESIZE), "{name}");
    assert_eq!((volume(3).used_ebs, volume(3).last_eb_bytes), (2, 777), "{name}");
    let stored = contents(&mut flash, &layout, &info, 0);
    assert_eq!(stored.len(), 3 * leb as usize, "{name}");
    assert!(stored.starts_with(&data), "{name}: contents of data");
    assert!(contents(&mut flash, &layout, &info, 3).starts_with(&kernel), "{name}: contents of kernel");
}

#[test]
fn images_of_ubinize_attach_in_every_geometry() {
    attaches(512, 512, 16 << 10, None);
    attaches(512, 256, 16 << 10, None);
    attaches(2048, 2048, 128 << 10, None);
    attaches(2048, 512, 128 << 10, None);
    attaches(2048, 512, 128 << 10, Some(1984));
    attaches(4096, 4096, 256 << 10, None);
    attaches(4096, 512, 256 << 10, None);
    attaches(4096, 4096, 1 << 20, None);
    attaches(1, 1, 128 << 10, None);
}

#[test]
fn an_image_for_another_layout_is_refused_with_the_offset_it_has() {
    let geometry = Geometry { pebs: 8, peb_bytes: 128 << 10, page_bytes: 2048, subpage_bytes: 512, ..geometry(8) };
    let folder = Folder::new("offset");
    let ini = "[v]\nmode=ubi\nvol_id=0\nvol_type=dynamic\nvol_name=v\nvol_size=1\n";
    let bytes = ubinize(&folder.0, &geometry, Some(2048), ini);
    let mut image = Image::blank(geometry);
    image.bytes[..bytes.len()].copy_from_slice(&bytes);
    let error = image.scan().unwrap_err();
    assert_eq!(error.to_string(), "PEB 0, offset 16: vid_hdr_offset is 2048, expected 512");
}
