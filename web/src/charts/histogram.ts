/** Wear histogram: how many PEBs (or blocks) have how many erases, by group. */
import * as Plot from "@observablehq/plot";
import type { Wear, WearUnit } from "../schema.js";
import { capital, counted, plain, whole } from "../format.js";
import {
  besideBars,
  binLayout,
  countTicks,
  fillBins,
  stackedBars,
  wholeTicks,
  type Bar,
  type Bin,
} from "../layout/binning.js";
import {
  extentOf,
  groupFacts,
  groupIndex,
  groupsOf,
  type GroupFacts,
  type NamedGroup,
} from "../layout/groups.js";
import { choice } from "../ui/choice.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Stop } from "../ui/readout.js";
import { numbers, words, type TableText } from "../ui/table.js";
import { drawPlot, HAIRLINE, tickCount, toPixels } from "./plot.js";

const WANTED_BINS = 60;
const HEIGHT = 300;
/** Where bars begin on a logarithmic axis, so that a bar of one PEB can be seen. */
const LOG_FLOOR = 0.7;

/** What the reader chose to see; kept while runs are changed. */
export interface HistogramView {
  scale: "linear" | "log";
  /** Index of the only group shown, or `all`. */
  range: string;
}

interface Binned {
  bins: Bin[];
  width: number;
}

/** The histogram of one run. */
export function histogramFigure(wear: Wear, view: HistogramView): HTMLElement {
  const groups = groupsOf(wear);
  const facts = groupFacts(wear.eraseCounts, groups);
  const index = groupIndex(groups, wear.eraseCounts.length);
  const present = groups.filter((group) => facts.some((fact) => fact.slot === group.slot));
  if (!present.some((group) => String(group.slot) === view.range)) view.range = "all";

  const binned = (): Binned => {
    const fact = facts.find((candidate) => String(candidate.slot) === view.range);
    const [least, greatest] = fact ? [fact.min, fact.max] : extentOf(wear.eraseCounts);
    const layout = binLayout(least, greatest, WANTED_BINS);
    const bins = fillBins(wear.eraseCounts, index, groups.length, layout);
    if (fact === undefined) return { bins, width: layout.width };
    return { bins: bins.map((bin) => only(bin, fact.slot)), width: layout.width };
  };

  const caption = document.createElement("span");
  const describe = (width: number) => {
    const bin =
      width === 1 ? "every erase count has its own bar" : `each bar spans ${whole(width)} erases`;
    const stacking =
      view.range !== "all" || present.length < 2
        ? ""
        : view.scale === "log"
          ? " On the logarithmic axis the groups stand side by side."
          : " Groups are stacked.";
    caption.textContent = `Number of ${wear.unit}s by ${countName(wear)}; ${bin}.${stacking}${enduranceNote(
      wear,
      facts.reduce((m, f) => Math.max(m, f.max), 0),
    )}`;
  };

  const figure = chartFigure(
    {
      name: "histogram",
      title: "Wear histogram",
      spoken: `Histogram of erase counts. ${facts.map((fact) => sayFacts(fact, wear.unit)).join(" ")}`,
      caption: [caption],
      legend: present.map((group) => ({
        name: legendName(group, facts, wear.unit),
        slot: group.slot,
      })),
      controls: [
        choice(
          `${capital(wear.unit)} axis`,
          [
            { value: "linear", name: "linear" },
            { value: "log", name: "log" },
          ],
          view.scale,
          (scale) => {
            view.scale = scale;
            figure.redraw();
          },
        ),
        ...(present.length > 1
          ? [
              choice(
                "Show",
                [
                  { value: "all", name: `all ${wear.unit}s` },
                  ...present.map((group) => ({ value: String(group.slot), name: group.name })),
                ],
                view.range,
                (range) => {
                  view.range = range;
                  figure.redraw();
                },
              ),
            ]
          : []),
      ],
      table: () => binTable(binned(), present, wear.unit),
    },
    (width) => {
      const { bins, width: binWidth } = binned();
      describe(binWidth);
      return drawHistogram(bins, present, wear, view, width);
    },
  );
  return figure.element;
}

