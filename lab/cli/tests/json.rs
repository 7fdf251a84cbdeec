//! Every `--json` prints one object whose first key names its form.

use std::path::Path;
use std::process::Command;

const COMMANDS: [(&str, &str); 20] = [
    ("run", "run experiments/hello.toml --set stop.virtual_s=1 --json"),
    ("run", "trace replay samples/trace.csv --on experiments/ssd-2008-random-write.toml --wrap --json"),
    ("studies", "study ./samples/study --json"),
    ("study-list", "study list --json"),
    ("sweep", "sweep experiments/hello.toml --set stop.virtual_s=1 --vary seed=1,2 --out out --json"),
    ("cuts", "cuts experiments/cuts-ubi.toml --every 9001 --json"),
    ("identify", "identify experiments/ssd-2008-random-write.toml --json"),
    ("image-info", "image info samples/firmware.ubi --json"),
    ("image-ls", "image ls samples/firmware.ubi --json"),
    ("image-ls", "image ls samples/rootfs.ubi / --recursive --json"),
    ("image-info", "image info samples/rootfs.ubi --json"),
    ("image-extract", "image extract samples/rootfs.ubi -o rootfs --no-owner --json"),
    ("image-check", "image check samples/firmware.ubi --json"),
    ("image-wear", "image wear samples/firmware.ubi --json"),
    ("image-extract", "image extract samples/firmware.ubi -o volumes --json"),
    ("image-pack", "image pack samples/ubinize.ini -o made.ubi --peb-size 16KiB --min-io-size 512 --json"),
    ("trace-info", "trace info samples/trace.csv --json"),
    ("trace-convert", "trace convert samples/trace.csv out.ntrace --json"),
    ("parts", "parts --json"),
    ("part", "parts 970-evo --json"),
];

#[test]
fn every_document_names_its_form_first_and_the_page_of_forms_has_it() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("json");
    let _ = std::fs::remove_dir_all(&dir);
    let nandlab = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.args(args.split(' '));
        command
    };
    assert!(nandlab("init").arg(&dir).output().unwrap().status.success());
    let page = include_str!("../../../docs/format/json.md");
    for (name, args) in COMMANDS {
        let output = nandlab(args).current_dir(&dir).output().unwrap();
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args}: {errors}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args}: {error}"));
        let form = format!("nandlab/{name}/1");
        assert_eq!(document["schema"], form, "{args}");
        assert!(text.starts_with(&format!("{{\n  \"schema\": \"{form}\"")), "{args}: {}", &text[..80]);
        assert!(page.contains(&format!("`{form}`")), "docs/format/json.md has no {form}");
    }
}
