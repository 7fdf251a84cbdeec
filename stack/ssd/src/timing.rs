//! How long each phase of a flash operation takes.
//!
//! An operation occupies two resources: the bus, for its command and its data, and the die, while the array works.
//! Register-only steps (cache busy, dummy busy between planes) are on the die and count as its time.

use sim::Ns;

/// Most bits of a cell.
pub const MAX_LEVELS: usize = 4;

/// Phases of flash operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Bits of a cell: page `row % levels` of a block has the times at that place below.
    pub levels: u32,
    /// Array read (tR) of the lower, middle, upper, top page.
    pub read: [Ns; MAX_LEVELS],
    /// Array program (tPROG).
    pub program: [Ns; MAX_LEVELS],
    /// Block erase (tBERS).
    pub erase: Ns,
    /// Array read, program and erase of blocks used with one bit a cell.
    pub slc: [Ns; 3],
    /// Command and address cycles of an operation, on the bus.
    pub command: Ns,
    /// A page and its OOB area, on the bus.
    pub transfer: Ns,
    /// From a suspend command to an array that takes a read; `None`: programs cannot be suspended.
    pub suspend_program: Option<Ns>,
    /// The same for erases.
    pub suspend_erase: Option<Ns>,
    /// From a resume command to an array that goes on.
    pub resume: Ns,
    /// Suspends of one operation at most: a busy drive must finish its programs.
    pub max_suspends: u32,
    /// The next read of a die begins while the last one's data leave the cache register.
    pub cache_read: bool,
    /// The next program's data enter the cache register while the array programs.
    pub cache_program: bool,
    /// How much longer a read occupies its die when its page is held against an entry of the host's (HPB).
    pub entry_check: Ns,
    /// Pages are moved inside a plane without crossing the bus (and without the controller's ECC).
    pub copyback: bool,
}

impl Timing {
    /// Every page alike, nothing optional.
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
            entry_check: Ns::ZERO,
            copyback: false,
        }
    }

    /// Bus time of a page with its OOB area on a bus of `mega_transfers` a second, 8 bits wide, rounded up to whole ns.
    pub const fn transfer_of(page_bytes: u32, oob_bytes: u32, mega_transfers: u32) -> Ns {
        Ns(((page_bytes + oob_bytes) as u64 * 1_000).div_ceil(mega_transfers as u64))
    }
}
