//! Times of operations, and the dies and buses that they occupy.
//!
//! Every description of a part's speed resolves to [`Costs`], the only form that the array uses. A page read occupies
//! the die for tR and then the bus for the transfer; a page program occupies the bus and then the die. A program of
//! several pages takes them one after another: cache and multi-plane commands are not modelled.
//!
//! The unit of transfer is the sub-page with its share of the OOB, because a controller fetches that much to check one
//! codeword. A part without sub-pages transfers whole pages.

use sim::seam::{Geometry, Medium};
use sim::{Cx, Ns, Timeline, Work};

use crate::config::{ConfigError, Layout};

/// Times of the cells, without the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTimes {
    /// Page to register, tR. Zero on NOR: the array is read at bus speed.
    pub read: Ns,
    /// Register to page, tPROG. On NOR: one byte, at the rate of a full write buffer.
    pub program: Ns,
    /// One block, tBERS.
    pub erase: Ns,
}

/// An interface and its timing mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusMode {
    /// Asynchronous ONFI, timing mode 0 to 5.
    Sdr(u8),
    /// Source-synchronous ONFI, timing mode 0 to 5.
    NvDdr(u8),
    /// SPI: clock in MHz and data lines (1, 2, 4 or 8).
    Spi {
        /// Clock in MHz.
        mhz: u32,
        /// Data lines in both directions.
        lanes: u32,
    },
    /// A memory bus that reads a word of 8 or 16 bits per access: NOR.
    Parallel {
        /// Time of one access, in ns.
        cycle_ns: u32,
        /// Bytes of a word.
        word_bytes: u32,
    },
}

/// nandsim's module parameters `access_delay`, `programm_delay`, `erase_delay`, `output_cycle` and `input_cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NandsimDelays {
    /// Initial page access, in µs.
    pub access_us: u64,
    /// Page program, in µs.
    pub program_us: u64,
    /// Block erase, in ms.
    pub erase_ms: u64,
    /// Word output cycle, in ns.
    pub output_cycle_ns: u64,
    /// Word input cycle, in ns.
    pub input_cycle_ns: u64,
    /// Bus width in bits, 8 or 16.
    pub bus_bits: u32,
}

impl NandsimDelays {
    /// The module's defaults. Source: Linux 6.12 `drivers/mtd/nand/raw/nandsim.c`, module parameters.
    pub const DEFAULT: NandsimDelays = NandsimDelays {
        access_us: 25,
        program_us: 200,
        erase_ms: 2,
        output_cycle_ns: 40,
        input_cycle_ns: 50,
        bus_bits: 8,
    };
}

/// Times of operations, as the user configures them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// nandsim with `do_delays=0`, its default: the part takes no time, only the host's processor does
    /// ([`HostPrice`](crate::HostPrice)).
    NandsimOff,
    /// nandsim with `do_delays=1`.
    ///
    /// A page read takes `access + input_cycle·page/1000` µs and a program `program + output_cycle·page/1000` µs, in
    /// integer division, with halved transfers on a 16-bit bus. nandsim swaps the names of the two cycles, and so do
    /// we. Both cover whole pages, even if only part of a page was requested.
    NandsimOn(NandsimDelays),
    /// A data sheet's cell times behind a bus.
    Bus {
        /// The bus and its timing mode.
        mode: BusMode,
        /// Times of the cells.
        cells: CellTimes,
    },
    /// Costs as given, without any computation.
    Fixed(Costs),
}

impl Timing {
    /// A data sheet's cell times behind an ONFI interface.
    pub const fn onfi(mode: BusMode, cells: CellTimes) -> Timing {
        Timing::Bus { mode, cells }
    }

    /// Computes the costs on a device of this shape.
    pub fn resolve(&self, geometry: &Geometry) -> Costs {
        match *self {
            Timing::NandsimOff => Costs::FREE,
            Timing::NandsimOn(delays) => {
                let page = u64::from(geometry.page_bytes);
                let bus_div = if delays.bus_bits == 8 { 1 } else { 2 };
                Costs {
                    cells: CellTimes {
                        read: Ns::from_us(delays.access_us + delays.input_cycle_ns * page / 1000 / bus_div),
                        program: Ns::from_us(delays.program_us + delays.output_cycle_ns * page / 1000 / bus_div),
                        erase: Ns::from_ms(delays.erase_ms),
                    },
                    ..Costs::FREE
                }
            }
            Timing::Bus { mode, cells } => Costs { cells, ..mode.costs() },
            Timing::Fixed(costs) => costs,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |field, found: u32, expected| Err(ConfigError { field, found: found.into(), expected });
        match *self {
            Timing::Bus { mode: BusMode::Sdr(mode) | BusMode::NvDdr(mode), .. } if mode > 5 => {
                wrong("timing.mode", mode.into(), "an ONFI timing mode, 0 to 5")
            }
            Timing::Bus { mode: BusMode::Spi { mhz, .. }, .. } if mhz == 0 => {
                wrong("timing.spi.mhz", mhz, "at least 1")
            }
            Timing::Bus { mode: BusMode::Spi { lanes, .. }, .. } if !matches!(lanes, 1 | 2 | 4 | 8) => {
                wrong("timing.spi.lanes", lanes, "1, 2, 4 or 8")
            }
            Timing::Bus { mode: BusMode::Parallel { word_bytes: 0, .. }, .. } => {
                wrong("timing.parallel.word_bytes", 0, "at least 1")
            }
            Timing::NandsimOn(delays) if !matches!(delays.bus_bits, 8 | 16) => {
                wrong("timing.bus_bits", delays.bus_bits, "8 or 16")
            }
            _ => Ok(()),
        }
    }
}

/// Times and transfer rates of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Time on the die per page read, page programmed (per byte on NOR) and block erased.
    pub cells: CellTimes,
    /// One byte from the part to the host, in ps.
    pub out_ps_per_byte: u64,
    /// One byte from the host to the part, in ps.
    pub in_ps_per_byte: u64,
    /// Command, address and status cycles of a page read, on the bus.
    pub read_command: Ns,
    /// Command, address and status cycles of a page program, on the bus.
    pub program_command: Ns,
    /// Command, address and status cycles of an erase, on the bus.
    pub erase_command: Ns,
}

