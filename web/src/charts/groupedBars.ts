/** Bars of a study: a measure of runs that differ by name, in groups. */
import * as Plot from "@observablehq/plot";
import { ticks } from "d3";
import { fourDigits, MISSING, plain, whole } from "../format.js";
import { barPlaces, barScale, shownName, type BarPlace } from "../layout/groupedBars.js";
import type { StudyBars } from "../schema.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, toPixels } from "./plot.js";

/** A letter is about as wide. */
const LETTER = 7;
const HEIGHT = 300;

/** The chart of bars that were read without fault. */
export function groupedBarsFigure(bars: StudyBars): HTMLElement {
  const { title, groups, series } = bars;
  return chartFigure(
    {
      name: "grouped-bars",
      title,
      spoken: `${title}. ${groups.map((group, at) => sayGroup(bars, group, at)).join(" ")}`,
      caption: [captionText(bars)],
      legend: series.map((name, slot) => ({ name, slot })),
      table: () => barsTable(bars),
    },
    (width) => draw(bars, width),
  ).element;
}

function say({ unit }: StudyBars, value: number): string {
  return unit === "" ? fourDigits(value) : `${fourDigits(value)}\u00a0${unit}`;
}

function sayGroup(bars: StudyBars, group: string, at: number): string {
  const values = bars.series.flatMap((name, slot) => {
    const value = bars.values[at]![slot]!;
    return value === null ? [] : [`${name} ${say(bars, value)}`];
  });
  return `${group}: ${values.length === 0 ? "no result" : values.join(", ")}.`;
}

function captionText(bars: StudyBars): string {
  const empty = bars.values.flat().filter((value) => value === null).length;
  return [
    bars.log
      ? "The scale is logarithmic: compare heights by their numbers."
      : "A bar for each run.",
    ...(empty > 0 ? [`${whole(empty)} without a result ${empty === 1 ? "is" : "are"} empty.`] : []),
  ].join(" ");
}

function draw(bars: StudyBars, width: number): Readable {
  const scale = barScale(bars);
  const steps = bars.log ? scale.decades : ticks(...scale.domain, 5);
  const longest = Math.max(...steps.map((value) => plain(value).length));
  const margins = {
    marginLeft: Math.max(48, longest * LETTER + 14),
    marginRight: 18,
    marginTop: 26,
    marginBottom: 30,
  };
  const inner = width - margins.marginLeft - margins.marginRight;
  const room = Math.floor((inner / bars.groups.length - 6) / LETTER);
  const places = barPlaces(bars);
  const base = Math.max(0, scale.domain[0]);
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...margins,
    x: {
      domain: [0, bars.groups.length],
      label: null,
      ticks: bars.groups.map((_, at) => at + 0.5),
      tickFormat: (place: number) => shownName(bars.groups[Math.floor(place)] ?? "", room),
      tickSize: 0,
    },
    y: {
      type: bars.log ? "log" : "linear",
      domain: scale.domain,
      label: [bars.unit, bars.log && "(log)"].filter(Boolean).join(" ") || null,
      labelArrow: "none",
      ticks: steps,
      tickFormat: plain,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: steps }),
      Plot.rect(places, {
        x1: "from",
        x2: "to",
        y1: (place: BarPlace) => (bars.log ? base : Math.min(0, place.value)),
        y2: (place: BarPlace) => (bars.log ? place.value : Math.max(0, place.value)),
        fill: (place: BarPlace) => seriesColour(place.slot),
        insetLeft: 0.5,
        insetRight: 0.5,
      }),
      Plot.ruleY([base], { stroke: "currentColor" }),
    ],
  });
  const px = toPixels(drawing, "x");
  const py = toPixels(drawing, "y");
  const stops: Stop[] = places.map((place) => ({
    x: px((place.from + place.to) / 2),
    y: py(place.value),
    text: () => ({
      title: bars.groups[place.group] ?? "",
      rows: [
        {
          label: bars.series[place.slot] ?? "",
          value: say(bars, place.value),
          colour: seriesColour(place.slot),
        },
      ],
    }),
  }));
  return { drawing, stops, nearest: "x" };
}

function barsTable(bars: StudyBars): TableText {
  const { title, unit, groups, series, values } = bars;
  return {
    caption: unit === "" ? `${title}.` : `${title}, ${unit}.`,
    columns: [words(""), ...groups.map((group) => numbers(group))],
    rows: series.map((name, slot) => [
      name,
      ...groups.map((_, at) => {
        const value = values[at]![slot]!;
        return value === null ? MISSING : fourDigits(value);
      }),
    ]),
  };
}
