/** A grid of figures between its points: where each value lies, and the lines of equal value. */
import type { FigureAxis } from "../schema.js";

/** A place in the picture: 0 to 1 from left to right, and from below to above. */
export type Place = readonly [number, number];

/** Figures at places that ascend in both directions; rows from below to above. */
export interface Field {
  u: readonly number[];
  v: readonly number[];
  z: readonly (readonly (number | null)[])[];
}

/** The lattice on which lines are sought has about as many points in the longer direction. */
const LATTICE = 160;

/** Where a value lies between the first value of an axis and the last, 0 to 1 if it lies between them. */
export function placeOn(axis: FigureAxis, value: number): number {
  const scaled = (number: number) => (axis.log ? Math.log(number) : number);
  const first = scaled(axis.values[0]!);
  const last = scaled(axis.values[axis.values.length - 1]!);
  return (scaled(value) - first) / (last - first);
}

/** The figures of a grid with their places. */
export function fieldOf(x: FigureAxis, y: FigureAxis, z: Field["z"]): Field {
  const places = (axis: FigureAxis) => axis.values.map((value) => placeOn(axis, value));
  return { u: places(x), v: places(y), z };
}

/** The interval of ascending places in which `at` lies, and how far in it; `null` outside of all. */
function between(places: readonly number[], at: number): [number, number] | null {
  const last = places.length - 1;
  if (!(at >= places[0]! - 1e-9 && at <= places[last]! + 1e-9)) return null;
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle]! <= at) low = middle;
    else high = middle;
  }
  const part = (at - places[low]!) / (places[high]! - places[low]!);
  return [low, Math.max(0, Math.min(1, part))];
}

/**
 * The value at a place, in proportion to the distances of the four points
 * around it; `NaN` outside of the grid and where one that counts is empty.
 */
export function valueAt(field: Field, u: number, v: number): number {
  const column = between(field.u, u);
  const row = between(field.v, v);
  if (column === null || row === null) return NaN;
  let sum = 0;
  for (const [j, weightV] of [
    [row[0], 1 - row[1]],
    [row[0] + 1, row[1]],
  ] as const) {
    for (const [i, weightU] of [
      [column[0], 1 - column[1]],
      [column[0] + 1, column[1]],
    ] as const) {
      const weight = weightU * weightV;
      if (weight < 1e-9) continue;
      const z = field.z[j]?.[i] ?? null;
      if (z === null) return NaN;
      sum += weight * z;
    }
  }
  return sum;
}

