//! Units of values. A key whose name ends in a unit (`block_bytes`, `read_us`, `virtual_s`) takes a number in that unit,
//! or text with any unit of the same kind: "4k", "40us", "5y".

use toml::Value;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes.
    Size,
    /// Time.
    Time,
    /// Per cent.
    Share,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Size, Kind::Time, Kind::Share];

    /// Units of text, each with its size in bytes, nanoseconds or per cent.
    fn units(self) -> &'static [(&'static str, u128)] {
        const S: u128 = 1_000_000_000;
        match self {
            Kind::Size => &[
                ("B", 1),
                ("k", 1 << 10),
                ("M", 1 << 20),
                ("G", 1 << 30),
                ("T", 1 << 40),
                ("KiB", 1 << 10),
                ("MiB", 1 << 20),
                ("GiB", 1 << 30),
                ("TiB", 1 << 40),
                ("kB", 1_000),
                ("MB", 1_000_000),
                ("GB", 1_000_000_000),
                ("TB", 1_000_000_000_000),
            ],
            Kind::Time => &[
                ("ns", 1),
                ("us", 1_000),
                ("µs", 1_000),
                ("ms", 1_000_000),
                ("s", S),
                ("min", 60 * S),
                ("h", 3_600 * S),
                ("d", 86_400 * S),
                ("w", 7 * 86_400 * S),
                // A year of 365.25 days.
                ("y", 31_557_600 * S),
            ],
            Kind::Share => &[("%", 1)],
        }
    }

    /// The size of a unit of text, in bytes, nanoseconds or per cent. Only sizes ignore case.
    fn factor(self, word: &str) -> Option<u128> {
        let same = |unit: &str| if self == Kind::Size { unit.eq_ignore_ascii_case(word) } else { unit == word };
        self.units().iter().find(|(unit, _)| same(unit)).map(|&(_, factor)| factor)
    }

    /// Name in the JSON Schema.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Size => "size",
            Kind::Time => "time",
            Kind::Share => "share",
        }
    }

    /// The units of text, for people.
    pub(super) fn described(self) -> &'static str {
        match self {
            Kind::Size => {
                "as \"4k\" or \"64GiB\" (B; k, M, G, T or KiB, MiB, GiB, TiB: powers of 1,024; kB, MB, GB, TB: of 1,000)"
            }
            Kind::Time => "as \"40us\" or \"5y\" (ns, us, ms, s, min, h, d, w, y)",
            Kind::Share => "as \"28%\"",
        }
    }

    /// Regular expression (ECMA 262) of text with a unit.
    pub(super) fn pattern(self) -> String {
        let any_case = |c: char| match self {
            Kind::Size => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
            _ => c.to_string(),
        };
        let words: Vec<String> = self.units().iter().map(|(unit, _)| unit.chars().map(any_case).collect()).collect();
        format!("^[0-9]+(\\.[0-9]+)? *({})?$", words.join("|"))
    }
}

/// The unit of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    name: &'static str,
    /// Bytes, nanoseconds or per cent of one.
    factor: u128,
}

impl Unit {
    /// The unit of a key, by the end of its name; `None` if it has none. A rate (`link_mb_s`, `steps_per_s`) has none.
    pub(super) fn of(key: &str) -> Option<Unit> {
        let name = key.rsplit('.').next()?.split('[').next()?;
        if name.contains("_per_") || name.ends_with("_mb_s") {
            return None;
        }
        let unit = |kind, name, factor| Some(Unit { kind, name, factor });
        match name.rsplit('_').next()? {
            "bytes" => unit(Kind::Size, "bytes", 1),
            "kib" => unit(Kind::Size, "KiB", 1 << 10),
            "mib" => unit(Kind::Size, "MiB", 1 << 20),
            "ns" => unit(Kind::Time, "nanoseconds", 1),
            "us" => unit(Kind::Time, "microseconds", 1_000),
            "ms" => unit(Kind::Time, "milliseconds", 1_000_000),
            "s" | "seconds" => unit(Kind::Time, "seconds", 1_000_000_000),
            "days" => unit(Kind::Time, "days", 86_400 * 1_000_000_000),
            "years" => unit(Kind::Time, "years", 31_557_600 * 1_000_000_000),
            "percent" => unit(Kind::Share, "per cent", 1),
            _ => None,
        }
    }

