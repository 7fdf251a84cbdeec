/** Stacked bars: where the time of requests went, and write amplification as a sum of causes. */
import * as Plot from "@observablehq/plot";
import { duration, evenDuration, fixed, MISSING, percent, plain, whole } from "../format.js";
import { partNames, segmentsOf, sumOf, type Segment, type Stack } from "../layout/stacks.js";
import type { Latency, Run, WriteAmplification } from "../schema.js";
import { choice } from "../ui/choice.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure, type LegendEntry } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";

/** What the reader chose to see; kept while runs are changed. */
export interface TimeView {
  axis: "share" | "time";
}

/** Heads of a request's time on its way from the host into the flash, with their colours. */
const HEADS: Readonly<Record<string, string>> = {
  host: "var(--part-host)",
  controller: "var(--series-6)",
  link: "var(--part-link)",
  queue: "var(--series-4)",
  map: "var(--series-5)",
  bus: "var(--series-3)",
  die: "var(--series-2)",
  gc: "var(--series-1)",
  erase: "var(--part-erase)",
  flush: "var(--series-7)",
};

/** Causes of programmed bytes; what both charts name has one colour in both. */
const CAUSES: Readonly<Record<string, string>> = {
  host: "var(--series-2)",
  flush: "var(--series-7)",
  gc: "var(--series-1)",
  wear_level: "var(--series-4)",
  map: "var(--series-5)",
  padding: "var(--series-6)",
  recovery: "var(--series-3)",
};

type Colour = (name: string) => string;

/** Colours of known names, and of others the first that no known name bears. */
function colours(known: Readonly<Record<string, string>>, names: readonly string[]): Colour {
  const others = names.filter((name) => known[name] === undefined);
  const free = Array.from({ length: 8 }, (_, slot) => seriesColour(slot)).filter(
    (colour) => !names.some((name) => known[name] === colour),
  );
  return (name) => known[name] ?? free[others.indexOf(name) % free.length] ?? "var(--rule)";
}

interface StackChart {
  /** Whether the axis is in shares of each row. */
  shares: boolean;
  label: string;
  ticks: { values: number[]; say: (value: number) => string } | null;
  colour: Colour;
  order: readonly string[];
  /** The sum as it stands behind its bar. */
  behind(row: number): string;
  /** An amount in the readout. */
  say(amount: number): string;
  /** What the readout calls the sum. */
  sum: { name: string; say(row: number): string };
  /** A line across the bars. */
  guide?: number;
}

/** Mean time of a request by where it was; `null` if no operation has it. */
export function requestTimeFigure(latency: readonly Latency[], view: TimeView): HTMLElement | null {
  const known = latency.filter((entry) => entry.time !== null && sumOf(entry.time) > 0);
  if (known.length === 0) return null;
  const stacks = known.map((entry) => ({ name: entry.op, parts: entry.time ?? [] }));
  const order = Object.keys(HEADS);
  const names = partNames(stacks, order);
  const colour = colours(HEADS, names);
  const missing = latency.filter((entry) => !known.includes(entry)).map((entry) => entry.op);
  const longest = stacks.reduce((top, { parts }) => Math.max(top, sumOf(parts)), 0);
  const figure = chartFigure(
    {
      name: "request-time",
      title: "Where the time of a request went",
      spoken: `Mean time of a request by where it was. ${stacks.map(sayTimes).join(" ")}`,
      caption: [
        "Mean over all requests of an operation, from the call of the user to the completion; the parts sum to the mean latency at the right.",
        missing.length > 0 && ` Not recorded for ${missing.join(", ")}.`,
      ],
      legend: legendOf(names, colour),
      controls: [
        choice(
          "Axis",
          [
            { value: "share", name: "share" },
            { value: "time", name: "time" },
          ],
          view.axis,
          (axis) => {
            view.axis = axis;
            figure.redraw();
          },
        ),
      ],
      table: () => timeTable(stacks, names),
    },
    (width) => {
      const shares = view.axis === "share";
      return drawStacks(stacks, width, {
        shares,
        label: shares ? "Share of the mean time" : "Mean time (virtual)",
        ticks: shares
          ? { values: [0, 0.25, 0.5, 0.75, 1], say: (value) => percent(value, 0) }
          : { values: timeTicks(longest, tickCount(width - 160, 110)), say: duration },
        colour,
        order,
        behind: (row) => evenDuration(sumOf(stacks[row]!.parts)),
        say: evenDuration,
        sum: { name: "mean", say: (row) => evenDuration(sumOf(stacks[row]!.parts)) },
      });
    },
  );
  return figure.element;
}