/// tRC of ONFI SDR modes 0 to 5 in ns. Source: Linux 6.12 `drivers/mtd/nand/raw/nand_timings.c`.
pub const SDR_TRC_NS: [u64; 6] = [100, 50, 35, 30, 25, 20];
/// tWC of ONFI SDR modes 0 to 5 in ns. Source: as [`SDR_TRC_NS`].
pub const SDR_TWC_NS: [u64; 6] = [100, 45, 35, 30, 25, 20];
/// tCK of ONFI NV-DDR modes 0 to 5 in ns; two bytes a clock. Source: as [`SDR_TRC_NS`].
pub const NVDDR_TCK_NS: [u64; 6] = [50, 30, 20, 15, 12, 10];
/// tCAD of ONFI NV-DDR, one command or address cycle, in ns: 45 in every mode of that table. Source: as [`SDR_TRC_NS`].
pub const NVDDR_TCAD_NS: u64 = 45;
/// tADL, address to data, in ns, every mode. Source: as [`SDR_TRC_NS`].
pub const TADL_NS: u64 = 400;

/// Bus cycles besides data: read 00h, five addresses, 30h; program 80h, five addresses, 10h, status; erase 60h, three
/// addresses, D0h, status. Source: ONFI command set.
const READ_CYCLES: u64 = 7;
const PROGRAM_CYCLES: u64 = 8;
const ERASE_CYCLES: u64 = 6;

impl BusMode {
    /// The bus's share of the costs; cell times are zero.
    ///
    /// ONFI: command and address cycles at tWC (SDR) or tCAD (NV-DDR), tWB before busy, tADL before data in, tWHR
    /// before status; data at tRC and tWC, or two bytes per tCK. SPI: one opcode and three address bytes on one line,
    /// then data on all lanes. A parallel bus: one access per word, no commands.
    pub fn costs(self) -> Costs {
        let onfi = |cycle_ns: u64, twb_ns: u64, twhr_ns: u64, out_ps: u64, in_ps: u64| Costs {
            out_ps_per_byte: out_ps,
            in_ps_per_byte: in_ps,
            read_command: Ns(READ_CYCLES * cycle_ns + twb_ns),
            program_command: Ns(PROGRAM_CYCLES * cycle_ns + TADL_NS + twb_ns + twhr_ns),
            erase_command: Ns(ERASE_CYCLES * cycle_ns + twb_ns + twhr_ns),
            ..Costs::FREE
        };
        match self {
            BusMode::Sdr(mode) => {
                let (trc, twc) = (SDR_TRC_NS[usize::from(mode)], SDR_TWC_NS[usize::from(mode)]);
                // tWB and tWHR. Source: as [`SDR_TRC_NS`].
                let (twb, twhr) = if mode == 0 { (200, 120) } else { (100, 80) };
                onfi(twc, twb, twhr, trc * 1000, twc * 1000)
            }
            BusMode::NvDdr(mode) => {
                let ps = NVDDR_TCK_NS[usize::from(mode)] * 1000 / 2;
                onfi(NVDDR_TCAD_NS, 100, 80, ps, ps)
            }
            BusMode::Spi { mhz, lanes } => {
                let ps_per_byte = 8_000_000 / (u64::from(mhz) * u64::from(lanes));
                let opcode = Ns(4 * 8_000 / u64::from(mhz));
                Costs {
                    out_ps_per_byte: ps_per_byte,
                    in_ps_per_byte: ps_per_byte,
                    read_command: opcode,
                    program_command: opcode,
                    erase_command: opcode,
                    ..Costs::FREE
                }
            }
            BusMode::Parallel { cycle_ns, word_bytes } => {
                let ps = u64::from(cycle_ns) * 1000 / u64::from(word_bytes);
                Costs { out_ps_per_byte: ps, in_ps_per_byte: ps, ..Costs::FREE }
            }
        }
    }
}

