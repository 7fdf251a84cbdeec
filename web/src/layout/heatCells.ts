/**
 * Places one cell per PEB in a row-major grid: how many columns, how large a
 * cell, which cell lies under a point. All lengths are CSS pixels.
 */

/** A grid of `count` cells; the last row may be shorter. */
export interface HeatGrid {
  count: number;
  columns: number;
  rows: number;
  /** Side of a square cell, a whole number of pixels. */
  cell: number;
  /** Free space at the right and lower edge inside each cell. */
  gap: number;
  width: number;
  height: number;
}

/** A rectangle in pixels. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

const PLEASANT_ASPECT = 3;
const GREATEST_CELL = 16;
const PLEASANT_HEIGHT = 420;

/**
 * The grid for `count` PEBs in `available` pixels of width. The number of
 * columns is a power of two, so that rows begin at round PEB numbers, and of
 * these the one that brings the grid nearest to three times as wide as high.
 */
export function heatGrid(count: number, available: number): HeatGrid {
  let columns = 1;
  let best = Infinity;
  for (let candidate = 1; candidate <= Math.max(1, available); candidate *= 2) {
    const rows = Math.ceil(count / candidate);
    const distance = Math.abs(Math.log(candidate / rows / PLEASANT_ASPECT));
    if (distance < best) {
      best = distance;
      columns = candidate;
    }
  }
  columns = Math.max(1, Math.min(columns, count));
  const rows = Math.ceil(count / columns);
  const cell = Math.max(
    1,
    Math.min(GREATEST_CELL, Math.floor(available / columns), Math.floor(PLEASANT_HEIGHT / rows)),
  );
  return {
    count,
    columns,
    rows,
    cell,
    gap: cell >= 6 ? 1 : 0,
    width: columns * cell,
    height: rows * cell,
  };
}

/** Where the cell of a PEB is drawn, without its gap. */
export function cellBox(grid: HeatGrid, peb: number): Box {
  const side = grid.cell - grid.gap;
  return {
    x: (peb % grid.columns) * grid.cell,
    y: Math.floor(peb / grid.columns) * grid.cell,
    width: side,
    height: side,
  };
}

/** The PEB whose cell lies under a point, or `null` outside of the cells. */
export function pebAt(grid: HeatGrid, x: number, y: number): number | null {
  const column = Math.floor(x / grid.cell);
  const row = Math.floor(y / grid.cell);
  if (column < 0 || column >= grid.columns || row < 0 || row >= grid.rows) return null;
  const peb = row * grid.columns + column;
  return peb < grid.count ? peb : null;
}

/** First PEB of the rows that bear a label, about one label in `spacing` pixels. */
export function labelledRows(grid: HeatGrid, spacing: number): number[] {
  let step = 1;
  while (step * grid.cell < spacing) step *= 2;
  const pebs: number[] = [];
  for (let row = 0; row < grid.rows; row += step) pebs.push(row * grid.columns);
  return pebs;
}

/** The lines around a range: a box in a row, or the lines at its two ends. */
export function rangePaths(grid: HeatGrid, from: number, to: number): string[] {
  const column = from % grid.columns;
  const within = column + (to - from);
  if (within > grid.columns || to - from === grid.columns)
    return [boundaryPath(grid, from), boundaryPath(grid, to)];
  const y = Math.floor(from / grid.columns) * grid.cell;
  return [`M${column * grid.cell} ${y}H${within * grid.cell}v${grid.cell}H${column * grid.cell}Z`];
}

/** The line between PEB `first - 1` and PEB `first`, as an SVG path; empty at the ends. */
export function boundaryPath(grid: HeatGrid, first: number): string {
  if (first <= 0 || first >= grid.count) return "";
  const column = first % grid.columns;
  const row = Math.floor(first / grid.columns);
  const x = column * grid.cell;
  const y = row * grid.cell;
  if (column === 0) return `M0 ${y}H${grid.width}`;
  const rightEnd = grid.width;
  return `M${rightEnd} ${y}H${x}V${Math.min(y + grid.cell, grid.height)}H0`;
}
