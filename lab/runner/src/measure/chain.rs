//! The way of the bytes from a program on a file system to the cells: how many pass each layer, and what each adds.
//!
//! Three counts that know nothing of one another meet here: UBIFS's own of what it writes, by kind of node; the volume's
//! of what is written to LEBs; the flash's of what is programmed, by cause.

use sim::Cause;

use super::Metrics;
use super::outcome::file_system::FileSystemOutcome;

/// Bytes of a page of the page cache.
const PAGE_BYTES: u64 = 4096;
/// What UBI programs of itself: cause, and words.
const OF_UBI: [(Cause, &str); 6] = [
    (Cause::Header, "UBI's headers"),
    (Cause::Layout, "UBI's volume table"),
    (Cause::Fastmap, "fastmap"),
    (Cause::WearLevel, "wear levelling's copies"),
    (Cause::Scrub, "scrubbing's copies"),
    (Cause::Torture, "torture tests"),
];

/// A layer that the bytes pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Name in ids of metrics.
    pub name: &'static str,
    /// Words for people.
    pub label: &'static str,
    /// Bytes that come out of it.
    pub bytes: u64,
    /// What they consist of, if that is known; the sum is `bytes`.
    pub parts: Vec<Share>,
}

/// A part of what comes out of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Name in ids of metrics.
    pub name: String,
    /// Words for people.
    pub label: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// Words for what UBIFS writes.
fn label_of(part: &str) -> &'static str {
    match part {
        "data" => "data nodes",
        "inodes" => "inodes and entries",
        "moved" => "moved by garbage collection",
        "padding" => "padding of write buffers",
        "log" => "log",
        "index" => "index",
        "lpt" => "LEB properties",
        "orphans" => "orphans",
        "master" => "master nodes",
        "mount" => "recovery",
        _ => "repeated from a record",
    }
}

/// The layers, from the program on. None of a result that lacks the counts.
pub fn of(found: &FileSystemOutcome) -> Vec<Layer> {
    let volume: u64 = found.volume_bytes.iter().map(|(_, bytes)| bytes).sum();
    if volume == 0 {
        return Vec::new();
    }
    let layer = |name, label, bytes| Layer { name, label, bytes, parts: Vec::new() };
    let mut layers = vec![layer("program", "written by the program", found.written_bytes)];
    // Of what is repeated only the calls on LEBs are known, and JFFS2 counts its nodes otherwise.
    if found.repeated_operations == 0 && found.jffs2.is_none() {
        if let Some(cache) = &found.page_cache {
            let pages: u64 = cache.written.iter().map(|(_, pages)| pages).sum();
            layers.push(layer("page_cache", "out of the page cache", pages * PAGE_BYTES));
        }
        layers.push(layer("blocks", "in data nodes before compression", found.data_bytes));
        let data = found.written_parts.iter().find(|(part, _)| part == "data").map_or(0, |(_, bytes)| *bytes);
        layers.push(layer("data_nodes", "in data nodes", data));
    }
    let mut parts: Vec<Share> =
        found.written_parts.iter().map(|(name, bytes)| share(name, label_of(name), *bytes)).collect();
    let known: u64 = found.written_parts.iter().map(|(_, bytes)| bytes).sum();
    if found.jffs2.is_none() {
        parts.push(share("repeated", label_of("repeated"), volume.saturating_sub(known)));
    }
    layers.push(Layer { parts: some(parts), ..layer("volume", "written to LEBs", volume) });

    let of_cause = |counts: &[(String, u64)], cause: Cause| {
        counts.iter().find(|(name, _)| name == cause.name()).map_or(0, |(_, bytes)| *bytes)
    };
    let cells: u64 = found.programmed_bytes.iter().map(|(_, bytes)| bytes).sum();
    let mut parts = vec![share("volume", "written to LEBs", volume)];
    // UBIFS has work of some of these causes too.
    parts.extend(OF_UBI.map(|(cause, label)| {
        let bytes = of_cause(&found.programmed_bytes, cause).saturating_sub(of_cause(&found.volume_bytes, cause));
        share(cause.name(), label, bytes)
    }));
    let known: u64 = parts.iter().map(|part| part.bytes).sum();
    parts.push(share(Cause::Recovery.name(), "failed writes", cells.saturating_sub(known)));
    layers.push(Layer { parts: some(parts), ..layer("cells", "programmed", cells) });
    layers
}

fn share(name: &str, label: &'static str, bytes: u64) -> Share {
    Share { name: name.to_owned(), label, bytes }
}

fn some(parts: Vec<Share>) -> Vec<Share> {
    parts.into_iter().filter(|part| part.bytes > 0).collect()
}

/// Bytes of each layer over those of the one before; `None` for the first, and where that is 0.
pub fn ratios(layers: &[Layer]) -> Vec<Option<f64>> {
    let ratio = |pair: &[Layer]| (pair[0].bytes > 0).then(|| pair[1].bytes as f64 / pair[0].bytes as f64);
    std::iter::once(None).chain(layers.windows(2).map(ratio)).collect()
}

