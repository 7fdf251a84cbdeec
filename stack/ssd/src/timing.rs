//! Duration of each phase of a flash operation.
//!
//! An operation occupies two resources: the bus for its command and its data, and the die while the array works. Steps
//! that only use registers (cache busy, dummy busy between planes) occupy the die and count as its time.

use sim::Ns;

/// Maximum number of bits per cell.
pub const MAX_LEVELS: usize = 4;

/// Durations of the phases of flash operations, and optional features of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Bits per cell. Page `row` of a block has the times at index `row % levels` below.
    pub levels: u32,
    /// Array read time (tR) of the lower, middle, upper and top page.
    pub read: [Ns; MAX_LEVELS],
    /// Array program time (tPROG) of the same pages.
    pub program: [Ns; MAX_LEVELS],
    /// Block erase time (tBERS).
    pub erase: Ns,
    /// Array read, program and erase times of blocks used with one bit per cell (SLC).
    pub slc: [Ns; 3],
    /// Bus time of an operation's command and address cycles.
    pub command: Ns,
    /// Bus time of a page and its OOB area.
    pub transfer: Ns,
    /// Time from a suspend command until the array can read; `None`: programs cannot be suspended.
    pub suspend_program: Option<Ns>,
    /// The same for erases; `None`: erases cannot be suspended.
    pub suspend_erase: Option<Ns>,
    /// Time from a resume command until the array continues.
    pub resume: Ns,
    /// Maximum suspends of one operation: a busy drive must finish its programs.
    pub max_suspends: u32,
    /// Cache read: the next read of a die begins while the data of the previous one leave the cache register.
    pub cache_read: bool,
    /// Cache program: the data of the next program enter the cache register while the array programs.
    pub cache_program: bool,
    /// Reads that a die does at the same time, each on planes of its own (independent plane reads): a divisor of its
    /// planes. Plane `p` belongs to group `p % independent_reads`; with 1, a read holds the die. Programs and erases
    /// always hold it.
    pub independent_reads: u32,
    /// Additional time that a read occupies its die if its page is compared with an HPB entry of the host.
    pub entry_check: Ns,
    /// Copyback: pages are moved within a plane without crossing the bus (and without the controller's ECC).
    pub copyback: bool,
}

impl Timing {
    /// All pages have the same times; no optional features.
    pub const fn plain(read: Ns, program: Ns, erase: Ns, command: Ns, transfer: Ns) -> Timing {
        Timing {
            levels: 1,
            read: [read; MAX_LEVELS],
            program: [program; MAX_LEVELS],
            erase,
            slc: [read, program, erase],
            command,
            transfer,
            suspend_program: None,
            suspend_erase: None,
            resume: Ns::ZERO,
            max_suspends: 8,
            cache_read: false,
            cache_program: false,
            independent_reads: 1,
            entry_check: Ns::ZERO,
            copyback: false,
        }
    }

    /// Bus time of a page with its OOB area, on an 8-bit bus of `mega_transfers` MT/s, rounded up to whole ns.
    pub const fn transfer_of(page_bytes: u32, oob_bytes: u32, mega_transfers: u32) -> Ns {
        Ns(((page_bytes + oob_bytes) as u64 * 1_000).div_ceil(mega_transfers as u64))
    }
}
