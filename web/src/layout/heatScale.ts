/**
 * From an erase count to a place on the colour scale, `0` for the least worn
 * and `1` for the most worn end.
 */

/** How colours are spread over the erase counts. */
export type HeatScaleKind = "zero" | "range" | "rank";

/** One mark of the colour legend. */
export interface LegendMark {
  /** Place on the scale, 0 to 1. */
  at: number;
  count: number;
}

/** A colour scale over the erase counts of a device. */
export interface HeatScale {
  place(count: number): number;
  marks: LegendMark[];
}

/** A scale of the chosen kind over all erase counts. */
export function heatScale(counts: Uint32Array, kind: HeatScaleKind): HeatScale {
  const sorted = Uint32Array.from(counts).sort();
  const least = sorted[0] ?? 0;
  const greatest = sorted[sorted.length - 1] ?? 0;
  if (kind === "rank") return rankScale(sorted);
  const low = kind === "zero" ? 0 : least;
  const span = greatest - low;
  return {
    place: (count) => (span === 0 ? 0 : (count - low) / span),
    marks:
      span < 4
        ? Array.from({ length: span + 1 }, (_, i) => ({ at: i / (span || 1), count: low + i }))
        : quarters((part) => low + part * span, span),
  };
}

/** Every erase count stands at the share of PEBs worn less, so ties share a colour. */
function rankScale(sorted: Uint32Array): HeatScale {
  const last = sorted.length - 1;
  const span = (sorted[last] ?? 0) - (sorted[0] ?? 0);
  return {
    place: (count) => (last <= 0 || span === 0 ? 0 : lowerBound(sorted, count) / last),
    marks: quarters((part) => sorted[Math.round(part * last)] ?? 0, span),
  };
}

function quarters(countAt: (part: number) => number, span: number): LegendMark[] {
  const parts = span === 0 ? [0] : [0, 0.25, 0.5, 0.75, 1];
  return parts.map((at) => ({ at, count: countAt(at) }));
}

/** How many values of an ascending list are below `value`. */
export function lowerBound(sorted: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