    /// Converts text to this unit. A number without a unit is in this one already.
    /// Errors: what was expected besides a number, if the text has no such form, or is not whole where it must be.
    pub(super) fn read(self, text: &str, must_be_whole: bool) -> Result<Value, String> {
        let other = || format!(" {}, or text with a unit, {}", self.name, self.kind.described());
        let (digits, word) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
        let word = word.trim();
        let factor = if word.is_empty() { Some(self.factor) } else { self.kind.factor(word) };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = !whole.is_empty() && !fraction.is_empty() && !fraction.contains('.') && digits.len() < 20;
        let Some(factor) = factor.filter(|_| is_number) else { return Err(other()) };
        // Exact: "0.1us" is 100 nanoseconds.
        let number: u128 = format!("{whole}{fraction}").parse().map_err(|_| other())?;
        let (above, below) = (number * factor, 10u128.pow(fraction.len() as u32) * self.factor);
        match i64::try_from(above / below) {
            Ok(value) if above.is_multiple_of(below) => Ok(Value::Integer(value)),
            _ if must_be_whole => Err(format!(": a whole number of {}", self.name)),
            _ => Ok(Value::Float(above as f64 / below as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_converted_to_the_unit_of_the_key() {
        let read = |key: &str, text: &str| Unit::of(key).unwrap().read(text, false).unwrap();
        for (key, text, value) in [
            ("workload.block_bytes", "4k", 4096),
            ("workload.block_bytes", "4K", 4096),
            ("workload.block_bytes", "4KiB", 4096),
            ("workload.block_bytes", "1.5 k", 1536),
            ("ssd.capacity_bytes", "480GB", 480_000_000_000),
            ("ssd.capacity_bytes", "64GiB", 64 << 30),
            ("ssd.ftl.map_cache_kib", "2M", 2048),
            ("ssd.cache.mib", "1GiB", 1024),
            ("ssd.timing.read_us[1]", "0.04ms", 40),
            ("ssd.timing.command_ns", "0.1us", 100),
            ("ssd.hpb.reset_ms", "10ms", 10),
            ("stop.virtual_s", "5y", 5 * 31_557_600),
            ("stop.virtual_s", "1min", 60),
            ("workload.seconds", "2h", 7200),
            ("stop.days", "2w", 14),
            ("stop.years", "8y", 8),
            ("ssd.over_provisioning_percent", "28%", 28),
            ("stop.virtual_s", "7", 7),
        ] {
            assert_eq!(read(key, text), Value::Integer(value), "{key} = {text}");
        }
        assert_eq!(read("ssd.page_kib", "512B"), Value::Float(0.5));
        assert_eq!(read("ssd.timing.erase_us", "1500ns"), Value::Float(1.5));
        for key in ["ssd.front.link_mb_s", "nand.copy_ps_per_byte", "nand.pebs", "ssd.units"] {
            assert_eq!(Unit::of(key), None, "{key}");
        }
    }

    #[test]
    fn text_of_another_form_is_refused() {
        let bytes = Unit::of("workload.block_bytes").unwrap();
        for text in ["4q", "k", "", "4 k k", "1.2.3k", "-4k", "4us", ".5k", "4.", "99999999999999999999999999k", "1e3k"]
        {
            assert!(bytes.read(text, false).is_err(), "{text}");
        }
        assert_eq!(bytes.read("0.3k", true).unwrap_err(), ": a whole number of bytes");
        // Months and milliseconds must not be confused.
        assert!(Unit::of("stop.virtual_s").unwrap().read("5M", false).is_err());
    }
}