/** Least and greatest figure; `null` if all are empty. */
export function rangeOf(z: Field["z"]): [number, number] | null {
  let least = Infinity;
  let greatest = -Infinity;
  for (const value of z.flat()) {
    if (value === null) continue;
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  return least <= greatest ? [least, greatest] : null;
}

/** Places with `parts` steps between each and the next. */
function refined(places: readonly number[], parts: number): number[] {
  const fine: number[] = [];
  for (let i = 0; i + 1 < places.length; i++) {
    const step = (places[i + 1]! - places[i]!) / parts;
    for (let k = 0; k < parts; k++) fine.push(places[i]! + k * step);
  }
  fine.push(places[places.length - 1]!);
  return fine;
}

/** The lines on which the value is `level`, each as a row of places; a ring ends where it began. */
export function isolines(field: Field, level: number): Place[][] {
  const longer = Math.max(field.u.length, field.v.length) - 1;
  const parts = Math.max(1, Math.round(LATTICE / longer));
  const u = refined(field.u, parts);
  const v = refined(field.v, parts);
  const columns = u.length;
  const z = new Float64Array(columns * v.length);
  v.forEach((row, j) =>
    u.forEach((column, i) => (z[j * columns + i] = valueAt(field, column, row))),
  );

  // A line crosses edges of the lattice; a square joins two of its crossings, or four in two pairs.
  const crossings = new Map<number, Place>();
  const joined = new Map<number, number[]>();
  const crossing = (i: number, j: number, upward: boolean): number => {
    const from = j * columns + i;
    const edge = 2 * from + (upward ? 1 : 0);
    if (!crossings.has(edge)) {
      const [a, b] = [z[from]!, z[from + (upward ? columns : 1)]!];
      const part = (level - a) / (b - a);
      crossings.set(
        edge,
        upward
          ? [u[i]!, v[j]! + part * (v[j + 1]! - v[j]!)]
          : [u[i]! + part * (u[i + 1]! - u[i]!), v[j]!],
      );
    }
    return edge;
  };
  const join = (one: number, other: number) => {
    joined.set(one, [...(joined.get(one) ?? []), other]);
    joined.set(other, [...(joined.get(other) ?? []), one]);
  };
  for (let j = 0; j + 1 < v.length; j++) {
    for (let i = 0; i + 1 < columns; i++) {
      const at = j * columns + i;
      const corners = [z[at]!, z[at + 1]!, z[at + columns + 1]!, z[at + columns]!];
      if (corners.some(Number.isNaN)) continue;
      const [a, b, c, d] = corners.map((value) => value >= level) as [
        boolean,
        boolean,
        boolean,
        boolean,
      ];
      const edges: number[] = [];
      if (a !== b) edges.push(crossing(i, j, false));
      if (b !== c) edges.push(crossing(i + 1, j, true));
      if (c !== d) edges.push(crossing(i, j + 1, false));
      if (d !== a) edges.push(crossing(i, j, true));
      if (edges.length === 2) join(edges[0]!, edges[1]!);
      if (edges.length === 4) {
        const middle = corners.reduce((sum, value) => sum + value, 0) / 4 >= level;
        // What the middle shares with two corners parts the other two from it.
        const order = middle === a ? [0, 1, 2, 3] : [0, 3, 1, 2];
        join(edges[order[0]!]!, edges[order[1]!]!);
        join(edges[order[2]!]!, edges[order[3]!]!);
      }
    }
  }
  return walk(crossings, joined);
}

/** Follows joined crossings: first the lines that have ends, then the rings. */
function walk(crossings: Map<number, Place>, joined: Map<number, number[]>): Place[][] {
  const lines: Place[][] = [];
  const seen = new Set<number>();
  const follow = (start: number) => {
    const line: Place[] = [];
    let at: number | undefined = start;
    while (at !== undefined) {
      seen.add(at);
      line.push(crossings.get(at)!);
      at = joined.get(at)!.find((next) => !seen.has(next));
    }
    return line;
  };
  for (const [edge, next] of joined) {
    if (next.length === 1 && !seen.has(edge)) lines.push(follow(edge));
  }
  for (const edge of joined.keys()) {
    if (seen.has(edge)) continue;
    const ring = follow(edge);
    lines.push([...ring, ring[0]!]);
  }
  return lines;
}

/** An area in pixels. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Whether two areas share a point. */
export function overlap(one: Box, other: Box): boolean {
  return (
    one.left < other.left + other.width &&
    other.left < one.left + one.width &&
    one.top < other.top + other.height &&
    other.top < one.top + one.height
  );
}

/** Whether `inner` lies in `outer`. */
export function within(inner: Box, outer: Box): boolean {
  return (
    inner.left >= outer.left &&
    inner.top >= outer.top &&
    inner.left + inner.width <= outer.left + outer.width &&
    inner.top + inner.height <= outer.top + outer.height
  );
}

/** A box of a size about its middle. */
export function boxAround(x: number, y: number, width: number, height: number): Box {
  return { left: x - width / 2, top: y - height / 2, width, height };
}

/** The first of the places whose box lies in the frame and touches none that is taken. */
export function firstFree<T extends { box: Box }>(
  places: readonly T[],
  frame: Box,
  taken: readonly Box[],
): T | null {
  const free = (box: Box) => within(box, frame) && !taken.some((other) => overlap(box, other));
  return places.find(({ box }) => free(box)) ?? null;
}

/** Points along a line, in pixels: the middle first, then ever farther from it. */
export function alongLine(line: readonly Place[]): Place[] {
  const ends: number[] = [0];
  for (let i = 1; i < line.length; i++) {
    const [x0, y0] = line[i - 1]!;
    const [x1, y1] = line[i]!;
    ends.push(ends[i - 1]! + Math.hypot(x1 - x0, y1 - y0));
  }
  const length = ends[ends.length - 1]!;
  return [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9].map((part) => {
    const to = ends.findIndex((end) => end >= part * length);
    return line[Math.max(0, to)]!;
  });
}

/** Length of a line in its own unit. */
export function lengthOf(line: readonly Place[]): number {
  return line.reduce((sum, [x, y], i) => {
    const [x0, y0] = line[i - 1] ?? [x, y];
    return sum + Math.hypot(x - x0, y - y0);
  }, 0);
}
