//! The kernel column of a study: Linux's own UBI, UBIFS and JFFS2 in the guest, beside nandlab's run.
//!
//! Of a study of wear both stop at the same wear, and the published table stands beside them. A run in the guest is shorter
//! than the published one by orders of magnitude, so erase counts are shown as multiples of the mean of the PEBs outside the
//! first 64. Another study names the metrics that it compares. Linux's processor takes no virtual time, so that nandlab's run
//! has to be without it too. A load that nandlab generates is made by the guest, call by call.

use runner::measure::outcome::flash::HEAD_PEBS;
use runner::measure::{Outcome, check_metric};
use runner::parts::Library;
use runner::run::Prepared;
use runner::schema::{Experiment, word};
use serde::Deserialize;
use serde_json::Value;

use super::published::PublishedGroups;
use super::{Source, Spec, StudyError, TablePair};

/// Quantiles of erase counts that a table shows, with their names.
const QUANTILES: [(f64, &str); 7] =
    [(0.0, "least"), (0.05, "5 %"), (0.25, "25 %"), (0.5, "median"), (0.75, "75 %"), (0.95, "95 %"), (1.0, "greatest")];

/// `[kernel]` of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelSpec {
    /// Table `guest` of every run.
    guest: toml::Table,
    /// What is set in nandlab's runs beside them.
    #[serde(default)]
    set: toml::Table,
    /// Metrics that are compared in runs without `row`.
    #[serde(default)]
    row: Vec<KernelRow>,
    /// Its runs.
    #[serde(default)]
    run: Vec<KernelRun>,
}

/// A run of Linux beside a run of the study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelRun {
    /// Title of its table.
    title: String,
    /// The Linux of the guest.
    linux: String,
    /// Id of the study's run with the same flash and threshold.
    of: String,
    /// What runs in the guest, if not the same in all.
    job: Option<String>,
    /// What is set in nandlab's run beside it. A seed is that of both.
    #[serde(default)]
    set: toml::Table,
    /// Keys of `guest.fs`, for a load that nandlab generates.
    #[serde(default)]
    fs: toml::Table,
    /// Metrics that are compared, in place of erase counts.
    #[serde(default)]
    row: Vec<KernelRow>,
    /// Both stop at this mean erase count of the PEBs outside the first 64; without it each ends with its load.
    mean_erases_of_others: Option<f64>,
    /// Share of that mean at which a quick run stops, or share of the load that it makes.
    #[serde(default = "super::spec::whole")]
    quick: f64,
}

/// A metric that is compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelRow {
    /// Words.
    text: String,
    /// nandlab's metric.
    ours: String,
    /// Linux's, if it is another one.
    linux: Option<String>,
}

/// A run of Linux and the run of nandlab's beside it, prepared.
#[derive(Clone, Debug)]
pub struct KernelPair {
    /// Title of the table.
    pub title: String,
    /// Linux in the guest.
    pub linux: Prepared,
    /// nandlab's UBI under its own load.
    pub ours: Prepared,
    published: Option<PublishedGroups>,
    rows: Vec<KernelRow>,
}

/// The pairs of a study; none if it has no table `kernel`.
/// Errors: a run that does not exist, or a refused experiment.
pub fn kernel_pairs(source: &Source, quick: bool, library: &Library) -> Result<Vec<KernelPair>, StudyError> {
    let spec = Spec::parse(source)?;
    let Some(kernel) = &spec.kernel else { return Ok(Vec::new()) };
    kernel.run.iter().map(|run| pair(&spec, kernel, run, quick, library)).collect()
}

