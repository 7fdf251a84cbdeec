//! Every file of the seed corpus, and every input that once broke a target, through its target, on any toolchain.

use std::path::PathBuf;

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> =
        folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten().collect();
    files.sort_by_key(|file| file.file_name());
    files.into_iter().map(|file| file.path()).collect()
}

#[test]
fn every_corpus_file_passes_its_target() {
    for (name, target) in nandlab_fuzz::TARGETS {
        let files = corpus(name);
        assert!(files.len() >= 3, "{name} has {} seeds", files.len());
        for file in files {
            let bytes = std::fs::read(&file).expect("it was just listed");
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "{} breaks {name}", file.display());
        }
    }
}

#[test]
fn the_corpus_stays_small() {
    let bytes: u64 = nandlab_fuzz::TARGETS
        .iter()
        .flat_map(|(name, _)| corpus(name))
        .map(|file| file.metadata().expect("it was just listed").len())
        .sum();
    // On average what 24 targets had in 320 KiB.
    let most = (320 << 10) / 24 * nandlab_fuzz::TARGETS.len() as u64;
    assert!(bytes < most, "{bytes} bytes, expected below {most}");
}

/// Cheap mutations of each seed: what a stable toolchain can do of the fuzzer's work in seconds.
#[test]
fn flipped_bytes_of_every_seed_pass_too() {
    for (name, target) in nandlab_fuzz::TARGETS {
        let mut rng = sim::Seed(1).stream(name);
        for file in corpus(name) {
            let bytes = std::fs::read(&file).expect("it was just listed");
            for _ in 0..20 {
                let mut mutant = bytes.clone();
                for _ in 0..rng.below(4) + 1 {
                    let at = rng.below(mutant.len().max(1) as u64) as usize;
                    if let Some(byte) = mutant.get_mut(at) {
                        *byte = rng.bits() as u8;
                    }
                }
                let outcome = std::panic::catch_unwind(|| target(&mutant));
                assert!(outcome.is_ok(), "a mutant of {} breaks {name}: {mutant:02x?}", file.display());
            }
        }
    }
}
