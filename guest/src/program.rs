//! Programs of nandlab's for a guest's job. What is compiled is so by the host's gcc, and kept in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::kernel::{KernelError, tool};

/// Source of [`fsstress`].
pub const FSSTRESS: &str = include_str!("../jobs/fsstress.c");
/// Makes promises by fsync, and checks whether they were kept: a shell script.
pub const PROMISES: &str = include_str!("../jobs/promises.sh");

/// The operation mix of xfstests' fsstress: an executable file in the cache, compiled there at its first use.
/// Errors: there is no gcc; it fails; the cache cannot be written.
pub fn fsstress(cache: &Path) -> Result<PathBuf, KernelError> {
    let key: String = Sha256::digest(FSSTRESS).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let program = cache.join(format!("fsstress-{key}"));
    if program.is_file() {
        return Ok(program);
    }
    tool("gcc", "gcc")?;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| KernelError::Cache { path, error }
    };
    fs::create_dir_all(cache).map_err(at(cache))?;
    let own = |end: &str| cache.join(format!("fsstress-{}{end}", std::process::id()));
    let (source, made) = (own(".c"), own(""));
    fs::write(&source, FSSTRESS).map_err(at(&source))?;
    let said = Command::new("gcc").args(["-O2", "-s", "-o"]).arg(&made).arg(&source).output();
    let _ = fs::remove_file(&source);
    let said = said.map_err(at(Path::new("gcc")))?;
    if !said.status.success() {
        let last = String::from_utf8_lossy(&said.stderr).into_owned();
        return Err(KernelError::Step {
            step: "compiling fsstress (it needs gcc and libc6-dev)".to_owned(),
            last,
            log: None,
        });
    }
    // Another process may have made it meanwhile: the same file.
    fs::rename(&made, &program).map_err(at(&program))?;
    Ok(program)
}
