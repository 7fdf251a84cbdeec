/** Latency: the distribution of every kind of operation, and its percentiles. */
import * as Plot from "@observablehq/plot";
import { duration, evenDuration, MISSING, percent, whole } from "../format.js";
import type { Latency } from "../schema.js";
import { choice } from "../ui/choice.js";
import { html, seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, tableElement, words, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, toPixels } from "./plot.js";

/** What the reader chose to see; kept while runs are changed. */
export interface LatencyView {
  axis: "share" | "tail";
}

interface Distribution {
  name: string;
  slot: number;
  points: { ns: number; fraction: number; slot: number }[];
}

/** The distributions that were recorded; `null` if none was. `slotOf` gives an operation its colour. */
export function latencyFigure(
  latency: readonly Latency[],
  view: LatencyView,
  slotOf: (op: string, place: number) => number = (_, place) => place,
): HTMLElement | null {
  const all: Distribution[] = latency
    .map((entry, place) => {
      const slot = slotOf(entry.op, place);
      const points = (entry.cdf ?? []).map(([ns, fraction]) => ({
        ns: Math.max(1, ns),
        fraction,
        slot,
      }));
      return { name: entry.op, slot, points };
    })
    .filter((distribution) => distribution.points.length > 0);
  if (all.length === 0) return null;
  const missing = latency.filter((entry) => entry.cdf === null).map((entry) => entry.op);
  const figure = chartFigure(
    {
      name: "latency",
      title: "Latency distribution",
      spoken: `Cumulative distribution of latency for ${all.map((d) => d.name).join(", ")}.`,
      caption: [
        "Share of operations that took no longer than a given virtual time; with “slower than”, the share that took longer, on a logarithmic axis, which shows the tail.",
        missing.length > 0 && ` No distribution was recorded for ${missing.join(", ")}.`,
      ],
      legend: all,
      controls: [
        choice(
          "Share",
          [
            { value: "share", name: "no slower than" },
            { value: "tail", name: "slower than (log)" },
          ],
          view.axis,
          (axis) => {
            view.axis = axis;
            figure.redraw();
          },
        ),
      ],
      table: () => ({
        caption: "Points of the distributions.",
        columns: [words("Operation"), numbers("Latency"), numbers("No slower")],
        rows: all.flatMap(({ name, points }) =>
          points.map((point) => [name, duration(point.ns), percent(point.fraction, 3)]),
        ),
      }),
    },
    (width) => drawDistributions(all, view, width),
  );
  return figure.element;
}

function drawDistributions(all: Distribution[], view: LatencyView, width: number): Readable {
  const height = 320;
  const margins = { marginLeft: 72, marginRight: 24, marginTop: 26, marginBottom: 44 };
  const tail = view.axis === "tail";
  const rest = (fraction: number) => 1 - fraction;
  const shown = all
    .flatMap(({ points }) => points)
    .filter((point) => !tail || rest(point.fraction) > 1e-12);
  const least = shown.reduce((low, point) => Math.min(low, rest(point.fraction)), 1);
  const value = (point: { fraction: number }) => (tail ? rest(point.fraction) : point.fraction);
  const colour = (point: { slot: number }) => seriesColour(point.slot);
  const times = shown.map((point) => point.ns);
  // A distribution rises from zero at its first point.
  const lines = all.flatMap(({ points }) => [{ ...points[0]!, fraction: 0 }, ...points]);
  const ticks = timesBetween(Math.min(...times), Math.max(...times));
  const floor = 10 ** Math.floor(Math.log10(Math.max(least, 1e-12)));
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: {
      type: "log",
      label: "Latency (virtual time, log)",
      labelArrow: "none",
      labelAnchor: "center",
      ticks,
      tickFormat: duration,
    },
    y: tail
      ? {
          type: "log",
          domain: [floor, 1],
          label: "Slower than",
          labelArrow: "none",
          ticks: powersBetween(floor, 1),
          tickFormat: percentTick,
        }
      : {
          domain: [0, 1],
          label: "No slower than",
          labelArrow: "none",
          ticks: 5,
          tickFormat: percentTick,
        },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: tail ? powersBetween(floor, 1) : 5 }),
      Plot.gridX({
        stroke: HAIRLINE,
        strokeOpacity: 1,
        ticks,
      }),
      Plot.ruleY([tail ? floor : 0], { stroke: "currentColor" }),
      Plot.line(
        lines.filter((point) => !tail || rest(point.fraction) > 1e-12),
        {
          x: "ns",
          y: value,
          z: "slot",
          stroke: colour,
          strokeWidth: 1.8,
          curve: "step-after",
        },
      ),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const names = new Map(all.map((distribution) => [distribution.slot, distribution.name]));
  const stops: Stop[] = shown.map((point) => ({
    x: x(point.ns),
    y: y(value(point)),
    dots: [{ y: y(value(point)), colour: seriesColour(point.slot) }],
    text: () => ({
      title: names.get(point.slot) ?? "",
      rows: [
        { label: "latency", value: duration(point.ns), colour: seriesColour(point.slot) },
        { label: "no slower", value: percent(point.fraction, 3) },
        { label: "slower", value: percent(rest(point.fraction), 3) },
      ],
    }),
  }));
  return { drawing, stops, nearest: "both" };
}

function percentTick(fraction: number): string {
  return `${(fraction * 100).toLocaleString("en-US", { maximumSignificantDigits: 2 })} %`;
}

/** Powers of ten from `low` to `high`, both ends included where they are such. */
function powersBetween(low: number, high: number): number[] {
  const powers: number[] = [];
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  for (let exponent = first; exponent <= last; exponent++) powers.push(Number(`1e${exponent}`));
  return powers;
}

/** Powers of ten, or where these are fewer than two, one, two and five times such and, failing these, the bounds. */
function timesBetween(low: number, high: number): number[] {
  const powers = powersBetween(low, high);
  if (powers.length >= 2) return powers;
  const round = [1, 2, 5]
    .flatMap((digit) => powersBetween(low / digit, high / digit).map((power) => digit * power))
    .sort((a, b) => a - b);
  return round.length >= 2 ? round : [...new Set([low, high])];
}

/** Percentiles of every operation, as the document gives them. */
export function latencyTable(latency: readonly Latency[]): HTMLElement {
  const time = (ns: number | null) => (ns === null ? MISSING : evenDuration(ns));
  const times: { head: string; of: (entry: Latency) => number | null }[] = [
    { head: "Min", of: (entry) => entry.minNs },
    { head: "Median", of: (entry) => entry.p50Ns },
    { head: "90 %", of: (entry) => entry.p90Ns },
    { head: "99 %", of: (entry) => entry.p99Ns },
    { head: "99.9 %", of: (entry) => entry.p999Ns },
    // Only runs with many requests and fine histograms have these two.
    ...[
      { head: "99.99 %", of: (entry: Latency) => entry.p9999Ns },
      { head: "99.999 %", of: (entry: Latency) => entry.p99999Ns },
    ].filter(({ of }) => latency.some((entry) => of(entry) !== null)),
    { head: "Max", of: (entry) => entry.maxNs },
    { head: "Mean", of: (entry) => entry.meanNs },
  ];
  const table: TableText = {
    caption: "Latency by operation, in virtual time.",
    columns: [words("Operation"), numbers("Count"), ...times.map(({ head }) => numbers(head))],
    rows: latency.map((entry) => [
      entry.op,
      entry.count === null ? MISSING : whole(entry.count),
      ...times.map(({ of }) => time(of(entry))),
    ]),
  };
  return html("div", { class: "plain-table" }, tableElement(table));
}
