//! Geometry of a drive: channels, ways, dies and planes, and the striping of logical pages over them.
//!
//! Logical pages are striped over the drive in a configurable order, as RAID 0 stripes over disks. A *unit* is managed
//! as a whole: it is a die if its planes operate together (multi-plane operations), otherwise a single plane. A block
//! of a unit consists of one NAND block on each of the unit's planes, and its pages are interleaved over them.

use thiserror::Error;

use crate::dispatch::MAX_PLANES;

/// A dimension over which pages are striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Channels: buses of the controller.
    Channel,
    /// Ways: chips (packages, targets) on a channel.
    Way,
    /// Dies of a chip.
    Die,
    /// Planes of a die.
    Plane,
}

/// A striping order: the first axis changes fastest from one logical page to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order(pub [Axis; 4]);

impl Order {
    /// Channel, way, die, plane: consecutive pages are on different channels.
    pub const CHANNEL_FIRST: Order = Order([Axis::Channel, Axis::Way, Axis::Die, Axis::Plane]);
    /// Way, channel, die, plane: consecutive pages share a channel.
    pub const WAY_FIRST: Order = Order([Axis::Way, Axis::Channel, Axis::Die, Axis::Plane]);
    /// Plane, channel, way, die: consecutive pages go into one multi-plane program.
    pub const PLANE_FIRST: Order = Order([Axis::Plane, Axis::Channel, Axis::Way, Axis::Die]);
    /// Die, channel, way, plane.
    pub const DIE_FIRST: Order = Order([Axis::Die, Axis::Channel, Axis::Way, Axis::Plane]);

    /// The order with this name: the initials of its axes, as in `cwdp` (MQSim's notation). `None` for another name.
    pub fn by_name(name: &str) -> Option<Order> {
        let mut axes = [Axis::Channel; 4];
        if name.len() != 4 {
            return None;
        }
        for (axis, letter) in axes.iter_mut().zip(name.chars()) {
            *axis = match letter {
                'c' => Axis::Channel,
                'w' => Axis::Way,
                'd' => Axis::Die,
                'p' => Axis::Plane,
                _ => return None,
            };
        }
        let once = |axis| axes.iter().filter(|&&other| other == axis).count() == 1;
        [Axis::Channel, Axis::Way, Axis::Die, Axis::Plane].into_iter().all(once).then_some(Order(axes))
    }

    /// Name of the order: the initials of its axes.
    pub fn name(self) -> String {
        let letter = |axis: &Axis| match axis {
            Axis::Channel => 'c',
            Axis::Way => 'w',
            Axis::Die => 'd',
            Axis::Plane => 'p',
        };
        self.0.iter().map(letter).collect()
    }
}

/// Geometry of a drive, and its striping order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of channels.
    pub channels: u32,
    /// Ways: chips per channel.
    pub ways: u32,
    /// Dies per chip.
    pub dies: u32,
    /// Planes per die.
    pub planes: u32,
    /// NAND blocks per plane.
    pub blocks: u32,
    /// Pages per NAND block.
    pub pages: u32,
    /// Page size in bytes: a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// Striping order of logical pages.
    pub order: Order,
    /// Whether the planes of a die operate together (multi-plane operations): a unit is then a die, otherwise a plane.
    pub multi_plane: bool,
}

/// Why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: found {found}, expected {expected}")]
pub struct ShapeError {
    /// Name of the value.
    pub what: &'static str,
    /// Value found.
    pub found: u64,
    /// Values that are allowed.
    pub expected: &'static str,
}

