/** How sequentially each part of a device was written. */
import * as Plot from "@observablehq/plot";
import type { TraceSegments } from "../schema.js";
import { bytes, percent } from "../format.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words } from "../ui/table.js";
import { drawPlot, HAIRLINE, toPixels } from "./plot.js";

const SEQUENTIAL = 2;
const OTHER = 0;
const HEIGHT = 300;
const MARGINS = { marginLeft: 76, marginRight: 30, marginTop: 26, marginBottom: 58 };

/** Bars of written bytes by address; `segSeq` is the share of the whole device. */
export function segmentsFigure(segments: TraceSegments, segSeq: number | null): HTMLElement {
  const { barBytes, bars } = segments;
  const share = segSeq === null ? "" : ` Of all written bytes ${percent(segSeq)} are in sequence.`;
  return chartFigure(
    {
      name: "trace-segments",
      title: "Sequentiality of writes",
      spoken: `Written bytes by address and how many of them are in sequence.${share}`,
      caption: [
        `Bytes in sequence lie in segments of 1 MiB that were written from end to end without another write between.${share} Each bar is ${bytes(barBytes)} of addresses, in their order; those that were never written are left out.`,
      ],
      legend: [
        { name: "in sequence", slot: SEQUENTIAL },
        { name: "other", slot: OTHER },
      ],
      table: () => ({
        caption: "Written bytes by address.",
        columns: [words("From"), numbers("Written"), numbers("In sequence"), numbers("SegSeq")],
        rows: bars.map(([number, written, sequential]) => [
          bytes(number * barBytes),
          bytes(written),
          bytes(sequential),
          written > 0 ? percent(sequential / written) : "",
        ]),
      }),
    },
    (width) => draw(segments, width),
  ).element;
}

function draw({ barBytes, bars }: TraceSegments, width: number): Readable {
  const tallest = bars.reduce((top, [, written]) => Math.max(top, written), 1);
  const scale = 2 ** (10 * Math.floor(Math.log2(tallest) / 10));
  const inset = width / bars.length > 8 ? 0.5 : 0;
  const parts = bars.flatMap(([, written, sequential], place) => [
    { place, from: 0, to: sequential / scale, slot: SEQUENTIAL },
    { place, from: sequential / scale, to: written / scale, slot: OTHER },
  ]);
  const named = [0, Math.floor(bars.length / 2), bars.length - 1].filter(
    (place, at, all) => all.indexOf(place) === at,
  );
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...MARGINS,
    x: { domain: [0, bars.length], axis: null },
    y: {
      domain: [0, (tallest / scale) * 1.04],
      label: "Written",
      labelArrow: "none",
      ticks: 5,
      tickFormat: (value: number) => (value === 0 ? "0" : bytes(value * scale)),
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: 5 }),
      Plot.rect(parts, {
        x1: "place",
        x2: (part: { place: number }) => part.place + 1,
        y1: "from",
        y2: "to",
        fill: (part: { slot: number }) => seriesColour(part.slot),
        insetLeft: inset,
        insetRight: inset,
      }),
      Plot.ruleY([0], { stroke: "currentColor" }),
      Plot.text(named, {
        x: (place: number) => place + 0.5,
        y: 0,
        dy: 16,
        text: (place: number) => bytes(bars[place]![0] * barBytes),
        fill: "var(--ink-soft)",
      }),
    ],
  });
  const x = toPixels(drawing, "x");
  const stops: Stop[] = bars.map(([number, written, sequential], place) => ({
    x: x(place + 0.5),
    y: MARGINS.marginTop,
    area: {
      x: x(place),
      y: MARGINS.marginTop,
      width: Math.max(1, x(place + 1) - x(place)),
      height: HEIGHT - MARGINS.marginTop - MARGINS.marginBottom,
    },
    text: () => ({
      title: `from ${bytes(number * barBytes)}`,
      rows: [
        { label: "in sequence", value: bytes(sequential), colour: seriesColour(SEQUENTIAL) },
        { label: "other", value: bytes(written - sequential), colour: seriesColour(OTHER) },
        { label: "SegSeq", value: written > 0 ? percent(sequential / written) : "" },
      ],
    }),
  }));
  return { drawing, stops, nearest: "x" };
}
