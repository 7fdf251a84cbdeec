//! The guest's kernel: found in the user's cache, or built there from Debian's source.
//!
//! A kernel is kept under the version of its source and a hash of its configuration, our driver and the places where the
//! driver is called, so that a nandlab with another driver builds another kernel beside it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// The configuration, the same for every version.
const CONFIG: &str = include_str!("../config/linux.config");
/// The guest's first program.
pub(crate) const INIT: &str = include_str!("../init.sh");
/// The driver, file by file.
const DRIVER: [(&str, &str); 10] = [
    ("Makefile", include_str!("../driver/Makefile")),
    ("block.c", include_str!("../driver/block.c")),
    ("channel.c", include_str!("../driver/channel.c")),
    ("channel.h", include_str!("../driver/channel.h")),
    ("channel_user.c", include_str!("../driver/channel_user.c")),
    ("device.h", include_str!("../driver/device.h")),
    ("flash.c", include_str!("../driver/flash.c")),
    ("job.c", include_str!("../driver/job.c")),
    ("registers_user.c", include_str!("../driver/registers_user.c")),
    ("ubi.c", include_str!("../driver/ubi.c")),
];

/// A place of Linux's source that calls the driver: a file, what is found there just once, and what replaces it.
struct Edit {
    file: &'static str,
    find: &'static str,
    replace: &'static str,
}

