//! A guest on the seams' second implementors: a disk and a flash in memory.

mod rig;

use std::path::Path;
use std::process::Command;

use guest::End;
use rig::Rig;
use sim::Ns;

#[test]
fn a_job_s_output_and_exit_code_come_back() {
    let mut rig = Rig::with_disk(1 << 15);
    assert_eq!(rig.run("echo hello; id -u; exit 7").unwrap(), End::Stopped);
    assert_eq!((rig.output().as_str(), rig.exit()), ("hello\n0\n", Some(7)));
}

#[test]
fn the_host_s_tree_is_there_and_stays_as_it_is() {
    let mut rig = Rig::with_disk(1 << 15);
    let job = "cmp /bin/sh /usr/bin/../bin/sh && echo changed >/etc/nandlab-was-here && cat /etc/nandlab-was-here";
    rig.run(job).unwrap();
    assert_eq!((rig.output().as_str(), rig.exit()), ("changed\n", Some(0)));
    assert!(!Path::new("/etc/nandlab-was-here").exists());
}

#[test]
fn time_passes_only_where_the_guest_waits() {
    let mut rig = Rig::with_disk(1 << 15);
    rig.run("a=$(date +%s); sleep 86400; b=$(date +%s); echo $((b - a)); date -u +%F").unwrap();
    assert_eq!(rig.output(), "86400\n2023-11-15\n");
}

#[test]
fn what_is_written_is_read_back_at_the_disk_s_pace() {
    let mut rig = Rig::with_disk(1 << 15);
    // A service time of 100 us, one server: a thousand synchronous writes of 4 KiB take a tenth of a second.
    let job = "dd if=/dev/urandom of=/tmp/data bs=4k count=1000 2>/dev/null
        a=$(date +%s%N); dd if=/tmp/data of=/dev/nandlab0 bs=4k oflag=direct 2>/dev/null; b=$(date +%s%N)
        echo $(((b - a) / 1000000)) ms; echo 3 >/proc/sys/vm/drop_caches
        head -c 4096000 /dev/nandlab0 | cmp - /tmp/data && echo same";
    rig.run(job).unwrap();
    assert_eq!(rig.output(), "100 ms\nsame\n");
}

#[test]
fn the_processor_takes_the_time_that_is_stated() {
    // A thousand more reads and writes of one byte are 2,000 system calls; a thousand more requests are 2,000 calls too.
    let job = "t() { a=$(date +%s%N); dd if=$1 of=/dev/null bs=$2 count=$3 iflag=$4 2>/dev/null; b=$(date +%s%N); d=$((b - a)); }
        t /dev/zero 1 1000 fullblock; x=$d; t /dev/zero 1 2000 fullblock; echo $(((d - x) / 1000))
        t /dev/nandlab0 4096 1000 direct; x=$d; t /dev/nandlab0 4096 2000 direct; echo $(((d - x) / 1000))";
    let run = |cpu| {
        let mut rig = Rig::with_disk(1 << 15);
        rig.cpu = cpu;
        rig.run(job).unwrap();
        rig.output().lines().map(|line| line.parse::<i64>().unwrap()).collect::<Vec<_>>()
    };
    let (free, stated) = (run((Ns::ZERO, Ns::ZERO)), run((Ns(10_000), Ns(3_000))));
    // Reading the clock moves it a little in either run.
    assert!((stated[0] - free[0] - 20_000).abs() <= 200, "{stated:?} us, free {free:?}");
    assert!((stated[1] - free[1] - 23_000).abs() <= 500, "{stated:?} us, free {free:?}");
}

#[test]
fn a_panic_ends_the_run_with_the_kernel_s_last_lines() {
    let mut rig = Rig::with_disk(1 << 15);
    let job = "mkfs.ext4 -q /dev/nandlab0; mount -o errors=panic /dev/nandlab0 /mnt
        echo 1 >/sys/fs/ext4/nandlab0/trigger_fs_error; echo on";
    let error = rig.run(job).unwrap_err();
    assert!(error.to_string().contains("the guest died"), "{error}");
    assert!(error.to_string().contains("panic forced after error"), "{error}");
}

#[test]
fn a_guest_that_hangs_is_ended() {
    let mut rig = Rig::with_disk(1 << 15);
    let error = rig.run_for("while :; do :; done", 3).unwrap_err();
    assert!(error.to_string().contains("for 3 s"), "{error}");
}

#[test]
fn two_runs_are_equal_to_the_byte() {
    let job = "mkfs.ext4 -q /dev/nandlab0 && mkdir /mnt/d; mount /dev/nandlab0 /mnt && cd /mnt
        for i in $(seq 50); do head -c $((i * 997)) /dev/urandom >f$((i % 7)); [ $((i % 5)) = 0 ] && sync; done
        sleep 40; cd /; umount /mnt; cat /proc/uptime";
    let run = |seed| {
        let mut rig = Rig::with_disk(1 << 15);
        rig.seed = seed;
        rig.run(job).unwrap();
        assert_eq!(rig.exit(), Some(0), "{}", rig.output());
        rig
    };
    let (a, b, other) = (run(1), run(1), run(2));
    assert!(a.log().len() > 100);
    let differ = a.log().iter().zip(b.log()).position(|(a, b)| a != b);
    assert_eq!(differ.map(|at| (at, a.log()[at], b.log()[at])), None);
    assert_eq!(a.log().len(), b.log().len());
    assert!(a.image() == b.image(), "the disk's contents differ");
    assert_eq!(a.output(), b.output());
    assert_eq!(a.console(), b.console());
    assert!(a.image() != other.image(), "the seed has no effect");
}

#[test]
fn vector_registers_come_back_from_system_calls_faults_signals_and_other_processes() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig/registers.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registers");
    let compiled = Command::new("cc").args(["-O2", "-pthread"]).arg(source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    // The host's own kernel is the measure.
    let host = Command::new(&program).output().unwrap();
    let expected = String::from_utf8(host.stdout).unwrap();
    assert!(host.status.success() && expected.ends_with("a signal: 0\n"), "{expected}");
    let mut rig = Rig::with_disk(1 << 15);
    rig.run(program.to_str().unwrap()).unwrap();
    assert_eq!((rig.output(), rig.exit()), (expected, Some(0)));
}
