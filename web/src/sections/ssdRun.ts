/** The figures that only a run on an SSD has: throughput, where time went, write amplification. */
import type { Attribute, Ending, Latency, Run } from "../schema.js";
import { duration, fixed, MISSING, plain, whole, bytes } from "../format.js";
import { valueOverTimeFigure } from "../charts/overTime.js";
import { phaseFigures } from "../charts/phases.js";
import { amplificationFigure, requestTimeFigure, type TimeView } from "../charts/stacks.js";
import {
  bytesFigure,
  iopsFigure,
  longestFigure,
  spanAmplificationFigure,
} from "../charts/throughput.js";
import { CHANNELS, DIES, utilisationFigure, type Workers } from "../charts/utilisation.js";
import { pathTree, type TreeGroup } from "../layout/pathTree.js";
import { html } from "../ui/dom.js";
import { notRecorded } from "../ui/figure.js";
import { numbers, tableElement, words } from "../ui/table.js";

/** That a drive came to its end, and what its user may not expect; nothing if there is nothing to say. */
export function runNotice(run: Run): HTMLElement | null {
  const end = run.ending?.endOfLife ?? null;
  if (end === null && run.remarks.length === 0) return null;
  return html(
    "aside",
    { class: "notice", role: "note" },
    end !== null && html("strong", {}, endOfLife(end)),
    run.remarks.length > 0 &&
      html("ul", {}, ...run.remarks.map((remark) => html("li", {}, remark))),
  );
}

function endOfLife(end: NonNullable<Ending["endOfLife"]>): string {
  const when = end.atNs === null ? "" : ` after ${duration(end.atNs)}`;
  const written =
    end.hostBytes === null ? "" : ` The host had written ${bytes(end.hostBytes)} in the run.`;
  return `The drive wore out${when}${end.why === null ? "" : `: ${end.why}`}.${written}`;
}

/** Throughput and longest latency over time. */
export function throughputFigures(run: Run): HTMLElement[] {
  const rates = run.throughput;
  if (rates === null) {
    return [notRecorded("Throughput", "The document has no rates over time for this run.")];
  }
  return [
    html(
      "div",
      { class: "figure-pair" },
      iopsFigure(rates) ??
        notRecorded("Requests a second", "No span of the run has a read or a write."),
      bytesFigure(rates) ?? notRecorded("Throughput", "No span of the run moved data."),
    ),
    longestFigure(rates) ?? notRecorded("Longest latency", "No span of the run has a latency."),
  ];
}

/** Where the time of requests went. */
export function requestTime(latency: readonly Latency[], view: TimeView): HTMLElement {
  return (
    requestTimeFigure(latency, view) ??
    notRecorded(
      "Where the time of a request went",
      "No operation of this run has its time in parts.",
    )
  );
}

/** How many requests of each operation there were, and how fast they went. */
export function requestTable(latency: readonly Latency[]): HTMLElement {
  const some = (value: number | null, say: (value: number) => string) =>
    value === null ? MISSING : say(value);
  const table = tableElement({
    caption: "Requests by operation; rates per second of virtual time.",
    columns: [
      words("Operation"),
      ...["Count", "Errors", "Bytes", "Requests/s", "MB/s"].map(numbers),
    ],
    rows: latency.map((entry) => [
      entry.op,
      some(entry.count, whole),
      some(entry.errors, whole),
      some(entry.bytes, bytes),
      some(entry.iops, (iops) => (iops >= 100 ? whole(iops) : plain(Number(iops.toPrecision(3))))),
      some(entry.mbS, (mbS) => fixed(mbS, mbS >= 100 ? 0 : 2)),
    ]),
  });
  return html("div", { class: "plain-table" }, table);
}

/** Write amplification as a sum. */
export function amplification(run: Run): HTMLElement {
  return (
    amplificationFigure([run]) ??
    notRecorded(
      "Write amplification by cause",
      run.writeAmplification !== null && run.writeAmplification.hostBytes === 0
        ? "The host wrote nothing in this run."
        : "The document has no causes per byte of the host for this run.",
    )
  );
}

/** Write amplification of each span. */
export function spanAmplification(run: Run): HTMLElement {
  return (
    spanAmplificationFigure(run.timeline ?? []) ??
    notRecorded("Write amplification over time", "No span of the run has it.")
  );
}

/** Erasures over time. */
export function erasesFigure(run: Run): HTMLElement {
  const figure = valueOverTimeFigure(run, {
    name: "erases",
    title: "Erasures",
    caption: "Blocks erased since the run began.",
    axisLabel: "Erasures",
    slot: 2,
    value: (moment) => moment.erases,
    say: whole,
  });
  return figure ?? notRecorded("Erasures", "No moment of the timeline has their number.");
}

/** How much dies and channels had to do. */
export function utilisationFigures(run: Run): HTMLElement {
  const one = (shares: number[] | null, workers: Workers) =>
    shares === null
      ? notRecorded(workers.title, `The document has no shares of ${workers.name} for this run.`)
      : utilisationFigure(shares, workers);
  return html(
    "div",
    { class: "figure-pair" },
    one(run.utilisation?.dies ?? null, DIES),
    one(run.utilisation?.channels ?? null, CHANNELS),
  );
}

/** Phases of the load; nothing where the run has none. */
export function phases(run: Run): HTMLElement | null {
  return run.phases && html("div", { class: "figure-pair" }, ...phaseFigures(run.phases));
}

/** What the host could read of the drive at the end, by path; nothing where the run has none. */
export function sysfsBlock(sysfs: readonly Attribute[] | null): HTMLElement | null {
  return (
    sysfs &&
    html(
      "section",
      { class: "figure figure-sysfs" },
      html("div", { class: "figure-head" }, html("h3", {}, "Attributes in sysfs")),
      html("div", { class: "sysfs" }, ...pathTree(sysfs).map(groupTable)),
    )
  );
}

function groupTable({ name, rows }: TreeGroup): HTMLElement {
  const caption = name === "" ? "of the device itself" : `${name}/`;
  return html(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": `Attributes, ${caption}` },
    html(
      "table",
      {},
      html("caption", {}, caption),
      html(
        "tbody",
        {},
        ...rows.map(({ depth, name: leaf, value }) =>
          html(
            "tr",
            { class: value === null ? "branch" : null },
            html(
              "th",
              {
                scope: "row",
                style: `padding-left:${2 + 18 * depth}px`,
                colspan: value === null && 2,
              },
              leaf,
            ),
            value !== null && html("td", {}, value),
          ),
        ),
      ),
    ),
  );
}
