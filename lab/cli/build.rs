//! Lists the files of `experiments/` and `samples/`, which `nandlab init` writes.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Adds every file below `dir`.
fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir).expect("the folder is in the tree") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

fn main() {
    let top = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut files = Vec::new();
    for dir in ["experiments", "samples"] {
        walk(&top.join(dir), &mut files);
    }
    files.sort();
    let entry = |file: &PathBuf| {
        let name = file.strip_prefix(&top).expect("it is below the top");
        format!("    ({:?}, include_bytes!({:?})),\n", name.display().to_string(), file.display().to_string())
    };
    let text: String = files.iter().map(entry).collect();
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("starter.rs");
    fs::write(out, format!("&[\n{text}]\n")).expect("the build directory can be written");
}
