//! Output of `info`, `ls` and `wear`.

use super::support::Bench;

#[test]
fn info_prints_what_it_printed() {
    let bench = Bench::with_image("info-golden");
    assert_eq!(bench.run("info u.ubi").ended(0).stdout, include_str!("info.txt"));
}

#[test]
fn wear_prints_what_it_printed() {
    let bench = Bench::with_image("info-wear");
    bench.change(|bytes| {
        let ecs = [3u64, 40, 40, 97, 170, 1000, 272_935];
        for (peb, ec) in bytes.chunks_mut(128 << 10).zip(ecs) {
            peb[8..16].copy_from_slice(&ec.to_be_bytes());
            let sum = ubi::media::crc(&peb[..60]).to_be_bytes();
            peb[60..64].copy_from_slice(&sum);
        }
    });
    assert_eq!(bench.run("wear u.ubi").ended(0).stdout, include_str!("wear.txt"));
    let map = bench.run("wear u.ubi --map unicode --width 40").ended(0).stdout;
    assert!(map.ends_with("  0 ▁▂▂▃▃▄█\n"), "{map}");
    let json = bench.run("wear u.ubi --json").ended(0).json();
    assert_eq!((&json["histogram"]["total"]["max"], &json["erase_counters"][6]), (&272_935.into(), &272_935.into()));
}

/// Every document has a schema name, and the schema is documented.
#[test]
fn every_document_is_documented() {
    let bench = Bench::with_image("info-json");
    let documents = include_str!("../../../../docs/format/image-json.md");
    let commands = [
        "info u.ubi",
        "ls u.ubi",
        "check u.ubi",
        "wear u.ubi",
        "map u.ubi",
        "pebs u.ubi",
        "compare u.ubi u.ubi",
        "extract u.ubi -o out",
        "pack -p 128KiB -m 2048 -o p.ubi u.ini",
    ];
    for command in commands {
        let json = bench.run(&format!("{command} --json")).ended(0).json();
        let schema = json["schema"].as_str().unwrap();
        assert!(documents.contains(&format!("`{schema}`")), "{schema} is not in docs/format/image-json.md");
        for key in json.as_object().unwrap().keys() {
            assert!(documents.contains(&format!("`{key}`")), "{key} of {schema} is not in docs/format/image-json.md");
        }
    }
    for aspect in ubi::image::Aspect::ALL {
        assert!(documents.contains(&format!("`{}`", aspect.name())), "{} is not documented", aspect.name());
    }
    for class in ubi::image::Class::ALL {
        assert!(documents.contains(&format!("`{}`", class.name())), "{} is not documented", class.name());
    }
}
