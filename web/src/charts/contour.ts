/**
 * A measure over two parameters: the figures of the grid as colours, between
 * its points in proportion, lines of equal value, and points to compare with.
 */
import { interpolateRgbBasis, rgb, type RGBColor } from "d3";
import type { FigureAxis, FigureMark, StudyFigure } from "../schema.js";
import { fixed, fourDigits, MISSING, plain, whole } from "../format.js";
import {
  alongLine,
  boxAround,
  fieldOf,
  firstFree,
  isolines,
  lengthOf,
  overlap,
  placeOn,
  rangeOf,
  valueAt,
  type Box,
  type Field,
  type Place,
} from "../layout/contour.js";
import { freshId, html, svg } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { isDark, onTheme } from "../ui/theme.js";
import { drawPlot, type PlotDrawing } from "./plot.js";

/** From a tone near the page's own to one on which its ink can still be read. */
const LIGHT = ["#f2e8cc", "#f4d998", "#eab068", "#d97c4a"];
const DARK = ["#2c2b40", "#3a2f55", "#6b3764", "#a84c58"];
const SHADES = 256;
/** Height of what stands below the frame: ticks, the name of the axis, the legend. */
const BELOW = { axis: 46, legend: 62 };
/** A letter is about as wide. */
const LETTER = 7;
const MARK_LETTER = 6.4;
/** A line shorter than this has no number on it. */
const LABELLED_LINE = 60;

/** The picture of a grid that was read without fault. */
export function contourFigure(figure: StudyFigure): HTMLElement {
  const [least, greatest] = rangeOf(figure.z) ?? [0, 0];
  const chart = chartFigure(
    {
      name: "contour",
      title: figure.title,
      spoken: `${figure.title}, over ${figure.x.label} and ${figure.y.label}: from ${say(figure, least)} to ${say(figure, greatest)}.`,
      caption: [captionText(figure)],
      table: () => gridTable(figure),
    },
    (width) => draw(figure, width),
  );
  onTheme(chart.element, () => chart.redraw());
  return chart.element;
}

/** A figure with four digits that count, and its unit. */
function say(figure: StudyFigure, value: number | null): string {
  if (value === null || Number.isNaN(value)) return MISSING;
  return figure.unit === "" ? fourDigits(value) : `${fourDigits(value)}\u00a0${figure.unit}`;
}

function captionText(figure: StudyFigure): string {
  const empty = figure.z.flat().filter((value) => value === null).length;
  const beyond = figure.marks.filter((mark) => !inside(figure, mark)).map(({ label }) => label);
  return [
    `Dots are the ${whole(figure.x.values.length * figure.y.values.length)} cells that were run; between them colours and lines are drawn in proportion${figure.x.log || figure.y.log ? ", on a logarithmic axis to the logarithm" : ""}.`,
    ...(empty > 0
      ? [`Around the ${whole(empty)} without a figure (open dots) nothing is drawn.`]
      : []),
    ...(figure.marks.length > beyond.length ? ["Rings are points to compare with."] : []),
    ...(beyond.length > 0 ? [`Beyond the axes: ${beyond.join("; ")}.`] : []),
  ].join(" ");
}

function inside(figure: StudyFigure, mark: FigureMark): boolean {
  const on = (place: number) => place >= -1e-9 && place <= 1 + 1e-9;
  return on(placeOn(figure.x, mark.x)) && on(placeOn(figure.y, mark.y));
}

/** Where the frame lies, and how a place in it becomes pixels. */
interface Frame extends Box {
  at(place: Place): Place;
}

