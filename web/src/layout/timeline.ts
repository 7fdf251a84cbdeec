/** What the charts over virtual time need from a run's recorded moments. */
import type { Moment, Run } from "../schema.js";
import { timeUnitFor, whole, type TimeUnit } from "../format.js";

/** What runs along the horizontal axis. */
export interface TimeAxis {
  /** Title of the axis. */
  label: string;
  /** Whether moments stand at their virtual time; if not, at the erases so far. */
  byTime: boolean;
  /** Value of a moment on the axis, `null` if it has none. */
  at(moment: Moment): number | null;
  /** A moment's place in words. */
  say(value: number): string;
}

/** The greatest virtual time of some moments, in nanoseconds; zero if none has one. */
export function spanOf(moments: readonly Moment[]): number {
  return moments.reduce((span, moment) => Math.max(span, moment.tNs ?? 0), 0);
}

/**
 * The axis for moments that end at `spanNs`. Where virtual time did not advance,
 * the erases so far take its place.
 */
export function timeAxis(spanNs: number): TimeAxis {
  if (spanNs <= 0) {
    return {
      label: "Erases so far",
      byTime: false,
      at: (moment) => moment.erases,
      say: (value) => `${whole(value)} erases`,
    };
  }
  const unit = timeUnitFor(spanNs);
  return {
    label: `Virtual time (${unit.name})`,
    byTime: true,
    at: (moment) => (moment.tNs === null ? null : moment.tNs / unit.ns),
    say: (value) => amountIn(value, unit),
  };
}

function amountIn(value: number, unit: TimeUnit): string {
  const digits = value >= 100 ? 1 : 2;
  return `${value.toLocaleString("en-US", { maximumFractionDigits: digits })}\u00a0${unit.sign}`;
}

/** One point of a group's wear over time; `min` and `max` may be missing. */
export interface WearPoint {
  x: number;
  min: number | null;
  avg: number;
  max: number | null;
}

/** A group's wear at every moment that has both a place and a mean. */
export function wearSeries(moments: readonly Moment[], group: number, axis: TimeAxis): WearPoint[] {
  const points: WearPoint[] = [];
  for (const moment of moments) {
    const x = axis.at(moment);
    const wear = moment.groups[group];
    if (x === null || wear === undefined || wear.avg === null) continue;
    points.push({ x, min: wear.min, avg: wear.avg, max: wear.max });
  }
  return points;
}

/** One value at one place of the axis. */
export interface SeriesPoint {
  x: number;
  y: number;
}

/** A single recorded value over time, moments without it left out. */
export function valueSeries(
  moments: readonly Moment[],
  axis: TimeAxis,
  value: (moment: Moment) => number | null,
): SeriesPoint[] {
  const points: SeriesPoint[] = [];
  for (const moment of moments) {
    const x = axis.at(moment);
    const y = value(moment);
    if (x !== null && y !== null) points.push({ x, y });
  }
  return points;
}

/**
 * Mean erase count of the group at place `over`, divided by that of the group at
 * place `under`. Moments at which the divisor is zero have no ratio.
 */
export function ratioSeries(
  moments: readonly Moment[],
  over: number,
  under: number,
  axis: TimeAxis,
): SeriesPoint[] {
  return valueSeries(moments, axis, (moment) => {
    const above = moment.groups[over]?.avg;
    const below = moment.groups[under]?.avg;
    if (above === undefined || above === null || !below) return null;
    return above / below;
  });
}

/**
 * The greatest value after the first tenth of the run. A ratio of two small
 * counts swings widely at first and would flatten all that comes later.
 */
export function settledTop(points: readonly SeriesPoint[]): number {
  const end = points.at(-1)?.x ?? 0;
  const settled = points.filter((point) => point.x >= end / 10);
  return (settled.length > 0 ? settled : points).reduce((top, point) => Math.max(top, point.y), 0);
}

/** How many groups the moments tell of. */
export function groupCount(moments: readonly Moment[]): number {
  return moments.reduce((count, moment) => Math.max(count, moment.groups.length), 0);
}

/** The name of a run's group at a place; moments hold no names, the wear section does. */
export function groupName(run: Run, place: number): string {
  const named = run.wear?.groups[place]?.name;
  if (named !== undefined) return named;
  return groupCount(run.timeline ?? []) === 1
    ? `all ${run.wear?.unit ?? "PEB"}s`
    : `group ${place + 1}`;
}

/** At most `limit` items spread evenly over a list, its ends always among them. */
export function thin<T>(items: readonly T[], limit: number): T[] {
  if (items.length <= limit) return [...items];
  const last = items.length - 1;
  return Array.from({ length: limit }, (_, i) => items[Math.round((i * last) / (limit - 1))]!);
}