impl Shape {
    /// Checks all limits. Errors: a value that no drive has.
    pub fn check(&self) -> Result<(), ShapeError> {
        let refuse = |what, found: u64, expected| Err(ShapeError { what, found, expected });
        for (what, number, most) in [
            ("channels", self.channels, 64),
            ("ways", self.ways, 64),
            ("dies", self.dies, 16),
            ("planes", self.planes, MAX_PLANES as u32),
        ] {
            if !(1..=most).contains(&number) {
                return refuse(what, u64::from(number), "1 to 64 channels, 64 ways, 16 dies, 4 planes");
            }
        }
        if self.ways * self.dies > 64 {
            return refuse("dies of a channel", u64::from(self.ways * self.dies), "64 at most");
        }
        if !(2..=1 << 20).contains(&self.blocks) {
            return refuse("blocks of a plane", u64::from(self.blocks), "2 to 1,048,576");
        }
        if !(1..=1 << 14).contains(&self.pages) {
            return refuse("pages of a block", u64::from(self.pages), "1 to 16,384");
        }
        if !self.page_bytes.is_power_of_two() || !(512..=1 << 16).contains(&self.page_bytes) {
            return refuse("page_bytes", u64::from(self.page_bytes), "a power of two from 512 to 65,536");
        }
        let per_die = u64::from(self.planes) * u64::from(self.blocks) * u64::from(self.pages);
        if per_die >= u64::from(u32::MAX) || self.raw_pages() >= u64::from(u32::MAX) {
            return refuse("pages in all", self.raw_pages(), "below 2^32");
        }
        Ok(())
    }

    /// Number of dies in the drive.
    pub const fn all_dies(&self) -> u32 {
        self.channels * self.ways * self.dies
    }

    /// Number of units in the drive.
    pub const fn units(&self) -> u32 {
        self.all_dies() * self.units_per_die()
    }

    /// Units per die: 1, or one for each plane.
    pub const fn units_per_die(&self) -> u32 {
        if self.multi_plane { 1 } else { self.planes }
    }

    /// Planes per unit.
    pub const fn unit_planes(&self) -> u32 {
        if self.multi_plane { self.planes } else { 1 }
    }

    /// Pages per block of a unit.
    pub const fn unit_pages(&self) -> u32 {
        self.pages * self.unit_planes()
    }

    /// Number of physical pages in the drive.
    pub const fn raw_pages(&self) -> u64 {
        self.all_dies() as u64 * self.planes as u64 * self.blocks as u64 * self.pages as u64
    }

    /// Raw capacity of the drive in bytes.
    pub const fn raw_bytes(&self) -> u64 {
        self.raw_pages() * self.page_bytes as u64
    }

    /// Effective erase block size in bytes: the blocks that a stripe over the whole drive fills and that are erased
    /// together, one NAND block of every plane.
    pub const fn effective_block_bytes(&self) -> u64 {
        self.all_dies() as u64 * self.planes as u64 * self.pages as u64 * self.page_bytes as u64
    }

    /// Die that a unit belongs to. Dies are numbered with the channel changing fastest, then the way, then the die
    /// within the chip, so that the channel of a die is its number modulo the number of channels.
    #[inline]
    pub const fn die_of_unit(&self, unit: u32) -> u32 {
        unit / self.units_per_die()
    }

    /// Channel of a die.
    #[inline]
    pub const fn channel_of_die(&self, die: u32) -> u32 {
        die % self.channels
    }
}

/// Mapping of logical pages of the drive to logical pages of units.
#[derive(Clone, Debug)]
pub struct Striping {
    /// Unit, and plane within it, of each position in a stripe over all planes.
    cells: Vec<(u32, u32)>,
    /// Position in the stripe of each plane of each unit.
    places: Vec<u32>,
    planes: u32,
    /// `log2` of the number of positions, if it is a power of two.
    shift: Option<u32>,
}

impl Striping {
    /// Striping of a shape that [`Shape::check`] accepts.
    pub fn new(shape: &Shape) -> Striping {
        let planes = shape.unit_planes();
        let size = |axis| match axis {
            Axis::Channel => shape.channels,
            Axis::Way => shape.ways,
            Axis::Die => shape.dies,
            Axis::Plane => shape.planes,
        };
        let count = shape.all_dies() * shape.planes;
        let cells: Vec<(u32, u32)> = (0..count)
            .map(|mut place| {
                let mut digit = [0; 4];
                for axis in shape.order.0 {
                    digit[axis as usize] = place % size(axis);
                    place /= size(axis);
                }
                let [channel, way, die, plane] = digit;
                let die = (die * shape.ways + way) * shape.channels + channel;
                (die * shape.units_per_die() + plane / planes, plane % planes)
            })
            .collect();
        let mut places = vec![0; count as usize];
        for (place, &(unit, plane)) in (0..).zip(&cells) {
            places[(unit * planes + plane) as usize] = place;
        }
        let shift = count.is_power_of_two().then(|| count.trailing_zeros());
        Striping { cells, places, planes, shift }
    }