function only(bin: Bin, group: number): Bin {
  const perGroup = bin.perGroup.map((count, place) => (place === group ? count : 0));
  return { ...bin, perGroup, total: perGroup[group] ?? 0 };
}

function drawHistogram(
  bins: Bin[],
  groups: readonly NamedGroup[],
  wear: Wear,
  view: HistogramView,
  width: number,
) {
  const log = view.scale === "log";
  const bars = log ? besideBars(bins, LOG_FLOOR) : stackedBars(bins);
  const breadth = bins[0]!.to - bins[0]!.from;
  // A bar for a single erase count stands over its number, not to the right of it.
  const shift = breadth === 1 ? -0.5 : 0;
  const pad = bins.length < 8 ? 2 * breadth : breadth / 2;
  const first = bins[0]!.from + shift - pad;
  const end = bins[bins.length - 1]!.to + shift + pad;
  const tallest = bars.reduce((top, bar) => Math.max(top, bar.y2), 1);
  const endurance = wear.endurance;
  const showEndurance = endurance !== null && endurance >= first && endurance <= end;
  const margins = { marginLeft: 64, marginRight: 16, marginTop: 26, marginBottom: 44 };
  const drawing = drawPlot({
    width,
    height: HEIGHT,
    ...margins,
    x: {
      domain: [first, end],
      label: "Erase count",
      labelArrow: "none",
      labelAnchor: "center",
      ticks: wholeTicks(first, end, tickCount(width - 80, 80)).filter((count) => count >= 0),
      tickFormat: plain,
    },
    y: log
      ? {
          type: "log",
          domain: [LOG_FLOOR, tallest * 1.25],
          label: `${capital(wear.unit)}s (log)`,
          labelArrow: "none",
          ticks: countTicks(tallest),
          tickFormat: whole,
        }
      : {
          domain: [0, tallest * 1.04],
          label: `${capital(wear.unit)}s`,
          labelArrow: "none",
          ticks: wholeTicks(0, tallest, 5),
          tickFormat: whole,
        },
    marks: [
      Plot.gridY({
        stroke: HAIRLINE,
        strokeOpacity: 1,
        ticks: log ? countTicks(tallest) : wholeTicks(0, tallest, 5),
      }),
      Plot.rect(bars, {
        x1: (bar: Bar) => bar.x1 + shift,
        x2: (bar: Bar) => bar.x2 + shift,
        y1: "y1",
        y2: "y2",
        fill: (bar: Bar) => seriesColour(bar.group),
        insetLeft: 0.5,
        insetRight: 0.5,
      }),
      Plot.ruleY([log ? LOG_FLOOR : 0], { stroke: "currentColor" }),
      showEndurance
        ? [
            Plot.ruleX([endurance], { stroke: "var(--warning)", strokeDasharray: "5 3" }),
            Plot.text([endurance], {
              x: (value: number) => value,
              frameAnchor: "top",
              dy: -14,
              ...besideLine((endurance - first) / (end - first)),
              text: (value: number) => `rated endurance ${whole(value)}`,
              fill: "var(--warning)",
            }),
          ]
        : [],
    ],
  });
  thickenBars(drawing);
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = bins
    .filter((bin) => bin.total > 0)
    .map((bin) => ({
      x: x((bin.from + bin.to) / 2 + shift),
      y: y(Math.min(bin.total, tallest)),
      area: {
        x: x(bin.from + shift),
        y: margins.marginTop,
        width: x(bin.to) - x(bin.from),
        height: HEIGHT - margins.marginTop - margins.marginBottom,
      },
      text: () => ({
        title: `${binName(bin)} erases`,
        rows: groups
          .filter((group) => bin.perGroup[group.slot]! > 0)
          .map((group) => ({
            label: group.name,
            value: counted(bin.perGroup[group.slot]!, wear.unit),
            colour: seriesColour(group.slot),
          })),
      }),
    }));
  return { drawing, stops, nearest: "x" as const };
}

