//! Parameters of a ubiblock, and its forms of write-back.

use sim::Ns;

/// How dirty LEBs of the cache reach the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// No write is accepted and nothing is cached, as in Linux since 3.15.
    ReadOnly,
    /// When the LEB leaves the cache it is unmapped, and then written.
    ///
    /// Known of the writable driver of 2012 ("ubiblock v2", source 003): it is read-write, its LEB cache suits
    /// sequential access, and its figures. The text of the patch was not found. Our reading: it writes back with
    /// `ubi_leb_write`, which needs the LEB unmapped before. A cut in the write leaves a torn LEB, which attach prefers
    /// to the old one. Under fastmap the PEB for the write may need a refill of the pools: the fastmap written for it
    /// lists the LEB as unmapped, and since Linux 6.7 queued erasures come first, that of the old copy among them. Then
    /// a cut loses the whole LEB.
    V2Like,
    /// The LEB is unmapped as soon as it is cached for writing, and written when it leaves the cache.
    ///
    /// Known of the driver of 2008 to 2010 (`ubiblk`, Freescale and Embedded Alley): one cached LEB of 512-byte
    /// sectors, unmapped when it is cached, written back non-atomically when another LEB is written, on flush and on
    /// the last close. The background thread erases the old copy while the only new one is in memory: a cut loses the
    /// whole LEB.
    UnmapFirst,
    /// The LEB is changed atomically (`ubi_leb_change`): after a cut it is the old or the new one. The first copy of a
    /// LEB that was unmapped may be torn, as there is no old one.
    #[default]
    Atomic,
}

impl Form {
    /// Every form, in the order of reports.
    pub const ALL: [Form; 4] = [Form::ReadOnly, Form::V2Like, Form::UnmapFirst, Form::Atomic];

    /// Name of the form in experiments and results.
    pub const fn name(self) -> &'static str {
        match self {
            Form::ReadOnly => "read-only",
            Form::V2Like => "v2-like",
            Form::UnmapFirst => "unmap-first",
            Form::Atomic => "atomic",
        }
    }

    /// The form of this name.
    pub fn by_name(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// Most requests outstanding at a time. Source: Linux 6.1 `include/linux/blk-mq.h`, `BLK_MQ_MAX_DEPTH`.
const MOST_DEPTH: u32 = 10_240;

/// Parameters of a ubiblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockConfig {
    /// Write-back.
    pub form: Form,
    /// LEBs that the cache holds, at least 1.
    pub cache_lebs: u32,
    /// Time without a request after which dirty LEBs are written back; `None` for never.
    pub idle: Option<Ns>,
    /// Whether a discard unmaps the LEBs that it covers; otherwise it has no effect.
    pub discard: bool,
    /// Requests that may be outstanding at a time, 1 to 10,240.
    pub depth: u32,
    /// Time of the driver per request, before it touches cache or flash. At zero, a load that only hits the cache makes
    /// no progress in virtual time.
    pub per_request: Ns,
}

impl Default for BlockConfig {
    /// Atomic write-back, one LEB, discard. The depth is Linux's: 6.1 `drivers/mtd/ubi/block.c`. The idle time of one
    /// second and the request's microsecond are our choice: no source gives any.
    fn default() -> BlockConfig {
        BlockConfig {
            form: Form::Atomic,
            cache_lebs: 1,
            idle: Some(Ns::from_s(1)),
            discard: true,
            depth: 64,
            per_request: Ns::from_us(1),
        }
    }
}

/// A parameter of a ubiblock that is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}, expected {expected}")]
pub struct BlockConfigError {
    /// Name of the value.
    pub what: &'static str,
    /// Value found.
    pub found: u64,
    /// Values allowed.
    pub expected: &'static str,
}

impl BlockConfig {
    /// Errors: the first value that is impossible on a volume of `lebs` LEBs and `sectors` sectors.
    pub(super) fn check(&self, lebs: u32, sectors: u64) -> Result<(), BlockConfigError> {
        let need = |holds: bool, what: &'static str, found: u64, expected: &'static str| {
            if holds { Ok(()) } else { Err(BlockConfigError { what, found, expected }) }
        };
        need(sectors > 0, "sectors of the volume", sectors, "at least 1")?;
        need((1..=MOST_DEPTH).contains(&self.depth), "depth", self.depth.into(), "1 to 10,240")?;
        let cached = self.form == Form::ReadOnly || (1..=lebs).contains(&self.cache_lebs);
        need(cached, "cache_lebs", self.cache_lebs.into(), "1 to the LEBs of the volume")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_by_its_name() {
        for form in Form::ALL {
            assert_eq!(Form::by_name(form.name()), Some(form));
        }
        assert_eq!(Form::by_name("writeback"), None);
    }

    #[test]
    fn an_impossible_value_is_refused_by_name() {
        let config = BlockConfig::default();
        assert_eq!(config.check(1, 1), Ok(()));
        let field = |config: &BlockConfig, lebs, sectors| config.check(lebs, sectors).unwrap_err().what;
        assert_eq!(field(&config, 4, 0), "sectors of the volume");
        for depth in [0, MOST_DEPTH + 1, u32::MAX] {
            assert_eq!(field(&BlockConfig { depth, ..config.clone() }, 4, 1), "depth");
        }
        assert_eq!(field(&BlockConfig { cache_lebs: 0, ..config.clone() }, 4, 1), "cache_lebs");
        assert_eq!(field(&BlockConfig { cache_lebs: 5, ..config.clone() }, 4, 1), "cache_lebs");
        let mainline = BlockConfig { form: Form::ReadOnly, cache_lebs: 0, ..config };
        assert_eq!(mainline.check(4, 1), Ok(()));
    }
}
