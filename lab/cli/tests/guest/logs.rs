//! Logs of guest runs: kept with a run, cached, in a study's directory, and replayed.

use super::*;

/// A home of logs of its own, with the kernels of the user's cache.
fn cache_of(dir: &Path) -> PathBuf {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/nandlab"));
    let kernels = std::env::var_os("NANDLAB_CACHE").map(PathBuf::from).or(home).unwrap();
    let cache = dir.join("cache");
    std::fs::create_dir(&cache).unwrap();
    for entry in std::fs::read_dir(kernels).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("linux-") {
            std::os::unix::fs::symlink(entry.path(), cache.join(entry.file_name())).unwrap();
        }
    }
    cache
}

/// A job that overwrites what it wrote, with requests that wait for each other and others that do not.
const JOB: &str = "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=f$((i % 3)) bs=64k count=40 2>/dev/null; sync f$((i % 3)); sleep 0.01; done\n\
    echo written >/dev/nandlab-mark\nrm f0 f1\nsync\necho value files 6 >/dev/nandlab-mark\necho gone-now >/dev/nandlab-mark";

fn study(dir: &Path, seed: u32) {
    let drive = "'ssd.channels' = 2, 'ssd.ways' = 1, 'ssd.dies' = 1, 'ssd.planes' = 1, 'ssd.blocks' = 80, 'ssd.pages' = 64, \
        'ssd.page_kib' = 4.0, 'ssd.multi_plane' = false, 'ssd.over_provisioning_percent' = 25, 'ssd.cache.policy' = 'lru', \
        'ssd.cache.mib' = 1.0, 'ssd.front.protocol' = 'nvme', 'ssd.front.depth' = 8, 'ssd.front.write_cache' = true";
    let text = format!(
        "kind = 'guest'\nquestion = 'What do logs say?'\n[base]\ntitle = 'x'\nseed = {seed}\n\
         [base.guest]\nmemory_mib = 96\njob = '''\n{JOB}\n'''\n\
         [[run]]\nid = 'a/ext4'\ntitle = 'ext4'\nset = {{ {drive}, 'guest.fs.kind' = 'ext4' }}\n\
         [[run]]\nid = 'jffs2'\ntitle = 'jffs2'\n\
         set = {{ 'nand.part' = 'MT29F1G08ABAFA', 'nand.pebs' = 64, 'nand.delays' = 'part', 'guest.fs.kind' = 'jffs2' }}\n\
         [[claim]]\nid = 'files'\nours = 'guest.value.files(a/ext4)'\nderived = '/files'\nwithin = 0.0001\n\
         [[claim]]\nid = 'order'\nours = 'guest.mark.gone-now_s(a/ext4) / guest.mark.written_s(a/ext4)'\nabove = 1\n\
         [[claim]]\nid = 'raw'\nours = 'guest.value.files(jffs2) + guest.exit(jffs2)'\nderived = '/files'\nwithin = 0.0001\n\
         [derived]\nfiles = 6\n"
    );
    std::fs::create_dir_all(dir.join("s")).unwrap();
    std::fs::write(dir.join("s/study.toml"), text).unwrap();
}

fn metrics(result: &Value) -> Vec<(String, f64)> {
    let metrics = result["metrics"].as_array().unwrap().iter();
    let pairs = metrics.map(|metric| (metric["id"].as_str().unwrap().to_owned(), metric["value"].as_f64().unwrap()));
    pairs.filter(|(id, _)| !id.starts_with("flow.")).collect()
}

/// What the table of logs says of each run, and the fingerprints.
fn told(judged: &Value) -> (Vec<String>, Value) {
    let study = &judged["studies"][0];
    let tables = study["tables"].as_array().unwrap();
    let logs = tables.iter().find(|table| table["columns"][1] == "log").unwrap();
    let froms = logs["ours"].as_array().unwrap().iter().map(|row| row[1].as_str().unwrap().to_owned());
    (froms.collect(), study["fingerprints"].clone())
}

