//! A published wear table, by group.

use serde_json::Value;

/// Least, mean and greatest erase count of a group, as printed. The mean is `None` if the document prints none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedGroup {
    /// Least erase count.
    pub min: f64,
    /// Mean erase count.
    pub avg: Option<f64>,
    /// Greatest erase count.
    pub max: f64,
}

/// The first 64 PEBs and the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedGroups {
    /// PEBs 0 to 63.
    pub first64: PublishedGroup,
    /// The others, without a PEB that is alone in its bin.
    pub others: PublishedGroup,
    /// Mean of all PEBs outside the first 64, including one alone in its bin. Computed from the bins if the first 64
    /// have their own, else from the total.
    pub others_mean: f64,
}

struct Bin {
    count: f64,
    min: f64,
    avg: f64,
    max: f64,
}

impl PublishedGroups {
    /// Reads a table of `published.json`; `None` if it is no wear table.
    pub fn read(table: &Value) -> Option<PublishedGroups> {
        let bins: Vec<Bin> = table.get("bins")?.as_array()?.iter().filter_map(bin).collect();
        let total = bin(table.get("total")?)?;
        let head_bin = bins.iter().find(|bin| bin.count == 64.0);
        let stated = |group: &str, stat: &str| table.pointer(&format!("/stated_groups/{group}/{stat}"))?.as_f64();
        let rest: Vec<&Bin> = bins.iter().filter(|bin| bin.count > 64.0).collect();
        let first64 = PublishedGroup {
            min: stated("first_64_pebs", "min").or_else(|| head_bin.map(|bin| bin.min))?,
            avg: head_bin.map(|bin| bin.avg),
            max: stated("first_64_pebs", "max").or_else(|| head_bin.map(|bin| bin.max))?,
        };
        let printed = head_bin.is_some();
        let rest_count: f64 = rest.iter().map(|bin| bin.count).sum();
        let weighted = rest.iter().map(|bin| bin.count * bin.avg).sum::<f64>() / rest_count.max(1.0);
        let alone: Vec<&Bin> = bins.iter().filter(|bin| bin.count < 64.0).collect();
        let all = |pick: fn(&Bin) -> f64| rest.iter().chain(&alone).map(|bin| pick(bin)).sum::<f64>();
        let with_outlier = all(|bin| bin.count * bin.avg) / all(|bin| bin.count);
        // If the first 64 share a bin with others, assume that their mean is the middle of their printed range.
        let head_mean = first64.avg.unwrap_or((first64.min + first64.max) / 2.0);
        let derived = (total.avg * total.count - 64.0 * head_mean) / (total.count - 64.0);
        let fold = |pick: fn(&Bin) -> f64, best: fn(f64, f64) -> f64| rest.iter().map(|bin| pick(bin)).reduce(best);
        Some(PublishedGroups {
            first64,
            others: PublishedGroup {
                min: stated("others", "min").or_else(|| fold(|bin| bin.min, f64::min))?,
                avg: printed.then_some(weighted),
                max: stated("others", "max").or_else(|| fold(|bin| bin.max, f64::max))?,
            },
            others_mean: if printed { with_outlier } else { derived },
        })
    }
}

fn bin(row: &Value) -> Option<Bin> {
    let number = |key: &str| row.get(key)?.as_f64();
    let bin = Bin { count: number("count")?, min: number("min")?, avg: number("avg")?, max: number("max")? };
    (bin.count > 0.0).then_some(bin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_come_from_bins_where_none_are_stated() {
        let table = json!({
            "bins": [
                {"count": 532, "min": 84, "avg": 92, "max": 99},
                {"count": 15787, "min": 100, "avg": 147, "max": 229},
                {"count": 64, "min": 4699, "avg": 4765, "max": 4826},
                {"count": 1, "min": 272935, "avg": 272935, "max": 272935}
            ],
            "total": {"count": 16384, "min": 84, "avg": 180, "max": 272935}
        });
        let groups = PublishedGroups::read(&table).unwrap();
        assert_eq!(groups.first64, PublishedGroup { min: 4699.0, avg: Some(4765.0), max: 4826.0 });
        assert_eq!((groups.others.min, groups.others.max), (84.0, 229.0));
        assert!((groups.others.avg.unwrap() - 145.2).abs() < 0.1, "{:?}", groups.others);
        assert!((groups.others_mean - 161.9).abs() < 0.1, "{}", groups.others_mean);
    }

    #[test]
    fn a_mean_that_is_not_printed_is_what_the_total_leaves() {
        let table = json!({
            "bins": [{"count": 1024, "min": 36958, "avg": 37846, "max": 50806}],
            "total": {"count": 1024, "min": 36958, "avg": 37846, "max": 50806},
            "stated_groups": {"first_64_pebs": {"min": 50699, "max": 50806}, "others": {"min": 36958, "max": 37070}}
        });
        let groups = PublishedGroups::read(&table).unwrap();
        assert_eq!((groups.first64.avg, groups.others.avg), (None, None));
        assert!((groups.others_mean - 36_985.5).abs() < 1.0, "{}", groups.others_mean);
    }

    /// A group that is stated differs from the bin of 64 PEBs that stands beside it.
    #[test]
    fn what_is_stated_of_a_group_comes_before_its_bin() {
        let table = json!({
            "bins": [
                {"count": 100, "min": 3, "avg": 4, "max": 5},
                {"count": 64, "min": 30, "avg": 40, "max": 50}
            ],
            "total": {"count": 164, "min": 3, "avg": 18, "max": 50},
            "stated_groups": {"first_64_pebs": {"min": 29, "max": 51}, "others": {"min": 2, "max": 6}}
        });
        let groups = PublishedGroups::read(&table).unwrap();
        assert_eq!(groups.first64, PublishedGroup { min: 29.0, avg: Some(40.0), max: 51.0 });
        assert_eq!(groups.others, PublishedGroup { min: 2.0, avg: Some(4.0), max: 6.0 });
    }
}
