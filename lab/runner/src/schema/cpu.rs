//! Processors by name, whose prices stand below those of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::section::words;

words! {
    /// A processor.
    pub enum Cpu {
        /// 60 MHz ARM7 whose flash and memory are behind a bus of 16 bits, as in the message of June 2001 on jffs-dev. A visit and a
        /// byte are fitted to its two mounts (study `jffs1-mount`); of the compression nothing is published.
        #[serde(rename = "arm7-60")]
        Arm7,
        /// 200 MHz StrongARM with a bus of 32 bits, of the same message: as `arm7-60`, by clock and width of the bus.
        #[serde(rename = "strongarm-200")]
        StrongArm,
        /// A current Cortex-A of 1 GHz, as in routers. An estimate.
        #[serde(rename = "cortex-a")]
        CortexA,
        /// A current x86 of 3 GHz, as of the machines on which nandlab runs.
        Host,
    }
}

/// Prices of a processor, in the units of the keys that they stand for.
struct Price {
    operation_us: u32,
    node_ns: u32,
    node_ps_per_byte: u32,
    copy_ps_per_byte: u32,
    pack_ps_per_byte: u32,
    unpack_ps_per_byte: u32,
    /// From the flash, over the bus, by the processor.
    bus_ps_per_byte: u32,
}

impl Cpu {
    const fn price(self) -> Price {
        match self {
            // A byte over 16 bits is half a cycle of the bus, which takes some 4 of the processor. A byte of zlib takes some
            // 200 cycles to compress and 40 to decompress where nothing is cached.
            Cpu::Arm7 => Price {
                operation_us: 100,
                node_ns: 107_770,
                node_ps_per_byte: 247_820,
                copy_ps_per_byte: 247_820,
                pack_ps_per_byte: 3_300_000,
                unpack_ps_per_byte: 670_000,
                bus_ps_per_byte: 33_000,
            },
            Cpu::StrongArm => Price {
                operation_us: 30,
                node_ns: 32_331,
                node_ps_per_byte: 74_346,
                copy_ps_per_byte: 74_346,
                pack_ps_per_byte: 990_000,
                unpack_ps_per_byte: 201_000,
                bus_ps_per_byte: 16_500,
            },
            Cpu::CortexA => Price {
                operation_us: 5,
                node_ns: 200,
                node_ps_per_byte: 5_000,
                copy_ps_per_byte: 1_000,
                pack_ps_per_byte: 60_000,
                unpack_ps_per_byte: 12_000,
                bus_ps_per_byte: 4_000,
            },
            // zlib 1.3 at level 3 and its CRC-32, measured on pages of 4,096 bytes of a log.
            Cpu::Host => Price {
                operation_us: 1,
                node_ns: 20,
                node_ps_per_byte: 400,
                copy_ps_per_byte: 100,
                pack_ps_per_byte: 5_600,
                unpack_ps_per_byte: 2_400,
                bus_ps_per_byte: 0,
            },
        }
    }

    /// The processor that a file names.
    pub(super) fn of(table: &Table) -> Option<Cpu> {
        Cpu::deserialize(table.get("fs")?.get("cpu")?.clone()).ok()
    }

    /// Its values of `[fs]` and `[nand]`.
    pub(super) fn values(self) -> (Table, Table) {
        let price = self.price();
        let table = |values: &[(&str, u32)]| {
            values.iter().map(|&(key, value)| (key.to_owned(), Value::Integer(value.into()))).collect::<Table>()
        };
        let mut fs = table(&[
            ("node_ns", price.node_ns),
            ("node_ps_per_byte", price.node_ps_per_byte),
            ("copy_ps_per_byte", price.copy_ps_per_byte),
            ("pack_ps_per_byte", price.pack_ps_per_byte),
            ("unpack_ps_per_byte", price.unpack_ps_per_byte),
        ]);
        fs.insert("operation_us".to_owned(), Value::Float(price.operation_us.into()));
        (fs, table(&[("copy_ps_per_byte", price.bus_ps_per_byte)]))
    }
}
