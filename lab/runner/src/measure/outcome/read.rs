//! Reads a result that was kept.
//!
//! What the report computes with is checked first, so that an edited or damaged file is an error that names its key.

use crate::schema::check;

use super::file_system::FileSystemOutcome;
use super::{Detail, Outcome};

/// Most points of a timeline. A run keeps fewer than a thousand.
const MOST_POINTS: usize = 100_000;

impl Outcome {
    /// Reads `result.json`.
    /// Errors: no result; an experiment that cannot be; a timeline that goes back, or whose sums have more than 64 bits.
    pub fn read(text: &str) -> Result<Outcome, String> {
        let outcome: Outcome = serde_json::from_str(text).map_err(|error| error.to_string())?;
        outcome.check()?;
        Ok(outcome)
    }

    fn check(&self) -> Result<(), String> {
        if self.fingerprint.len() != 64 || !self.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("fingerprint: found `{}`, expected 64 hexadecimal digits", self.fingerprint));
        }
        let mut table = self.experiment.to_toml().parse().map_err(|error| format!("experiment: {error}"))?;
        check(&mut table).map_err(|error| format!("experiment: {error}"))?;
        match &self.measured.detail {
            Detail::Flash(found) => {
                ascending(found.timeline.iter().map(|point| point.t_ns))?;
                fit("programmed_bytes", found.programmed_bytes.iter().map(|(_, bytes)| *bytes))?;
                found.file_system.as_ref().map_or(Ok(()), files)
            }
            Detail::Drive(found) | Detail::Ubiblock(found) => {
                let points = &found.timeline;
                ascending(points.iter().map(|point| point.t_ns))?;
                for at in 0..4 {
                    fit("timeline: requests", points.iter().map(|point| point.requests[at]))?;
                    fit("timeline: bytes", points.iter().map(|point| point.bytes[at]))?;
                }
                // The report divides the run into quarters of these.
                fit("timeline: host_pages", points.iter().map(|point| point.host_pages.saturating_mul(4)))?;
                fit("timeline: pages", points.iter().map(|point| point.pages))?;
                fit("timeline: erases", points.iter().map(|point| point.erases))?;
                found.flows.iter().try_for_each(|flow| fit("flows: count", flow.ops.iter().map(|op| op.count)))
            }
        }
    }
}

/// Errors: counts of a file system whose sums have more than 64 bits.
fn files(found: &FileSystemOutcome) -> Result<(), String> {
    let operations = found.operations.iter().flat_map(|op| [op.done, op.nothing, op.refused, op.failed]);
    fit("file_system: operations", operations.chain([found.repeated_operations]))?;
    fit("file_system: written_parts", found.written_parts.iter().map(|(_, bytes)| *bytes))?;
    let programmed = found.volume_bytes.iter().chain(&found.programmed_bytes);
    fit("file_system: volume_bytes and programmed_bytes", programmed.map(|(_, bytes)| *bytes))?;
    let pages = found.page_cache.iter().flat_map(|cache| &cache.written);
    fit("file_system: page_cache", pages.map(|(_, pages)| pages.saturating_mul(4096)))
}

/// Errors: times of a timeline that fall, or too many points.
fn ascending(times: impl ExactSizeIterator<Item = u64> + Clone) -> Result<(), String> {
    if times.len() > MOST_POINTS {
        return Err(format!("timeline: found {} points, expected {MOST_POINTS} at most", times.len()));
    }
    match times.clone().zip(times.skip(1)).find(|(before, after)| before > after) {
        Some((before, after)) => {
            Err(format!("timeline: found t_ns = {after} after {before}, expected a time not before it"))
        }
        None => Ok(()),
    }
}

/// Errors: numbers whose sum has more than 64 bits.
fn fit(key: &str, mut numbers: impl Iterator<Item = u64>) -> Result<(), String> {
    let sum = numbers.try_fold(0u64, |sum, number| sum.checked_add(number));
    sum.map(drop).ok_or_else(|| format!("{key}: found a sum above 18446744073709551615"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report;
    use crate::run::Prepared;

    /// Results of small runs on raw flash and on a drive, as JSON.
    fn results() -> [Value; 2] {
        let flash = "title = 'x'\n[nand]\npebs = 70\n[fs]\npage_cache = {}\n[fsstress]\noperations = 1000\n";
        let drive = "title = 'x'\n[ssd]\nchannels = 2\nways = 1\nplanes = 1\nblocks = 64\npages = 16\n\
                     over_provisioning_percent = 40\n[workload]\nrw = 'randwrite'\nrequests = 300\n";
        [flash, drive].map(|text| {
            let outcome = Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
            serde_json::to_value(outcome).unwrap()
        })
    }

    /// Everything that is computed for a page.
    fn report(found: &Outcome) {
        let runs = [("a".to_owned(), found), ("b".to_owned(), found)];
        report::of_runs(&runs[..1]);
        report::of_runs(&runs);
        report::answer::comparison(&runs);
    }

    /// JSON pointers of the numbers and texts below `at`; of a long array only of its ends.
    fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| leaves(value, format!("{at}/{key}"), found)),
            Value::Array(list) => {
                let ends = (0..list.len()).filter(|&n| n < 2 || n + 1 == list.len());
                ends.for_each(|n| leaves(&list[n], format!("{at}/{n}"), found));
            }
            _ => found.push(at),
        }
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        for result in results() {
            let found = Outcome::read(&result.to_string()).unwrap();
            assert_eq!(serde_json::to_value(&found).unwrap(), result);
            report(&found);
        }
    }

    #[test]
    fn whatever_is_changed_in_a_result_it_is_refused_or_reported() {
        let others =
            [json!(0), json!(-1), json!(0.5), json!(u64::MAX), json!(u32::MAX), json!(1e308), json!("é"), json!([])];
        let (mut refused, mut reported) = (0, 0);
        for result in results() {
            let mut pointers = Vec::new();
            leaves(&result, String::new(), &mut pointers);
            for pointer in pointers {
                for other in &others {
                    let mut changed = result.clone();
                    *changed.pointer_mut(&pointer).unwrap() = other.clone();
                    match Outcome::read(&changed.to_string()) {
                        Ok(found) => {
                            let done = std::panic::catch_unwind(|| report(&found));
                            assert!(done.is_ok(), "{pointer} = {other}");
                            reported += 1;
                        }
                        Err(_) => refused += 1,
                    }
                }
            }
        }
        assert!(refused > 500 && reported > 500, "{refused} refused, {reported} reported");
    }

    #[test]
    fn what_a_report_cannot_be_computed_from_is_named() {
        for (at, pointer, value, error) in [
            (0, "/timeline/0/t_ns", json!(u64::MAX), "timeline: found t_ns = "),
            (1, "/timeline/0/t_ns", json!(u64::MAX), "timeline: found t_ns = "),
            (1, "/timeline/0/bytes/1", json!(u64::MAX), "timeline: bytes: found a sum above"),
            (1, "/fingerprint", json!("ééééé"), "fingerprint: found `ééééé`"),
            (1, "/experiment/ssd/channels", json!(0), "experiment: key `ssd.channels`"),
        ] {
            let mut result = results()[at].clone();
            *result.pointer_mut(pointer).unwrap() = value;
            let refused = Outcome::read(&result.to_string()).unwrap_err();
            assert!(refused.starts_with(error), "{refused}");
        }
    }
}
