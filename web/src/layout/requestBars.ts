/** The marks of a small picture of requests: one path for all cells of an operation. */
import type { TracePicture } from "../schema.js";

/** Operations that have a picture of their own. */
export type Pictured = "reads" | "writes";

const PLACE = { reads: 2, writes: 3 } as const;

/**
 * A path over the cells in which requests of `op` begin, on a field of `width` by `height`. Cells
 * beside one another are one bar; none is thinner than a pixel, so that a single request is seen.
 */
export function requestBars(
  picture: TracePicture,
  op: Pictured,
  width: number,
  height: number,
): string {
  const cell = { width: width / picture.columns, height: height / picture.rows };
  const filled = picture.cells
    .filter((it) => it[PLACE[op]] > 0)
    .sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const bars: { row: number; from: number; to: number }[] = [];
  for (const [column, row] of filled) {
    const last = bars.at(-1);
    if (last !== undefined && last.row === row && last.to === column) last.to = column + 1;
    else bars.push({ row, from: column, to: column + 1 });
  }
  const short = (value: number) => String(Math.round(10 * value) / 10);
  const tall = Math.max(cell.height, 1);
  return bars
    .map(({ row, from, to }) => {
      const wide = Math.max((to - from) * cell.width, 1);
      const x = Math.min(from * cell.width, width - wide);
      const y = Math.min((picture.rows - 1 - row) * cell.height, height - tall);
      return `M${short(x)} ${short(y)}h${short(wide)}v${short(tall)}h${short(-wide)}z`;
    })
    .join("");
}