fn pair(
    spec: &Spec,
    kernel: &KernelSpec,
    asked: &KernelRun,
    quick: bool,
    library: &Library,
) -> Result<KernelPair, StudyError> {
    let place = format!("kernel run `{}`", asked.title);
    let Some(run) = spec.runs.iter().find(|run| run.id == asked.of) else {
        return Err(spec.wrong(&place, format!("no run `{}`", asked.of)));
    };
    let mut own = run.clone();
    own.set.extend(kernel.set.iter().chain(&asked.set).map(|(key, value)| (key.clone(), value.clone())));
    let mut ours = spec.question_of(&own, false, library)?.experiment;
    if quick {
        shorten(&mut ours, asked.quick);
    }
    let Some(nand) = ours.nand.as_ref().filter(|_| !ours.has_block_device()) else {
        return Err(spec.wrong(&place, format!("run `{}` is not on raw flash", asked.of)));
    };
    let refused = |error| StudyError::Experiment { study: spec.name.clone(), run: asked.title.clone(), error };
    let rows = if asked.row.is_empty() { &kernel.row } else { &asked.row };
    for row in rows {
        [&row.ours]
            .into_iter()
            .chain(&row.linux)
            .try_for_each(|id| check_metric(id))
            .map_err(|why| spec.wrong(&place, why))?;
    }
    let mut table = toml::Table::new();
    let quoted = |text: &str| toml::Value::from(text.replace('\'', ""));
    table.insert("title".to_owned(), quoted(&asked.title));
    table.insert("question".to_owned(), quoted(&spec.question));
    table.insert("seed".to_owned(), toml::Value::from(ours.seed as i64));
    let flash = toml::Table::try_from(nand).map_err(|error| spec.wrong(&place, error.to_string()))?;
    table.insert("nand".to_owned(), flash.into());
    let mut guest = kernel.guest.clone();
    guest.insert("linux".to_owned(), quoted(&asked.linux));
    if let Some(ubi) = &ours.ubi {
        guest.insert("wl_threshold".to_owned(), i64::from(ubi.wl_threshold).into());
    }
    let unwritable = |error: toml::ser::Error| spec.wrong(&place, error.to_string());
    let logger = ours.logger.as_ref().map(toml::Table::try_from).transpose().map_err(unwritable)?;
    let reboots = ours.reboots.as_ref().map(toml::Table::try_from).transpose().map_err(unwritable)?;
    for (name, load) in [("logger", logger), ("reboots", reboots)] {
        let Some(load) = load else { continue };
        table.insert(name.to_owned(), load.into());
        guest.insert("program".to_owned(), "load".into());
        let kind = ours.fs.as_ref().map_or_else(String::new, |fs| word(&fs.kind));
        let fs = guest.entry("fs").or_insert_with(|| toml::Table::new().into());
        if let Some(fs) = fs.as_table_mut() {
            fs.extend(asked.fs.clone());
            fs.insert("kind".to_owned(), kind.into());
        }
    }
    guest.extend(asked.job.iter().map(|job| ("job".to_owned(), toml::Value::from(job.as_str()))));
    table.insert("guest".to_owned(), guest.into());
    let mean = asked.mean_erases_of_others.map(|mean| mean * if quick { asked.quick } else { 1.0 });
    let stop = mean.map(|mean| ("stop.mean_erases_of_others".to_owned(), format!("{mean:.3}")));
    let linux = Experiment::from_table(table, stop.as_slice(), library).map_err(refused)?;
    if mean.is_some() {
        ours.stop = linux.stop.clone();
    }
    Ok(KernelPair {
        title: asked.title.clone(),
        linux: Prepared::new(linux, library).map_err(refused)?,
        ours: Prepared::new(ours, library).map_err(refused)?,
        published: spec.groups(run)?,
        rows: rows.clone(),
    })
}

/// Gives a load a share of its length.
fn shorten(experiment: &mut Experiment, share: f64) {
    let of = |count: u64| ((count as f64 * share) as u64).max(1);
    if let Some(logger) = &mut experiment.logger {
        logger.entries = of(logger.entries);
    }
    if let Some(reboots) = &mut experiment.reboots {
        reboots.reboots = of(reboots.reboots.into()) as u32;
    }
}