const EDITS: [Edit; 25] = [
    Edit {
        file: "drivers/Makefile",
        find: "obj-y\t\t\t\t+= irqchip/",
        replace: "obj-y += nandlab/\nobj-y\t\t\t\t+= irqchip/",
    },
    // Random numbers are a function of the seed.
    Edit {
        file: "arch/um/os-Linux/util.c",
        find: "\treturn getrandom(buf, len, flags);",
        replace: "\textern long nandlab_random(void *buffer, unsigned long length);\n\n\treturn nandlab_random(buf, len);",
    },
    // The clock never passes a completion.
    Edit {
        file: "arch/um/kernel/time.c",
        find: "static unsigned long long time_travel_time;",
        replace: "unsigned long long time_travel_time;\nextern bool nandlab_passes(unsigned long long limit);",
    },
    Edit {
        file: "arch/um/kernel/time.c",
        find: "\t\tBUG_ON(!e);\n",
        replace: "\t\tBUG_ON(!e);\n\t\tif (nandlab_passes(e->time))\n\t\t\te = time_travel_first_event();\n",
    },
    // A system call may cost time.
    Edit {
        file: "arch/um/kernel/skas/syscall.c",
        find: "void handle_syscall(struct uml_pt_regs *r)\n",
        replace: "extern void nandlab_syscall(void);\nextern void nandlab_syscall_begins(long number);\n\nvoid handle_syscall(struct uml_pt_regs *r)\n",
    },
    Edit { file: "arch/um/kernel/skas/syscall.c", find: "\nout:\n", replace: "\nout:\n\tnandlab_syscall();\n" },
    // A host with AMX has more registers than the kernel has room for.
    Edit {
        file: "arch/x86/um/os-Linux/registers.c",
        find: "#include <registers.h>\n",
        replace: "#include <registers.h>\n\nextern int nandlab_fp_get(int pid, unsigned long *fp);\nextern int nandlab_fp_put(int pid, unsigned long *fp);\n",
    },
    Edit {
        file: "arch/x86/um/os-Linux/registers.c",
        find: "\t\tif (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n\t\t\treturn -errno;\n\t\treturn 0;\n",
        replace: "\t\t(void)iov;\n\t\treturn nandlab_fp_get(pid, fp_regs);\n",
    },
    Edit {
        file: "arch/x86/um/os-Linux/registers.c",
        find: "\t\tif (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n\t\t\treturn -errno;\n\t\treturn 0;\n",
        replace: "\t\t(void)iov;\n\t\treturn nandlab_fp_put(pid, fp_regs);\n",
    },
    // Floating-point registers stay in the host process; `driver/registers_user.c` says when they are read.
    Edit {
        file: "arch/um/os-Linux/skas/process.c",
        find: "\nvoid userspace(struct uml_pt_regs *regs, unsigned long *aux_fp_regs)\n",
        replace: "\nextern int nandlab_fp_stays(int pid, unsigned long *fp);\nextern int nandlab_fp_stayed(int pid, unsigned long *fp);\n\nvoid userspace(struct uml_pt_regs *regs, unsigned long *aux_fp_regs)\n",
    },
    Edit {
        file: "arch/um/os-Linux/skas/process.c",
        find: "\t\tif (put_fp_registers(pid, regs->fp)) {\n",
        replace: "\t\tif (!nandlab_fp_stayed(pid, regs->fp) && put_fp_registers(pid, regs->fp)) {\n",
    },
    Edit {
        file: "arch/um/os-Linux/skas/process.c",
        find: "\t\tif (get_fp_registers(pid, regs->fp)) {\n",
        replace: "\t\tif (nandlab_fp_stays(pid, regs->fp)) {\n",
    },
    Edit {
        file: "arch/um/kernel/skas/syscall.c",
        find: "\tif (syscall_trace_enter(regs))\n",
        replace: "\tnandlab_syscall_begins(UPT_SYSCALL_NR(r));\n\tif (syscall_trace_enter(regs))\n",
    },
    Edit {
        file: "arch/um/kernel/process.c",
        find: "\tto->thread.prev_sched = from;\n",
        replace: "\textern void nandlab_fp_forget(unsigned long *fp);\n\n\tif (READ_ONCE(from->__state) == TASK_DEAD)\n\t\tnandlab_fp_forget(from->thread.regs.regs.fp);\n\tto->thread.prev_sched = from;\n",
    },
    Edit {
        file: "arch/um/kernel/signal.c",
        find: "\tsigset_t *oldset = sigmask_to_save();\n\tint singlestep = 0;\n\tunsigned long sp;\n\tint err;\n",
        replace: "\tsigset_t *oldset = sigmask_to_save();\n\tint singlestep = 0;\n\tunsigned long sp;\n\tint err;\n\textern void nandlab_fp_fetch(unsigned long *fp);\n\n\tnandlab_fp_fetch(regs->regs.fp);\n",
    },
    // No directory for its process number, which only tools want that are not used here.
    Edit { file: "arch/um/os-Linux/umid.c", find: "__initcall(make_umid_init);\n", replace: "" },
    Edit { file: "arch/um/os-Linux/umid.c", find: "__uml_exitcall(remove_umid_dir);\n", replace: "" },
    // What UBI is asked for. The numbers are those of `NL_UBI_…` in the driver's header.
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "#include \"ubi.h\"\n",
        replace: "#include \"ubi.h\"\n\nextern int nandlab_ubi(int call, int volume, int leb, int offset, int length);\n",
    },
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "\t\t      int lnum)\n{\n\tint err, pnum, vol_id = vol->vol_id;\n",
        replace: "\t\t      int lnum)\n{\n\tint err, pnum, vol_id = vol->vol_id;\n\tint noted __maybe_unused = nandlab_ubi(2, vol->vol_id, lnum, 0, 0);\n",
    },
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "const void *buf, int offset, int len)\n{\n\tint err, pnum, tries, vol_id = vol->vol_id;\n",
        replace: "const void *buf, int offset, int len)\n{\n\tint err, pnum, tries, vol_id = vol->vol_id;\n\tint noted __maybe_unused = nandlab_ubi(3, vol->vol_id, lnum, offset, len);\n",
    },
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "int lnum, const void *buf, int len, int used_ebs)\n{\n\tint err, tries, data_size = len, vol_id = vol->vol_id;\n",
        replace: "int lnum, const void *buf, int len, int used_ebs)\n{\n\tint err, tries, data_size = len, vol_id = vol->vol_id;\n\tint noted __maybe_unused = nandlab_ubi(4, vol->vol_id, lnum, 0, len);\n",
    },
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "int lnum, const void *buf, int len)\n{\n\tint err, tries, vol_id = vol->vol_id;\n",
        replace: "int lnum, const void *buf, int len)\n{\n\tint err, tries, vol_id = vol->vol_id;\n\tint noted __maybe_unused = nandlab_ubi(5, vol->vol_id, lnum, 0, len);\n",
    },
    Edit {
        file: "drivers/mtd/ubi/eba.c",
        find: "\tint err, vol_id, lnum, data_size, aldata_size, idx;\n\tstruct ubi_vid_hdr *vid_hdr = ubi_get_vid_hdr(vidb);\n",
        replace: "\tint err, vol_id, lnum, data_size, aldata_size, idx;\n\tstruct ubi_vid_hdr *vid_hdr = ubi_get_vid_hdr(vidb);\n\tint noted __maybe_unused = nandlab_ubi(6, be32_to_cpu(vid_hdr->vol_id), be32_to_cpu(vid_hdr->lnum), 0, 0);\n",
    },
    // The threshold of wear levelling is a parameter of the run.
    Edit {
        file: "drivers/mtd/ubi/wl.c",
        find: "#define UBI_WL_THRESHOLD CONFIG_MTD_UBI_WL_THRESHOLD",
        replace: "extern int nandlab_wl_threshold;\n#define UBI_WL_THRESHOLD nandlab_wl_threshold",
    },
    // No host name, user or date in the kernel: equal sources give equal kernels.
    Edit {
        file: "Makefile",
        find: "\nEXTRAVERSION =",
        replace: "\nexport KBUILD_BUILD_TIMESTAMP := 2000-01-01\nexport KBUILD_BUILD_USER := nandlab\nexport KBUILD_BUILD_HOST := nandlab\nEXTRAVERSION =",
    },
];