impl Costs {
    /// Nothing takes time.
    pub const FREE: Costs = Costs {
        cells: CellTimes { read: Ns::ZERO, program: Ns::ZERO, erase: Ns::ZERO },
        out_ps_per_byte: 0,
        in_ps_per_byte: 0,
        read_command: Ns::ZERO,
        program_command: Ns::ZERO,
        erase_command: Ns::ZERO,
    };

    /// Time on the bus to read `bytes` (OOB included) of one page.
    pub const fn read_transfer(&self, bytes: u64) -> Ns {
        Ns(self.read_command.0 + self.out_ps_per_byte * bytes / 1000)
    }

    /// Time on the bus to program `bytes` (OOB included) of one page.
    pub const fn program_transfer(&self, bytes: u64) -> Ns {
        Ns(self.program_command.0 + self.in_ps_per_byte * bytes / 1000)
    }
}

/// The dies and buses of one device.
#[derive(Clone, Debug)]
pub(crate) struct Clockwork {
    pub costs: Costs,
    /// Whether nothing takes time; then nothing waits for a die or bus either.
    pub free: bool,
    dies: Vec<Timeline>,
    channels: Vec<Timeline>,
    pebs_per_die: u32,
    oob_per_subpage: u32,
}

impl Clockwork {
    pub fn new(costs: Costs, geometry: &Geometry, layout: &Layout) -> Clockwork {
        Clockwork {
            free: costs == Costs::FREE,
            costs,
            dies: vec![Timeline::default(); layout.dies() as usize],
            channels: vec![Timeline::default(); layout.channels as usize],
            pebs_per_die: geometry.pebs / layout.dies(),
            oob_per_subpage: geometry.oob_bytes * geometry.subpage_bytes / geometry.page_bytes,
        }
    }

    pub fn die_of(&self, peb: u32) -> usize {
        (peb / self.pebs_per_die) as usize
    }

    pub fn channel_of(&self, peb: u32) -> usize {
        self.die_of(peb) % self.channels.len()
    }

    pub fn dies(&self) -> &[Timeline] {
        &self.dies
    }

    pub fn channels(&self) -> &[Timeline] {
        &self.channels
    }

    /// Calls `each` for every page of a byte range, with the bytes, OOB included, that the bus transfers for it. On NOR
    /// the range is one transfer and counts as `len` pages.
    fn transfers(oob_per_subpage: u32, geometry: &Geometry, offset: u32, len: u32, mut each: impl FnMut(u64, u64)) {
        if geometry.medium == Medium::Nor {
            each(u64::from(len), u64::from(len));
            return;
        }
        let (page, sub) = (geometry.page_bytes, geometry.subpage_bytes);
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let page_end = ((at / page + 1) * page).min(end);
            let subpages = page_end.div_ceil(sub) - at / sub;
            each(1, u64::from(subpages) * u64::from(sub + oob_per_subpage));
            at = page_end;
        }
    }

    pub fn read(&mut self, cx: &mut Cx, geometry: &Geometry, peb: u32, offset: u32, len: u32) {
        if self.free {
            return;
        }
        let (die, channel) = (self.die_of(peb), self.channel_of(peb));
        let Clockwork { costs, dies, channels, oob_per_subpage, .. } = self;
        let (die, channel) = (&mut dies[die], &mut channels[channel]);
        Clockwork::transfers(*oob_per_subpage, geometry, offset, len, |pages, bytes| {
            die.occupy(cx, costs.cells.read * pages, Work::Read);
            channel.occupy(cx, costs.read_transfer(bytes), Work::Transfer);
        });
    }

    pub fn program(&mut self, cx: &mut Cx, geometry: &Geometry, peb: u32, offset: u32, len: u32) {
        if self.free {
            return;
        }
        let (die, channel) = (self.die_of(peb), self.channel_of(peb));
        let Clockwork { costs, dies, channels, oob_per_subpage, .. } = self;
        let (die, channel) = (&mut dies[die], &mut channels[channel]);
        Clockwork::transfers(*oob_per_subpage, geometry, offset, len, |pages, bytes| {
            // The register accepts no data while the die is busy.
            cx.work_until(Work::Busy, die.free_at());
            channel.occupy(cx, costs.program_transfer(bytes), Work::Transfer);
            die.occupy(cx, costs.cells.program * pages, Work::Program);
        });
    }

    pub fn erase(&mut self, cx: &mut Cx, peb: u32) {
        if self.free {
            return;
        }
        let (die, channel) = (self.die_of(peb), self.channel_of(peb));
        cx.work_until(Work::Busy, self.dies[die].free_at());
        self.channels[channel].occupy(cx, self.costs.erase_command, Work::Transfer);
        self.dies[die].occupy(cx, self.costs.cells.erase, Work::Erase);
    }
}
