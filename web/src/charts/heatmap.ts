/**
 * Wear heat map: one cell per PEB or block. The cells are pixels of a canvas, because a
 * device may have hundreds of thousands; labels, group borders and the cursor
 * lie over it as SVG.
 */
import { interpolateRgbBasis, rgb } from "d3";
import type { Wear, WearUnit } from "../schema.js";
import { capital, counted, plain, whole } from "../format.js";
import {
  cellBox,
  heatGrid,
  labelledRows,
  pebAt,
  rangePaths,
  type HeatGrid,
} from "../layout/heatCells.js";
import { heatScale, type HeatScale, type HeatScaleKind } from "../layout/heatScale.js";
import { extentOf, groupIndex, groupsOf, rangesOf, type NamedGroup } from "../layout/groups.js";
import { choice } from "../ui/choice.js";
import { html, onWidth, seriesColour, styleValue, svg } from "../ui/dom.js";
import { frameElement } from "../ui/figure.js";
import { hideReadout, showReadout } from "../ui/readout.js";
import { isDark, onTheme } from "../ui/theme.js";
import { numbers, words, type TableText } from "../ui/table.js";

/** What the reader chose to see; kept while runs are changed. */
export interface HeatmapView {
  scale: HeatScaleKind;
}

/** Both palettes go from the page's own tone to the ink that stands out most on it. */
const LIGHT = ["#f3ecd9", "#f2cf8c", "#e4924c", "#bd4a2b", "#6d1522", "#35081d"];
const DARK = ["#2a2733", "#4f2a5e", "#9a3358", "#dd5a3d", "#f7a541", "#fdf3b4"];
const SHADES = 256;
const LABELS = 58;
/** Cells smaller than this would vanish below the lines between groups. */
const BORDERED_CELL = 4;

/** The heat map of one run. */
export function heatmapFigure(wear: Wear, view: HeatmapView): HTMLElement {
  const counts = wear.eraseCounts;
  const groups = groupsOf(wear);
  const index = groupIndex(groups, counts.length);
  const [least, greatest] = extentOf(counts);
  const canvas = html("canvas", { class: "heat-cells" });
  const overlay = svg("svg", { class: "heat-overlay", "aria-hidden": "true" });
  const cursor = svg("rect", { class: "heat-cursor", visibility: "hidden" });
  const stage = html("div", { class: "heat-stage" }, canvas, overlay);
  const legend = html("div", { class: "heat-legend" });
  const surface = html(
    "div",
    {
      class: "surface heat-surface",
      tabindex: 0,
      role: "img",
      "aria-label": `Heat map of the erase counts of ${counted(counts.length, wear.unit)}, from ${whole(least)} to ${whole(greatest)}. Arrow keys read single cells.`,
    },
    stage,
    legend,
  );
  const caption = html("span", {});

  let grid: HeatGrid | null = null;
  let scale = heatScale(counts, view.scale);
  let current = -1;

  const paint = () => {
    if (grid === null) return;
    const shades = palette();
    paintCells(canvas, grid, counts, scale, shades);
    legend.replaceChildren(...legendParts(scale, shades, view.scale, wear.unit));
  };

  const layOut = (width: number) => {
    grid = heatGrid(counts.length, width - LABELS);
    stage.style.height = `${grid.height}px`;
    stage.style.width = `${grid.width + LABELS}px`;
    drawOverlay(overlay, grid, groups, cursor);
    caption.textContent = captionText(grid, groups, wear.unit);
    leave();
    paint();
  };

  const leave = () => {
    current = -1;
    cursor.setAttribute("visibility", "hidden");
    hideReadout(surface);
  };

  const visit = (peb: number, spoken: boolean, at?: { x: number; y: number }) => {
    if (grid === null) return;
    const box = cellBox(grid, peb);
    current = peb;
    placeCursor(cursor, box.x, box.y, grid);
    const frame = canvas.getBoundingClientRect();
    const group = groups[index[peb]!];
    showReadout(
      surface,
      {
        title: `${capital(wear.unit)} ${whole(peb)}`,
        rows: [
          { label: "erase count", value: whole(counts[peb]!) },
          ...(group
            ? [{ label: "group", value: group.name, colour: seriesColour(group.slot) }]
            : []),
        ],
      },
      at?.x ?? frame.left + box.x + grid.cell,
      at?.y ?? frame.top + box.y,
      spoken,
    );
  };

  stage.addEventListener("pointermove", (event) => {
    if (grid === null) return;
    const frame = canvas.getBoundingClientRect();
    const peb = pebAt(grid, event.clientX - frame.left, event.clientY - frame.top);
    if (peb === null) leave();
    else visit(peb, false, { x: event.clientX, y: event.clientY });
  });
  stage.addEventListener("pointerleave", leave);
  surface.addEventListener("blur", leave);
  surface.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave();
    const target = grid && cellTarget(event.key, current, grid);
    if (target === null) return;
    event.preventDefault();
    visit(target, true);
  });
  onWidth(surface, layOut);
  onTheme(surface, paint);

  return frameElement(
    {
      name: "heatmap",
      title: "Wear heat map",
      spoken: "",
      caption: [caption],
      controls: [
        choice<HeatScaleKind>(
          "Colour scale",
          [
            { value: "zero", name: "from zero" },
            { value: "range", name: "from minimum" },
            { value: "rank", name: "by rank" },
          ],
          view.scale,
          (kind) => {
            view.scale = kind;
            scale = heatScale(counts, kind);
            paint();
          },
        ),
      ],
      table: () => rowTable(wear, grid ?? heatGrid(counts.length, 1024)),
    },
    surface,
  );
}

