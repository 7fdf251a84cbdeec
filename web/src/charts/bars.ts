/** Horizontal bars of parts of a whole: bytes or erases by cause. */
import * as Plot from "@observablehq/plot";
import { bytes, counted, percent, whole } from "../format.js";
import type { EraseCause, ProgramCause } from "../schema.js";
import { chartFigure } from "../ui/figure.js";
import type { Stop } from "../ui/readout.js";
import { numbers, words } from "../ui/table.js";
import { drawPlot, toPixels } from "./plot.js";

interface Part {
  name: string;
  amount: number;
}

interface PartsChart {
  name: string;
  title: string;
  caption: string;
  unit: string;
  slot: number;
  /** The amount as it stands beside the bar. */
  short(amount: number): string;
  /** The amount in full. */
  exact(amount: number): string;
}

/** Programmed bytes by cause; `null` if nothing was programmed. */
export function programCausesFigure(causes: readonly ProgramCause[]): HTMLElement | null {
  const total = causes.reduce((sum, cause) => sum + cause.bytes, 0);
  return partsFigure(
    causes.map(({ cause, bytes: amount }) => ({ name: cause, amount })),
    {
      name: "program-causes",
      title: "Programmed bytes by cause",
      caption: `Share of all ${bytes(total)} programmed into flash.`,
      unit: "Bytes",
      slot: 1,
      short: bytes,
      exact: (amount) => counted(amount, "byte"),
    },
  );
}

/** Erases by cause; `null` if nothing was erased. */
export function eraseCausesFigure(causes: readonly EraseCause[]): HTMLElement | null {
  const total = causes.reduce((sum, cause) => sum + cause.erases, 0);
  return partsFigure(
    causes.map(({ cause, erases }) => ({ name: cause, amount: erases })),
    {
      name: "erase-causes",
      title: "Erases by cause",
      caption: `Share of all ${counted(total, "erase")}.`,
      unit: "Erases",
      slot: 0,
      short: whole,
      exact: whole,
    },
  );
}

function partsFigure(given: Part[], chart: PartsChart): HTMLElement | null {
  const parts = given.filter(({ amount }) => amount > 0).sort((a, b) => b.amount - a.amount);
  if (parts.length === 0) return null;
  const total = parts.reduce((sum, part) => sum + part.amount, 0);
  const share = (part: Part) => part.amount / total;
  return chartFigure(
    {
      name: chart.name,
      title: chart.title,
      spoken: `${chart.title}: ${parts.map((part) => `${part.name} ${percent(share(part))}`).join(", ")}.`,
      caption: [chart.caption],
      table: () => ({
        caption: chart.title,
        columns: [words("Cause"), numbers(chart.unit), numbers("Share")],
        rows: [
          ...parts.map((part) => [part.name, whole(part.amount), percent(share(part), 2)]),
          ["all", whole(total), percent(1, 2)],
        ],
      }),
    },
    (width) => drawParts(parts, share, chart, width),
  ).element;
}

function drawParts(parts: Part[], share: (part: Part) => number, chart: PartsChart, width: number) {
  const row = 30;
  const longest = parts.reduce((length, part) => Math.max(length, part.name.length), 0);
  const margins = {
    marginTop: 6,
    marginBottom: 6,
    marginLeft: Math.min(Math.max(60, longest * 7 + 14), width * 0.42),
    marginRight: Math.min(150, width * 0.32),
  };
  const height = parts.length * row + margins.marginTop + margins.marginBottom;
  const greatest = parts.reduce((top, part) => Math.max(top, part.amount), 0);
  const colour = `var(--series-${chart.slot + 1})`;
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: { domain: [0, greatest], axis: null },
    y: { type: "band", domain: parts.map((_, place) => place), padding: 0.32, axis: null },
    marks: [
      Plot.barX(parts, { x: "amount", y: (_: Part, place: number) => place, fill: colour }),
      Plot.ruleX([0], { stroke: "currentColor" }),
      Plot.text(parts, {
        x: 0,
        y: (_: Part, place: number) => place,
        text: "name",
        textAnchor: "end",
        dx: -8,
        fill: "currentColor",
        fontSize: 13,
        lineWidth: (margins.marginLeft - 12) / 13,
        textOverflow: "ellipsis",
      }),
      Plot.text(parts, {
        x: "amount",
        y: (_: Part, place: number) => place,
        text: (part: Part) => `${percent(share(part))}  ·  ${chart.short(part.amount)}`,
        textAnchor: "start",
        dx: 7,
        fill: "var(--ink-soft)",
      }),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = parts.map((part, place) => ({
    x: x(part.amount),
    y: y(place) + row / 2,
    area: { x: 0, y: y(place) - 5, width, height: row - 1 },
    text: () => ({
      title: part.name,
      rows: [
        { label: chart.unit.toLowerCase(), value: chart.exact(part.amount), colour },
        { label: "share", value: percent(share(part), 2) },
      ],
    }),
  }));
  return { drawing, stops, nearest: "y" as const };
}
