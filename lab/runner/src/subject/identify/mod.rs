//! Identification of a drive: IDENTIFY DEVICE data of a SATA drive and the log page with the geometry of its flash;
//! descriptors of a UFS device (see [`ufs`]).
//!
//! The document is decoded from the bytes, as a host does, and not taken from the experiment.

pub mod ufs;

use serde_json::{Value, json};
use ssd::TrimmedReads;
use ssd::device::ata::{self, Identity, SHAPE_LOG};

use crate::schema::drive::Protocol;
use crate::schema::{ExperimentError, word, wrong};
use crate::subject::Drive;

/// Identification data of a drive, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A SATA drive.
    Sata(Box<Sata>),
    /// A UFS device.
    Ufs(Box<ufs::Answers>),
}

impl Answers {
    /// The data as files: name and contents.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        match self {
            Answers::Sata(answers) => vec![
                ("identify.bin".to_owned(), answers.identify.to_vec()),
                ("log-a0.bin".to_owned(), answers.shape_log.to_vec()),
            ],
            Answers::Ufs(answers) => answers.files(),
        }
    }
}

/// Identification data of a SATA drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sata {
    /// IDENTIFY DEVICE data.
    pub identify: [u8; 512],
    /// Page 0 of the log [`SHAPE_LOG`].
    pub shape_log: [u8; 512],
}

/// Words of IDENTIFY data with their meaning.
const WORDS: &[(usize, &str)] = &[
    (49, "capabilities: LBA (9), DMA (8)"),
    (60, "sectors by 28 bits, low word"),
    (61, "sectors by 28 bits, high word"),
    (69, "trimmed sectors read the same each time (14), as zeroes (5)"),
    (75, "queue depth less 1"),
    (76, "Serial ATA: NCQ (8), 3 Gb/s (2), 1.5 Gb/s (1)"),
    (80, "versions: ACS-2 (9), ATA8-ACS (8)"),
    (82, "supported: write cache (5)"),
    (83, "supported: FLUSH CACHE EXT (13), FLUSH CACHE (12), 48 bits (10)"),
    (84, "supported: FUA writes (6), general-purpose logging (5)"),
    (85, "enabled: write cache (5)"),
    (86, "enabled: as word 83"),
    (87, "enabled: as word 84"),
    (100, "sectors, lowest word"),
    (101, "sectors"),
    (102, "sectors"),
    (103, "sectors, highest word"),
    (105, "blocks of 512 bytes in a TRIM"),
    (106, "several logical sectors in a physical one (13), their number as a power of two (3:0)"),
    (169, "DATA SET MANAGEMENT: TRIM (0)"),
    (209, "alignment of logical sectors in physical ones (13:0)"),
    (217, "rotation: 1 is none"),
    (222, "transport: serial (15:12 = 1)"),
    (255, "signature A5h and checksum"),
];

/// Identification data of a drive; `seed` determines its serial number.
/// Errors: a drive whose protocol has neither.
pub fn answers(drive: &Drive, seed: u64) -> Result<Answers, ExperimentError> {
    match drive.section.front.protocol {
        Protocol::Sata => Ok(Answers::Sata(Box::new(sata(drive, seed)))),
        Protocol::Ufs => Ok(Answers::Ufs(Box::new(ufs::answers(drive)))),
        Protocol::Nvme => wrong(
            "ssd.front.protocol",
            word(&Protocol::Nvme),
            "sata or ufs: IDENTIFY DEVICE and its log are ATA's, descriptors and queries are UFS's",
        ),
    }
}

fn sata(drive: &Drive, seed: u64) -> Sata {
    let (shape, config) = (&drive.shape, &drive.config);
    let identify = ata::identify(&Identity {
        model: format!("nandlab {}", drive.section.part),
        serial: format!("{seed:016X}"),
        sectors: u64::from(config.pages) * u64::from(shape.page_bytes / sim::seam::SECTOR_BYTES),
        queue_depth: config.front.depth,
        physical_sector_bytes: shape.page_bytes,
        trim: true,
        deterministic_trim: config.front.trimmed_reads != TrimmedReads::Undefined,
        zeroing_trim: config.front.trimmed_reads == TrimmedReads::Zeroes,
        write_cache: config.front.write_cache && config.cache.is_some(),
    });
    Sata { identify, shape_log: ata::shape_log(shape) }
}

