/** The runs: figures of one at a time, and all of them compared. */
import type { Counter, FlashPart, Run } from "../schema.js";
import { cell, counted, fixed, whole } from "../format.js";
import { eraseCausesFigure, programCausesFigure } from "../charts/bars.js";
import { heatmapFigure, type HeatmapView } from "../charts/heatmap.js";
import { groupTable, histogramFigure, type HistogramView } from "../charts/histogram.js";
import { latencyFigure, latencyTable, type LatencyView } from "../charts/latency.js";
import { valueOverTimeFigure, wearOverTimeFigure } from "../charts/overTime.js";
import { ratioMultiples } from "../charts/ratio.js";
import { operationSlot } from "../charts/throughput.js";
import { amplificationFigure, requestTimeFigure, type TimeView } from "../charts/stacks.js";
import { picker, tabs } from "../ui/choice.js";
import { html, type Child } from "../ui/dom.js";
import { panel, panels, type Panel } from "../ui/panels.js";
import { fold, numbers, tableElement, words, type TableText } from "../ui/table.js";
import { answerLines } from "./answer.js";
import { chainBlock } from "./chain.js";
import { collectionBlock } from "./collection.js";
import {
  amplification,
  erasesFigure,
  flowTable,
  phases,
  requestTable,
  runNotice,
  sysfsBlock,
  throughputFigures,
  utilisationFigures,
} from "./ssdRun.js";

/** What the reader chose to see in the figures; holds across runs. */
export interface Views {
  histogram: HistogramView;
  heatmap: HeatmapView;
  latency: LatencyView;
  time: TimeView;
}

/** What is seen before anyone has chosen. */
export function firstViews(): Views {
  return {
    histogram: { scale: "linear", range: "all" },
    heatmap: { scale: "zero" },
    latency: { axis: "share" },
    time: { axis: "share" },
  };
}

/** More runs than these are chosen from a list, and their comparison is folded away. */
const MOST_TABS = 10;

/**
 * All runs: one without tabs, several with. The answer of a run that is alone stands in the head of
 * the page, under its title.
 */
export function runsSection(runs: readonly Run[], id: string, views: Views): HTMLElement {
  const only = runs.length === 1 ? runs[0]! : null;
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, only === null ? "Runs" : "Run"),
    only !== null
      ? html("div", {}, howItEnded(only), runBody(only, views))
      : (runs.length > MOST_TABS ? picker : tabs)(
          runs.length > MOST_TABS ? `Choose one of ${runs.length} runs` : "Choose a run",
          runs.map((run) => run.name),
          (place) => {
            const run = runs[place]!;
            return html("div", {}, answerLines(run.answer), howItEnded(run), runBody(run, views));
          },
        ),
  );
}

/** Why the run ended; its notice tells the end of a drive's life. */
function howItEnded(run: Run): Child {
  return run.ended !== null && run.endOfLife === null && html("p", { class: "ended" }, run.ended);
}

/** The groups' ratio of all runs side by side, and write amplification of those on SSDs; nothing if no run has either. */
export function comparisonSection(runs: readonly Run[], id: string): HTMLElement | null {
  const drives = runs.filter((run) => run.kind === "ssd");
  const ratios = ratioMultiples(runs.filter((run) => run.kind !== "ssd"));
  const amplified = amplificationFigure(drives);
  if (ratios === null && amplified === null) return null;
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Runs compared"),
    ratios !== null &&
      html(
        "p",
        { class: "lead" },
        "Mean erase count of the first group divided by that of the last, over time. All panels share their axes; the dotted line marks even wear.",
      ),
    ratios,
    amplified !== null && drives.length > MOST_TABS
      ? fold(`Write amplification of ${drives.length} runs`, amplified)
      : amplified,
  );
}

function runBody(run: Run, views: Views): HTMLElement {
  return panels(run.kind === "ssd" ? drivePanels(run, views) : flashPanels(run, views));
}

/** A drive is asked first how fast it was and why, then what that cost in flash and wear. */
function drivePanels(run: Run, views: Views): (Panel | Panel[])[] {
  const latency = run.latency ?? [];
  return [
    runNotice(run),
    latency.length > 0 ? requestTable(latency) : null,
    flowTable(run.flows),
    phases(run),
    ...throughputFigures(run),
    panel("where the time of a request went", requestTimeFigure(latency, views.time)),
    latencyBlock(run, views),
    amplification(run),
    [programCauses(run), erasesFigure(run)],
    utilisationFigures(run),
    ...wearFigures(run, views),
    wearOverTimeFigure(run),
    countersBlock(run.counters),
    partBlock(run.part),
    sysfsBlock(run.sysfs),
  ];
}