/// Programs that a build runs, and the Debian package of each.
const TOOLS: [(&str, &str); 10] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("tar", "tar"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
];

/// Where a build unpacks the source, in its directory.
const SOURCE: &str = "source";
/// Source trees of other machines, and what is largest in the rest.
const LEFT_OUT: [&str; 7] = [
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/[ew]*/*.[ch]",
    "*/arch/[a-tv-w]*/*.[chS]",
    "*/arch/[a-tv-w]*/*.dts",
    "*/arch/[a-tv-w]*/*.dtsi",
    "*/tools/testing/*",
    "*/sound/*/*.c",
];

/// A Linux that nandlab builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Debian's `linux-source-6.12`, the newest.
    #[default]
    V6_12,
    /// Debian's `linux-source-6.1` at 6.1.176: UBI as before the fastmap series, and reiserfs.
    V6_1,
}

impl Version {
    /// Every version.
    pub const ALL: [Version; 2] = [Version::V6_12, Version::V6_1];

    /// As it is named in an experiment and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V6_12 => "6.12",
            Version::V6_1 => "6.1",
        }
    }

    /// The version of a name.
    pub fn by_name(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Debian's package, with the package's version where a certain one is meant.
    const fn package(self) -> &'static str {
        match self {
            Version::V6_12 => "linux-source-6.12",
            Version::V6_1 => "linux-source-6.1=6.1.176-1",
        }
    }
}

/// File systems that are half of a kernel's build: their options.
const LARGE: [&str; 5] =
    ["CONFIG_XFS_FS", "CONFIG_BTRFS_FS", "CONFIG_F2FS_FS", "CONFIG_F2FS_FS_XATTR", "CONFIG_NILFS2_FS"];
/// The file system that only 6.1 has. A small kernel of 6.12 does not ask for it.
const REISERFS: &str = "CONFIG_REISERFS_FS";

/// What is wanted of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its version.
    pub version: Version,
    /// Whether it may be without xfs, btrfs, f2fs and nilfs2.
    pub small: bool,
}

impl Wanted {
    /// The configuration.
    fn config(self) -> String {
        let reiserfs = (self.version == Version::V6_12).then_some(&REISERFS);
        let large = |line: &str| LARGE.iter().chain(reiserfs).any(|name| line.strip_prefix(name) == Some("=y"));
        CONFIG.lines().filter(|line| !(self.small && large(line))).flat_map(|line| [line, "\n"]).collect()
    }

    /// Hash of what goes into a kernel besides Linux's source.
    fn key(self) -> String {
        let mut hash = Sha256::new();
        let config = self.config();
        let parts = [("config", config.as_str()), ("init", INIT)].into_iter().chain(DRIVER);
        let edits = EDITS.iter().flat_map(|edit| [(edit.file, edit.find), (edit.file, edit.replace)]);
        for (name, text) in parts.chain(edits) {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The directory of the kernel in a cache, with a star for what only the source says.
    pub fn directory(self) -> String {
        format!("linux-{}.*-{}", self.version.name(), self.key())
    }
}

/// A kernel that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    dir: PathBuf,
}

/// Why there is no kernel.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Programs are missing.
    #[error("found no {}, which building for the guest needs", .programs.join(", "))]
    Tools {
        /// The programs.
        programs: Vec<&'static str>,
        /// Debian's packages that have them.
        packages: Vec<&'static str>,
    },
    /// Debian's source cannot be fetched.
    #[error("cannot fetch Debian's package {package}: {why}")]
    Source {
        /// The package.
        package: &'static str,
        /// What apt-get said.
        why: String,
    },
    /// A step of the build failed.
    #[error("{step} failed{}:\n{last}", .log.as_ref().map(|log| format!(" (log in {})", log.display())).unwrap_or_default())]
    Step {
        /// The step.
        step: String,
        /// Its last lines.
        last: String,
        /// The whole log.
        log: Option<PathBuf>,
    },
    /// The cache cannot be read or written.
    #[error("{path}: {error}")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Progress of a build.
#[derive(Clone, Debug)]
pub enum Step {
    /// Debian's source is fetched.
    Fetch,
    /// It is unpacked.
    Unpack,
    /// It is configured.
    Configure,
    /// So many files are compiled.
    Compile(u32),
}

impl Kernel {
    /// A kernel in a cache that has what is wanted, if one is built; the whole one before the small one.
    pub fn find(cache: &Path, wanted: Wanted) -> Option<Kernel> {
        let whole = Wanted { small: false, ..wanted };
        Kernel::exactly(cache, whole).or_else(|| wanted.small.then(|| Kernel::exactly(cache, wanted)).flatten())
    }

    fn exactly(cache: &Path, wanted: Wanted) -> Option<Kernel> {
        let (from, to) = (format!("linux-{}.", wanted.version.name()), format!("-{}", wanted.key()));
        let mut found: Vec<PathBuf> = fs::read_dir(cache)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                name.starts_with(&from) && name.ends_with(&to) && path.join("linux").is_file()
            })
            .collect();
        found.sort();
        found.pop().map(|dir| Kernel { dir })
    }

    /// Builds a kernel in a cache. `watch` is called with the progress.
    /// Errors: [`KernelError`].
    pub fn build(cache: &Path, wanted: Wanted, watch: &mut dyn FnMut(Step)) -> Result<Kernel, KernelError> {
        tools()?;
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| KernelError::Cache { path, error }
        };
        let work = cache.join(format!("build-{}-{}", wanted.version.name(), std::process::id()));
        fs::create_dir_all(&work).map_err(at(&work))?;
        let built = build_in(cache, &work, wanted, watch);
        // The log of a failure stays.
        let failed = matches!(built, Err(KernelError::Step { .. }));
        let _ = fs::remove_dir_all(if failed { work.join(SOURCE) } else { work });
        built
    }

    /// Path of the kernel, a program of the host.
    pub fn linux(&self) -> PathBuf {
        self.dir.join("linux")
    }

    /// Version of the source and hash of what was built with it, as `6.12.117-0123456789ab`.
    pub fn name(&self) -> String {
        let name = self.dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.trim_start_matches("linux-").to_owned()
    }
}

/// Errors: a program that the build runs is missing.
fn tools() -> Result<(), KernelError> {
    all_there(&TOOLS)
}

/// Errors: a program is missing. `package` is Debian's that has it.
pub(crate) fn tool(program: &'static str, package: &'static str) -> Result<(), KernelError> {
    all_there(&[(program, package)])
}

fn all_there(tools: &[(&'static str, &'static str)]) -> Result<(), KernelError> {
    let dirs: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let missing = |program: &str| !dirs.iter().any(|dir| dir.join(program).is_file());
    let missing: Vec<_> = tools.iter().filter(|(program, _)| missing(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(KernelError::Tools {
        programs: missing.iter().map(|(program, _)| *program).collect(),
        packages: missing.iter().map(|(_, package)| *package).collect(),
    })
}

fn build_in(cache: &Path, work: &Path, wanted: Wanted, watch: &mut dyn FnMut(Step)) -> Result<Kernel, KernelError> {
    let io = |path: PathBuf| move |error| KernelError::Cache { path, error };
    watch(Step::Fetch);
    let package = fetch(cache, wanted.version)?;
    watch(Step::Unpack);
    let tree = work.join(SOURCE);
    fs::create_dir_all(&tree).map_err(io(tree.clone()))?;
    unpack(&package, &tree)?;
    for (name, text) in DRIVER {
        let path = tree.join("drivers/nandlab").join(name);
        fs::create_dir_all(path.parent().unwrap_or(&tree)).map_err(io(path.clone()))?;
        fs::write(&path, text).map_err(io(path.clone()))?;
    }
    for edit in &EDITS {
        let path = tree.join(edit.file);
        let text = fs::read_to_string(&path).map_err(io(path.clone()))?;
        if text.matches(edit.find).count() != 1 {
            let last = format!("{} does not hold just once: {}", edit.file, edit.find.trim());
            return Err(KernelError::Step { step: "calling the driver from Linux".to_owned(), last, log: None });
        }
        fs::write(&path, text.replace(edit.find, edit.replace)).map_err(io(path.clone()))?;
    }
    watch(Step::Configure);
    let config = work.join("all.config");
    fs::write(&config, wanted.config()).map_err(io(config.clone()))?;
    let log = work.join("build.log");
    let mut all = std::ffi::OsString::from("KCONFIG_ALLCONFIG=");
    all.push(&config);
    make(&tree, &log, &[all.as_os_str(), OsStr::new("allnoconfig")], &mut |_| {})?;
    configured(&tree, &wanted.config())?;
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
    let mut compiled = 0;
    make(&tree, &log, &[OsStr::new(&jobs), OsStr::new("linux")], &mut |line| {
        if line.trim_start().starts_with("CC ") {
            compiled += 1;
            watch(Step::Compile(compiled));
        }
    })?;
    let release_path = tree.join("include/config/kernel.release");
    let release = fs::read_to_string(&release_path).map_err(io(release_path.clone()))?;
    let made = work.join("made");
    fs::create_dir_all(&made).map_err(io(made.clone()))?;
    run("strip", Command::new("strip").arg("-o").arg(made.join("linux")).arg(tree.join("linux")))?;
    let copy = |from: &str, to: &str| fs::copy(tree.join(from), made.join(to)).map_err(io(made.join(to)));
    copy(".config", "config")?;
    let dir = cache.join(format!("linux-{}-{}", release.trim(), wanted.key()));
    let _ = fs::remove_dir_all(&dir);
    fs::rename(&made, &dir).map_err(io(dir.clone()))?;
    Ok(Kernel { dir })
}

/// Debian's package of the source: one fetched before, or fetched now, as any user.
fn fetch(cache: &Path, version: Version) -> Result<PathBuf, KernelError> {
    let sources = cache.join("sources");
    fs::create_dir_all(&sources).map_err(|error| KernelError::Cache { path: sources.clone(), error })?;
    let package = version.package();
    let (name, exact) = package.split_once('=').unwrap_or((package, ""));
    let from = format!("{name}_{exact}");
    let there = || {
        let mut found: Vec<PathBuf> = fs::read_dir(&sources)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                file.starts_with(&from) && file.ends_with(".deb")
            })
            .collect();
        found.sort();
        found.pop()
    };
    if let Some(found) = there() {
        return Ok(found);
    }
    let said = Command::new("apt-get").arg("download").arg(package).current_dir(&sources).output();
    let why = match said {
        Ok(said) if said.status.success() => match there() {
            Some(found) => return Ok(found),
            None => "apt-get brought no file".to_owned(),
        },
        Ok(said) => String::from_utf8_lossy(&said.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(KernelError::Source { package, why })
}

/// Unpacks the source of a package into `tree`, without intermediate files.
fn unpack(package: &Path, tree: &Path) -> Result<(), KernelError> {
    let step = |last: String| KernelError::Step { step: "unpacking the source".to_owned(), last, log: None };
    let failed = |error: std::io::Error| step(error.to_string());
    let mut files =
        Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut source = Command::new("tar")
        .args(["-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"])
        .stdin(files.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut unpack = Command::new("tar");
    unpack.args(["-xJ", "--strip-components=1", "-C"]).arg(tree);
    for pattern in LEFT_OUT {
        unpack.args(["--exclude", pattern]);
    }
    let done = unpack
        .stdin(source.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::piped())
        .output()
        .map_err(failed)?;
    let _ = (files.wait(), source.wait());
    if done.status.success() { Ok(()) } else { Err(step(String::from_utf8_lossy(&done.stderr).into_owned())) }
}

/// Errors: an option of the configuration that this Linux does not take.
fn configured(tree: &Path, wanted: &str) -> Result<(), KernelError> {
    let path = tree.join(".config");
    let found = fs::read_to_string(&path).map_err(|error| KernelError::Cache { path, error })?;
    let found: Vec<&str> = found.lines().collect();
    let missing: Vec<&str> = wanted.lines().filter(|line| line.ends_with("=y") && !found.contains(line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(KernelError::Step {
        step: "configuring Linux".to_owned(),
        last: format!("not set: {}", missing.join(", ")),
        log: None,
    })
}

/// Runs make in the tree, appending what it prints to the log. `each` sees each line.
fn make(tree: &Path, log: &Path, arguments: &[&OsStr], each: &mut dyn FnMut(&str)) -> Result<(), KernelError> {
    let failed = |error: std::io::Error| KernelError::Cache { path: log.to_owned(), error };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    let mut child = Command::new("make")
        .arg("ARCH=um")
        .args(arguments)
        .current_dir(tree)
        .env_remove("MAKEFLAGS")
        .env_remove("CARGO_MAKEFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(|error| KernelError::Step { step: "make".to_owned(), last: error.to_string(), log: None })?;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.map_err(failed)?;
        std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).map_err(failed)?;
        each(&line);
    }
    if child.wait().map_err(failed)?.success() {
        return Ok(());
    }
    let text = fs::read(log).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(KernelError::Step { step: "building Linux".to_owned(), last, log: Some(log.to_owned()) })
}

fn run(step: &str, command: &mut Command) -> Result<(), KernelError> {
    let failed = |last: String| KernelError::Step { step: step.to_owned(), last, log: None };
    let done = command.output().map_err(|error| failed(error.to_string()))?;
    if done.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&done.stderr).into_owned())) }
}

/// The user's cache of kernels: `$NANDLAB_CACHE`, else `nandlab` in `$XDG_CACHE_HOME` or `~/.cache`. `None` without a
/// home directory.
pub fn cache() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("NANDLAB_CACHE").or_else(|| {
        let caches = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")))?;
        Some(caches.join("nandlab"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_kernel_lacks_the_large_file_systems_and_serves_who_does_not_need_them() {
        let wanted = |small| Wanted { version: Version::V6_12, small };
        let has = |small: bool, name: &str| wanted(small).config().lines().any(|line| line == format!("{name}=y"));
        assert!(LARGE.iter().all(|name| has(false, name) && !has(true, name)));
        assert!(["CONFIG_EXT4_FS", "CONFIG_UBIFS_FS", "CONFIG_JFFS2_FS"].iter().all(|name| has(true, name)));
        assert_eq!(wanted(false).config(), CONFIG);
        // What 6.1 is for stays in.
        let of_6_1 = Wanted { version: Version::V6_1, small: true }.config();
        let lacks: Vec<_> = CONFIG.lines().filter(|line| !of_6_1.lines().any(|kept| kept == *line)).collect();
        assert_eq!(lacks.len(), LARGE.len());
        assert!(of_6_1.contains("CONFIG_REISERFS_FS=y\n") && !of_6_1.contains("CONFIG_XFS_FS=y"), "{lacks:?}");

        let cache = std::env::temp_dir().join(format!("nandlab-kernels-{}", std::process::id()));
        let make = |small| {
            let dir = cache.join(wanted(small).directory().replace('*', "117"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("linux"), "").unwrap();
        };
        make(true);
        assert_eq!(Kernel::find(&cache, wanted(false)), None);
        let small = Kernel::find(&cache, wanted(true)).unwrap();
        make(false);
        let whole = Kernel::find(&cache, wanted(false)).unwrap();
        assert!(small != whole && Kernel::find(&cache, wanted(true)) == Some(whole));
        fs::remove_dir_all(&cache).unwrap();
    }
}
