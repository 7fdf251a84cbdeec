//! Each rule as a function that lists violations.

use std::path::Path;

use serde_json::Value;

const LONGEST: usize = 800;

/// Crates that bring threads or a clock: the lab may use them, the stack may not.
const NOT_IN_STACK: [&str; 6] = ["rayon", "crossbeam", "tokio", "async-std", "chrono", "time"];

struct Crate<'a> {
    name: &'a str,
    /// Top folder of the crate: `stack`, `guest`, `lab` or `fuzz`.
    side: &'a str,
    dependencies: &'a [Value],
}

fn crates(metadata: &Value) -> Vec<Crate<'_>> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages
        .iter()
        .map(|package| {
            let path = package["manifest_path"].as_str().unwrap_or_default();
            let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches(['/', '\\']);
            Crate {
                name: package["name"].as_str().unwrap_or_default(),
                side: below.split(['/', '\\']).next().unwrap_or_default(),
                dependencies: package["dependencies"].as_array().map_or(&[][..], Vec::as_slice),
            }
        })
        .collect()
}

/// How far out a crate of the lab stands: one that is further out may use it.
fn lab(name: &str) -> u8 {
    match name {
        "runner" => 0,
        "cuts" | "study" => 1,
        _ => 2,
    }
}

/// Dependencies on crates that are not allowed. Tests and benches of a stack crate may use another stack crate (`ubi`
/// uses `nand`), never the lab. The guest stands on the seams alone, as the stack does, and only the lab uses it. The fuzz
/// targets may use all but the guest, and nothing uses them.
pub fn arrows(metadata: &Value) -> Vec<String> {
    let crates = crates(metadata);
    let mut broken = Vec::new();
    for from in &crates {
        for dependency in from.dependencies {
            let to = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            let side = crates.iter().find(|other| other.name == to).map(|other| other.side);
            let fine = match (from.side, side) {
                ("stack", None) => !NOT_IN_STACK.contains(&to),
                ("lab" | "guest" | "fuzz", None) => true,
                ("stack", Some("stack")) => for_tests || (to == "sim" && from.name != "sim"),
                ("guest", Some("stack")) => to == "sim",
                ("lab", Some("stack" | "guest")) => true,
                ("lab", Some("lab")) => lab(to) < lab(from.name),
                ("fuzz", Some("stack" | "lab")) => true,
                _ => false,
            };
            if !fine {
                broken.push(format!("{} → {to}", from.name));
            }
        }
        if !["stack", "lab", "guest", "fuzz"].contains(&from.side) {
            broken.push(format!("{} is below none of stack/, lab/, guest/ and fuzz/", from.name));
        }
    }
    broken
}

/// Dependencies whose name occurs in no source of the crate.
pub fn unused_dependencies(metadata: &Value, top: &Path, sources: &[(String, String)]) -> Vec<String> {
    let mut broken = Vec::new();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(top).ok()).unwrap_or(Path::new(""));
        let folder = folder.to_string_lossy().replace('\\', "/");
        for dependency in package["dependencies"].as_array().map_or(&[][..], Vec::as_slice) {
            let name = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap_or_default();
            let word = name.replace('-', "_");
            let for_tests = dependency["kind"].as_str() == Some("dev");
            // What a user builds of `fuzz` stands in two folders.
            let places: &[&str] = if for_tests { &[""] } else { &["src/", "targets/"] };
            let used = sources
                .iter()
                .filter(|(file, _)| places.iter().any(|place| file.starts_with(&format!("{folder}/{place}"))))
                .any(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word));
            if !used {
                let crate_name = package["name"].as_str().unwrap_or_default();
                broken.push(format!("{crate_name}: {name}{}", if for_tests { " (dev)" } else { "" }));
            }
        }
    }
    broken
}

fn is_source(name: &str) -> bool {
    let made = name.starts_with("web/dist/") || name.ends_with("package-lock.json");
    !made && [".rs", ".ts", ".mjs", ".py", ".css", ".sh", ".toml"].iter().any(|ending| name.ends_with(ending))
}

