//! Lists the logs of guest runs in `studies/*/logs/`, which are built in.
#![allow(clippy::disallowed_methods, reason = "a build script lists files")]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Entries of a folder, in order; none if there is no such folder.
fn entries(dir: &Path) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", dir.display());
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn main() {
    let top = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../studies");
    let mut text = "&[\n".to_owned();
    for study in entries(&top) {
        let name = study.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        for file in entries(&study).into_iter().filter(|path| path.ends_with("logs")).flat_map(|logs| entries(&logs)) {
            let log = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            text += &format!("    ({name:?}, {log:?}, include_bytes!({:?})),\n", file.display().to_string());
        }
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("logs.rs");
    fs::write(out, text + "]\n").expect("the build directory can be written");
}
