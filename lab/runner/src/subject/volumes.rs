//! Volumes as the load of raw flash: their sizes in LEBs, and whether they fit.

use nand::{Array, ArrayConfig, Tags};
use sim::{Cx, Ns};
use ubi::Ubi;
use workload::volumes::{Order, Pattern, Rate, Volume};

use crate::report::grouped;
use crate::schema::limits::SECONDS_PER_DAY;
use crate::schema::volumes::{Per, RewriteOrder, Volume as Wanted, Volumes};
use crate::schema::{ExperimentError, wrong};

/// Builds the volumes for a flash.
/// Errors: no volume; the first key whose value is impossible; the first volume that does not fit.
pub fn build(load: &Volumes, array: &ArrayConfig, ubi: &ubi::Config) -> Result<Vec<Volume>, ExperimentError> {
    let blank = Array::new(array.clone(), Tags);
    let device = Ubi::attach(blank, &mut Cx::new(), ubi)
        .map_err(|failure| ExperimentError::value("nand", "a flash that UBI cannot use", failure.error.to_string()))?;
    let (free, leb_bytes) = (device.available_pebs(), u64::from(device.layout().leb_bytes));
    let most = ubi::media::vtbl_slots(device.layout().leb_bytes) as usize;
    if load.volume.is_empty() || load.volume.len() > most {
        let expected = format!("1 to {most} tables `workload.volume.NAME`");
        return wrong("workload.volume", format!("{} volumes", load.volume.len()), expected);
    }
    let rest = rest(load)?;
    let mut left = free;
    let mut volumes = Vec::new();
    for (name, wanted) in &load.volume {
        let key = |key: &str| format!("workload.volume.{name}.{key}");
        if name.is_empty() || name.len() > ubi::media::VtblRecord::NAME_MAX || name.contains('\0') {
            let expected = format!("names of 1 to {} bytes without NUL", ubi::media::VtblRecord::NAME_MAX);
            return wrong("workload.volume", format!("{name:?}"), expected);
        }
        let bytes = size_bytes(wanted);
        let lebs = bytes.div_ceil(leb_bytes);
        if lebs > u64::from(left) {
            let what = format!("{} ({} LEBs)", grouped(bytes), grouped(lebs));
            return wrong(key("size_bytes"), what, room(left, free, leb_bytes));
        }
        left -= lebs as u32;
        volumes.push(Volume { name: name.clone(), lebs: lebs as u32, pattern: pattern(wanted, &key)? });
    }
    if let Some(at) = rest {
        if left == 0 {
            return wrong(format!("workload.volume.{}.size_bytes", volumes[at].name), 0, room(left, free, leb_bytes));
        }
        volumes[at].lebs = left;
    }
    for (volume, wanted) in volumes.iter_mut().zip(load.volume.values()) {
        let given = size_bytes(wanted);
        let whole = u64::from(volume.lebs) * leb_bytes;
        let size = if given == 0 { whole } else { given };
        match &mut volume.pattern {
            Pattern::Append { .. } => {}
            Pattern::Image { bytes, .. } if *bytes > 0 => {}
            Pattern::Rewrite { bytes, .. } | Pattern::Image { bytes, .. } | Pattern::Static { bytes, .. } => {
                *bytes = size
            }
        }
        if let Some((key, found, most)) = volume.pattern.misfit(whole) {
            let expected = format!("1 to {}: the volume has {} LEBs", grouped(most), grouped(volume.lebs.into()));
            return wrong(format!("workload.volume.{}.{key}", volume.name), found, expected);
        }
    }
    Ok(volumes)
}

/// What is free for a volume, in words.
fn room(left: u32, free: u32, leb_bytes: u64) -> String {
    let most = grouped(u64::from(left) * leb_bytes);
    format!("at most {most}: {} of the {} LEBs for volumes are free", grouped(left.into()), grouped(free.into()))
}

/// The volume that takes what the others leave, by its place.
/// Errors: there are two.
fn rest(load: &Volumes) -> Result<Option<usize>, ExperimentError> {
    let mut without = load.volume.iter().enumerate().filter(|(_, (_, wanted))| size_bytes(wanted) == 0);
    let first = without.next();
    if let (Some((_, (one, _))), Some((_, (other, _)))) = (first, without.next()) {
        let expected = format!("a size: volume {one:?} takes every LEB that is free");
        return wrong(format!("workload.volume.{other}.size_bytes"), 0, expected);
    }
    Ok(first.map(|(at, _)| at))
}

fn size_bytes(wanted: &Wanted) -> u64 {
    match wanted {
        Wanted::Append(of) => of.size_bytes,
        Wanted::Rewrite(of) => of.size_bytes,
        Wanted::Image(of) => of.size_bytes,
        Wanted::Static(of) => of.size_bytes,
    }
}

/// What the user of a volume does; contents of length 0 are as large as the volume.
fn pattern(wanted: &Wanted, key: &dyn Fn(&str) -> String) -> Result<Pattern, ExperimentError> {
    let rate = |bytes: u64, of: Per| match bytes {
        0 => wrong(key("rate_bytes"), 0, "the bytes that are written in the time `per`, at least 1"),
        _ => Ok(Rate { bytes, per: per(of) }),
    };
    Ok(match wanted {
        Wanted::Append(of) => Pattern::Append { rate: rate(of.rate_bytes, of.per)?, write_bytes: of.write_bytes },
        Wanted::Rewrite(of) => Pattern::Rewrite {
            rate: rate(of.rate_bytes, of.per)?,
            write_bytes: of.write_bytes,
            bytes: 0,
            order: match of.order {
                RewriteOrder::Random => Order::Random,
                RewriteOrder::InTurn => Order::InTurn,
            },
        },
        Wanted::Image(of) => Pattern::Image { bytes: of.image_bytes, every: days(of.every_days) },
        Wanted::Static(of) => {
            Pattern::Static { bytes: 0, read_every: (of.reads_per_day > 0.0).then(|| days(1.0 / of.reads_per_day)) }
        }
    })
}

fn days(days: f64) -> Ns {
    Ns((days * SECONDS_PER_DAY * 1e9) as u64)
}

fn per(per: Per) -> Ns {
    const DAY: u64 = 86_400;
    Ns::from_s(match per {
        Per::Second => 1,
        Per::Minute => 60,
        Per::Hour => 3600,
        Per::Day => DAY,
        Per::Week => 7 * DAY,
        // A year has 365.25 days.
        Per::Month => 365 * DAY / 12 + DAY / 48,
        Per::Year => 365 * DAY + DAY / 4,
    })
}
