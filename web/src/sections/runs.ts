/** The runs: figures of one at a time, and all of them compared. */
import type { FlashPart, Run } from "../schema.js";
import { cell, fixed, whole } from "../format.js";
import { eraseCausesFigure, programCausesFigure } from "../charts/bars.js";
import { heatmapFigure, type HeatmapView } from "../charts/heatmap.js";
import { groupTable, histogramFigure, type HistogramView } from "../charts/histogram.js";
import { latencyFigure, latencyTable, type LatencyView } from "../charts/latency.js";
import { valueOverTimeFigure, wearOverTimeFigure } from "../charts/overTime.js";
import { ratioMultiples } from "../charts/ratio.js";
import { operationSlot } from "../charts/throughput.js";
import { amplificationFigure, type TimeView } from "../charts/stacks.js";
import { tabs } from "../ui/choice.js";
import { html } from "../ui/dom.js";
import { notRecorded } from "../ui/figure.js";
import { numbers, tableElement, words } from "../ui/table.js";
import {
  amplification,
  erasesFigure,
  phases,
  requestTable,
  requestTime,
  runNotice,
  spanAmplification,
  sysfsBlock,
  throughputFigures,
  utilisationFigures,
} from "./ssdRun.js";

/** What the reader chose to see in the figures; holds across runs. */
interface Views {
  histogram: HistogramView;
  heatmap: HeatmapView;
  latency: LatencyView;
  time: TimeView;
}

/** All runs: one without tabs, several with. */
export function runsSection(runs: readonly Run[], id: string): HTMLElement {
  const views: Views = {
    histogram: { scale: "linear", range: "all" },
    heatmap: { scale: "zero" },
    latency: { axis: "share" },
    time: { axis: "share" },
  };
  const single = runs.length === 1;
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, single ? "Run" : "Runs"),
    single
      ? html("div", {}, html("p", { class: "run-name" }, runs[0]!.name), runBody(runs[0]!, views))
      : tabs(
          "Choose a run",
          runs.map((run) => run.name),
          (place) => runBody(runs[place]!, views),
        ),
  );
}

/** The groups' ratio of all runs side by side, and write amplification of those on SSDs. */
export function comparisonSection(runs: readonly Run[], id: string): HTMLElement {
  const drives = runs.filter((run) => run.kind === "ssd");
  const others = runs.filter((run) => run.kind !== "ssd");
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Runs compared"),
    ...(others.length > 0 ? ratioParts(others) : []),
    drives.length > 0 &&
      (amplificationFigure(drives) ??
        notRecorded("Write amplification by cause", "No run has causes per byte of the host.")),
  );
}

function ratioParts(runs: readonly Run[]): HTMLElement[] {
  return [
    html(
      "p",
      { class: "lead" },
      "Mean erase count of the first group divided by that of the last, over time. All panels share their axes; the dotted line marks even wear.",
    ),
    ratioMultiples(runs) ??
      notRecorded("Ratio of groups over time", "No run has a timeline with two groups or more."),
  ];
}

/** A drive is asked first how fast it was and why, then what that cost in flash and wear. */
function ssdBody(run: Run, views: Views): HTMLElement {
  return html(
    "div",
    { class: "run-body" },
    runNotice(run),
    run.latency !== null && requestTable(run.latency),
    phases(run),
    ...throughputFigures(run),
    run.latency !== null && requestTime(run.latency, views.time),
    latencyBlock(run, views),
    html("div", { class: "figure-pair" }, amplification(run), spanAmplification(run)),
    html("div", { class: "figure-pair" }, programCauses(run), erasesFigure(run)),
    utilisationFigures(run),
    ...wearFigures(run, views),
    wearOverTimeFigure(run),
    countersBlock(run),
    partBlock(run.part),
    sysfsBlock(run.sysfs),
  );
}

function runBody(run: Run, views: Views): HTMLElement {
  if (run.kind === "ssd") return ssdBody(run, views);
  return html(
    "div",
    { class: "run-body" },
    ...wearFigures(run, views),
    wearOverTimeFigure(run) ??
      notRecorded(
        "Erase count over virtual time",
        "The document has no timeline with erase counts for this run.",
      ),
    html("div", { class: "figure-pair" }, wafFigure(run), freeFigure(run)),
    html("div", { class: "figure-pair" }, programCauses(run), eraseCauses(run)),
    latencyBlock(run, views),
    countersBlock(run),
    partBlock(run.part),
  );
}

function wearFigures(run: Run, views: Views): HTMLElement[] {
  if (run.wear === null) {
    return [
      notRecorded(
        `Wear by ${run.kind === "ssd" ? "block" : "PEB"}`,
        "The document has no erase counts for this run, so there is neither a histogram nor a heat map.",
      ),
    ];
  }
  return [
    html("div", { class: "plain-table" }, tableElement(groupTable(run.wear))),
    histogramFigure(run.wear, views.histogram),
    heatmapFigure(run.wear, views.heatmap),
  ];
}

function wafFigure(run: Run): HTMLElement {
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
  return figure ?? notRecorded("Write amplification", "No moment of the timeline has it.");
}

function freeFigure(run: Run): HTMLElement {
  const figure = valueOverTimeFigure(run, {
    name: "free",
    title: "Free PEBs",
    caption: "PEBs that hold no data and wait to be used.",
    axisLabel: "PEBs",
    slot: 2,
    value: (moment) => moment.free,
    say: whole,
  });
  return figure ?? notRecorded("Free PEBs", "No moment of the timeline has their number.");
}

function programCauses(run: Run): HTMLElement {
  return run.causes === null
    ? notRecorded(
        "Programmed bytes by cause",
        "The document has no causes of programmed bytes for this run.",
      )
    : programCausesFigure(run.causes);
}

function eraseCauses(run: Run): HTMLElement {
  return run.eraseCauses === null
    ? notRecorded("Erases by cause", "The document has no causes of erases for this run.")
    : eraseCausesFigure(run.eraseCauses);
}

function latencyBlock(run: Run, views: Views): HTMLElement {
  if (run.latency === null) {
    return notRecorded("Latency", "The document has no latencies for this run.");
  }
  return html(
    "div",
    { class: "block" },
    latencyFigure(run.latency, views.latency, run.kind === "ssd" ? operationSlot : undefined) ??
      notRecorded("Latency distribution", "Only the percentiles below were recorded."),
    latencyTable(run.latency),
  );
}

function countersBlock(run: Run): HTMLElement {
  if (run.counters === null) {
    return notRecorded("Counters", "The document has no counters for this run.");
  }
  const rows = run.counters.map((counter) => [
    counter.name,
    cell(counter.value),
    counter.unit,
    counter.id ?? "",
  ]);
  const table = tableElement({
    caption: "Counters of the run. Claims and scripts name them by their id.",
    columns: [words("Counter"), numbers("Value"), words("Unit"), words("Id")],
    rows,
  });
  return html(
    "section",
    { class: "figure" },
    html("div", { class: "figure-head" }, html("h3", {}, "Counters")),
    html("div", { class: "plain-table counters" }, table),
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
    html("p", { class: "caption" }, `${part.title}. ${share}`),
    count > 0 && html("div", { class: "plain-table counters" }, table),
  );
}
