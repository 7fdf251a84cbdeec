/**
 * Addresses over time: a cell of the picture is painted where requests began in
 * it. The cells are pixels of an image below the axes, because there may be
 * a hundred thousand.
 */
import * as Plot from "@observablehq/plot";
import { interpolateRgb, rgb, type RGBColor } from "d3";
import type { TracePicture } from "../schema.js";
import { bytes, counted, duration, plain, timeUnitFor, whole } from "../format.js";
import { paintedCells, type PaintedCell, type Shown } from "../layout/traceCells.js";
import { choice } from "../ui/choice.js";
import { html, seriesColour, styleValue, svg } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { onTheme } from "../ui/theme.js";
import { drawPlot, tickCount, toPixels } from "./plot.js";

/** What the reader chose to see; kept while devices are changed. */
export interface PictureView {
  shown: Shown;
}

const READS = 1;
const WRITES = 0;
const TRIMS = 4;
const HEIGHT = 420;
const MARGINS = { marginLeft: 76, marginRight: 16, marginTop: 12, marginBottom: 44 };
/** How strongly a cell with one request stands out. */
const FAINTEST = 0.65;

/** The picture of one device. */
export function pictureFigure(picture: TracePicture, view: PictureView): HTMLElement {
  const total = (place: 2 | 3 | 4) => picture.cells.reduce((sum, cell) => sum + cell[place], 0);
  const kinds = [
    { value: "reads" as const, slot: READS, count: total(2) },
    { value: "writes" as const, slot: WRITES, count: total(3) },
    { value: "trims" as const, slot: TRIMS, count: total(4) },
  ].filter((kind) => kind.count > 0);
  if (!kinds.some((kind) => kind.value === view.shown)) view.shown = "all";
  const figure = chartFigure(
    {
      name: "trace-picture",
      title: "Addresses over time",
      spoken: `Requests by the time and the address at which they begin: ${kinds.map((kind) => `${whole(kind.count)} ${kind.value}`).join(", ")}.`,
      caption: [
        `Each cell spans ${duration(picture.columnNs)} and ${bytes(picture.rowBytes)}; a request counts where it begins. Fuller cells are painted more strongly; where a cell holds several kinds, their colours mix.`,
      ],
      legend: kinds.map((kind) => ({
        name: `${kind.value} (${whole(kind.count)})`,
        slot: kind.slot,
      })),
      controls:
        kinds.length > 1
          ? [
              choice<Shown>(
                "Show",
                [
                  { value: "all", name: "all" },
                  ...kinds.map(({ value }) => ({ value, name: value })),
                ],
                view.shown,
                (shown) => {
                  view.shown = shown;
                  figure.redraw();
                },
              ),
            ]
          : [],
      table: () => rowTable(picture),
    },
    (width) => draw(picture, view, width),
  );
  onTheme(figure.element, () => figure.redraw());
  return figure.element;
}

function draw(picture: TracePicture, view: PictureView, width: number): Readable {
  const end = picture.fromNs + picture.columns * picture.columnNs;
  const unit = timeUnitFor(end);
  const top = picture.fromBytes + picture.rows * picture.rowBytes;
  const scale = 2 ** (10 * Math.floor(Math.log2(Math.max(top, 1)) / 10));
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...MARGINS,
    x: {
      domain: [picture.fromNs / unit.ns, end / unit.ns],
      label: `Time in the trace (${unit.name})`,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: tickCount(width - 80, 90),
      tickFormat: plain,
    },
    y: {
      domain: [picture.fromBytes / scale, top / scale],
      label: null,
      ticks: 6,
      tickFormat: (value: number) => (value === 0 ? "0" : bytes(value * scale)),
    },
    marks: [Plot.frame({ stroke: "var(--hairline)" })],
  });
  const cells = paintedCells(picture, view.shown);
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const left = x(picture.fromNs / unit.ns);
  const upper = y(top / scale);
  const cell = {
    width: (x(end / unit.ns) - left) / picture.columns,
    height: (y(picture.fromBytes / scale) - upper) / picture.rows,
  };
  drawing.prepend(
    svg("image", {
      href: painted(picture, cells),
      x: left,
      y: upper,
      width: cell.width * picture.columns,
      height: cell.height * picture.rows,
      preserveAspectRatio: "none",
      class: "trace-cells",
    }),
  );
  const stops = cells.map((it): Stop => {
    const at = {
      x: left + it.column * cell.width,
      y: upper + (picture.rows - 1 - it.row) * cell.height,
    };
    return {
      x: at.x + cell.width / 2,
      y: at.y + cell.height / 2,
      area: { x: at.x - 2, y: at.y - 2, width: cell.width + 4, height: cell.height + 4 },
      text: () => ({
        title: `${duration(picture.fromNs + it.column * picture.columnNs)}, ${bytes(picture.fromBytes + it.row * picture.rowBytes)}`,
        rows: [
          { label: "reads", value: whole(it.reads), colour: seriesColour(READS), count: it.reads },
          {
            label: "writes",
            value: whole(it.writes),
            colour: seriesColour(WRITES),
            count: it.writes,
          },
          { label: "trims", value: whole(it.trims), colour: seriesColour(TRIMS), count: it.trims },
        ].filter((row) => row.count > 0),
      }),
    };
  });
  return { drawing, stops, nearest: "both" };
}

/** The cells as an image, a pixel a cell, in the colours of the scheme in force. */
function painted(picture: TracePicture, cells: readonly PaintedCell[]): string {
  const colour = (slot: number) => styleValue(`--series-${slot + 1}`);
  const [reads, writes, trims] = [colour(READS), colour(WRITES), colour(TRIMS)];
  const both = interpolateRgb(reads, writes);
  const image = new ImageData(picture.columns, picture.rows);
  for (const cell of cells) {
    const data = cell.reads + cell.writes;
    const mixed = data > 0 ? both(cell.writes / data) : trims;
    const shade: RGBColor =
      data > 0 && cell.trims > 0
        ? rgb(interpolateRgb(mixed, trims)(cell.trims / (data + cell.trims)))
        : rgb(mixed);
    const at = 4 * ((picture.rows - 1 - cell.row) * picture.columns + cell.column);
    image.data[at] = shade.r;
    image.data[at + 1] = shade.g;
    image.data[at + 2] = shade.b;
    image.data[at + 3] = Math.round(255 * (FAINTEST + (1 - FAINTEST) * cell.weight));
  }
  const canvas = html("canvas", { width: picture.columns, height: picture.rows });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** Requests by bands of addresses. */
function rowTable(picture: TracePicture): TableText {
  const joined = Math.ceil(picture.rows / 64);
  const sums = new Map<number, [number, number, number]>();
  for (const [, row, reads, writes, trims] of picture.cells) {
    const band = Math.floor(row / joined);
    const sum = sums.get(band) ?? [0, 0, 0];
    sums.set(band, [sum[0] + reads, sum[1] + writes, sum[2] + trims]);
  }
  const bandBytes = joined * picture.rowBytes;
  return {
    caption: `Requests by address, in bands of ${bytes(bandBytes)}; ${counted(sums.size, "band")} with requests.`,
    columns: [words("From"), numbers("Reads"), numbers("Writes"), numbers("Trims")],
    rows: [...sums]
      .sort(([a], [b]) => a - b)
      .map(([band, sum]) => [
        bytes(picture.fromBytes + band * bandBytes),
        ...sum.map((count) => whole(count)),
      ]),
  };
}