function flashPanels(run: Run, views: Views): (Panel | Panel[])[] {
  return [
    chainBlock(run.chain),
    collectionBlock(run.collection),
    ...wearFigures(run, views),
    panel("erase count over time", wearOverTimeFigure(run)),
    [wafFigure(run), freeFigure(run)],
    [programCauses(run), eraseCauses(run)],
    latencyBlock(run, views),
    countersBlock(run.counters),
    partBlock(run.part),
  ];
}

function wearFigures(run: Run, views: Views): Panel[] {
  const { wear } = run;
  if (wear === null) return [{ absent: `wear by ${run.kind === "ssd" ? "block" : "PEB"}` }];
  if (wear.eraseCounts.every((count) => count === 0))
    return [{ absent: `wear (no ${wear.unit} was erased)` }];
  return [
    html("div", { class: "plain-table" }, tableElement(groupTable(wear))),
    histogramFigure(wear, views.histogram),
    heatmapFigure(wear, views.heatmap),
  ];
}

function wafFigure(run: Run): Panel {
  const figure = valueOverTimeFigure(run, {
    name: "waf",
    title: "Write amplification",
    caption: "Bytes programmed into flash per byte written by the host; the dotted line marks one.",
    axisLabel: "Factor",
    slot: 3,
    value: (moment) => moment.waf,
    say: (value) => fixed(value, 3),
    guide: 1,
  });
  return panel("write amplification over time", figure);
}

function freeFigure(run: Run): Panel {
  const figure = valueOverTimeFigure(run, {
    name: "free",
    title: "Free PEBs",
    caption: "PEBs that hold no data and wait to be used.",
    axisLabel: "PEBs",
    slot: 2,
    value: (moment) => moment.free,
    say: whole,
  });
  return panel("free PEBs", figure);
}

function programCauses(run: Run): Panel {
  return panel("programmed bytes by cause", programCausesFigure(run.causes ?? []));
}

function eraseCauses(run: Run): Panel {
  return panel("erases by cause", eraseCausesFigure(run.eraseCauses ?? []));
}

function latencyBlock(run: Run, views: Views): Panel {
  if (run.latency === null) return { absent: "latency" };
  const slots = run.kind === "ssd" ? operationSlot : undefined;
  return html(
    "div",
    { class: "block" },
    latencyFigure(run.latency, views.latency, slots),
    latencyTable(run.latency),
  );
}

/** Counters with a value; those that are zero stand folded below. */
function countersBlock(counters: readonly Counter[] | null): Panel {
  if (counters === null) return { absent: "counters" };
  const table = (some: readonly Counter[], caption: string): TableText => ({
    caption,
    columns: [words("Counter"), numbers("Value"), words("Unit"), words("Id")],
    rows: some.map(({ name, value, unit, id }) => [name, cell(value), unit, id ?? ""]),
  });
  const zero = counters.filter(({ value }) => value === 0);
  const others = counters.filter(({ value }) => value !== 0);
  return html(
    "section",
    { class: "figure figure-counters" },
    html("div", { class: "figure-head" }, html("h3", {}, "Counters")),
    others.length > 0 &&
      html(
        "div",
        { class: "plain-table counters" },
        tableElement(
          table(others, "Counters of the run. Claims and scripts name them by their id."),
        ),
      ),
    zero.length > 0 &&
      html(
        "details",
        { class: "counters-zero" },
        html("summary", {}, `${counted(zero.length, "counter")} at zero`),
        html("div", { class: "counters" }, tableElement(table(zero, "Counters at zero."))),
      ),
  );
}

/** The part of the experiment, and which of its figures nobody has read in a source. */
function partBlock(part: FlashPart | null): HTMLElement | null {
  if (part === null) return null;
  const count = part.recalled.length;
  const share =
    count === 0
      ? "Every figure that this run uses has a source."
      : `${count} of its ${part.values ?? "?"} figures are recalled: written down from memory, not read in a source. Use them for design, not for acceptance.`;
  const rows = part.recalled.map((figure) => [
    figure.key,
    figure.value,
    figure.what || "all of it",
  ]);
  const table = tableElement({
    caption: `Figures of ${part.name} that are recalled.`,
    columns: [words("Key"), words("Value"), words("What is recalled")],
    rows,
  });
  return html(
    "section",
    { class: "figure figure-part" },
    html("div", { class: "figure-head" }, html("h3", {}, `Part: ${part.name}`)),
    html("p", { class: "part-title" }, `${part.title}. ${share}`),
    count > 0 && html("div", { class: "plain-table counters" }, table),
  );
}
