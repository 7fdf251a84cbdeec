/** What the picture of a trace shows in each cell. */
import type { TracePicture } from "../schema.js";

/** Which requests are shown. */
export type Shown = "all" | "reads" | "writes" | "trims";

/** One cell as it is painted. */
export interface PaintedCell {
  column: number;
  row: number;
  reads: number;
  writes: number;
  trims: number;
  /** 0 for one request, 1 for the fullest cell; by the logarithm. */
  weight: number;
}

/** The cells that hold something of what is shown, row after row from the highest address. */
export function paintedCells(picture: TracePicture, shown: Shown): PaintedCell[] {
  const cells = picture.cells
    .map(([column, row, reads, writes, trims]) => ({
      column,
      row,
      reads: shown === "all" || shown === "reads" ? reads : 0,
      writes: shown === "all" || shown === "writes" ? writes : 0,
      trims: shown === "all" || shown === "trims" ? trims : 0,
    }))
    .filter((cell) => cell.reads + cell.writes + cell.trims > 0)
    .sort((a, b) => b.row - a.row || a.column - b.column);
  const top = cells.reduce((most, c) => Math.max(most, c.reads + c.writes + c.trims), 1);
  return cells.map((cell) => {
    const count = cell.reads + cell.writes + cell.trims;
    return { ...cell, weight: top === 1 ? 1 : Math.log(count) / Math.log(top) };
  });
}
