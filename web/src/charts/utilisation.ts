/** Bars of the share of the run in which each die, or each channel, was at work. */
import * as Plot from "@observablehq/plot";
import { percent, whole } from "../format.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Readable, Stop } from "../ui/readout.js";
import { numbers } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";

/** What the bars stand for. */
export interface Workers {
  name: "dies" | "channels";
  one: string;
  title: string;
  slot: number;
}

export const DIES: Workers = { name: "dies", one: "Die", title: "Dies at work", slot: 1 };
export const CHANNELS: Workers = {
  name: "channels",
  one: "Channel",
  title: "Channels at work",
  slot: 2,
};

/** The shares of one kind of worker; `null` if none was at work. */
export function utilisationFigure(
  shares: readonly number[] | null,
  workers: Workers,
): HTMLElement | null {
  if (shares === null || shares.every((share) => share === 0)) return null;
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const least = shares.reduce((low, share) => Math.min(low, share), 1);
  const greatest = shares.reduce((top, share) => Math.max(top, share), 0);
  return chartFigure(
    {
      name: workers.name,
      title: workers.title,
      spoken: `${workers.title}: on average ${percent(mean)}, from ${percent(least)} to ${percent(greatest)}.`,
      caption: [
        `Share of the run in which each of ${whole(shares.length)} was at work; ${percent(mean)} on average, the dotted line.`,
      ],
      table: () => ({
        caption: `${workers.title}.`,
        columns: [numbers(workers.one), numbers("Share of the run")],
        rows: shares.map((share, place) => [whole(place), percent(share, 2)]),
      }),
    },
    (width) => drawShares(shares, mean, workers, width),
  ).element;
}

function drawShares(
  shares: readonly number[],
  mean: number,
  workers: Workers,
  width: number,
): Readable {
  const height = 210;
  const margins = { marginLeft: 56, marginRight: 16, marginTop: 26, marginBottom: 44 };
  const colour = seriesColour(workers.slot);
  const bars = shares.map((share, place) => ({ place, share }));
  const step = Math.max(1, Math.ceil(shares.length / tickCount(width - 72, 34)));
  const gap = Math.min(0.2, shares.length > 100 ? 0 : 0.12);
  const numbered = bars.filter(({ place }) => place % step === 0).map(({ place }) => place);
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: {
      domain: [-0.5, shares.length - 0.5],
      label: workers.one,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: numbered,
      tickFormat: whole,
    },
    y: {
      domain: [0, 1],
      label: "Share of the run",
      labelArrow: "none",
      ticks: [0, 0.25, 0.5, 0.75, 1],
      tickFormat: (share: number) => percent(share, 0),
    },
    marks: [
      Plot.gridY({ stroke: HAIRLINE, strokeOpacity: 1, ticks: [0, 0.25, 0.5, 0.75, 1] }),
      Plot.rect(bars, {
        x1: (bar: { place: number }) => bar.place - 0.5 + gap,
        x2: (bar: { place: number }) => bar.place + 0.5 - gap,
        y1: 0,
        y2: "share",
        fill: colour,
      }),
      Plot.ruleY([mean], { stroke: "var(--ink)", strokeDasharray: "2 3" }),
      Plot.ruleY([0], { stroke: "currentColor" }),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = bars.map(({ place, share }) => ({
    x: x(place),
    y: y(share),
    area: {
      x: x(place - 0.5),
      y: margins.marginTop,
      width: x(place + 0.5) - x(place - 0.5),
      height: height - margins.marginTop - margins.marginBottom,
    },
    text: () => ({
      title: `${workers.one} ${whole(place)}`,
      rows: [{ label: "at work", value: percent(share, 2), colour }],
    }),
  }));
  return { drawing, stops, nearest: "x" };
}
