/** A measure over one parameter: a line for each combination of the others, with a marker at each value. */
import * as Plot from "@observablehq/plot";
import { symbol, symbolsStroke, ticks } from "d3";
import { fourDigits, MISSING, plain, whole } from "../format.js";
import { placesOn, valueScale, type AxisPlace, type ValueScale } from "../layout/lines.js";
import type { LineFigure } from "../schema.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, toPixels } from "./plot.js";

/** More lines than these cannot be told apart. */
const MOST = 12;
/** A letter is about as wide. */
const LETTER = 7;
/** Letters of a word below the axis. */
const LONGEST = 18;
const HEIGHT = 300;
const MARKER_AREA = 52;

interface Drawn {
  name: string;
  slot: number;
  values: (number | null)[];
}

/** The chart; `null` if no line has a value. */
export function linesFigure(figure: LineFigure): HTMLElement | null {
  const scale = valueScale(figure);
  if (scale === null) return null;
  const { title, x } = figure;
  const places = placesOn(x);
  const drawn = figure.series
    .slice(0, MOST)
    .map(({ name, values }, slot) => ({ name: name || title, slot, values }));
  return chartFigure(
    {
      name: "lines",
      title,
      spoken: `${title} over ${x.label}. ${drawn.map((line) => sayEnds(figure, line, places)).join(" ")}`,
      caption: [captionText(figure, scale)],
      legend: drawn.map(({ name, slot }) => ({
        name,
        slot,
        glyph: symbol(marker(slot), MARKER_AREA)() ?? "",
      })),
      table: () => linesTable(figure, places),
    },
    (width) => draw(figure, drawn, places, scale, width),
  ).element;
}

/**
 * Colour and marker together name a line: there are 8 of the one and 7 of the other. Markers are
 * open, so that those at one place are all seen.
 */
function marker(slot: number) {
  return symbolsStroke[slot % symbolsStroke.length]!;
}

function say({ unit }: LineFigure, value: number): string {
  return unit === "" ? fourDigits(value) : `${fourDigits(value)}\u00a0${unit}`;
}

function sayEnds(figure: LineFigure, line: Drawn, places: readonly AxisPlace[]): string {
  const known = places.filter(({ index }) => line.values[index] !== null);
  const ends = [known[0], known.at(-1)].map(
    (place) => place && `${say(figure, line.values[place.index]!)} at ${place.text}`,
  );
  return `${line.name}: ${ends[0] === undefined ? "no result" : ends.join(", ")}.`;
}

function captionText({ series, x }: LineFigure, { domain, log }: ValueScale): string {
  const empty = series.flatMap(({ values }) => values).filter((value) => value === null).length;
  return [
    x.numbers === null
      ? "Markers are results; lines only join what belongs together."
      : "Markers are results; lines join neighbours.",
    ...(empty > 0
      ? [`${whole(empty)} without a result ${empty === 1 ? "is" : "are"} left out.`]
      : []),
    ...(!log && domain[0] > 0 ? ["The scale does not begin at zero."] : []),
    ...(series.length > MOST
      ? [`Only the first ${MOST} of ${whole(series.length)} lines are drawn; the table has all.`]
      : []),
  ].join(" ");
}

interface Point {
  slot: number;
  x: number;
  /** Not a number where there is no result: it parts the line. */
  y: number;
}

function draw(
  figure: LineFigure,
  drawn: readonly Drawn[],
  places: readonly AxisPlace[],
  scale: ValueScale,
  width: number,
): Readable {
  const words = figure.x.numbers === null;
  const steps = scale.log ? scale.decades : ticks(...scale.domain, 5);
  const longest = Math.max(...steps.map((value) => plain(value).length));
  const margins = {
    marginLeft: Math.max(48, longest * LETTER + 14),
    marginRight: 18,
    marginTop: 26,
    marginBottom: 44,
  };
  const labels = axisLabels(places, words, width - margins.marginLeft - margins.marginRight);
  const points: Point[] = drawn.flatMap(({ slot, values }) =>
    places.map(({ index, place }) => ({ slot, x: place, y: values[index] ?? NaN })),
  );
  const colour = (point: Point) => seriesColour(point.slot);
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...margins,
    x: {
      domain: [-0.02, 1.02],
      label: figure.x.log ? `${figure.x.label} (log)` : figure.x.label,
      labelArrow: "none",
      labelAnchor: "center",
      labelOffset: 40,
      ticks: [...labels.keys()],
      tickFormat: (place: number) => labels.get(place) ?? "",
    },
    y: {
      type: scale.log ? "log" : "linear",
      domain: scale.domain,
      label: [figure.unit, scale.log && "(log)"].filter(Boolean).join(" ") || null,
      labelArrow: "none",
      ticks: steps,
      tickFormat: plain,
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: steps }),
      Plot.ruleY([Math.max(0, scale.domain[0])], { stroke: "currentColor" }),
      Plot.lineY(points, {
        x: "x",
        y: "y",
        z: "slot",
        stroke: colour,
        strokeWidth: 1.6,
        strokeOpacity: words ? 0.35 : 1,
      }),
      Plot.dot(points, {
        x: "x",
        y: "y",
        stroke: colour,
        strokeWidth: 1.6,
        symbol: (point: Point) => marker(point.slot),
        r: Math.sqrt(MARKER_AREA / Math.PI),
      }),
    ],
  });
  const px = toPixels(drawing, "x");
  const py = toPixels(drawing, "y");
  const stops: Stop[] = places.flatMap(({ index, place, text }) => {
    const here = drawn.flatMap((line) => {
      const value = line.values[index] ?? null;
      return value === null ? [] : [{ line, value, colour: seriesColour(line.slot) }];
    });
    if (here.length === 0) return [];
    return {
      x: px(place),
      y: py(here[0]!.value),
      dots: here.map(({ value, colour }) => ({ y: py(value), colour })),
      text: () => ({
        title: `${figure.x.label} ${text}`,
        rows: here.map(({ line, value, colour }) => ({
          label: line.name,
          value: say(figure, value),
          colour,
        })),
      }),
    };
  });
  return {
    drawing,
    stops,
    nearest: "x",
    rule: { top: margins.marginTop, bottom: HEIGHT - margins.marginBottom },
  };
}

/** Texts below the axis by their place: words are shortened to their room; of numbers, those with room are shown. */
function axisLabels(
  places: readonly AxisPlace[],
  words: boolean,
  length: number,
): Map<number, string> {
  const room = Math.min(LONGEST, Math.max(3, Math.floor((length / places.length - 6) / LETTER)));
  const labels = new Map<number, string>();
  let end = -Infinity;
  for (const { place, text } of places) {
    const shown = words && text.length > room ? `${text.slice(0, room - 1)}\u2026` : text;
    const half = (shown.length * LETTER) / 2 + 4;
    if (place * length - half < end) continue;
    labels.set(place, shown);
    end = place * length + half;
  }
  return labels;
}

function linesTable(figure: LineFigure, places: readonly AxisPlace[]): TableText {
  const { title, unit, x, series } = figure;
  return {
    caption: unit === "" ? `${title}.` : `${title}, ${unit}.`,
    columns: [
      x.numbers === null ? words(x.label) : numbers(x.label),
      ...series.map(({ name }) => numbers(name || title)),
    ],
    rows: places.map(({ index, text }) => [
      text,
      ...series.map(({ values }) => {
        const value = values[index] ?? null;
        return value === null ? MISSING : fourDigits(value);
      }),
    ]),
  };
}
