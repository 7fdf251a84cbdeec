/** What all charts drawn with Observable Plot share. */
import * as Plot from "@observablehq/plot";

/** A Plot figure is an SVG element that also tells its scales. */
export type PlotDrawing = SVGSVGElement & Plot.Plot;

/** Ink of lines that only guide the eye. */
export const HAIRLINE = "var(--hairline)";

/** Draws a plot in the style of the page; a plot without legends is always an SVG element. */
export function drawPlot(options: Plot.PlotOptions): PlotDrawing {
  const drawing = Plot.plot({
    ...options,
    className: "plot",
    style: { background: "none", overflow: "visible", ...(options.style as object | undefined) },
  });
  return drawing as unknown as PlotDrawing;
}

/** Turns values into pixels with one of the drawing's scales. */
export function toPixels(drawing: PlotDrawing, scale: "x" | "y"): (value: number) => number {
  const found = drawing.scale(scale);
  return (value) => (found === undefined ? 0 : (found.apply(value) as number));
}

/** About one tick in `spacing` pixels. */
export function tickCount(length: number, spacing: number): number {
  return Math.max(2, Math.floor(length / spacing));
}