function draw(figure: StudyFigure, width: number): Readable {
  const { x, y, z } = figure;
  const longest = y.values.reduce((length, value) => Math.max(length, plain(value).length), 0);
  const margins = {
    marginLeft: Math.max(44, longest * LETTER + 18),
    marginRight: 24,
    marginTop: 30,
    marginBottom: BELOW.axis + BELOW.legend,
  };
  const inner = Math.min(420, Math.max(220, Math.round(width * 0.45)));
  const height = inner + margins.marginTop + margins.marginBottom;
  const across = width - margins.marginLeft - margins.marginRight;
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: { ...scaleOf(x, "x", across), labelAnchor: "center", labelOffset: 38 },
    y: scaleOf(y, "y", inner),
    marks: [],
  });
  const px = (value: number) => margins.marginLeft + placeOn(x, value) * across;
  const py = (value: number) => margins.marginTop + (1 - placeOn(y, value)) * inner;
  const frame: Frame = {
    left: margins.marginLeft,
    top: margins.marginTop,
    width: across,
    height: inner,
    at: ([u, v]) => [margins.marginLeft + u * across, margins.marginTop + (1 - v) * inner],
  };
  const field = fieldOf(x, y, z);
  const colour = colours(z);
  drawing.prepend(
    svg("image", {
      class: "contour-cells",
      href: painted(field, across, inner, colour),
      x: frame.left,
      y: frame.top,
      width: across,
      height: inner,
      preserveAspectRatio: "none",
    }),
  );
  const marks = figure.marks.filter((mark) => inside(figure, mark));
  const taken: Box[] = marks.map((mark) => boxAround(px(mark.x), py(mark.y), 18, 18));
  const markLabels = labelledMarks(figure, marks, frame, taken);
  drawing.append(
    ...lines(figure, field, frame, colour, taken),
    svg("rect", {
      class: "contour-frame",
      x: frame.left,
      y: frame.top,
      width: frame.width,
      height: frame.height,
    }),
    nodes(figure, px, py),
    markLabels,
  );
  drawLegend(drawing, figure, colour, {
    left: frame.left,
    top: frame.top + inner + BELOW.axis,
    width: Math.min(430, across),
    height: BELOW.legend,
  });
  return {
    drawing,
    stops: [...cellStops(figure, px, py, colour), ...markStops(figure, marks, field, px, py)],
    nearest: "both",
    columns: x.values.length,
  };
}

/**
 * An axis by places, 0 to 1, with the values that do not stand too near to the
 * one before: a logarithmic scale of Plot's leaves out numbers of its own choice.
 */
function scaleOf(axis: FigureAxis, name: "x" | "y", length: number) {
  const shown = new Map<number, string>();
  let end = -Infinity;
  for (const value of axis.values) {
    const place = placeOn(axis, value);
    const text = plain(value);
    const half = name === "x" ? (text.length * LETTER) / 2 + 5 : 9;
    if (place * length - half < end) continue;
    shown.set(place, text);
    end = place * length + half;
  }
  return {
    domain: [0, 1],
    label: axis.label,
    labelArrow: "none" as const,
    ticks: [...shown.keys()],
    tickFormat: (place: number) => shown.get(place) ?? "",
  };
}

type Colour = (value: number) => RGBColor;

function colours(z: Field["z"]): Colour {
  const [least, greatest] = rangeOf(z) ?? [0, 0];
  const mix = interpolateRgbBasis(isDark() ? DARK : LIGHT);
  const shades = Array.from({ length: SHADES }, (_, i) => rgb(mix(i / (SHADES - 1))));
  return (value) => {
    const part = greatest > least ? (value - least) / (greatest - least) : 0.5;
    return shades[Math.round(Math.max(0, Math.min(1, part)) * (SHADES - 1))]!;
  };
}

/** The figures as an image of a pixel each two of the page; what has none is left clear. */
function painted(field: Field, across: number, inner: number, colour: Colour): string {
  const [columns, rows] = [Math.ceil(across / 2), Math.ceil(inner / 2)];
  const image = new ImageData(columns, rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const value = valueAt(field, (column + 0.5) / columns, 1 - (row + 0.5) / rows);
      if (Number.isNaN(value)) continue;
      const shade = colour(value);
      const at = 4 * (row * columns + column);
      image.data.set([shade.r, shade.g, shade.b, 255], at);
    }
  }
  const canvas = html("canvas", { width: columns, height: rows });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** The lines of the levels, and on each that is long enough its number, where there is room. */