/// Source files with too many lines.
pub fn long_files(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
    files
        .iter()
        .filter(|(name, bytes)| is_source(name) && lines(bytes) > LONGEST)
        .map(|(name, bytes)| format!("{name}: {} lines", lines(bytes)))
        .collect()
}

/// Strings that no file may contain. Assembled from halves, so that this file passes.
fn forbidden() -> Vec<String> {
    let halves = [
        ("/ho", "me/"),
        ("/ro", "ot/"),
        ("/wo", "rk/"),
        ("/Us", "ers/"),
        ("/tmp/tar", "get"),
        ("arti", "factory"),
        ("index.crates", ".io"),
        ("static.crates", ".io"),
        ("registry.npm", "js.org"),
        ("files.python", "hosted.org"),
        ("pypi.org/", "simple"),
        ("proxy.golang", ".org"),
    ];
    halves.iter().map(|(left, right)| format!("{left}{right}")).collect()
}

/// Absolute paths of a machine and hosts of registries in text files. A path counts only from its beginning:
/// `frame/work/x` is none.
pub fn traces(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, bytes) in files {
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        for (line, text) in (1..).zip(text.lines()) {
            for needle in forbidden() {
                let found = text.match_indices(&needle).any(|(at, _)| {
                    let before = text[..at].chars().next_back();
                    !needle.starts_with('/') || before.is_none_or(|c| !c.is_alphanumeric() && !"._-~/}".contains(c))
                });
                if found {
                    broken.push(format!("{name}:{line}: {needle}"));
                }
            }
        }
    }
    broken
}

/// Source files with meaningless names.
pub fn drawers(names: &[String]) -> Vec<String> {
    let in_source = |name: &str| name.starts_with("src/") || name.contains("/src/") || name.starts_with("python/");
    let is_drawer = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        ["util", "utils", "common", "misc", "helpers"].contains(&stem)
    };
    names.iter().filter(|name| in_source(name) && name.split('/').any(is_drawer)).cloned().collect()
}

/// Bans missing in the root's `clippy.toml`, and files of that name below `stack/`, which would replace it.
pub fn bans(clippy: &str, names: &[String]) -> Vec<String> {
    let needed = [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::thread::spawn",
        "std::thread::sleep",
        "std::fs::read",
        "std::fs::write",
        "std::fs::File",
        "std::env::var",
        "std::collections::HashMap",
        "std::collections::HashSet",
    ];
    let stands = |path: &str| {
        let entry = format!("path = \"{path}\"");
        clippy.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(&entry))
    };
    let missing = needed.iter().filter(|path| !stands(path)).map(|path| format!("clippy.toml does not ban {path}"));
    let lifted = names.iter().filter(|name| name.starts_with("stack/") && name.ends_with("clippy.toml")).cloned();
    missing.chain(lifted).collect()
}