    /// Unit of logical page `lpn`, and the page's number within the unit.
    #[inline]
    pub fn locate(&self, lpn: u32) -> (u32, u32) {
        let count = self.cells.len() as u32;
        let (row, place) = match self.shift {
            Some(shift) => (lpn >> shift, lpn & (count - 1)),
            None => (lpn / count, lpn % count),
        };
        let (unit, plane) = self.cells[place as usize];
        (unit, row * self.planes + plane)
    }

    /// Logical page of the drive that is page `local` of `unit`.
    #[inline]
    pub fn lpn(&self, unit: u32, local: u32) -> u32 {
        let place = self.places[(unit * self.planes + local % self.planes) as usize];
        local / self.planes * self.cells.len() as u32 + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(channels: u32, ways: u32, dies: u32, planes: u32, order: Order, multi_plane: bool) -> Shape {
        Shape { channels, ways, dies, planes, blocks: 8, pages: 4, page_bytes: 4096, order, multi_plane }
    }

    #[test]
    fn channel_first_puts_neighbours_on_different_channels_as_source_004_draws_it() {
        let shape = shape(4, 4, 1, 1, Order::CHANNEL_FIRST, false);
        let striping = Striping::new(&shape);
        let channels: Vec<_> =
            (0..8).map(|lpn| shape.channel_of_die(shape.die_of_unit(striping.locate(lpn).0))).collect();
        assert_eq!(channels, [0, 1, 2, 3, 0, 1, 2, 3]);
        // Pages 0 to 3 on the first way, 4 to 7 on the second.
        assert_eq!([0, 4, 15, 16].map(|lpn| striping.locate(lpn)), [(0, 0), (4, 0), (15, 0), (0, 1)]);
    }

    #[test]
    fn plane_first_keeps_neighbours_in_a_unit_whose_planes_work_in_step() {
        let striping = Striping::new(&shape(2, 1, 1, 2, Order::PLANE_FIRST, true));
        assert_eq!([0, 1, 2, 4].map(|lpn| striping.locate(lpn)), [(0, 0), (0, 1), (1, 0), (0, 2)]);
    }

    #[test]
    fn a_shape_that_the_dispatcher_cannot_hold_is_refused() {
        let fits = shape(64, 4, 16, 4, Order::CHANNEL_FIRST, true);
        assert_eq!(fits.check(), Ok(()));
        assert_eq!(Shape { planes: 5, ..fits }.check().unwrap_err().what, "planes");
        assert_eq!(Shape { ways: 5, ..fits }.check().unwrap_err().what, "dies of a channel");
        assert_eq!(Shape { page_bytes: 3000, ..fits }.check().unwrap_err().what, "page_bytes");
    }

    #[test]
    fn orders_have_names_and_each_axis_comes_once() {
        assert_eq!(Order::by_name("pcwd"), Some(Order::PLANE_FIRST));
        assert_eq!(Order::PLANE_FIRST.name(), "pcwd");
        assert!(["cwd", "ccwd", "cwdx", "cwdpp"].iter().all(|name| Order::by_name(name).is_none()));
    }

    proptest! {
        #[test]
        fn every_page_has_one_place_and_every_unit_its_share(
            channels in 1u32..6, ways in 1u32..5, dies in 1u32..3, planes in 1u32..5, multi in any::<bool>(),
            order in prop::sample::select(vec![Order::CHANNEL_FIRST, Order::WAY_FIRST, Order::PLANE_FIRST, Order::DIE_FIRST]),
        ) {
            let shape = shape(channels, ways, dies, planes, order, multi);
            let striping = Striping::new(&shape);
            let mut seen = vec![0u32; shape.units() as usize];
            for lpn in 0..3 * shape.all_dies() * shape.planes {
                let (unit, local) = striping.locate(lpn);
                prop_assert_eq!(striping.lpn(unit, local), lpn);
                seen[unit as usize] += 1;
            }
            prop_assert!(seen.iter().all(|&pages| pages == 3 * shape.unit_planes()));
        }
    }
}