/// Decodes the data as a host does; `null` if they are invalid.
pub fn document(answers: &Answers) -> Value {
    match answers {
        Answers::Sata(answers) => sata_document(answers),
        Answers::Ufs(answers) => ufs::document(answers),
    }
}

fn sata_document(answers: &Sata) -> Value {
    let (Some(identity), Some(log)) = (ata::read_identify(&answers.identify), ata::read_shape_log(&answers.shape_log))
    else {
        return Value::Null;
    };
    let word = |at: usize| u16::from_le_bytes([answers.identify[2 * at], answers.identify[2 * at + 1]]);
    json!({
        "protocol": "sata",
        "model": identity.model,
        "serial": identity.serial,
        "bytes": identity.sectors * 512,
        "sectors": identity.sectors,
        "logical_sector_bytes": 512,
        "physical_sector_bytes": identity.physical_sector_bytes,
        "queue_depth": identity.queue_depth,
        "ncq": identity.queue_depth > 1,
        "write_cache": identity.write_cache,
        "rotating": word(217) != 1,
        "trim": {
            "supported": identity.trim,
            "blocks": word(105),
            "deterministic": identity.deterministic_trim,
            "zeroes": identity.zeroing_trim,
        },
        "shape_log": {
            "address": SHAPE_LOG,
            "page_bytes": log.page_bytes,
            "block_bytes": log.block_bytes,
            "channels": log.channels,
            "ways": log.ways,
            "dies": log.dies,
            "planes": log.planes,
            "planes_in_step": log.planes_in_step,
            "order": log.order,
            "effective_page_bytes": log.effective_page_bytes,
            "effective_block_bytes": log.effective_block_bytes,
        },
        "words": WORDS.iter()
            .map(|&(at, meaning)| json!({"word": at, "value": word(at), "meaning": meaning})).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Experiment;

    fn of(sets: &[(&str, &str)]) -> Result<Value, ExperimentError> {
        let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let text = "title = 't'\n[ssd]\npart = 'sata-2008'\n[workload]\nrequests = 1\n";
        let experiment = Experiment::resolve(text, &sets)?;
        let drive = Drive::build(experiment.ssd.as_ref().unwrap(), experiment.seed)?;
        answers(&drive, experiment.seed).map(|answers| document(&answers))
    }

    #[test]
    fn the_drive_of_2008_tells_what_it_is() {
        let answers = of(&[]).unwrap();
        let expected = json!([32_000_000_000_u64, 32, true, false, false, 4096]);
        let keys = ["bytes", "queue_depth", "ncq", "write_cache", "rotating", "physical_sector_bytes"];
        let found = Value::from(keys.map(|key| answers[key].clone()).to_vec());
        // The capacity is rounded down to whole stripes of 32 KiB.
        assert!(found[0].as_u64().is_some_and(|bytes| (32_000_000_000 - 32_768..=32_000_000_000).contains(&bytes)));
        assert_eq!(found.as_array().unwrap()[1..], expected.as_array().unwrap()[1..]);
        assert_eq!(answers["shape_log"]["effective_page_bytes"], 8 * 4096);
        assert_eq!(answers["shape_log"]["effective_block_bytes"], 8 * 64 * 4096);
    }

    #[test]
    fn what_trimmed_sectors_read_as_is_told() {
        for (reads, deterministic, zeroes) in
            [("zeroes", true, true), ("deterministic", true, false), ("undefined", false, false)]
        {
            let trim = &of(&[("ssd.front.trimmed_reads", reads)]).unwrap()["trim"];
            assert_eq!((&trim["deterministic"], &trim["zeroes"]), (&deterministic.into(), &zeroes.into()), "{reads}");
        }
    }

    #[test]
    fn a_drive_that_tells_nothing_is_refused() {
        let error = of(&[("ssd.front.protocol", "nvme")]).unwrap_err().to_string();
        assert!(error.contains("ssd.front.protocol") && error.contains("expected sata or ufs"), "{error}");
    }
}