impl KernelPair {
    /// Kernel, nandlab and published, side by side.
    pub fn table(&self, linux: &Outcome, ours: &Outcome) -> TablePair {
        let version = linux.measured.guest.as_ref().map_or("Linux", |guest| guest.linux.as_str());
        let version = version.split('-').next().unwrap_or_default();
        if !self.rows.is_empty() {
            return self.compared(version, linux, ours);
        }
        let counts = [linux, ours].map(|found| Relative::of(&found.measured.erase_counts));
        let mut rows = Vec::new();
        let mut row = |name: String, values: [Option<f64>; 3]| {
            let cell = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
                Some(value) => rounded(value),
                None => Value::Null,
            };
            rows.push(std::iter::once(Value::from(name)).chain(values.map(cell)).collect::<Vec<_>>());
        };
        let [a, b] = &counts;
        let of = |pick: fn(&PublishedGroups) -> Option<f64>| self.published.as_ref().and_then(pick);
        row(
            "mean erasures of the others".to_owned(),
            [Some(a.mean), Some(b.mean), of(|table| Some(table.others_mean))],
        );
        let relative = |at: fn(&PublishedGroups) -> Option<f64>| {
            self.published.as_ref().and_then(|table| Some(at(table)? / table.others_mean))
        };
        row(
            "first 64 over the others".to_owned(),
            [
                Some(mean(&a.head)),
                Some(mean(&b.head)),
                relative(|table| table.first64.avg.or(Some((table.first64.min + table.first64.max) / 2.0))),
            ],
        );
        for (group, pick) in [("first 64", (|of| &of.head) as fn(&Relative) -> &Vec<f64>), ("others", |of| &of.rest)] {
            for (share, name) in QUANTILES {
                let published = match (group, share) {
                    ("first 64", 0.0) => relative(|table| Some(table.first64.min)),
                    ("first 64", 1.0) => relative(|table| Some(table.first64.max)),
                    (_, 0.0) => relative(|table| Some(table.others.min)),
                    (_, 1.0) => relative(|table| Some(table.others.max)),
                    _ => None,
                };
                row(format!("{group}, {name}"), [quantile(pick(a), share), quantile(pick(b), share), published]);
            }
        }
        row(
            "Kolmogorov-Smirnov distance of all PEBs".to_owned(),
            [Some(0.0), Some(distance(&a.all(), &b.all())), None],
        );
        for (id, name) in [
            ("fastmap.writes_per_user_peb", "fastmap writes per PEB"),
            ("fastmap.anchors_in_place_share", "anchors in place, per fastmap"),
            ("fastmap.mean_user_pool", "mean user pool"),
            ("fastmap.starved_refill_share", "refills with one PEB or none"),
            ("fastmap.empty_wl_pool_share", "refills with an empty WL pool"),
            ("fastmap.moves_per_user_peb", "wear-levelling moves per PEB"),
        ] {
            let value = |found: &Outcome| found.metrics().value(id).ok();
            row(name.to_owned(), [value(linux), value(ours), None]);
        }
        TablePair {
            title: format!("{}; erase counts over the mean of the others", self.title),
            columns: ["", &format!("Linux {version}"), "nandlab", "published"].map(str::to_owned).to_vec(),
            published: Vec::new(),
            ours: rows,
        }
    }
}

impl KernelPair {
    /// The metrics that are compared.
    fn compared(&self, version: &str, linux: &Outcome, ours: &Outcome) -> TablePair {
        let row = |row: &KernelRow| {
            let value = |found: &Outcome, id: &str| found.metrics().value(id).map_or(Value::Null, rounded);
            let of_linux = row.linux.as_ref().unwrap_or(&row.ours);
            vec![Value::from(row.text.as_str()), value(linux, of_linux), value(ours, &row.ours)]
        };
        TablePair {
            title: self.title.clone(),
            columns: ["", &format!("Linux {version}"), "nandlab"].map(str::to_owned).to_vec(),
            published: Vec::new(),
            ours: self.rows.iter().map(row).collect(),
        }
    }
}

/// A number of a table.
fn rounded(value: f64) -> Value {
    Value::from((value * 10_000.0).round() / 10_000.0)
}

/// Erase counts over the mean of the PEBs outside the first 64, each group in ascending order.
struct Relative {
    mean: f64,
    head: Vec<f64>,
    rest: Vec<f64>,
}

impl Relative {
    fn of(erase_counts: &[u32]) -> Relative {
        let (head, rest) = erase_counts.split_at(HEAD_PEBS.min(erase_counts.len()));
        let sum: f64 = rest.iter().map(|&ec| f64::from(ec)).sum();
        let mean = sum / rest.len().max(1) as f64;
        let over = |counts: &[u32]| {
            let mut over: Vec<f64> = counts.iter().map(|&ec| f64::from(ec) / mean).collect();
            over.sort_by(f64::total_cmp);
            over
        };
        Relative { mean, head: over(head), rest: over(rest) }
    }

    fn all(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.head.iter().chain(&self.rest).copied().collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The value below which this share of ascending values lies; `None` of none.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(share * last as f64).round() as usize])
}