function lines(
  figure: StudyFigure,
  field: Field,
  frame: Frame,
  colour: Colour,
  taken: Box[],
): SVGElement[] {
  const drawn: SVGElement[] = [];
  const labels: SVGElement[] = [];
  for (const level of figure.levels) {
    const text = fourDigits(level);
    const size = { width: text.length * LETTER + 10, height: 17 };
    for (const line of isolines(field, level).map((places) => places.map(frame.at))) {
      const d = `M${line.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
      drawn.push(svg("path", { class: "contour-line", d }));
      if (lengthOf(line) < LABELLED_LINE) continue;
      const candidates = alongLine(line).map(([x, y]) => ({
        x,
        y,
        box: boxAround(x, y, size.width, size.height),
      }));
      const place = firstFree(candidates, frame, taken);
      if (place === null) continue;
      taken.push(place.box);
      labels.push(
        svg(
          "text",
          {
            class: "contour-label",
            x: place.x,
            y: place.y,
            dy: "0.33em",
            style: `stroke:${colour(level)}`,
          },
          text,
        ),
      );
    }
  }
  return [svg("g", {}, ...drawn), svg("g", {}, ...labels)];
}

function nodes(
  { x, y, z }: StudyFigure,
  px: (value: number) => number,
  py: (value: number) => number,
): SVGElement {
  const dots = y.values.flatMap((row, j) =>
    x.values.map((column, i) => {
      const empty = z[j]![i] === null;
      return svg("circle", {
        class: empty ? "contour-node-empty" : "contour-node",
        cx: px(column),
        cy: py(row),
        r: empty ? 3 : 1.8,
      });
    }),
  );
  return svg("g", {}, ...dots);
}

/** Rings, and their names at the first side at which there is room. */
function labelledMarks(
  figure: StudyFigure,
  marks: readonly FigureMark[],
  frame: Frame,
  taken: Box[],
): SVGElement {
  const group = svg("g", {});
  for (const mark of marks) {
    const [x, y] = frame.at([placeOn(figure.x, mark.x), placeOn(figure.y, mark.y)]);
    group.append(svg("circle", { class: "contour-mark", cx: x, cy: y, r: 5 }));
    const room = Math.floor((frame.width - 10) / MARK_LETTER);
    const text = mark.label.length > room ? `${mark.label.slice(0, room - 1)}…` : mark.label;
    const [width, height] = [text.length * MARK_LETTER + 10, 20];
    const sides = [
      boxAround(x + 11 + width / 2, y, width, height),
      boxAround(x - 11 - width / 2, y, width, height),
      boxAround(x, y - 20, width, height),
      boxAround(x, y + 20, width, height),
    ].map((box) => ({ box: moved(box, frame) }));
    const place = (firstFree(sides, frame, taken) ?? sides[0]!).box;
    taken.push(place);
    group.append(
      svg("rect", {
        class: "contour-mark-box",
        x: place.left,
        y: place.top,
        width: place.width,
        height: place.height,
        rx: 3,
      }),
      svg(
        "text",
        {
          class: "contour-mark-label",
          x: place.left + place.width / 2,
          y: place.top + place.height / 2,
          dy: "0.33em",
          "text-anchor": "middle",
        },
        text,
      ),
    );
  }
  return group;
}

/** A box moved into the frame by the shortest way. */
function moved(box: Box, frame: Box): Box {
  const into = (at: number, length: number, from: number, room: number) =>
    Math.max(from, Math.min(at, from + room - length));
  return {
    ...box,
    left: into(box.left, box.width, frame.left, frame.width),
    top: into(box.top, box.height, frame.top, frame.height),
  };
}

/** A bar of the colours with the least and the greatest figure, and the levels between. */
function drawLegend(drawing: PlotDrawing, figure: StudyFigure, colour: Colour, box: Box): void {
  const [least, greatest] = rangeOf(figure.z) ?? [0, 0];
  const bar = { left: box.left, top: box.top + 22, width: box.width, height: 12 };
  const id = freshId("contour-colours");
  const steps = Array.from({ length: 17 }, (_, i) => i / 16);
  const gradient = svg(
    "linearGradient",
    { id },
    ...steps.map((part) =>
      svg("stop", {
        offset: part,
        "stop-color": colour(least + part * (greatest - least)).formatHex(),
      }),
    ),
  );
  const place = (value: number) =>
    bar.left + (greatest > least ? (value - least) / (greatest - least) : 0.5) * bar.width;
  const inBar = figure.levels.filter((level) => level > least && level < greatest);
  const group = svg(
    "g",
    { class: "contour-legend" },
    svg("defs", {}, gradient),
    svg(
      "text",
      { x: bar.left, y: bar.top - 7, style: "text-anchor:start" },
      [
        figure.unit === "" ? "Colours" : `Colours, ${figure.unit}`,
        ...(inBar.length > 0 ? ["lines mark levels"] : []),
      ].join("; "),
    ),
    svg("rect", {
      x: bar.left,
      y: bar.top,
      width: bar.width,
      height: bar.height,
      fill: `url(#${id})`,
      class: "contour-frame",
      style: `fill:url(#${id})`,
    }),
    ...inBar.map((level) =>
      svg("line", { x1: place(level), x2: place(level), y1: bar.top, y2: bar.top + bar.height }),
    ),
  );
  const taken: Box[] = [];
  const ends = greatest > least ? [least, greatest] : [least];
  for (const value of [...ends, ...inBar]) {
    const text = ends.includes(value) ? endText(value, greatest - least) : fourDigits(value);
    const at = boxAround(place(value), bar.top + 24, text.length * LETTER + 8, 14);
    if (taken.some((other) => overlap(at, other))) continue;
    taken.push(at);
    group.append(svg("text", { x: place(value), y: bar.top + 27 }, text));
  }
  drawing.append(group);
}

