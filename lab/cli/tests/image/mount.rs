//! `nandlab mount` as a user runs it: what is in the directory, and how the command ends.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::files::{is_root, listing, mkfs, shell, tree, ubi};
use super::support::{Bench, Ran};

/// A mount on the directory `m`.
pub struct Mount {
    pub child: Child,
    said: BufReader<ChildStdout>,
    dir: PathBuf,
}

fn command(bench: &Bench, args: &str) -> Command {
    fs::create_dir_all(bench.dir.join("m")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.arg("mount").args(args.split_whitespace()).current_dir(&bench.dir);
    command
}

/// Runs a mount that is refused.
pub fn refused(bench: &Bench, args: &str, expected: &str) {
    Ran::new(&command(bench, args).output().expect("the command runs")).refused(expected);
}

impl Mount {
    /// Mounts, and waits until it is mounted.
    pub fn new(bench: &Bench, args: &str) -> Mount {
        assert!(Path::new("/dev/fuse").exists(), "/dev/fuse is missing: modprobe fuse");
        let mut child = command(bench, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let mut mount = Mount { child, said, dir: bench.dir.join("m") };
        if line.is_empty() {
            panic!("{}", mount.errors());
        }
        assert!(line.ends_with("ends it\n") && line.contains(" on "), "{line}");
        mount
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        errors
    }

    /// Unmounts as `fusermount3 -u` or `umount` does.
    pub fn umount(&self) {
        let (program, args) = if is_root() { ("umount", &[][..]) } else { ("fusermount3", &["-u"][..]) };
        assert!(Command::new(program).args(args).arg(&self.dir).status().expect("it runs").success());
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("there is a kill");
        assert!(sent.success());
    }

    /// Waits until the command has ended: its code, what else it printed, and its errors.
    pub fn ended(mut self) -> (Option<i32>, String, String) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let errors = self.errors();
        (self.child.wait().unwrap().code(), said, errors)
    }

    /// Panics unless the command ended well and without a word of error.
    pub fn ends(self) -> String {
        let (code, said, errors) = self.ended();
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        said
    }
}

impl Drop for Mount {
    /// Where the test fails, nothing stays mounted.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.child.kill();
            let _ = Command::new("umount").arg("-l").arg(&self.dir).stderr(Stdio::null()).status();
        }
    }
}

/// Panics with the first line that differs.
#[track_caller]
pub fn same(found: &str, expected: &str, what: &str) {
    let differing = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(found == expected, "{what}: {differing:?}");
}

/// Extended attributes of the files below a directory.
fn attributes(bench: &Bench, dir: &str) -> String {
    shell(
        bench,
        &format!(
            "cd {dir}; python3 -c \"
import os
for root, dirs, files in os.walk(b'.'):
    for path in sorted([root] + [os.path.join(root, name) for name in files]):
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            print(path, name, os.getxattr(path, name, follow_symlinks=False))\" | sort"
        ),
    )
}

