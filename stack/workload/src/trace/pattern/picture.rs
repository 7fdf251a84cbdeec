//! Addresses over time as a grid of counts, whose cells grow with the trace.
//!
//! A request counts in the cell of its first byte. Cells are powers of two of nanoseconds wide and of bytes high.

use sim::seam::BlockOp;

use crate::trace::TraceRecord;

/// Cells along the time axis.
const COLUMNS: usize = 480;
/// Cells along the address axis.
const ROWS: usize = 240;

/// Requests that begin in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Reads.
    pub reads: u32,
    /// Writes.
    pub writes: u32,
    /// Discards.
    pub trims: u32,
    /// Length of the longest read, in bytes.
    pub longest_read: u32,
    /// Length of the longest write, in bytes.
    pub longest_write: u32,
}

impl Cell {
    fn add(&mut self, other: Cell) {
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
        self.trims = self.trims.saturating_add(other.trims);
        self.longest_read = self.longest_read.max(other.longest_read);
        self.longest_write = self.longest_write.max(other.longest_write);
    }
}

/// An axis of cells, each 2^`shift` wide; the first has number `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of the first cell.
    pub base: u64,
    /// Width of a cell as a power of two.
    pub shift: u32,
    cells: u64,
    max: u64,
}

impl Axis {
    fn at(value: u64, shift: u32, cells: usize) -> Axis {
        Axis { base: value >> shift, shift, cells: cells as u64, max: value }
    }

    /// Extends the axis to include `value`. An axis that must reach lower goes as low as it can, so that it need not
    /// move for every record of a trace that runs backwards.
    fn including(mut self, value: u64) -> Axis {
        self.max = self.max.max(value);
        if value >> self.shift < self.base {
            while (self.max >> self.shift) - (value >> self.shift) >= self.cells {
                self.shift += 1;
            }
            self.base = ((self.max >> self.shift) + 1).saturating_sub(self.cells);
        }
        while (value >> self.shift) - self.base >= self.cells {
            self.shift += 1;
            self.base >>= 1;
        }
        self
    }

    fn cell(&self, value: u64) -> usize {
        ((value >> self.shift) - self.base) as usize
    }

    /// Lower end of cell `index`.
    pub fn begin(&self, index: usize) -> u64 {
        (self.base + index as u64) << self.shift
    }
}

/// Grid of request counts.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Cells row by row; empty before the first record.
    cells: Vec<Cell>,
    axes: Option<(Axis, Axis)>,
}

impl Picture {
    pub(super) fn add(&mut self, record: &TraceRecord) {
        let mut cell = Cell::default();
        let length = u32::try_from(record.len_bytes).unwrap_or(u32::MAX);
        match record.op {
            BlockOp::Read => (cell.reads, cell.longest_read) = (1, length),
            BlockOp::Write => (cell.writes, cell.longest_write) = (1, length),
            BlockOp::Trim => cell.trims = 1,
            BlockOp::Flush => return,
        }
        let (at, address) = (record.at.0, record.offset_bytes);
        let axes = self.axes.unwrap_or_else(|| {
            self.cells = vec![Cell::default(); COLUMNS * ROWS];
            (Axis::at(at, 10, COLUMNS), Axis::at(address, 12, ROWS))
        });
        let grown = (axes.0.including(at), axes.1.including(address));
        if (grown.0.base, grown.0.shift, grown.1.base, grown.1.shift)
            != (axes.0.base, axes.0.shift, axes.1.base, axes.1.shift)
        {
            let mut cells = vec![Cell::default(); COLUMNS * ROWS];
            for (index, cell) in self.cells.iter().enumerate().filter(|(_, cell)| **cell != Cell::default()) {
                let (at, address) = (axes.0.begin(index % COLUMNS), axes.1.begin(index / COLUMNS));
                cells[grown.1.cell(address) * COLUMNS + grown.0.cell(at)].add(*cell);
            }
            self.cells = cells;
        }
        self.axes = Some(grown);
        self.cells[grown.1.cell(address) * COLUMNS + grown.0.cell(at)].add(cell);
    }

    /// The axes of time and of addresses; `None` if nothing was drawn.
    pub fn axes(&self) -> Option<(Axis, Axis)> {
        self.axes
    }

    /// Non-empty cells: column, row, counts.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, Cell)> {
        let filled = self.cells.iter().enumerate().filter(|(_, cell)| **cell != Cell::default());
        filled.map(|(index, &cell)| (index % COLUMNS, index / COLUMNS, cell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Ns;

    fn drawn(points: impl IntoIterator<Item = (u64, u64)>) -> Picture {
        let mut picture = Picture::default();
        for (at, address) in points {
            picture.add(&TraceRecord::new(Ns(at), BlockOp::Write, address, 512));
        }
        picture
    }

    #[test]
    fn no_request_is_lost_as_the_cells_grow() {
        let picture = drawn((0..100_000).map(|i: u64| (i * 1_000_000, (i * 7_919_777) % (1 << 40))));
        assert_eq!(picture.cells().map(|(_, _, cell)| u64::from(cell.writes)).sum::<u64>(), 100_000);
        let last = picture.cells().map(|(column, _, _)| column).max();
        assert!(last.is_some_and(|last| (COLUMNS / 2 - 1..COLUMNS).contains(&last)), "{last:?}");
    }

    #[test]
    fn a_request_is_in_the_cell_of_its_time_and_address() {
        let points = [(0, 1 << 30), (5_000_000, 1 << 29), (9_000_000, (1 << 30) + 4096), (9_000_000, 3)];
        let picture = drawn(points);
        let (time, address) = picture.axes().expect("something was drawn");
        for (at, byte) in points {
            let found = picture.cells().any(|(column, row, _)| {
                (time.begin(column)..time.begin(column + 1)).contains(&at)
                    && (address.begin(row)..address.begin(row + 1)).contains(&byte)
            });
            assert!(found, "{at} {byte}");
        }
    }

    #[test]
    fn a_trace_that_runs_backwards_seldom_moves_the_scale() {
        let mut axis = Axis::at(1 << 40, 12, ROWS);
        let mut moves = 0;
        for step in 0..1 << 20 {
            let next = axis.including((1 << 40) - step * 4096);
            moves += u32::from((next.base, next.shift) != (axis.base, axis.shift));
            axis = next;
        }
        assert!(moves < 40, "{moves} moves");
    }

    #[test]
    fn the_greatest_numbers_have_a_place() {
        let picture = drawn([(0, 0), (u64::MAX, u64::MAX), (u64::MAX, 0)]);
        assert_eq!(picture.cells().count(), 3);
    }
}
