/** Values of the spans of a run: rates, the longest latency, write amplification. */
import * as Plot from "@observablehq/plot";
import { duration, evenDuration, fixed, MISSING, plain, whole } from "../format.js";
import { timeAxis, type TimeAxis } from "../layout/timeline.js";
import type { Moment, Rate } from "../schema.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";
import { timeTicks } from "./stacks.js";

interface RateChart<Span> {
  name: string;
  title: string;
  caption: string;
  axisLabel: string;
  lines: Line<Span>[];
  say(value: number): string;
  /** What stands behind a value in the readout. */
  unit: string;
  /** Values that may reach over decades; zero is then no value. */
  decades: boolean;
  /** Whether the values are nanoseconds. */
  times: boolean;
}

interface Line<Span> {
  name: string;
  slot: number;
  value: (span: Span) => number | null;
}

/** Values of one span of a run, which ends at `tNs`. */
interface Ended {
  tNs: number;
}

/** Colour slots of operations, the same in every chart of a drive. */
const OPERATIONS = ["read", "write", "flush", "trim"];

/** The colour slot of an operation; one of another name has that of its place. */
export function operationSlot(op: string, place: number): number {
  const known = OPERATIONS.indexOf(op);
  return known >= 0 ? known : OPERATIONS.length + place;
}

/** One value over the span from `from` to `to` on the axis. */
interface Held {
  slot: number;
  from: number;
  to: number;
  y: number;
}

/** Requests a second; `null` if no span has any. */
export function iopsFigure(rates: readonly Rate[]): HTMLElement | null {
  return rateFigure(rates, {
    name: "iops",
    title: "Requests a second",
    caption: "Requests that completed in each span of the run, per second of virtual time.",
    axisLabel: "Requests/s",
    lines: [
      { name: "read", slot: 0, value: (rate) => rate.readIops },
      { name: "write", slot: 1, value: (rate) => rate.writeIops },
    ],
    say: (value) => (value >= 100 ? whole(value) : plain(Number(value.toPrecision(3)))),
    unit: "/s",
    decades: false,
    times: false,
  });
}

/** Megabytes a second; `null` if no span has any. */
export function bytesFigure(rates: readonly Rate[]): HTMLElement | null {
  return rateFigure(rates, {
    name: "throughput",
    title: "Throughput",
    caption: "Bytes of completed requests in each span, in millions per second of virtual time.",
    axisLabel: "MB/s",
    lines: [
      { name: "read", slot: 0, value: (rate) => rate.readMbS },
      { name: "write", slot: 1, value: (rate) => rate.writeMbS },
    ],
    say: (value) => fixed(value, value >= 100 ? 0 : value >= 10 ? 1 : 2),
    unit: "MB/s",
    decades: false,
    times: false,
  });
}

/** Longest latency of each span; `null` if no span has one. */
export function longestFigure(rates: readonly Rate[]): HTMLElement | null {
  return rateFigure(rates, {
    name: "longest",
    title: "Longest latency",
    caption:
      "The longest time that a request of each span took in the drive; gaps are spans in which none completed.",
    axisLabel: "Longest latency",
    lines: [{ name: "longest latency", slot: 4, value: (rate) => rate.maxNs }],
    say: evenDuration,
    unit: "",
    decades: true,
    times: true,
  });
}

/** Write amplification of each span; `null` if no span has one. */
export function spanAmplificationFigure(moments: readonly Moment[]): HTMLElement | null {
  const spans = moments.flatMap(({ tNs, waf }) => (tNs === null ? [] : { tNs, waf }));
  return rateFigure(spans, {
    name: "waf",
    title: "Write amplification over time",
    caption:
      "Bytes programmed into flash in each span, per byte that the host wrote in it; gaps are spans without a write or without a program.",
    axisLabel: "Factor",
    lines: [{ name: "factor", slot: 3, value: (span) => span.waf }],
    say: (value) => fixed(value, value >= 100 ? 0 : 3),
    unit: "",
    decades: true,
    times: false,
  });
}

/**
 * Zero is a value for rates, but no latency: a span in which nothing completed has none and leaves
 * a gap. A line that is zero throughout is left out.
 */
function rateFigure<Span extends Ended>(
  given: readonly Span[],
  chart: RateChart<Span>,
): HTMLElement | null {
  const rates = [...given].sort((a, b) => a.tNs - b.tNs);
  const axis = timeAxis(rates.at(-1)?.tNs ?? 0);
  const lines = chart.lines
    .map((line) => ({
      ...line,
      value: (span: Span) => {
        const y = line.value(span);
        return chart.decades && y !== null && y <= 0 ? null : y;
      },
    }))
    .filter(({ value }) => rates.some((rate) => (value(rate) ?? 0) > 0));
  if (lines.length === 0 || !axis.byTime) return null;
  const held = lines.flatMap(({ slot, value }) => heldValues(rates, axis, slot, value));
  return chartFigure(
    {
      name: chart.name,
      title: chart.title,
      spoken: `${chart.title} over ${axis.label}. ${lines.map((line) => sayRange(line.name, held, line.slot, chart)).join(" ")}`,
      caption: [chart.caption],
      legend: lines,
      table: () => ({
        caption: `${chart.title} by span of the run; a span is named by its end.`,
        columns: [
          numbers(axis.label),
          ...lines.map(({ name }) =>
            numbers(lines.length > 1 ? `${name}, ${chart.axisLabel}` : chart.axisLabel),
          ),
        ],
        rows: rates.map((rate) => [
          axis.say(placeOf(rate.tNs, axis)),
          ...lines.map(({ value }) => {
            const y = value(rate);
            return y === null ? MISSING : chart.say(y);
          }),
        ]),
      }),
    },
    (width) => drawRates(held, lines, axis, chart, width),
  ).element;
}