#[test]
fn the_sample_looks_mounted_as_it_does_extracted() {
    let bench = Bench::new("mount-sample");
    bench.put("rootfs.ubi", fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rootfs.ubi")).unwrap());
    bench.run("extract rootfs.ubi -o out").ended(if is_root() { 0 } else { 1 });
    let mount = Mount::new(&bench, "rootfs.ubi m");
    if is_root() {
        same(&listing(&bench, "m"), &listing(&bench, "out"), "the sample");
    }
    assert_eq!(
        fs::read_to_string(bench.dir.join("m/etc/hostname")).unwrap(),
        bench.run("cat rootfs.ubi /etc/hostname").stdout
    );
    for change in ["touch m/new", "rm m/etc/hostname", "mkdir m/d", "mv m/etc m/f", "chmod 600 m/etc/hostname"] {
        let output = Command::new("sh").args(["-c", change]).current_dir(&bench.dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("Read-only file system"), "{change}: {said}");
    }
    mount.umount();
    assert_eq!(mount.ends(), "");
    assert_eq!(bench.names("m"), Vec::<String>::new());
    assert!(
        bench.get("rootfs.ubi") == fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rootfs.ubi")).unwrap()
    );
}

#[test]
fn every_file_of_an_image_of_mkfs_is_there_in_every_container() {
    let bench = Bench::new("mount-tree");
    tree(&bench);
    let expected = listing(&bench, "tree");
    mkfs(&bench, "-x zstd", "bare.ubifs");
    ubi(&bench, "bare.ubifs", "whole.ubi");
    let mut oob =
        bench.get("whole.ubi").chunks(2048).flat_map(|page| [page, &[0xff; 64]].concat()).collect::<Vec<u8>>();
    bench.put("oob.bin", &oob);
    oob.splice(0..0, [0x55; 135_168]);
    bench.put("part.bin", &oob);
    for args in
        ["bare.ubifs m", "whole.ubi m", "whole.ubi m --volume rootfs", "oob.bin m", "part.bin m --offset 132KiB"]
    {
        let mount = Mount::new(&bench, args);
        same(&listing(&bench, "m"), &expected, args);
        mount.signal("-INT");
        let (code, _, errors) = mount.ended();
        assert_eq!(code, Some(0), "{args}: {errors}");
    }
    // Holes read as zeroes, wherever a read begins.
    let mount = Mount::new(&bench, "bare.ubifs m");
    let (ours, theirs) =
        [bench.dir.join("m/hole"), bench.dir.join("tree/hole")].map(|path| File::open(path).unwrap()).into();
    for (offset, length) in [(2_999_000, 3000), (0, 100), (2_999_999, 1), (4_999_990, 100)] {
        let read = |file: &File| {
            let mut bytes = vec![0xee; length];
            let read = file.read_at(&mut bytes, offset).unwrap();
            bytes.truncate(read);
            bytes
        };
        assert_eq!(read(&ours), read(&theirs), "{offset}");
    }
    drop((ours, theirs));
    mount.umount();
    mount.ends();
}

/// The tree is copied into empty file systems by `cp`, and extracted from what is left in the image.
#[test]
fn what_is_copied_into_a_mount_is_in_the_image() {
    let bench = Bench::new("mount-rw");
    tree(&bench);
    shell(&bench, "mkdir empty; find tree -type s -delete; touch -d @1234567890 tree");
    let expected = listing(&bench, "tree");
    bench.run("pack empty -o empty.ubi -p 128KiB -m 2048 --max-leb-cnt 300").ended(0);
    // Its volume reserves more LEBs than four times those that have data.
    bench.run("pack empty -o small.ubi -p 128KiB -m 2048").ended(0);
    bench.run("pack empty -o empty.img --bare --leb-size 126976 -m 2048 --max-leb-cnt 300").ended(0);
    shell(&bench, "cp empty.ubi whole.ubi");
    let oob = bench.get("empty.ubi").chunks(2048).flat_map(|page| [page, &[0xff; 64]].concat()).collect::<Vec<u8>>();
    bench.put("oob.bin", oob);
    for (image, options, unit) in [
        ("whole.ubi", "--pebs 100", "of 100 PEBs changed, written to whole.ubi"),
        ("oob.bin", "--pebs 100", "of 100 PEBs changed, written to oob.bin"),
        ("small.ubi", "", "PEBs changed, written to small.ubi"),
        ("empty.img", "--pebs 100", "of 100 LEBs changed, written to empty.img"),
        ("empty.ubi", "--pebs 100 --overlay o.ov", "of 100 PEBs changed, written to o.ov"),
    ] {
        let mount = Mount::new(&bench, &format!("{image} m --rw {options}"));
        shell(&bench, "cp -a tree/. m/; sync m/text");
        same(&listing(&bench, "m"), &expected, image);
        mount.umount();
        let (code, said, errors) = mount.ended();
        assert!(code == Some(0) && !errors.contains("error"), "{image}: {errors}");
        assert!(said.contains(unit), "{image}: {said}");
        if options.contains("overlay") {
            let mount = Mount::new(&bench, &format!("{image} m --overlay o.ov"));
            same(&listing(&bench, "m"), &expected, image);
            mount.umount();
            mount.ends();
            continue;
        }
        let checked = bench.run(&format!("check {image}")).ended(0);
        assert!(checked.stdout.contains("0 errors, 0 warnings"), "{image}: {}", checked.stdout);
        bench.run(&format!("extract {image} -o out-{image}")).ended(if is_root() { 0 } else { 1 });
        if is_root() {
            same(&listing(&bench, &format!("out-{image}")), &expected, image);
        }
    }
}

/// A signal in the middle of writing: what was written until then is there, and the file system is whole.
#[test]
fn a_mount_that_is_taken_away_from_a_writer_is_unmounted_cleanly() {
    let bench = Bench::new("mount-taken");
    shell(&bench, "mkdir empty");
    bench.run("pack empty -o w.ubi -p 128KiB -m 2048 --max-leb-cnt 300").ended(0);
    let mut mount = Mount::new(&bench, "w.ubi m --rw --pebs 60");
    let open = File::create(bench.dir.join("m/log")).unwrap();
    open.write_all_at(b"written", 0).unwrap();
    fs::write(bench.dir.join("m/gone"), "x").unwrap();
    let unnamed = File::open(bench.dir.join("m/gone")).unwrap();
    fs::remove_file(bench.dir.join("m/gone")).unwrap();
    mount.signal("-INT");
    let mut errors = BufReader::new(mount.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("is still mounted") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    mount.signal("-TERM");
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    assert!(open.write_all_at(b"lost", 0).is_err());
    drop((open, unnamed));
    assert_eq!(bench.run("cat w.ubi /log").ended(0).stdout, "written");
    assert!(bench.run("check w.ubi").ended(0).stdout.contains("0 errors, 0 warnings"));
    let info = bench.run("info w.ubi --json").ended(0).json();
    assert_eq!(
        (&info["volumes"][0]["ubifs"]["clean"], &info["volumes"][0]["ubifs"]["orphans"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn extended_attributes_are_those_of_the_tree() {
    let bench = Bench::new("mount-xattrs");
    shell(
        &bench,
        "mkdir -p tree/d; echo x >tree/d/f; python3 -c \"
import os
os.setxattr('tree/d', 'user.dir', b'of a directory')
os.setxattr('tree/d/f', 'user.a', b'')
os.setxattr('tree/d/f', 'user.b', bytes(range(256)) * 8)\"",
    );
    bench.run("pack tree -o x.ubi -p 128KiB -m 2048").ended(0);
    let expected = attributes(&bench, "tree");
    assert_eq!(expected.lines().count(), 3);
    let mount = Mount::new(&bench, "x.ubi m");
    assert_eq!(attributes(&bench, "m"), expected);
    mount.umount();
    mount.ends();
}

#[test]
fn a_signal_unmounts_and_waits_for_who_uses_it_until_the_second_one() {
    let bench = Bench::new("mount-signals");
    bench.put("rootfs.ubi", fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rootfs.ubi")).unwrap());
    let mount = Mount::new(&bench, "rootfs.ubi m");
    mount.signal("-TERM");
    mount.ends();

    let mut mount = Mount::new(&bench, "rootfs.ubi m");
    let open = File::open(bench.dir.join("m/etc/hostname")).unwrap();
    mount.signal("-INT");
    let mut errors = BufReader::new(mount.child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("note: ") && line.contains("is still mounted: "), "{line}");
    assert!(bench.dir.join("m/etc").is_dir(), "it goes on");
    mount.signal("-INT");
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    assert_eq!(bench.names("m"), Vec::<String>::new());
    drop(open);
}

#[test]
fn what_cannot_be_mounted_is_named_with_a_remedy() {
    let bench = Bench::with_image("mount-refusals");
    bench.put("rootfs.ubi", fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rootfs.ubi")).unwrap());
    refused(&bench, "rootfs.ubi none", "no such directory");
    refused(&bench, "rootfs.ubi rootfs.ubi", "found a file, expected a directory");
    refused(&bench, "none.ubi m", "no such file");
    refused(&bench, "u.ubi m", "no volume holds UBIFS");
    refused(&bench, "rootfs.ubi m --volume boot", "found no volume \"boot\"");
    refused(&bench, "rootfs.bin m", "");
    // A mount whose process was killed.
    let mut mount = Mount::new(&bench, "rootfs.ubi m");
    mount.child.kill().unwrap();
    mount.child.wait().unwrap();
    let again =
        Command::new(env!("CARGO_BIN_EXE_nandlab")).args(["mount", "rootfs.ubi", "m"]).current_dir(&bench.dir).output();
    Ran::new(&again.unwrap()).refused("found a FUSE mount whose process is gone");
    mount.umount();
}

#[test]
fn jffs2_looks_mounted_as_it_does_extracted() {
    let bench = Bench::new("mount-jffs2");
    super::jffs2::small_tree(&bench);
    for order in ["-l", "-b"] {
        super::jffs2::mkfs(&bench, order, "i.jffs2");
        bench.run("extract i.jffs2 -o out --force").ended(0);
        let mount = Mount::new(&bench, "i.jffs2 m");
        // Sizes of directories and what else is no file differ.
        let of_files =
            |dir: &str| shell(&bench, &format!("cd {dir}; find . -type f -print0 | sort -z | xargs -0 md5sum"));
        same(&of_files("m"), &of_files("out"), order);
        same(&listing(&bench, "m/many"), &listing(&bench, "out/many"), order);
        assert!(fs::write(bench.dir.join("m/new"), "1").is_err());
        mount.umount();
        mount.ends();
    }
    refused(&bench, "i.jffs2 m --rw", "it ends inside eraseblock");
}