/// Sources of the stack that switch off a ban (tests, benches and examples may).
pub fn excuses(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let is_stack = |name: &str| name.starts_with("stack/") && name.contains("/src/") && name.ends_with(".rs");
    let lint = concat!("clippy::dis", "allowed");
    files
        .iter()
        .filter(|(name, bytes)| is_stack(name) && String::from_utf8_lossy(bytes).contains(lint))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Manifests that do not use the workspace's lints.
pub fn lints(manifests: &[(String, String)]) -> Vec<String> {
    let takes = |text: &str| {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        lines.find(|line| !line.is_empty()).is_some_and(|line| line.replace(' ', "") == "workspace=true")
    };
    manifests.iter().filter(|(_, text)| !takes(text)).map(|(name, _)| name.clone()).collect()
}

/// Sources in a lock file other than the public registry.
pub fn lock(name: &str, text: &str) -> Vec<String> {
    let public = concat!("registry+https://github.com/", "rust-lang/crates.io-index");
    let mut broken: Vec<String> = text
        .lines()
        .filter(|line| line.contains("://") && (line.contains("source = ") || line.contains("\"resolved\"")))
        .filter(|line| !line.contains(public))
        .map(|line| format!("{name}: {}", line.trim()))
        .collect();
    if text.trim().is_empty() {
        broken.push(format!("{name} is empty"));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, folder: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<_> =
            dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        json!({ "name": name, "manifest_path": format!("/t/{folder}/Cargo.toml"), "dependencies": dependencies })
    }

    fn broken(package_with: Value) -> Vec<String> {
        let rest = [
            package("sim", "stack/sim", &[]),
            package("nand", "stack/nand", &[("sim", None)]),
            package("runner", "lab/runner", &[("nand", None)]),
        ];
        let packages: Vec<_> = rest.into_iter().chain([package_with]).collect();
        arrows(&json!({ "workspace_root": "/t", "packages": packages }))
    }

    #[test]
    fn an_arrow_against_the_grain_is_named() {
        let stack = |to, kind| broken(package("ubi", "stack/ubi", &[("sim", None), (to, kind)]));
        assert!(stack("thiserror", None).is_empty());
        assert!(stack("nand", Some("dev")).is_empty());
        assert_eq!(stack("nand", None), ["ubi → nand"]);
        assert_eq!(stack("nand", Some("build")), ["ubi → nand"]);
        assert_eq!(stack("runner", Some("dev")), ["ubi → runner"]);
        assert_eq!(stack("rayon", None), ["ubi → rayon"]);
        assert!(broken(package("nandlab", "lab/cli", &[("runner", None), ("nand", None)])).is_empty());
        let lab = |from: &str, to: &str| {
            let packages = ["runner", "cuts", "study", "nandlab"].map(|name| {
                let to: &[_] = if name == from { &[(to, None)] } else { &[] };
                package(name, &format!("lab/{name}"), to)
            });
            arrows(&json!({ "workspace_root": "/t", "packages": packages }))
        };
        assert!(lab("cuts", "runner").is_empty() && lab("nandlab", "study").is_empty());
        for (from, to) in [("runner", "cuts"), ("cuts", "study"), ("study", "cuts"), ("study", "nandlab")] {
            assert_eq!(lab(from, to), [format!("{from} → {to}")]);
        }
        let guest = |to| broken(package("guest", "guest", &[(to, None)]));
        assert!(guest("sim").is_empty() && guest("memmap2").is_empty());
        assert_eq!(
            (guest("nand"), guest("runner")),
            (vec!["guest → nand".to_owned()], vec!["guest → runner".to_owned()])
        );
        let fuzz = |to| broken(package("nandlab-fuzz", "fuzz", &[(to, None)]));
        assert!(fuzz("runner").is_empty() && fuzz("sim").is_empty() && fuzz("libfuzzer-sys").is_empty());
        let on_fuzz = json!({ "workspace_root": "/t", "packages": [
            package("nandlab-fuzz", "fuzz", &[]), package("runner", "lab/runner", &[("nandlab-fuzz", Some("dev"))]),
        ] });
        assert_eq!(arrows(&on_fuzz), ["runner → nandlab-fuzz"]);
        let on_cli = json!({ "workspace_root": "/t", "packages": [
            package("nandlab", "lab/cli", &[]), package("py", "lab/py", &[("nandlab", None)]),
        ] });
        assert_eq!(arrows(&on_cli), ["py → nandlab"]);
        assert_eq!(broken(package("odd", "elsewhere", &[])).len(), 1);
    }

    #[test]
    fn a_dependency_without_a_word_of_it_is_named() {
        let metadata = json!({ "workspace_root": "/t", "packages": [
            package("ubi", "stack/ubi", &[("crc32fast", None), ("rand-pcg", None), ("proptest", Some("dev"))]),
        ] });
        let source = |name: &str, text: &str| (format!("stack/ubi/{name}"), text.to_owned());
        let uses = [source("src/a.rs", "use rand_pcg::X; crc32fast::hash(b)"), source("tests/b.rs", "proptest! {}")];
        assert!(unused_dependencies(&metadata, Path::new("/t"), &uses).is_empty());
        let wrong = [source("tests/a.rs", "rand_pcg"), source("src/b.rs", "my_crc32fast")];
        let found = unused_dependencies(&metadata, Path::new("/t"), &wrong);
        assert_eq!(found, ["ubi: crc32fast", "ubi: rand-pcg", "ubi: proptest (dev)"]);
    }

    #[test]
    fn one_line_too_many_is_too_many() {
        let file = |name: &str, lines| vec![(name.to_owned(), vec![b'\n'; lines])];
        assert!(long_files(&file("stack/a.rs", LONGEST)).is_empty());
        assert_eq!(long_files(&file("stack/a.rs", LONGEST + 1)).len(), 1);
        assert!(long_files(&file("web/dist/report.html", 5000)).is_empty());
    }

    #[test]
    fn every_trace_is_found_where_it_begins() {
        let file = |text: String| vec![("a.md".to_owned(), text.into_bytes())];
        for needle in forbidden() {
            assert_eq!(traces(&file(format!("see\n \"{needle}x"))), [format!("a.md:2: {needle}")]);
        }
        let inside = forbidden().into_iter().filter(|needle| needle.starts_with('/'));
        inside.for_each(|needle| assert!(traces(&file(format!("frame{needle}x"))).is_empty(), "{needle}"));
    }

    #[test]
    fn a_drawer_is_named_wherever_it_stands() {
        let names = ["stack/ubi/src/utils.rs", "lab/cli/src/misc/a.rs", "web/src/common.ts"].map(str::to_owned);
        assert_eq!(drawers(&names), names);
        assert!(drawers(&["stack/ubi/src/communal.rs".to_owned()]).is_empty());
    }

    #[test]
    fn a_ban_that_is_gone_or_lifted_is_named() {
        let whole = include_str!("../../../../clippy.toml");
        assert!(bans(whole, &[]).is_empty());
        let without = whole.replace("std::thread::spawn", "std::thread::scope");
        assert_eq!(bans(&without, &[]), ["clippy.toml does not ban std::thread::spawn"]);
        let commented = whole.replace("    { path = \"std::env::var\"", "    # { path = \"std::env::var\"");
        assert_eq!(bans(&commented, &[]).len(), 1);
        assert_eq!(bans(whole, &["stack/ubi/clippy.toml".to_owned()]).len(), 1);
        assert!(bans(whole, &["lab/cli/clippy.toml".to_owned()]).is_empty());
    }

    #[test]
    fn an_excuse_in_the_stack_is_named() {
        let text = concat!("#![allow(clippy::dis", "allowed_types)]").as_bytes().to_vec();
        let file = |name: &str| vec![(name.to_owned(), text.clone())];
        assert_eq!(excuses(&file("stack/ubi/src/wl.rs")).len(), 1);
        assert!(excuses(&file("stack/ubi/tests/attach/ubinize.rs")).is_empty());
        assert!(excuses(&file("lab/cli/src/main.rs")).is_empty());
    }

    #[test]
    fn a_manifest_without_lints_is_named() {
        let manifest = |text: &str| vec![("a/Cargo.toml".to_owned(), text.to_owned())];
        assert!(lints(&manifest("[package]\n[lints]\nworkspace = true\n")).is_empty());
        assert_eq!(lints(&manifest("[package]\n")).len(), 1);
        assert_eq!(lints(&manifest("[lints]\n[dev-dependencies]\n")).len(), 1);
    }

    #[test]
    fn a_mirror_in_a_lock_file_is_named() {
        let public = concat!("source = \"registry+https://github.com/", "rust-lang/crates.io-index\"");
        assert!(lock("Cargo.lock", public).is_empty());
        assert_eq!(lock("Cargo.lock", "source = \"registry+https://mirror.example/index\"").len(), 1);
        assert_eq!(lock("p.json", "\"resolved\": \"https://mirror.example/a.tgz\"").len(), 1);
        assert_eq!(lock("p.json", "").len(), 1);
    }
}
