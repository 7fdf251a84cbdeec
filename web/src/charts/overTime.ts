/** Charts over virtual time: wear by group, and single values. */
import * as Plot from "@observablehq/plot";
import type { Moment, Run } from "../schema.js";
import { plain, whole } from "../format.js";
import {
  groupCount,
  groupName,
  spanOf,
  timeAxis,
  valueSeries,
  wearSeries,
  type SeriesPoint,
  type TimeAxis,
  type WearPoint,
} from "../layout/timeline.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";

interface GroupSeries {
  name: string;
  slot: number;
  points: WearPoint[];
}

const MARGINS = { marginLeft: 64, marginRight: 16, marginTop: 26, marginBottom: 44 };

/** Mean erase count of every group over time with the band from least to greatest; `null` if there is no erase in it. */
export function wearOverTimeFigure(run: Run): HTMLElement | null {
  const moments = run.timeline ?? [];
  const axis = timeAxis(spanOf(moments));
  const series: GroupSeries[] = Array.from({ length: groupCount(moments) }, (_, slot) => ({
    name: groupName(run, slot),
    slot,
    points: wearSeries(moments, slot, axis),
  })).filter((group) => group.points.length > 0);
  if (series.every(({ points }) => points.every(({ avg }) => avg === 0))) return null;
  const endurance = run.wear?.endurance ?? null;
  const last = series.map((group) => `${group.name} ends at ${plain(group.points.at(-1)!.avg)}`);
  return chartFigure(
    {
      name: "wear-over-time",
      title: axis.byTime ? "Erase count over virtual time" : "Erase count over the run",
      spoken: `Mean erase count by group over ${axis.label}: ${last.join(", ")}.`,
      caption: [
        `Mean erase count of each group; the band reaches from its least to its most worn ${run.wear?.unit ?? "PEB"}.${axis.byTime ? "" : " Virtual time did not advance in this run, so the axis counts erases."}`,
      ],
      legend: series,
      table: () => wearTable(series, axis),
    },
    (width) => drawWear(series, axis, endurance, width, endOf(moments, axis)),
  ).element;
}

function drawWear(
  series: GroupSeries[],
  axis: TimeAxis,
  endurance: number | null,
  width: number,
  span: number,
): Readable {
  const height = 340;
  const flat = series.flatMap(({ slot, points }) => points.map((point) => ({ ...point, slot })));
  const greatest = flat.reduce((top, point) => Math.max(top, point.max ?? point.avg), 1);
  const limit = endurance !== null && endurance <= greatest * 1.25 ? endurance : null;
  const banded = flat.filter((point) => point.min !== null && point.max !== null);
  const colour = (point: { slot: number }) => seriesColour(point.slot);
  const drawing = drawPlot({
    width,
    height,
    ...MARGINS,
    x: { ...timeScale(axis, width), domain: [0, span] },
    y: {
      domain: [0, Math.max(greatest, limit ?? 0) * 1.04],
      label: "Erase count",
      labelArrow: "none",
      ticks: 6,
      tickFormat: plain,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: 6 }),
      Plot.ruleY([0], { stroke: "currentColor" }),
      Plot.areaY(banded, {
        x: "x",
        y1: "min",
        y2: "max",
        z: "slot",
        fill: colour,
        fillOpacity: 0.22,
      }),
      Plot.lineY(flat, { x: "x", y: "avg", z: "slot", stroke: colour, strokeWidth: 1.8 }),
      flat.length === series.length ? Plot.dot(flat, { x: "x", y: "avg", fill: colour }) : [],
      limit === null
        ? []
        : [
            Plot.ruleY([limit], { stroke: "var(--warning)", strokeDasharray: "5 3" }),
            Plot.text([limit], {
              y: (value: number) => value,
              frameAnchor: "left",
              dx: 6,
              dy: -8,
              text: (value: number) => `rated endurance ${whole(value)}`,
              fill: "var(--warning)",
              textAnchor: "start",
            }),
          ],
    ],
  });
  const y = toPixels(drawing, "y");
  const byPlace = new Map<number, { group: GroupSeries; point: WearPoint }[]>();
  for (const group of series) {
    for (const point of group.points) {
      const here = byPlace.get(point.x) ?? [];
      here.push({ group, point });
      byPlace.set(point.x, here);
    }
  }
  const x = toPixels(drawing, "x");
  const stops: Stop[] = [...byPlace]
    .sort(([a], [b]) => a - b)
    .map(([place, here]) => ({
      x: x(place),
      y: y(here[0]!.point.avg),
      dots: here.map(({ group, point }) => ({ y: y(point.avg), colour: seriesColour(group.slot) })),
      text: () => ({
        title: axis.say(place),
        rows: here.map(({ group, point }) => ({
          label: group.name,
          value: `${plain(point.avg)}${rangeText(point)}`,
          colour: seriesColour(group.slot),
        })),
      }),
    }));
  return {
    drawing,
    stops,
    nearest: "x",
    rule: { top: MARGINS.marginTop, bottom: height - MARGINS.marginBottom },
  };
}