function sayTimes({ name, parts }: Stack): string {
  const sum = sumOf(parts);
  const heads = parts.filter(({ amount }) => amount > 0);
  return `${name}: ${heads.map((head) => `${head.name} ${percent(head.amount / sum)}`).join(", ")}.`;
}

/** Round spans of time from zero to `longest`, about `count` of them. */
export function timeTicks(longest: number, count: number): number[] {
  const rough = longest / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((wide) => wide >= rough)!;
  return Array.from({ length: Math.floor(longest / step + 1e-9) + 1 }, (_, i) => i * step);
}

function timeTable(stacks: readonly Stack[], names: readonly string[]): TableText {
  return {
    caption: "Mean time of a request by where it was, in virtual time.",
    columns: [words("Operation"), words("Where"), numbers("Time"), numbers("Share")],
    rows: stacks.flatMap(({ name, parts }) => {
      const sum = sumOf(parts);
      return [
        ...names.map((head) => {
          const amount = sumOf(parts.filter((part) => part.name === head));
          return [name, head, evenDuration(amount), percent(amount / sum, 2)];
        }),
        [name, "all", evenDuration(sum), percent(1, 2)],
      ];
    }),
  };
}

/** A run's write amplification with its name. */
interface Amplified {
  name: string;
  total: number;
  found: WriteAmplification;
}

/**
 * Write amplification of one run or of several as a sum of causes; `null` if no run has it, which
 * is so when the host wrote nothing.
 */
export function amplificationFigure(runs: readonly Run[]): HTMLElement | null {
  const all: Amplified[] = runs.flatMap(({ name, writeAmplification: found }) =>
    found === null || found.total === null ? [] : { name, total: found.total, found },
  );
  const single = runs.length === 1;
  const stacks = all.map(({ name, found }) => ({
    name: single ? "" : name,
    parts: found.byCause.map((part) => ({ name: part.cause, amount: part.perHostByte ?? 0 })),
  }));
  const order = Object.keys(CAUSES);
  const names = partNames(stacks, order);
  if (names.length === 0) return null;
  const colour = colours(CAUSES, names);
  const amountOf = (stack: Stack, cause: string) =>
    sumOf(stack.parts.filter((part) => part.name === cause));
  const silent = runs.length - all.length;
  return chartFigure(
    {
      name: "amplification",
      title: "Write amplification by cause",
      spoken: `Bytes programmed per byte of the host. ${all
        .map(
          ({ name, total }, row) =>
            `${name}: ${fixed(total, 3)}, of it ${names
              .map((cause) => `${cause} ${fixed(amountOf(stacks[row]!, cause), 3)}`)
              .join(", ")}.`,
        )
        .join(" ")}`,
      caption: [
        single && names.length > 1
          ? `${sumInWords(stacks[0]!, names, amountOf)} = ${fixed(all[0]!.total, 3)}. `
          : "",
        "Bytes programmed into flash per byte written by the host; the parts sum to the write amplification at the right. The dotted line marks one.",
        silent > 0 && ` In ${whole(silent)} of ${whole(runs.length)} runs the host wrote nothing.`,
      ],
      legend: legendOf(names, colour),
      table: () => ({
        caption: "Programmed bytes by cause, and per byte of the host.",
        columns: [
          words("Run"),
          words("Cause"),
          numbers("Bytes"),
          numbers("Per host byte"),
          numbers("Share"),
        ],
        rows: all.flatMap(({ name, total, found }) => [
          ...found.byCause.map((part) => [
            name,
            part.cause,
            whole(part.bytes),
            part.perHostByte === null ? MISSING : fixed(part.perHostByte, 4),
            part.perHostByte === null || total <= 0
              ? MISSING
              : percent(part.perHostByte / total, 2),
          ]),
          [
            name,
            "all",
            found.flashBytes === null ? MISSING : whole(found.flashBytes),
            fixed(total, 4),
            percent(1, 2),
          ],
        ]),
      }),
    },
    (width) =>
      drawStacks(stacks, width, {
        shares: false,
        label: "Bytes programmed per byte of the host",
        ticks: null,
        colour,
        order,
        behind: (row) => fixed(all[row]!.total, 3),
        say: (amount) => fixed(amount, 3),
        sum: { name: "write amplification", say: (row) => fixed(all[row]!.total, 3) },
        guide: 1,
      }),
  ).element;
}

