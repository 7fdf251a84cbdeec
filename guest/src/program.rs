//! Programs of nandlab's for a guest's job. What is compiled is so by the host's gcc, and kept in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::kernel::{KernelError, tool};

/// Source of [`fsstress`].
pub const FSSTRESS: &str = include_str!("../jobs/fsstress.c");
/// Source of [`load`].
pub const LOAD: &str = include_str!("../jobs/load.c");
/// Makes promises by fsync, and checks whether they were kept: a shell script.
pub const PROMISES: &str = include_str!("../jobs/promises.sh");

/// The operation mix of xfstests' fsstress: an executable file in the cache, compiled there at its first use.
/// Errors: there is no gcc; it fails; the cache cannot be written.
pub fn fsstress(cache: &Path) -> Result<PathBuf, KernelError> {
    compiled(cache, "fsstress", FSSTRESS)
}

/// Makes the calls of a load that nandlab generates: an executable file in the cache, as [`fsstress`].
/// Errors: as [`fsstress`].
pub fn load(cache: &Path) -> Result<PathBuf, KernelError> {
    compiled(cache, "load", LOAD)
}

fn compiled(cache: &Path, name: &str, source: &str) -> Result<PathBuf, KernelError> {
    let key: String = Sha256::digest(source).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let program = cache.join(format!("{name}-{key}"));
    if program.is_file() {
        return Ok(program);
    }
    tool("gcc", "gcc")?;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| KernelError::Cache { path, error }
    };
    fs::create_dir_all(cache).map_err(at(cache))?;
    let own = |end: &str| cache.join(format!("{name}-{}{end}", std::process::id()));
    let (file, made) = (own(".c"), own(""));
    fs::write(&file, source).map_err(at(&file))?;
    let said = Command::new("gcc").args(["-O2", "-s", "-o"]).arg(&made).arg(&file).output();
    let _ = fs::remove_file(&file);
    let said = said.map_err(at(Path::new("gcc")))?;
    if !said.status.success() {
        let last = String::from_utf8_lossy(&said.stderr).into_owned();
        return Err(KernelError::Step {
            step: format!("compiling {name} (it needs gcc and libc6-dev)"),
            last,
            log: None,
        });
    }
    // Another process may have made it meanwhile: the same file.
    fs::rename(&made, &program).map_err(at(&program))?;
    Ok(program)
}