/** Where a key leads from a cell; `null` if it leads nowhere. */
export function cellTarget(key: string, current: number, grid: HeatGrid): number | null {
  if (key === "Home") return 0;
  if (key === "End") return grid.count - 1;
  const steps: Record<string, number> = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: grid.columns,
    ArrowUp: -grid.columns,
    PageDown: 8 * grid.columns,
    PageUp: -8 * grid.columns,
  };
  const step = steps[key];
  if (step === undefined) return null;
  if (current < 0) return 0;
  const target = current + step;
  return target >= 0 && target < grid.count ? target : current;
}

/** The shades of the scheme in force, packed as the canvas stores pixels. */
function palette(): string[] {
  const mix = interpolateRgbBasis(isDark() ? DARK : LIGHT);
  return Array.from({ length: SHADES }, (_, i) => mix(i / (SHADES - 1)));
}

function shadeOf(scale: HeatScale, count: number): number {
  return Math.round(Math.max(0, Math.min(1, scale.place(count))) * (SHADES - 1));
}

/**
 * Paints one pixel per PEB into a small image and enlarges it without blurring;
 * where cells are large enough, thin lines in the page's tone part them.
 */
function paintCells(
  canvas: HTMLCanvasElement,
  grid: HeatGrid,
  counts: Uint32Array,
  scale: HeatScale,
  shades: readonly string[],
): void {
  const packed = shades.map((shade) => rgb(shade));
  const image = new ImageData(grid.columns, grid.rows);
  for (let peb = 0; peb < counts.length; peb++) {
    const colour = packed[shadeOf(scale, counts[peb]!)]!;
    const at = peb * 4;
    image.data[at] = colour.r;
    image.data[at + 1] = colour.g;
    image.data[at + 2] = colour.b;
    image.data[at + 3] = 255;
  }
  const small = html("canvas", { width: grid.columns, height: grid.rows });
  small.getContext("2d")?.putImageData(image, 0, 0);

  const density = Math.max(1, Math.ceil(window.devicePixelRatio || 1));
  canvas.width = grid.width * density;
  canvas.height = grid.height * density;
  canvas.style.width = `${grid.width}px`;
  canvas.style.height = `${grid.height}px`;
  canvas.style.left = `${LABELS}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (grid.gap === 0) return;
  context.fillStyle = styleValue("--paper");
  const line = grid.gap * density;
  const step = grid.cell * density;
  for (let x = step; x <= canvas.width; x += step)
    context.fillRect(x - line, 0, line, canvas.height);
  for (let y = step; y <= canvas.height; y += step)
    context.fillRect(0, y - line, canvas.width, line);
}

function drawOverlay(
  overlay: SVGSVGElement,
  grid: HeatGrid,
  groups: readonly NamedGroup[],
  cursor: SVGRectElement,
): void {
  overlay.setAttribute("width", String(grid.width + LABELS));
  overlay.setAttribute("height", String(grid.height));
  const labels = labelledRows(grid, 22).map((peb) =>
    svg(
      "text",
      {
        x: LABELS - 8,
        y: (peb / grid.columns) * grid.cell + Math.max(grid.cell / 2, 5),
        dy: "0.33em",
      },
      whole(peb),
    ),
  );
  const borders = bordered(grid, groups)
    .flatMap((group) => rangesOf(group, grid.count))
    .flatMap(({ from, to }) => rangePaths(grid, from, to))
    .filter((path) => path !== "");
  overlay.replaceChildren(
    svg("g", { class: "heat-labels" }, ...labels),
    svg("g", { class: "heat-names" }, ...groupNames(grid, groups)),
    svg(
      "g",
      { transform: `translate(${LABELS},${-grid.gap / 2})` },
      ...borders.map((d) => svg("path", { class: "heat-border", d })),
      cursor,
    ),
  );
}

/** Names above the columns of repeated groups: the map shows where they are, not what they are. */
function groupNames(grid: HeatGrid, groups: readonly NamedGroup[]): SVGElement[] {
  return groups
    .filter(({ every, from }) => every && from < grid.columns)
    .map(({ name, from }) => svg("text", { x: LABELS + from * grid.cell, y: -5 }, name));
}

/** A cell too small to be framed gets a larger frame around it. */
function placeCursor(cursor: SVGRectElement, x: number, y: number, grid: HeatGrid): void {
  const side = Math.max(grid.cell, 7);
  const shift = (side - grid.cell) / 2;
  const attributes = {
    x: x - shift,
    y: y - shift,
    width: side,
    height: side,
    visibility: "visible",
  };
  for (const [name, value] of Object.entries(attributes)) cursor.setAttribute(name, String(value));
}

function legendParts(
  scale: HeatScale,
  shades: readonly string[],
  kind: HeatScaleKind,
  unit: WearUnit,
): Node[] {
  const steps = Array.from({ length: 17 }, (_, i) => shades[Math.round((i / 16) * (SHADES - 1))]);
  const names: Record<HeatScaleKind, string> = {
    zero: "Erase count",
    range: "Erase count",
    rank: `Erase count at quartiles (equal colour steps hold equally many ${unit}s)`,
  };
  const bar = html("div", {
    class: "heat-legend-bar",
    style: `background:linear-gradient(to right, ${steps.join(",")})`,
  });
  const marks = scale.marks.map((mark) =>
    html("span", { class: "heat-legend-mark", style: `left:${mark.at * 100}%` }, whole(mark.count)),
  );
  return [
    html("div", { class: "heat-legend-name" }, names[kind]),
    bar,
    html("div", { class: "heat-legend-marks" }, ...marks),
  ];
}

/** The groups that the map parts by lines. */
function bordered(grid: HeatGrid, groups: readonly NamedGroup[]): readonly NamedGroup[] {
  return grid.cell >= BORDERED_CELL ? groups : [];
}

function captionText(grid: HeatGrid, groups: readonly NamedGroup[], unit: WearUnit): string {
  const border = bordered(grid, groups).length > 1 ? " Lines part the groups." : "";
  return `One cell per ${unit}, ${whole(grid.columns)} in a row, in order of their numbers from the upper left; numbers at the left name the first ${unit} of a row.${border}`;
}

/** Least, mean and greatest erase count of each row of the grid, rows joined where there are many. */
function rowTable({ eraseCounts: counts, unit }: Wear, grid: HeatGrid): TableText {
  const joined = Math.ceil(grid.rows / 256) * grid.columns;
  const rows: string[][] = [];
  for (let from = 0; from < counts.length; from += joined) {
    const part = counts.subarray(from, from + joined);
    const [least, greatest] = extentOf(part);
    const mean = part.reduce((sum, count) => sum + count, 0) / part.length;
    rows.push([
      `${whole(from)} to ${whole(from + part.length - 1)}`,
      whole(least),
      plain(Math.round(mean * 10) / 10),
      whole(greatest),
    ]);
  }
  return {
    caption: "Erase counts by rows of the map.",
    columns: [words(`${capital(unit)}s`), numbers("Min"), numbers("Mean"), numbers("Max")],
    rows,
  };
}