#[test]
fn a_study_replays_the_logs_of_its_guests_and_a_replay_is_the_run_again() {
    let dir = fresh("logs");
    let cache = cache_of(&dir);
    study(&dir, 1);
    let run = |args: &[&str]| command(&dir, args).env("NANDLAB_CACHE", &cache).output().unwrap();
    let judged = |args: &[&str]| -> Value {
        let said = run(args);
        assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
        serde_json::from_slice(&said.stdout).unwrap()
    };
    let refused = |code: i32, words: &[&str]| {
        let said = run(&["study", "./s"]);
        let error = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{error}");
        words.iter().for_each(|word| assert!(error.contains(word), "no `{word}` in {error}"));
    };

    // The runs go in parallel: either of them is the first without a log.
    refused(3, &["run `", "no log of the guest", "nandlab guest build", "--refresh"]);
    let (from, prints) = told(&judged(&["study", "./s", "--refresh", "--keep-logs", "s/logs", "--json"]));
    assert_eq!(from, ["fresh", "fresh"]);
    for name in ["a%2Fext4.ntrace", "a%2Fext4.toml", "jffs2.json", "jffs2.toml"] {
        assert!(dir.join("s/logs").join(name).is_file(), "{name}");
    }
    assert_eq!(told(&judged(&["study", "./s", "--out", "o", "--json"])), (vec!["tree".to_owned(); 2], prints.clone()));

    // The guest itself, on the same device: every metric but those of its processes is that of the replay.
    std::fs::copy(dir.join("o/s/a-ext4/experiment.toml"), dir.join("e.toml")).unwrap();
    let closed = judged(&["run", "e.toml", "--out", "closed", "--trace", "t.ntrace", "--json"]);
    let replayed = std::fs::read(dir.join("o/s/a-ext4/result.json")).unwrap();
    let replayed: Value = serde_json::from_slice(&replayed).unwrap();
    assert_eq!(metrics(&replayed), metrics(&closed));
    assert_eq!(replayed["erase_counts"], closed["erase_counts"]);
    assert_eq!(replayed["guest"]["marks"], closed["guest"]["marks"]);
    assert!(closed["requests"].as_u64().unwrap() > 50, "{}", closed["requests"]);

    // By hand: its requests are those of --trace, and on a fresh drive each is made again.
    let file = |name: &str| std::fs::read(dir.join(name)).unwrap();
    assert!(file("closed/requests.ntrace") == file("t.ntrace"));
    let by_hand =
        judged(&["trace", "replay", "closed/requests.ntrace", "--on", "e.toml", "--mode", "dependency", "--json"]);
    assert_eq!(by_hand["requests"], closed["requests"]);
    let (ours, theirs) = (metrics(&by_hand), metrics(&closed));
    for id in ["write.count", "read.count", "trim.count", "flush.count"] {
        let of = |all: &[(String, f64)]| all.iter().find(|(known, _)| known == id).map(|(_, value)| *value);
        assert_eq!(of(&ours), of(&theirs), "{id}");
    }

    // A study that is another by now.
    study(&dir, 2);
    refused(2, &["`a/ext4`", "stale: the log has seed = 1, the experiment 2", "--keep-logs"]);
    study(&dir, 1);
    std::fs::remove_dir_all(dir.join("s/logs")).unwrap();
    assert_eq!(told(&judged(&["study", "./s", "--json"])), (vec!["cache".to_owned(); 2], prints));
    // An entry that is cut short.
    let entries = std::fs::read_dir(cache.join("logs")).unwrap().flatten().map(|entry| entry.path());
    let requests = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "ntrace")).unwrap();
    let bytes = std::fs::read(&requests).unwrap();
    std::fs::write(&requests, &bytes[..bytes.len() / 2]).unwrap();
    refused(2, &[&*requests.with_extension("toml").to_string_lossy(), "SHA-256", "delete the file", "--refresh"]);
    let said = run(&["study", "./s", "--refresh", "--only", "a/ext4"]);
    assert!(said.status.success() && text(&said.stdout).contains("the log of a/ext4"), "{}", text(&said.stderr));
    assert!(std::fs::read(&requests).unwrap() == bytes, "the same log again");
}
