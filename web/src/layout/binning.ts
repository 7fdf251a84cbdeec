/**
 * Sorts erase counts into bins for the wear histogram, and places the bars:
 * stacked on a linear axis, side by side on a logarithmic one, where the length
 * of a stacked part would mean nothing.
 */

/** Equal bins of whole erase counts: bin `i` holds `start + i*width` up to the next bin's start. */
export interface BinLayout {
  start: number;
  width: number;
  bins: number;
}

/** How many PEBs of every group fall into one bin. */
export interface Bin {
  /** First erase count of the bin. */
  from: number;
  /** First erase count behind the bin. */
  to: number;
  perGroup: number[];
  total: number;
}

/** One bar: a group's part of a bin, in the units of the axes. */
export interface Bar {
  x1: number;
  x2: number;
  y1: number;
  y2: number;
  group: number;
}

/** Bins of a round whole width, about `wanted` of them, that cover `min` to `max`. */
export function binLayout(min: number, max: number, wanted: number): BinLayout {
  const width = roundUp((max - min + 1) / Math.max(1, wanted));
  const start = Math.floor(min / width) * width;
  return { start, width, bins: Math.floor((max - start) / width) + 1 };
}

/** The least of 1, 2, 5, 10, 20, 50 … that is not below `value`. */
export function roundUp(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= value * (1 - 1e-12)) return factor * power;
  }
  return 10 * power;
}

/** Fills the bins; PEBs outside the layout or without a group are passed over. */
export function fillBins(
  counts: ArrayLike<number>,
  groupOfPeb: ArrayLike<number>,
  groups: number,
  layout: BinLayout,
): Bin[] {
  const bins: Bin[] = Array.from({ length: layout.bins }, (_, i) => ({
    from: layout.start + i * layout.width,
    to: layout.start + (i + 1) * layout.width,
    perGroup: new Array<number>(groups).fill(0),
    total: 0,
  }));
  for (let peb = 0; peb < counts.length; peb++) {
    const bin = bins[Math.floor((counts[peb]! - layout.start) / layout.width)];
    const group = groupOfPeb[peb]!;
    if (bin === undefined || group >= groups) continue;
    bin.perGroup[group]! += 1;
    bin.total += 1;
  }
  return bins;
}

/** Bars on top of one another, for a linear axis. */
export function stackedBars(bins: readonly Bin[]): Bar[] {
  const bars: Bar[] = [];
  for (const bin of bins) {
    let base = 0;
    bin.perGroup.forEach((count, group) => {
      if (count === 0) return;
      bars.push({ x1: bin.from, x2: bin.to, y1: base, y2: base + count, group });
      base += count;
    });
  }
  return bars;
}

/**
 * Bars beside one another from a common floor, for a logarithmic axis. A bin
 * with one group only gives it the whole width.
 */
export function besideBars(bins: readonly Bin[], floor: number): Bar[] {
  const bars: Bar[] = [];
  for (const bin of bins) {
    const present = bin.perGroup
      .map((count, group) => ({ count, group }))
      .filter((part) => part.count > 0);
    const step = (bin.to - bin.from) / Math.max(1, present.length);
    present.forEach(({ count, group }, place) => {
      const x1 = bin.from + place * step;
      bars.push({ x1, x2: x1 + step, y1: floor, y2: count, group });
    });
  }
  return bars;
}

/** About `wanted` ticks at round whole numbers within an interval. */
export function wholeTicks(low: number, high: number, wanted: number): number[] {
  const step = roundUp((high - low) / Math.max(1, wanted));
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}

/** Ticks of a logarithmic axis of counts: powers of ten, and steps between where there are few. */
export function countTicks(greatest: number): number[] {
  const factors = greatest < 300 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = 1; power <= greatest * 1.25; power *= 10) {
    for (const factor of factors) {
      if (factor * power <= greatest * 1.25) ticks.push(factor * power);
    }
  }
  return ticks;
}