/** The far end of the axis, which moments without the drawn value reach as well. */
function endOf(moments: readonly Moment[], axis: TimeAxis): number {
  return moments.reduce((end, moment) => Math.max(end, axis.at(moment) ?? 0), 0) || 1;
}

function rangeText(point: WearPoint): string {
  if (point.min === null || point.max === null) return "";
  return ` (${whole(point.min)} to ${whole(point.max)})`;
}

function timeScale(axis: TimeAxis, width: number): Plot.ScaleOptions {
  return {
    label: axis.label,
    labelArrow: "none",
    labelAnchor: "center",
    ticks: tickCount(width - 80, 90),
    tickFormat: plain,
  };
}

function wearTable(series: readonly GroupSeries[], axis: TimeAxis): TableText {
  const rows = new Map<number, string[]>();
  series.forEach((group, place) => {
    for (const point of group.points) {
      const row = rows.get(point.x) ?? [
        axis.say(point.x),
        ...new Array<string>(series.length * 3).fill("\u2013"),
      ];
      [point.min, point.avg, point.max].forEach((value, i) => {
        if (value !== null) row[1 + place * 3 + i] = plain(value);
      });
      rows.set(point.x, row);
    }
  });
  return {
    caption: "Erase counts over the run.",
    columns: [
      numbers(axis.label),
      ...series.flatMap(({ name }) => [
        numbers(`${name}, min`),
        numbers(`${name}, mean`),
        numbers(`${name}, max`),
      ]),
    ],
    rows: [...rows].sort(([a], [b]) => a - b).map(([, row]) => row),
  };
}

/** A single value of every moment and how to show it. */
export interface ValueChart {
  name: string;
  title: string;
  caption: string;
  axisLabel: string;
  slot: number;
  value(moment: Moment): number | null;
  say(value: number): string;
  /** A line across the chart, such as the least possible value. */
  guide?: number;
}

/** The chart of a single value over time; `null` if no moment has it, or it is always zero. */
export function valueOverTimeFigure(run: Run, chart: ValueChart): HTMLElement | null {
  const moments = run.timeline ?? [];
  const axis = timeAxis(spanOf(moments));
  const points = valueSeries(moments, axis, chart.value);
  if (points.every(({ y }) => y === 0)) return null;
  return chartFigure(
    {
      name: chart.name,
      title: chart.title,
      spoken: `${chart.title} over ${axis.label}; at the end ${chart.say(points.at(-1)!.y)}.`,
      caption: [chart.caption],
      table: () => ({
        caption: `${chart.title} over the run.`,
        columns: [numbers(axis.label), numbers(chart.axisLabel)],
        rows: points.map((point) => [axis.say(point.x), chart.say(point.y)]),
      }),
    },
    (width) => drawValue(points, axis, chart, width, endOf(moments, axis)),
  ).element;
}

/** Bounds that two or more charts share, so that they can be compared by eye. */
export interface SharedBounds {
  x: [number, number];
  y: [number, number];
}

/** Draws one line; small charts give shared bounds and a height. */
export function drawValue(
  points: SeriesPoint[],
  axis: TimeAxis,
  chart: Pick<ValueChart, "axisLabel" | "slot" | "say" | "guide">,
  width: number,
  span: number,
  height = 230,
  bounds?: SharedBounds,
): Readable {
  const margins = { ...MARGINS, marginLeft: 56 };
  const greatest = points.reduce((top, point) => Math.max(top, point.y), 0);
  const top = Math.max(greatest, (chart.guide ?? 0) * 1.2) * 1.06 || 1;
  const colour = seriesColour(chart.slot);
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: {
      ...timeScale(axis, width),
      domain: bounds?.x ?? [0, span],
    },
    y: {
      domain: bounds?.y ?? [0, top],
      label: chart.axisLabel,
      labelArrow: "none",
      ticks: 4,
      tickFormat: plain,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: 4 }),
      Plot.ruleY([0], { stroke: "currentColor" }),
      chart.guide === undefined
        ? []
        : Plot.ruleY([chart.guide], { stroke: "var(--ink-soft)", strokeDasharray: "2 3" }),
      Plot.lineY(points, {
        x: "x",
        y: "y",
        stroke: colour,
        strokeWidth: 1.8,
        clip: bounds !== undefined,
      }),
      points.length === 1 ? Plot.dot(points, { x: "x", y: "y", fill: colour }) : [],
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = points.map((point) => ({
    x: x(point.x),
    y: Math.max(margins.marginTop, y(point.y)),
    dots: [{ y: Math.max(margins.marginTop, y(point.y)), colour }],
    text: () => ({
      title: axis.say(point.x),
      rows: [{ label: chart.axisLabel, value: chart.say(point.y), colour }],
    }),
  }));
  return {
    drawing,
    stops,
    nearest: "x",
    rule: { top: margins.marginTop, bottom: height - margins.marginBottom },
  };
}
