/** Sizes of requests, by powers of two. */
import * as Plot from "@observablehq/plot";
import type { TraceDevice } from "../schema.js";
import { bytes, counted, whole } from "../format.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words } from "../ui/table.js";
import { drawPlot, HAIRLINE, toPixels } from "./plot.js";

const SLOTS: Record<string, number> = { read: 1, write: 0, trim: 4 };
const HEIGHT = 300;
const MARGINS = { marginLeft: 64, marginRight: 10, marginTop: 26, marginBottom: 58 };

interface Column {
  op: string;
  slot: number;
  counts: Map<number, number>;
}

/** The histogram of one device; `null` if no request has a size. */
export function sizesFigure(device: TraceDevice): HTMLElement | null {
  const columns: Column[] = (device.ops ?? [])
    .filter((op) => op.op in SLOTS && op.sizes !== null && op.sizes.bins.length > 0)
    .map((op) => ({ op: op.op, slot: SLOTS[op.op]!, counts: new Map(op.sizes!.bins) }));
  const ends = [...new Set(columns.flatMap(({ counts }) => [...counts.keys()]))].sort(
    (a, b) => a - b,
  );
  if (ends.length === 0) return null;
  return chartFigure(
    {
      name: "trace-sizes",
      title: "Sizes of requests",
      spoken: `Requests by size: ${ends.map((end) => `up to ${bytes(end)} ${columns.map((c) => `${whole(c.counts.get(end) ?? 0)} of ${c.op}`).join(", ")}`).join("; ")}.`,
      caption: [
        "Each group of bars holds the requests of at most that size and of more than the one before, which is half of it or less.",
      ],
      legend: columns.map(({ op, slot }) => ({ name: op, slot })),
      table: () => ({
        caption: "Requests by size.",
        columns: [words("Up to"), ...columns.map(({ op }) => numbers(op))],
        rows: ends.map((end) => [
          bytes(end),
          ...columns.map(({ counts }) => whole(counts.get(end) ?? 0)),
        ]),
      }),
    },
    (width) => draw(columns, ends, width),
  ).element;
}

function draw(columns: Column[], ends: number[], width: number): Readable {
  const tallest = Math.max(...columns.flatMap(({ counts }) => [...counts.values()]));
  const bars = ends.flatMap((end, place) =>
    columns.map(({ slot, counts }, column) => ({
      from: place + 0.1 + (0.8 * column) / columns.length,
      to: place + 0.1 + (0.8 * (column + 1)) / columns.length,
      count: counts.get(end) ?? 0,
      slot,
    })),
  );
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...MARGINS,
    x: { domain: [0, ends.length], axis: null },
    y: {
      domain: [0, tallest * 1.04],
      label: "Requests",
      labelArrow: "none",
      ticks: 5,
      tickFormat: whole,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: 5 }),
      Plot.rect(bars, {
        x1: "from",
        x2: "to",
        y1: 0,
        y2: "count",
        fill: (bar: { slot: number }) => seriesColour(bar.slot),
      }),
      Plot.ruleY([0], { stroke: "currentColor" }),
      Plot.text(ends, {
        x: (_: number, place: number) => place + 0.5,
        y: 0,
        dy: 16,
        text: (end: number) => bytes(end),
        rotate: ends.length > 6 ? -35 : 0,
        textAnchor: ends.length > 6 ? "end" : "middle",
        fill: "var(--ink-soft)",
      }),
    ],
  });
  const x = toPixels(drawing, "x");
  const stops: Stop[] = ends.map((end, place) => ({
    x: x(place + 0.5),
    y: MARGINS.marginTop,
    area: {
      x: x(place),
      y: MARGINS.marginTop,
      width: x(place + 1) - x(place),
      height: HEIGHT - MARGINS.marginTop - MARGINS.marginBottom,
    },
    text: () => ({
      title: `up to ${bytes(end)}`,
      rows: columns.map(({ op, slot, counts }) => ({
        label: op,
        value: counted(counts.get(end) ?? 0, "request"),
        colour: seriesColour(slot),
      })),
    }),
  }));
  return { drawing, stops, nearest: "x" };
}