/** The end of a scale to a hundredth of its span, with four digits at most. */
function endText(value: number, span: number): string {
  const digits = span > 0 ? Math.max(0, 2 - Math.floor(Math.log10(span))) : 2;
  if (digits > 4) return fourDigits(value);
  const text = fixed(value, digits);
  return text.length > fourDigits(value).length ? fourDigits(value) : text;
}

/** The cells from the upper left, row by row. */
function cellStops(
  figure: StudyFigure,
  px: (value: number) => number,
  py: (value: number) => number,
  colour: Colour,
): Stop[] {
  const rows = figure.y.values.map((row, j) =>
    figure.x.values.map((column, i): Stop => {
      const value = figure.z[j]![i] ?? null;
      const shown = value === null ? "var(--paper)" : colour(value).formatHex();
      return {
        x: px(column),
        y: py(row),
        dots: [{ y: py(row), colour: shown }],
        text: () => ({
          title: value === null ? "no figure" : say(figure, value),
          rows: [
            { label: figure.x.label, value: plain(column) },
            { label: figure.y.label, value: plain(row) },
          ],
        }),
      };
    }),
  );
  return rows.reverse().flat();
}

function markStops(
  figure: StudyFigure,
  marks: readonly FigureMark[],
  field: Field,
  px: (value: number) => number,
  py: (value: number) => number,
): Stop[] {
  return marks.map((mark) => {
    const here = valueAt(field, placeOn(figure.x, mark.x), placeOn(figure.y, mark.y));
    return {
      x: px(mark.x),
      y: py(mark.y),
      text: () => ({
        title: mark.label,
        rows: [
          { label: figure.x.label, value: plain(mark.x) },
          { label: figure.y.label, value: plain(mark.y) },
          ...(mark.z === null ? [] : [{ label: "of the point", value: say(figure, mark.z) }]),
          { label: "of the picture there", value: say(figure, here) },
        ],
      }),
    };
  });
}

/** A row for each value of y, from the greatest, as in the picture. */
function gridTable(figure: StudyFigure): TableText {
  const { x, y, z, title } = figure;
  const unit = figure.unit === "" ? "" : `, ${figure.unit}`;
  const points = figure.marks.map((mark) => {
    const of = mark.z === null ? "" : `: ${say(figure, mark.z)}`;
    return `${mark.label}, at ${plain(mark.x)} and ${plain(mark.y)}${of}`;
  });
  const compared = points.length === 0 ? "" : ` Points to compare with: ${points.join("; ")}.`;
  return {
    caption: `${title}${unit}. Rows: ${y.label}. Columns: ${x.label}.${compared}`,
    columns: [words(y.label), ...x.values.map((value) => numbers(plain(value)))],
    rows: y.values
      .map((row, j) => [
        plain(row),
        ...z[j]!.map((value) => (value === null ? MISSING : fourDigits(value))),
      ])
      .reverse(),
  };
}