/// Greatest difference of the distribution functions of two samples in ascending order.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let (mut i, mut j, mut most) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while a.get(i).is_some_and(|&value| value <= at) {
            i += 1;
        }
        while b.get(j).is_some_and(|&value| value <= at) {
            j += 1;
        }
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_that_of_the_distribution_functions() {
        assert_eq!(distance(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]), 0.0);
        assert_eq!(distance(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        // At 2 the shares are 1/2 and 0 of four: by hand.
        assert_eq!(distance(&[1.0, 2.0, 3.0, 4.0], &[2.5, 3.0, 3.5, 4.0]), 0.5);
    }

    /// Erase counts of two runs and a published table, made up: all shares by hand.
    #[test]
    fn a_table_has_each_share_of_the_kernel_of_ours_and_of_the_document() {
        let group = |min, max| crate::published::PublishedGroup { min, avg: None, max };
        let published = PublishedGroups { first64: group(30.0, 50.0), others: group(5.0, 20.0), others_mean: 10.0 };
        let source = crate::by_name("fastmap-first-64").unwrap();
        let mut pair = kernel_pairs(source, true, Library::embedded()).unwrap().remove(0);
        pair.published = Some(published);
        let mut linux = Prepared::resolve("title = 't'\n[nand]\npebs = 256\n[stop]\nvirtual_s = 1.0\n", &[])
            .unwrap()
            .run(None, &mut |_| ())
            .unwrap();
        let mut ours = linux.clone();
        linux.measured.erase_counts = [vec![40; HEAD_PEBS], vec![15, 5, 10]].concat();
        ours.measured.erase_counts = [vec![20; HEAD_PEBS], vec![4, 12]].concat();
        let table = pair.table(&linux, &ours);
        assert!(table.title.starts_with(&pair.title) && table.published.is_empty());
        assert_eq!(table.columns[2..], ["nandlab", "published"]);
        let row = |name: &str| table.ours.iter().find(|row| row[0] == name).unwrap()[1..].to_vec();
        let numbers = |values: [Option<f64>; 3]| values.map(|value| value.map_or(Value::Null, Value::from)).to_vec();
        for (name, values) in [
            ("mean erasures of the others", [Some(10.0), Some(8.0), Some(10.0)]),
            ("first 64 over the others", [Some(4.0), Some(2.5), Some(4.0)]),
            ("first 64, least", [Some(4.0), Some(2.5), Some(3.0)]),
            ("first 64, median", [Some(4.0), Some(2.5), None]),
            ("first 64, greatest", [Some(4.0), Some(2.5), Some(5.0)]),
            ("others, least", [Some(0.5), Some(0.5), Some(0.5)]),
            ("others, median", [Some(1.0), Some(1.5), None]),
            ("others, greatest", [Some(1.5), Some(1.5), Some(2.0)]),
            // Between 2.5 and 4 lie the first 64 of ours and none of the kernel's: 66 of 66 and 3 of 67.
            ("Kolmogorov-Smirnov distance of all PEBs", [Some(0.0), Some(0.9552), None]),
        ] {
            assert_eq!(row(name), numbers(values), "{name}");
        }
        // Both runs are the same one but for their erase counts.
        let moves = linux.metrics().value("fastmap.moves_per_user_peb").ok();
        let moves = moves.filter(|value| value.is_finite()).map(|value| (value * 10_000.0).round() / 10_000.0);
        assert_eq!(row("wear-levelling moves per PEB"), numbers([moves, moves, None]));
        assert_eq!(table.ours.len(), 2 + 14 + 1 + 6);
    }

    #[test]
    fn a_study_of_time_compares_metrics_without_the_processor() {
        let pairs = kernel_pairs(crate::by_name("fastmap-throughput").unwrap(), false, Library::embedded()).unwrap();
        assert_eq!(pairs.len(), 16);
        for pair in &pairs {
            let (linux, ours) = (&pair.linux.experiment, &pair.ours.experiment);
            assert_eq!((&linux.nand, linux.stop.mean_erases_of_others), (&ours.nand, 0.0), "{}", pair.title);
            let fs = ours.fs.as_ref().unwrap();
            assert_eq!((fs.operation_us, fs.node_ns, fs.node_ps_per_byte, fs.copy_ps_per_byte), (0.0, 0, 0, 0));
            // fio writes as much on both sides.
            let job = &linux.guest.as_ref().unwrap().job;
            let bytes = ours.fio.as_ref().unwrap().block_bytes * ours.fio.as_ref().unwrap().requests;
            assert!(job.contains(&format!("--io_size={}m ", bytes >> 20)), "{bytes}: {job}");
        }
        let mut found = Prepared::resolve("title = 't'\n[nand]\npebs = 256\n[stop]\nvirtual_s = 1.0\n", &[])
            .unwrap()
            .run(None, &mut |_| ())
            .unwrap();
        found.measured.metrics.put("guest.value.mb_s", 12.345_67);
        found.measured.metrics.put("fs.write.mb_s", 23.0);
        let table = pairs[0].table(&found, &found);
        assert_eq!(table.ours[0], [Value::from("MB/s"), Value::from(12.3457), Value::from(23.0)]);
        assert_eq!(table.columns[2], "nandlab");
    }

    #[test]
    fn a_load_that_nandlab_generates_is_the_same_on_both_sides_and_no_processor_takes_time() {
        for (study, count, quick, of_quick) in [("jffs2-powerfail", 2, false, 300), ("jffs2-appends", 10, true, 3_000)]
        {
            let pairs = kernel_pairs(crate::by_name(study).unwrap(), quick, Library::embedded()).unwrap();
            assert_eq!(pairs.len(), count, "{study}");
            for pair in &pairs {
                let (linux, ours) = (&pair.linux.experiment, &pair.ours.experiment);
                assert_eq!((&linux.nand, &linux.logger, &linux.reboots), (&ours.nand, &ours.logger, &ours.reboots));
                let length = ours.logger.as_ref().map_or(0, |logger| logger.entries)
                    + ours.reboots.as_ref().map_or(0, |reboots| u64::from(reboots.reboots));
                assert_eq!(length, of_quick, "{}", pair.title);
                let (guest, fs) = (linux.guest.as_ref().unwrap(), ours.fs.as_ref().unwrap());
                assert_eq!(word(&guest.program), "load");
                assert_eq!(word(&guest.fs.kind), word(&fs.kind), "{}", pair.title);
                let prices = [fs.node_ns, fs.node_ps_per_byte, fs.copy_ps_per_byte, fs.pack_ps_per_byte];
                assert_eq!((fs.operation_us, prices, fs.unpack_ps_per_byte), (0.0, [0; 4], 0), "{}", pair.title);
                assert!(!pair.rows.is_empty());
            }
        }
    }

    /// Two runs with unlike metrics: each is in its own column.
    #[test]
    fn each_column_is_of_its_own_run() {
        let run = |title: &str, waf: f64, moves: f64| {
            let text = format!("title = '{title}'\n[nand]\npebs = 256\n[stop]\nvirtual_s = 0.001\n");
            let mut found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
            found.measured.metrics = runner::measure::Metrics::default();
            found.measured.metrics.put("waf", waf);
            found.measured.metrics.put("fastmap.moves_per_user_peb", moves);
            found
        };
        let (linux, ours) = (run("linux", 1.5, 0.25), run("ours", 2.5, 0.75));
        let mut pair =
            kernel_pairs(crate::by_name("fastmap-first-64").unwrap(), true, Library::embedded()).unwrap().remove(0);
        let table = pair.table(&linux, &ours);
        let row = table.ours.iter().find(|row| row[0] == "wear-levelling moves per PEB").unwrap();
        assert_eq!(row[1..], [Value::from(0.25), Value::from(0.75), Value::Null]);
        let row = |linux: Option<&str>| KernelRow {
            text: "bytes".to_owned(),
            ours: "waf".to_owned(),
            linux: linux.map(str::to_owned),
        };
        pair.rows = vec![row(None), row(Some("fastmap.moves_per_user_peb"))];
        let table = pair.table(&linux, &ours);
        assert_eq!(table.ours[0][1..], [Value::from(1.5), Value::from(2.5)]);
        assert_eq!(table.ours[1][1..], [Value::from(0.25), Value::from(2.5)]);
    }

    /// What a run of the kernel says of the file system in the guest is there, but for its kind, which is that of nandlab's run.
    #[test]
    fn a_load_in_the_guest_has_the_keys_of_its_file_system() {
        let source = crate::by_name("jffs2-appends").unwrap();
        let toml: toml::Table = toml::from_str(&source.toml).unwrap();
        let mut stated = 0;
        let pairs = kernel_pairs(source, true, Library::embedded()).unwrap();
        for (pair, run) in pairs.iter().zip(toml["kernel"]["run"].as_array().unwrap()) {
            let guest = pair.linux.experiment.guest.as_ref().unwrap();
            let found = toml::Table::try_from(&guest.fs).unwrap();
            for (key, value) in run.get("fs").and_then(toml::Value::as_table).into_iter().flatten() {
                assert_eq!(found.get(key), Some(value), "{}", pair.title);
                stated += 1;
            }
        }
        assert!(stated > 0, "a run of the study says something");
    }

    /// A row with a seed of its own runs both with that seed.
    #[test]
    fn a_seed_of_a_pair_is_the_seed_of_both() {
        let mut source = crate::by_name("jffs2-appends").unwrap().clone();
        let own = "set = { \"fs.jffs2.summary\" = true,";
        source.toml = source.toml.replacen(own, "set = { \"seed\" = 7, \"fs.jffs2.summary\" = true,", 1).into();
        let pairs = kernel_pairs(&source, true, Library::embedded()).unwrap();
        let seeds: Vec<_> = pairs.iter().map(|pair| (pair.linux.experiment.seed, pair.ours.experiment.seed)).collect();
        assert_eq!((seeds[0], seeds[1]), ((7, 7), (1, 1)));
    }

    #[test]
    fn samples_of_different_sizes_are_compared_to_their_ends() {
        // By hand: at 1 the shares are 1 and 1/4; at 5 one sample has ended.
        assert_eq!(distance(&[1.0], &[1.0, 5.0, 6.0, 7.0]), 0.75);
        assert_eq!(distance(&[1.0, 5.0, 6.0, 7.0], &[1.0]), 0.75);
        assert_eq!((quantile(&[], 0.5), quantile(&[3.0], 1.0)), (None, Some(3.0)));
        // The first 64 of an array that has no more; counts in any order.
        assert!(Relative::of(&[1; HEAD_PEBS]).rest.is_empty());
        let mut counts: Vec<u32> = (0..HEAD_PEBS as u32).rev().collect();
        counts.extend([30, 10]);
        let found = Relative::of(&counts);
        assert_eq!((found.head[..2].to_vec(), found.rest), (vec![0.0, 0.05], vec![0.5, 1.5]));
    }

    #[test]
    fn erase_counts_are_over_the_mean_of_the_others() {
        let mut counts = vec![40; HEAD_PEBS];
        counts.extend([5, 10, 15]);
        let found = Relative::of(&counts);
        assert_eq!((found.mean, mean(&found.head)), (10.0, 4.0));
        assert_eq!([0.0, 0.5, 1.0].map(|share| quantile(&found.rest, share).unwrap()), [0.5, 1.0, 1.5]);
    }

    #[test]
    fn both_runs_of_a_pair_have_one_flash_one_threshold_and_one_end() {
        let source = crate::by_name("fastmap-first-64").unwrap();
        for quick in [false, true] {
            let pairs = kernel_pairs(source, quick, Library::embedded()).unwrap();
            assert_eq!(pairs.len(), 2);
            for pair in pairs {
                let (linux, ours) = (&pair.linux.experiment, &pair.ours.experiment);
                assert_eq!(linux.nand, ours.nand);
                assert_eq!(linux.stop, ours.stop);
                let guest = linux.guest.as_ref().unwrap();
                assert_eq!(guest.wl_threshold, ours.ubi.as_ref().unwrap().wl_threshold);
                assert!(pair.published.is_some());
            }
        }
        // What the study states of each, and the run of its own that has the same flash and threshold.
        let toml: toml::Table = toml::from_str(&source.toml).unwrap();
        let spec = Spec::parse(source).unwrap();
        for (quick, mean) in [(false, 40.0), (true, 10.0)] {
            let pairs = kernel_pairs(source, quick, Library::embedded()).unwrap();
            for (pair, stated) in pairs.iter().zip(toml["kernel"]["run"].as_array().unwrap()) {
                let (linux, ours) = (&pair.linux.experiment, &pair.ours.experiment);
                let of = spec.runs.iter().find(|run| Some(run.id.as_str()) == stated["of"].as_str()).unwrap();
                let own = spec.question_of(of, false, Library::embedded()).unwrap().experiment;
                assert_eq!((Some(pair.title.as_str()), linux.seed), (stated["title"].as_str(), spec.seed()));
                assert_eq!(linux.stop.mean_erases_of_others, mean);
                let version = serde_json::to_value(linux.guest.as_ref().unwrap().linux).unwrap();
                assert_eq!(version.as_str(), stated["linux"].as_str());
                assert_eq!((&ours.nand, &ours.ubi), (&own.nand, &own.ubi), "{}", pair.title);
            }
            // As source 000 prints them.
            let greatest =
                pairs.iter().map(|pair| pair.published.as_ref().map(|table| (table.first64.max, table.others.max)));
            assert_eq!(greatest.collect::<Vec<_>>(), [Some((117_940.0, 29_362.0)), Some((50_806.0, 37_070.0))]);
        }
        let other = crate::by_name("ssd-ncq").unwrap();
        assert!(kernel_pairs(other, false, Library::embedded()).unwrap().is_empty());
    }
}
