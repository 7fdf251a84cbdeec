/**
 * Lets a reader take exact numbers from a chart: with the pointer, by touch, or
 * with the arrow keys once the chart has the focus. One readout box serves the
 * whole page.
 */
import { html, svg, type Child } from "./dom.js";

/** One line of the readout box. */
export interface ReadoutRow {
  label: string;
  value: string;
  /** Colour of the series the line tells of. */
  colour?: string;
}

/** What the readout box says at one place. */
export interface ReadoutText {
  title: string;
  rows: ReadoutRow[];
}

/** A place of a chart that has numbers, in pixels of the drawing. */
export interface Stop {
  x: number;
  y: number;
  /** Points to mark at this stop. */
  dots?: { y: number; x?: number; colour: string }[];
  /** Area to mark at this stop. */
  area?: { x: number; y: number; width: number; height: number };
  text(): ReadoutText;
}

/** How the stop nearest to the pointer is found. */
export type Nearest = "x" | "y" | "both";

/** A drawing with its stops, in the order in which the arrow keys visit them. */
export interface Readable {
  drawing: SVGSVGElement;
  stops: Stop[];
  nearest: Nearest;
  /** Stops in a row, if they lie in rows from above: up and down then lead from row to row. */
  columns?: number;
  /** Upper and lower end of the line that marks a stop; none if absent. */
  rule?: { top: number; bottom: number };
}

let box: HTMLElement | null = null;
/** The drawing that the box tells of. */
let source: Element | null = null;
let announcer: HTMLElement | null = null;

function readoutBox(): HTMLElement {
  if (box === null) {
    box = html("div", { class: "readout-box", role: "tooltip", id: "readout", hidden: true });
    announcer = html("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    document.body.append(box, announcer);
    window.addEventListener("scroll", () => hideReadout(), { passive: true });
  }
  return box;
}

/** Shows the box beside a point of the window, for a drawing; `spoken` also announces it. */
export function showReadout(
  drawing: Element,
  text: ReadoutText,
  clientX: number,
  clientY: number,
  spoken = false,
): void {
  const target = readoutBox();
  const rows = text.rows.map((row) =>
    html(
      "div",
      { class: "readout-row" },
      html("span", { class: "readout-label" }, swatch(row.colour), row.label),
      html("span", { class: "readout-value" }, row.value),
    ),
  );
  target.replaceChildren(html("div", { class: "readout-title" }, text.title), ...rows);
  target.hidden = false;
  source = drawing;
  const { width, height } = target.getBoundingClientRect();
  const rightOf = clientX + 16;
  const left =
    rightOf + width > document.documentElement.clientWidth - 8 ? clientX - width - 16 : rightOf;
  const above = clientY - height - 12;
  const top = above < 8 ? clientY + 18 : above;
  target.style.left = `${Math.max(8, left)}px`;
  target.style.top = `${Math.max(8, Math.min(top, window.innerHeight - height - 8))}px`;
  if (spoken && announcer !== null) {
    announcer.textContent = [text.title, ...text.rows.map((r) => `${r.label}: ${r.value}`)].join(
      ", ",
    );
  }
}

/** Takes the box away; with `part`, only if it tells of a drawing in it. */
export function hideReadout(part?: Element): void {
  if (box !== null && (part === undefined || part.contains(source))) box.hidden = true;
}

function swatch(colour: string | undefined): Child {
  return colour === undefined
    ? null
    : html("i", { class: "swatch", style: `background:${colour}` });
}

/** Index of the stop nearest to a point of the drawing; -1 without stops. */
export function nearestStop(stops: readonly Stop[], x: number, y: number, by: Nearest): number {
  let best = -1;
  let least = Infinity;
  stops.forEach((stop, index) => {
    const dx = by === "y" ? 0 : stop.x - x;
    const dy = by === "x" ? 0 : stop.y - y;
    const distance = dx * dx + dy * dy;
    if (distance < least) {
      least = distance;
      best = index;
    }
  });
  return best;
}

/** Makes a drawing readable: `surface` is the focusable element around it. */
export function attachReadout(surface: HTMLElement, readable: Readable): void {
  const { drawing, stops } = readable;
  const marks = svg("g", { class: "readout-marks", "aria-hidden": "true" });
  drawing.append(marks);
  let current = -1;

  const leave = () => {
    current = -1;
    marks.replaceChildren();
    hideReadout(drawing);
  };

  const visit = (index: number, spoken: boolean, at?: { x: number; y: number }) => {
    const stop = stops[index];
    if (stop === undefined) return;
    if (index !== current) {
      current = index;
      marks.replaceChildren(...markStop(stop, readable));
    }
    const frame = drawing.getBoundingClientRect();
    const [x, y] = [at?.x ?? frame.left + stop.x, at?.y ?? frame.top + stop.y];
    showReadout(drawing, stop.text(), x, y, spoken);
  };

  drawing.addEventListener("pointermove", (event) => {
    const frame = drawing.getBoundingClientRect();
    const x = event.clientX - frame.left;
    const y = event.clientY - frame.top;
    visit(nearestStop(stops, x, y, readable.nearest), false, {
      x: event.clientX,
      y: event.clientY,
    });
  });
  drawing.addEventListener("pointerleave", leave);
  surface.onblur = leave;
  surface.onkeydown = (event) => {
    const target = keyTarget(event.key, current, stops.length, readable.columns);
    if (event.key === "Escape") leave();
    if (target === null) return;
    event.preventDefault();
    visit(target, true);
  };
}

/** Where a key leads among `count` stops, in rows of `columns` if they are; `null` if it leads nowhere. */
export function keyTarget(key: string, current: number, count: number, columns = 1): number | null {
  if (count === 0) return null;
  const clamp = (index: number) => Math.max(0, Math.min(count - 1, index));
  switch (key) {
    case "ArrowDown":
      return clamp(current < 0 ? 0 : current + columns);
    case "ArrowUp":
      return clamp(current < 0 ? count - 1 : current - columns);
    case "ArrowRight":
      return clamp(current + 1);
    case "ArrowLeft":
      return clamp(current < 0 ? count - 1 : current - 1);
    case "PageDown":
      return clamp(current + 10);
    case "PageUp":
      return clamp(current - 10);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

function markStop(stop: Stop, readable: Readable): SVGElement[] {
  const marks: SVGElement[] = [];
  if (stop.area !== undefined) {
    marks.push(svg("rect", { class: "readout-area", ...stop.area }));
  }
  if (readable.rule !== undefined) {
    const { top, bottom } = readable.rule;
    marks.push(svg("line", { class: "readout-rule", x1: stop.x, x2: stop.x, y1: top, y2: bottom }));
  }
  for (const dot of stop.dots ?? []) {
    marks.push(
      svg("circle", {
        class: "readout-dot",
        cx: dot.x ?? stop.x,
        cy: dot.y,
        r: 4,
        style: `fill:${dot.colour}`,
      }),
    );
  }
  return marks;
}
