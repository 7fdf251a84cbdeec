/** Bars in groups: where they stand, and the scale of their values. */
import type { StudyBars } from "../schema.js";

/** A bar from left to right; a group is one wide. */
export interface BarPlace {
  group: number;
  slot: number;
  from: number;
  to: number;
  value: number;
}

/** Share of a group's width that stays empty between it and the next. */
const GAP = 0.2;

/** The bars that have a value; one without keeps its place empty. */
export function barPlaces({ groups, series, values }: StudyBars): BarPlace[] {
  const wide = (1 - GAP) / series.length;
  return groups.flatMap((_, group) =>
    series.flatMap((_, slot) => {
      const value = values[group]![slot]!;
      const from = group + GAP / 2 + slot * wide;
      return value === null ? [] : [{ group, slot, from, to: from + wide, value }];
    }),
  );
}

/** The scale: from zero, or whole decades around the values. */
export function barScale({ log, values }: StudyBars): {
  domain: [number, number];
  decades: number[];
} {
  const known = values.flat().filter((value) => value !== null);
  const least = Math.min(...known);
  const greatest = Math.max(...known);
  if (!log) {
    const [low, high] = [Math.min(0, least * 1.06), Math.max(0, greatest * 1.06)];
    return { domain: high > low ? [low, high] : [0, 1], decades: [] };
  }
  // The least bar is to be seen, too.
  const first = Math.ceil(Math.log10(least) - 1e-9) - 1;
  const last = Math.max(first + 1, Math.ceil(Math.log10(greatest) - 1e-9));
  const decades = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  return { domain: [10 ** first, 10 ** last], decades };
}

/** A name shortened to so many letters, three at least. */
export function shownName(name: string, room: number): string {
  const most = Math.max(3, room);
  return name.length > most ? `${name.slice(0, most - 1)}\u2026` : name;
}