function placeOf(tNs: number, axis: TimeAxis): number {
  return axis.at({ tNs, erases: null, groups: [], free: null, waf: null }) ?? 0;
}

/** The values of a line, each over the span that ends at its moment; `y` is not a number in a gap. */
function heldValues<Span extends Ended>(
  rates: readonly Span[],
  axis: TimeAxis,
  slot: number,
  value: (rate: Span) => number | null,
): Held[] {
  return rates.map((rate, i) => {
    return {
      slot,
      from: placeOf(rates[i - 1]?.tNs ?? 0, axis),
      to: placeOf(rate.tNs, axis),
      y: value(rate) ?? NaN,
    };
  });
}

function sayRange(
  name: string,
  held: readonly Held[],
  slot: number,
  chart: { say(value: number): string },
): string {
  const values = held
    .filter((point) => point.slot === slot)
    .map(({ y }) => y)
    .filter((y) => !Number.isNaN(y));
  const least = values.reduce((low, y) => Math.min(low, y), Infinity);
  const greatest = values.reduce((top, y) => Math.max(top, y), 0);
  return `${name}: from ${chart.say(least)} to ${chart.say(greatest)}.`;
}

function drawRates<Span>(
  held: Held[],
  lines: Line<Span>[],
  axis: TimeAxis,
  chart: RateChart<Span>,
  width: number,
): Readable {
  const height = 230;
  const margins = { marginLeft: 72, marginRight: 16, marginTop: 26, marginBottom: 44 };
  const known = held.filter(({ y }) => !Number.isNaN(y));
  const greatest = known.reduce((top, { y }) => Math.max(top, y), 0);
  const least = known.reduce((low, { y }) => Math.min(low, y), Infinity);
  const log = chart.decades && greatest / least >= 30;
  const floor = 10 ** Math.floor(Math.log10(least));
  const decades = log
    ? Array.from(
        { length: Math.ceil(Math.log10(greatest / floor) - 1e-9) + 1 },
        (_, i) => floor * 10 ** i,
      )
    : [];
  const ticks = log ? decades : chart.times ? timeTicks(greatest * 1.04, 4) : 4;
  const end = held.reduce((far, { to }) => Math.max(far, to), 0);
  // A value holds over its whole span, so each is drawn from its beginning to its end.
  const corners = held.flatMap(({ slot, from, to, y }) => [
    { slot, x: from, y },
    { slot, x: to, y },
  ]);
  const colour = (point: { slot: number }) => seriesColour(point.slot);
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: {
      domain: [0, end],
      label: axis.label,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: tickCount(width - 80, 90),
      tickFormat: plain,
    },
    y: {
      ...(log
        ? { type: "log" as const, domain: [floor, Math.max(greatest, decades.at(-1) ?? 0)] }
        : { domain: [0, greatest * 1.06] }),
      label: `${chart.axisLabel}${log ? " (log)" : ""}`,
      labelArrow: "none",
      ticks,
      tickFormat: chart.times ? duration : plain,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks }),
      Plot.ruleY([log ? floor : 0], { stroke: "currentColor" }),
      // Not a number parts the line.
      Plot.lineY(corners, { x: "x", y: "y", z: "slot", stroke: colour, strokeWidth: 1.6 }),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const spans = new Map<number, Held[]>();
  for (const value of known) spans.set(value.to, [...(spans.get(value.to) ?? []), value]);
  const stops: Stop[] = [...spans]
    .sort(([a], [b]) => a - b)
    .map(([to, here]) => {
      const middle = x((here[0]!.from + to) / 2);
      return {
        x: middle,
        y: y(here[0]!.y),
        dots: here.map((value) => ({ y: y(value.y), colour: colour(value) })),
        text: () => ({
          title: `${axis.say(here[0]!.from)} to ${axis.say(to)}`,
          rows: here.map((value) => ({
            label: lines.find(({ slot }) => slot === value.slot)?.name ?? "",
            value:
              chart.unit === "" ? chart.say(value.y) : `${chart.say(value.y)}\u00a0${chart.unit}`,
            colour: colour(value),
          })),
        }),
      };
    });
  return {
    drawing,
    stops,
    nearest: "x",
    rule: { top: margins.marginTop, bottom: height - margins.marginBottom },
  };
}