/** Keeps the label of a line within the frame: it stands at the side that has more room. */
function besideLine(share: number): { textAnchor: "start" | "middle" | "end"; dx: number } {
  if (share > 0.75) return { textAnchor: "end", dx: 4 };
  return share < 0.25 ? { textAnchor: "start", dx: -4 } : { textAnchor: "middle", dx: 0 };
}

/** Bars much thinner than a hair would vanish; they keep a least width and height. */
function thickenBars(drawing: SVGSVGElement): void {
  for (const bar of drawing.querySelectorAll("g[aria-label='rect'] rect")) {
    for (const [side, least] of [
      ["width", 1.5],
      ["height", 1],
    ] as const) {
      const length = Number(bar.getAttribute(side));
      if (length >= least) continue;
      const start = side === "width" ? "x" : "y";
      const shift = side === "width" ? (least - length) / 2 : least - length;
      bar.setAttribute(start, String(Number(bar.getAttribute(start)) - shift));
      bar.setAttribute(side, String(least));
    }
  }
}

function binName(bin: Bin): string {
  return bin.to - bin.from === 1 ? whole(bin.from) : `${whole(bin.from)} to ${whole(bin.to - 1)}`;
}

function legendName(
  group: NamedGroup,
  facts: ReturnType<typeof groupFacts>,
  unit: WearUnit,
): string {
  const fact = facts.find((candidate) => candidate.slot === group.slot);
  return fact === undefined ? group.name : `${group.name} (${counted(fact.count, unit)})`;
}

/** What was counted, in words: an SSD's erasures before the run are not among them. */
function countName(wear: Wear): string {
  return wear.unit === "block" ? "erasures in the run" : "erase count at the end of the run";
}

function sayFacts(fact: GroupFacts, unit: WearUnit): string {
  return `${fact.name}: ${counted(fact.count, unit)}, min ${whole(fact.min)}, mean ${plain(fact.avg)}, max ${whole(fact.max)}.`;
}

function enduranceNote(wear: Wear, greatest: number): string {
  if (wear.endurance === null) return "";
  const over = countAbove(wear.eraseCounts, wear.endurance);
  const rated = `Rated endurance: ${whole(wear.endurance)} erases`;
  if (over > 0) return ` ${rated}; ${counted(over, wear.unit)} above it.`;
  return ` ${rated}; the most worn ${wear.unit} has ${whole(greatest)}.`;
}

function countAbove(counts: Uint32Array, limit: number): number {
  let above = 0;
  for (const count of counts) if (count > limit) above += 1;
  return above;
}

function binTable({ bins }: Binned, groups: readonly NamedGroup[], unit: WearUnit): TableText {
  return {
    caption: `${capital(unit)}s by erase count; empty bins are left out.`,
    columns: [
      numbers("From"),
      numbers("To"),
      ...groups.map((group) => numbers(group.name)),
      numbers("Total"),
    ],
    rows: bins
      .filter((bin) => bin.total > 0)
      .map((bin) => [
        whole(bin.from),
        whole(bin.to - 1),
        ...groups.map((group) => whole(bin.perGroup[group.slot] ?? 0)),
        whole(bin.total),
      ]),
  };
}

/** Minimum, mean and maximum erase count of each group. */
export function groupTable(wear: Wear): TableText {
  return {
    caption: `${capital(countName(wear))}, by group.`,
    columns: [
      words("Group"),
      numbers(`${capital(wear.unit)}s`),
      numbers("Min"),
      numbers("Mean"),
      numbers("Max"),
    ],
    rows: groupFacts(wear.eraseCounts, groupsOf(wear)).map((fact) => [
      fact.name,
      whole(fact.count),
      whole(fact.min),
      plain(fact.avg),
      whole(fact.max),
    ]),
  };
}