/// Adds the metrics of the chain.
pub(super) fn put(metrics: &mut Metrics, found: &FileSystemOutcome) {
    let layers = of(found);
    for (layer, ratio) in layers.iter().zip(ratios(&layers)) {
        metrics.put(&format!("chain.{}.bytes", layer.name), layer.bytes as f64);
        ratio.into_iter().for_each(|ratio| metrics.put(&format!("chain.{}.ratio", layer.name), ratio));
        for part in &layer.parts {
            metrics.put(&format!("chain.{}.by.{}", layer.name, part.name), part.bytes as f64);
        }
    }
}

/// Whether a text is the name of a layer.
pub(super) fn is_layer(text: &str) -> bool {
    ["program", "page_cache", "blocks", "data_nodes", "volume", "cells"].contains(&text)
}

/// Whether a text is the name of a part of a layer.
pub(super) fn is_part(text: &str) -> bool {
    let of_ubi = OF_UBI.iter().map(|(cause, _)| cause.name());
    let of_ubifs = fs::ubifs::Part::ALL.iter().map(|part| part.name());
    of_ubi.chain(of_ubifs).chain(["volume", "repeated", Cause::Recovery.name()]).any(|name| name == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::outcome::file_system::PageCacheOutcome;

    fn named<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
        counts.map(|(name, count)| (name.to_owned(), count)).to_vec()
    }

    /// 6,000 bytes of a program on flash with pages of 2,048 bytes.
    fn found() -> FileSystemOutcome {
        FileSystemOutcome {
            written_bytes: 6000,
            // Two pages of 4,096 bytes, compressed to half behind headers of 48 bytes.
            page_cache: Some(PageCacheOutcome { written: named([("fsync", 1), ("sync", 1)]), ..Default::default() }),
            data_bytes: 8192,
            written_parts: named([
                ("data", 2 * 2096),
                ("inodes", 160),
                ("padding", 6144 - 2 * 2096 - 160),
                ("log", 2048),
                ("master", 4096),
            ]),
            volume_bytes: named([("host", 4096), ("flush", 2048), ("journal", 2048), ("layout", 4096)]),
            // Two PEBs were erased and mapped; one was moved; the volume table was written to two LEBs of a page.
            programmed_bytes: named([
                ("host", 4096),
                ("header", 4 * 2048),
                ("layout", 4096 + 2 * 2048),
                ("wear_level", 2048),
                ("journal", 2048),
                ("flush", 2048),
            ]),
            ..FileSystemOutcome::default()
        }
    }

    #[test]
    fn each_layer_is_the_sum_of_its_parts() {
        let layers = of(&found());
        let bytes: Vec<_> = layers.iter().map(|layer| (layer.name, layer.bytes)).collect();
        let expected = [
            ("program", 6000),
            ("page_cache", 8192),
            ("blocks", 8192),
            ("data_nodes", 4192),
            ("volume", 12_288),
            ("cells", 26_624),
        ];
        assert_eq!(bytes, expected);
        for layer in layers.iter().filter(|layer| !layer.parts.is_empty()) {
            assert_eq!(layer.parts.iter().map(|part| part.bytes).sum::<u64>(), layer.bytes, "{layer:?}");
        }
        let cells: Vec<_> = layers[5].parts.iter().map(|part| (part.name.as_str(), part.bytes)).collect();
        // What is programmed for the layout and is not UBIFS's is UBI's volume table.
        assert_eq!(cells, [("volume", 12_288), ("header", 8192), ("layout", 4096), ("wear_level", 2048)]);
    }

    #[test]
    fn the_product_of_the_ratios_is_the_amplification() {
        let layers = of(&found());
        let product: f64 = ratios(&layers).into_iter().flatten().product();
        assert!((product - 26_624.0 / 6000.0).abs() < 1e-12, "{product}");
        // A run that only made files has none from its bytes on.
        let found = FileSystemOutcome { written_bytes: 0, data_bytes: 0, page_cache: None, ..found() };
        assert_eq!(ratios(&of(&found))[..3], [None, None, None]);
    }

    #[test]
    fn a_repeated_run_has_what_its_volume_saw() {
        let mut found = found();
        found.repeated_operations = 10;
        found.volume_bytes = named([("host", 40_960)]);
        found.programmed_bytes = named([("host", 40_960), ("header", 4096)]);
        let layers = of(&found);
        assert_eq!(layers.iter().map(|layer| layer.name).collect::<Vec<_>>(), ["program", "volume", "cells"]);
        let repeated = layers[1].parts.last().map(|part| (part.name.as_str(), part.bytes));
        assert_eq!(repeated, Some(("repeated", 40_960 - 12_288)));
    }

    #[test]
    fn what_programs_failed_to_write_is_the_rest() {
        let mut found = found();
        found.programmed_bytes.push(("recovery".to_owned(), 6144));
        let layers = of(&found);
        let last = layers[5].parts.last().map(|part| (part.name.as_str(), part.bytes));
        assert_eq!(last, Some(("recovery", 6144)));
    }

    #[test]
    fn every_layer_and_part_is_known() {
        let layers = of(&found());
        assert!(layers.iter().all(|layer| is_layer(layer.name) && layer.parts.iter().all(|part| is_part(&part.name))));
        assert!(!is_part("magic") && !is_layer("magic"));
        for part in fs::ubifs::Part::ALL {
            assert_ne!(label_of(part.name()), label_of("repeated"), "{}", part.name());
        }
    }
}
