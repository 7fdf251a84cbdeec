/** Charts of lines: where the values of their axes lie. */
import type { LineAxis, LineFigure } from "../schema.js";
import { placeOn } from "./contour.js";

/** A value of the axis from left to right: its index in the document and its place, 0 to 1. */
export interface AxisPlace {
  index: number;
  place: number;
  text: string;
}

/** Numbers lie to scale, ascending; words stand at even distances, in their order. */
export function placesOn({ log, numbers, values }: LineAxis): AxisPlace[] {
  const ascending = [...new Set(numbers)].sort((a, b) => a - b);
  const label = "";
  return values
    .map((text, index) => ({
      index,
      text,
      place:
        numbers === null || ascending.length < 2
          ? (index + 0.5) / values.length
          : placeOn({ label, log, values: ascending }, numbers[index]!),
    }))
    .sort((a, b) => a.place - b.place);
}

/** The value that all results of a chart have; `null` if they differ or there are fewer than two. */
export function onlyValue({ series }: LineFigure): number | null {
  const values = series.flatMap((line) => line.values).filter((value) => value !== null);
  const [first, second] = values;
  return second !== undefined && values.every((value) => value === first) ? first! : null;
}

/** The scale of the values. */
export interface ValueScale {
  domain: [number, number];
  log: boolean;
  /** Decades of a logarithmic scale. */
  decades: number[];
}

/** Values that reach over more than this many times the least have a logarithmic scale. */
const WIDE = 30;
/** Values that differ by less than this share of the greatest have a scale that does not begin at zero. */
const NARROW = 0.1;

/** The scale for all values of a chart; `null` if it has none. */
export function valueScale({ series }: LineFigure): ValueScale | null {
  const values = series.flatMap((line) => line.values).filter((value) => value !== null);
  if (values.length === 0) return null;
  const least = Math.min(...values);
  const greatest = Math.max(...values);
  const span = greatest - least;
  if (least > 0 && greatest / least >= WIDE) {
    const first = Math.floor(Math.log10(least) + 1e-9);
    const last = Math.ceil(Math.log10(greatest) - 1e-9);
    const decades = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
    return { domain: [10 ** first, 10 ** last], log: true, decades };
  }
  const near = span > 0 && least > 0 && span < NARROW * greatest;
  const low = near ? least - 0.15 * span : Math.min(0, least * 1.06);
  const high = near ? greatest + 0.15 * span : Math.max(0, greatest * 1.06);
  return { domain: high > low ? [low, high] : [0, 1], log: false, decades: [] };
}
