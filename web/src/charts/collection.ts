/** Garbage collection over a run: passes, waiting programs and free space under one another. */
import * as Plot from "@observablehq/plot";
import type { Collection, CollectionMoment } from "../schema.js";
import { bytes, duration, percent, plain, timeUnitFor } from "../format.js";
import { seriesColour, svg } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { ReadoutRow, Stop } from "../ui/readout.js";
import { numbers } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";

const MARGINS = { marginLeft: 72, marginRight: 16, marginTop: 26 };
const ROW = 150;
const LAST_ROW = ROW + 26;

interface Line {
  name: string;
  slot: number;
  value(moment: CollectionMoment): number;
}

interface Row {
  label: string;
  lines: Line[];
  say(value: number): string;
}

/** One row for each question: who collected, how long somebody waited, and what was free. */
function rowsOf(momentNs: number): Row[] {
  return [
    {
      label: "Share of time",
      lines: [
        { name: "the thread collects", slot: 1, value: ({ threadNs }) => threadNs / momentNs },
        { name: "programs wait", slot: 5, value: ({ waitedNs }) => waitedNs / momentNs },
      ],
      say: (value) => percent(value),
    },
    {
      label: "Longest wait",
      lines: [{ name: "longest wait", slot: 3, value: ({ longestNs }) => longestNs }],
      say: duration,
    },
    {
      label: "Bytes",
      lines: [
        { name: "free", slot: 2, value: ({ freeBytes }) => freeBytes },
        { name: "obsolete", slot: 4, value: ({ dirtyBytes }) => dirtyBytes },
      ],
      say: bytes,
    },
  ];
}

/** The timeline; `null` if nothing was collected and nobody waited. */
export function collectionFigure(found: Collection): HTMLElement | null {
  const { moments, momentNs } = found;
  if (moments.every(({ threadNs, waitedNs }) => threadNs === 0 && waitedNs === 0)) return null;
  const rows = rowsOf(momentNs);
  const lines = rows.flatMap((row) => row.lines.map((line) => ({ ...line, say: row.say })));
  const longest = moments.reduce((top, { longestNs }) => Math.max(top, longestNs), 0);
  return chartFigure(
    {
      name: "collection",
      title: "Garbage collection over virtual time",
      spoken: `Passes of garbage collection, waiting programs and free space over the run; the longest wait took ${duration(longest)}.`,
      caption: [
        `The run in parts of ${duration(momentNs)}: the share of each in which the file system's thread collected garbage and in which programs waited for it, the longest wait of one operation that began in it, and at its end the bytes that were free and those that only garbage collection makes free.`,
      ],
      legend: lines.map(({ name, slot }) => ({ name, slot })),
      table: () => ({
        caption: "Garbage collection over the run.",
        columns: [numbers("From"), ...lines.map(({ name }) => numbers(name))],
        rows: moments.map((moment) => [
          duration(moment.tNs),
          ...lines.map((line) => line.say(line.value(moment))),
        ]),
      }),
    },
    (width) => drawRows(moments, momentNs, rows, width),
  ).element;
}

function drawRows(
  moments: readonly CollectionMoment[],
  momentNs: number,
  rows: readonly Row[],
  width: number,
) {
  const end = moments.at(-1)!.tNs + momentNs;
  const unit = timeUnitFor(end);
  const height = ROW * (rows.length - 1) + LAST_ROW;
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "plot" });
  const scales = rows.map((row, place) => {
    const isLast = place === rows.length - 1;
    const part = drawRow(moments, row, { width, end, perUnit: unit.ns, isLast });
    part.setAttribute("y", String(place * ROW));
    drawing.append(part);
    return { x: toPixels(part, "x"), y: toPixels(part, "y"), top: place * ROW };
  });
  const stops: Stop[] = moments.map((moment) => ({
    x: scales[0]!.x(moment.tNs / unit.ns),
    y: scales[0]!.y(rows[0]!.lines[0]!.value(moment)),
    dots: rows.flatMap((row, place) =>
      row.lines.map(({ slot, value }) => ({
        y: scales[place]!.top + scales[place]!.y(value(moment)),
        colour: seriesColour(slot),
      })),
    ),
    text: () => ({
      title: `from ${duration(moment.tNs)}`,
      rows: rows.flatMap((row): ReadoutRow[] =>
        row.lines.map(({ name, slot, value }) => ({
          label: name,
          value: row.say(value(moment)),
          colour: seriesColour(slot),
        })),
      ),
    }),
  }));
  return {
    drawing,
    stops,
    nearest: "x" as const,
    rule: { top: MARGINS.marginTop, bottom: height - 44 },
  };
}

function drawRow(
  moments: readonly CollectionMoment[],
  row: Row,
  frame: { width: number; end: number; perUnit: number; isLast: boolean },
) {
  const { width, end, perUnit, isLast } = frame;
  const points = row.lines.flatMap(({ slot, value }) =>
    moments.map((moment) => ({ x: moment.tNs / perUnit, y: value(moment), slot })),
  );
  const greatest = points.reduce((top, { y }) => Math.max(top, y), 0) || 1;
  const colour = ({ slot }: { slot: number }) => seriesColour(slot);
  return drawPlot({
    width,
    height: isLast ? LAST_ROW : ROW,
    ...MARGINS,
    marginBottom: isLast ? 44 : 18,
    x: {
      domain: [0, end / perUnit],
      label: isLast ? `Virtual time (${timeUnitFor(end).name})` : null,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: tickCount(width - 80, 90),
      tickFormat: isLast ? plain : () => "",
    },
    y: {
      domain: [0, greatest * 1.06],
      label: row.label,
      labelArrow: "none",
      ticks: 3,
      tickFormat: row.say,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: 3 }),
      Plot.ruleY([0], { stroke: "currentColor" }),
      Plot.lineY(points, {
        x: "x",
        y: "y",
        z: "slot",
        stroke: colour,
        strokeWidth: 1.6,
        curve: "step-after",
      }),
    ],
  });
}
