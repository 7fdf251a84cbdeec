/**
 * The frame of every chart: heading, legend, controls, the drawing, a caption
 * that says what is drawn, and the same numbers as a table.
 */
import { freshId, html, onWidth, seriesColour, svg, type Child } from "./dom.js";
import type { UnreadableFigure } from "../schema.js";
import { attachReadout, hideReadout, type Readable } from "./readout.js";
import { tableDetails, type TableText } from "./table.js";

/** Texts and parts of a figure around its drawing. */
export interface FigureFrame {
  /** Stable name of the figure, used as a class. */
  name: string;
  title: string;
  /** What the drawing shows, for readers who do not see it. */
  spoken: string;
  caption: Child[];
  legend?: LegendEntry[];
  controls?: HTMLElement[];
  table: () => TableText;
}

/** One name of a legend with the colour slot of its series, or a colour of its own. */
export type LegendEntry = {
  name: string;
  /** The path of its open marker, about the origin. */
  glyph?: string;
} & ({ slot: number } | { colour: string });

/** A figure and the means to draw it anew after a control has changed. */
export interface Figure {
  element: HTMLElement;
  redraw(): void;
}

/** A figure whose drawing is SVG with stops to read. */
export function chartFigure(frame: FigureFrame, draw: (width: number) => Readable): Figure {
  const surface = html("div", {
    class: "surface",
    tabindex: 0,
    role: "img",
    "aria-label": `${frame.spoken} Arrow keys read single values.`,
  });
  let width = 0;
  const redraw = () => {
    if (width === 0) return;
    hideReadout(surface);
    const readable = draw(width);
    readable.drawing.setAttribute("aria-hidden", "true");
    surface.replaceChildren(readable.drawing);
    attachReadout(surface, readable);
  };
  onWidth(surface, (now) => {
    width = now;
    redraw();
  });
  return { element: frameElement(frame, surface), redraw };
}

/** The frame around any surface. */
export function frameElement(frame: FigureFrame, surface: HTMLElement): HTMLElement {
  const titleId = freshId("figure");
  return html(
    "figure",
    { class: `figure figure-${frame.name}`, "aria-labelledby": titleId },
    html(
      "div",
      { class: "figure-head" },
      html("h3", { id: titleId }, frame.title),
      frame.controls && html("div", { class: "controls" }, ...frame.controls),
    ),
    frame.legend && frame.legend.length > 1 && legendElement(frame.legend),
    surface,
    html("figcaption", {}, ...frame.caption),
    tableDetails(frame.table),
  );
}

/** Names beside their colours. */
export function legendElement(entries: readonly LegendEntry[]): HTMLElement {
  return html(
    "div",
    { class: "legend" },
    ...entries.map((entry) => {
      const colour = "colour" in entry ? entry.colour : seriesColour(entry.slot);
      return html(
        "span",
        { class: "legend-entry" },
        entry.glyph === undefined
          ? html("i", { class: "swatch", style: `background:${colour}` })
          : svg(
              "svg",
              { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
              svg("path", { class: "glyph", d: entry.glyph, style: `stroke:${colour}` }),
            ),
        entry.name,
      );
    }),
  );
}

/** A figure that the document has; where its numbers do not hold together, the reason stands in its place. */
export function drawnOrReason<T extends object>(
  figure: T | UnreadableFigure,
  draw: (figure: T) => HTMLElement | null,
): HTMLElement | null {
  return "wrong" in figure ? notDrawn(figure.title, `${figure.wrong}.`) : draw(figure);
}

/** Stands in the place of a figure whose numbers do not hold together. */
export function notDrawn(title: string, explanation: string): HTMLElement {
  return html(
    "section",
    { class: "figure not-drawn" },
    html("div", { class: "figure-head" }, html("h3", {}, title)),
    html("p", {}, html("strong", {}, "Not drawn."), ` ${explanation}`),
  );
}