function sumInWords(
  stack: Stack,
  names: readonly string[],
  amountOf: (stack: Stack, cause: string) => number,
): string {
  return names.map((cause) => `${cause} ${fixed(amountOf(stack, cause), 3)}`).join(" + ");
}

function legendOf(names: readonly string[], colour: Colour): LegendEntry[] {
  return names.map((name) => ({ name, colour: colour(name) }));
}

/** The part of a row above its bar, where names stand above. */
const PART_ABOVE = 0.55;

/** One bar for each stack; a stop tells all parts of its bar, also those too thin to be seen. */
function drawStacks(stacks: readonly Stack[], width: number, chart: StackChart): Readable {
  const segments = segmentsOf(stacks, chart.order, chart.shares);
  const longest = stacks.reduce((length, { name }) => Math.max(length, name.length), 0);
  const beside = longest === 0 ? 14 : Math.max(60, longest * 7.8 + 14);
  // Names without room beside their bars stand above them.
  const above = beside > width * 0.36;
  const row = above ? 52 : stacks.length === 1 ? 46 : 36;
  const margins = {
    marginTop: 8,
    marginBottom: 44,
    marginLeft: above ? 14 : beside,
    marginRight: 74,
  };
  const height = stacks.length * row + margins.marginTop + margins.marginBottom;
  const end = segments.reduce((top, segment) => Math.max(top, segment.to), 0) || 1;
  const domain: [number, number] = [0, Math.max(end, chart.guide ?? 0)];
  const ends = stacks.map((_, place) =>
    segments.reduce((top, segment) => (segment.row === place ? segment.to : top), 0),
  );
  const ticks = chart.ticks?.values ?? tickCount(width - 100, 90);
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: {
      domain,
      label: chart.label,
      labelArrow: "none",
      labelAnchor: "center",
      ticks,
      tickFormat: chart.ticks?.say ?? plain,
    },
    y: {
      type: "band",
      domain: stacks.map((_, place) => place),
      padding: above ? PART_ABOVE : 0.3,
      axis: null,
    },
    marks: [
      Plot.gridX({ stroke: HAIRLINE, strokeOpacity: 1, ticks }),
      Plot.barX(segments, {
        x1: "from",
        x2: "to",
        y: "row",
        fill: (segment: Segment) => chart.colour(segment.name),
      }),
      // A line of paper parts neighbours without taking the width of thin ones.
      Plot.tickX(
        segments.filter((segment) => segment.from > 0),
        { x: "from", y: "row", stroke: "var(--paper)", strokeWidth: 0.8 },
      ),
      Plot.ruleX([0], { stroke: "currentColor" }),
      chart.guide === undefined
        ? []
        : Plot.ruleX([chart.guide], { stroke: "var(--ink)", strokeDasharray: "2 3" }),
      Plot.text(stacks, {
        x: 0,
        y: (_: Stack, place: number) => place,
        text: "name",
        ...(above
          ? { textAnchor: "start", dy: -(row * (1 - PART_ABOVE)) / 2 - 10 }
          : { textAnchor: "end", dx: -8 }),
        fill: "currentColor",
        fontSize: 13,
        lineWidth: (above ? width - 30 : margins.marginLeft - 12) / 13,
        textOverflow: "ellipsis",
      }),
      Plot.text(stacks, {
        x: (_: Stack, place: number) => ends[place]!,
        y: (_: Stack, place: number) => place,
        text: (_: Stack, place: number) => chart.behind(place),
        textAnchor: "start",
        dx: 7,
        fontWeight: 600,
        fill: "currentColor",
      }),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = stacks.map(({ name }, place) => ({
    x: x(ends[place]! / 2),
    y: y(place) + row / 2,
    area: { x: 0, y: y(place) - (above ? 22 : row * 0.12), width, height: row * 0.95 },
    text: () => ({
      title: name === "" ? chart.sum.name : name,
      rows: [
        ...segments
          .filter((segment) => segment.row === place)
          .map((segment) => ({
            label: segment.name,
            value: `${chart.say(segment.amount)}  ·  ${percent(segment.share, 1)}`,
            colour: chart.colour(segment.name),
          })),
        { label: chart.sum.name, value: chart.sum.say(place) },
      ],
    }),
  }));
  return { drawing, stops, nearest: "y" };
}
