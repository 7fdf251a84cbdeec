/** The figures that only a run on an SSD has: throughput, where time went, write amplification. */
import type { Attribute, EndOfLife, Flow, Latency, Run } from "../schema.js";
import { duration, evenDuration, fixed, MISSING, percent, plain, whole, bytes } from "../format.js";
import { valueOverTimeFigure } from "../charts/overTime.js";
import { phaseFigures } from "../charts/phases.js";
import { amplificationFigure } from "../charts/stacks.js";
import {
  bytesFigure,
  iopsFigure,
  longestFigure,
  spanAmplificationFigure,
} from "../charts/throughput.js";
import { CHANNELS, DIES, utilisationFigure } from "../charts/utilisation.js";
import { pathTree, type TreeGroup } from "../layout/pathTree.js";
import { html } from "../ui/dom.js";
import { panel, type Panel } from "../ui/panels.js";
import { numbers, tableElement, words, type Column } from "../ui/table.js";

/** That a drive came to its end, and what its user may not expect; nothing if there is nothing to say. */
export function runNotice(run: Run): HTMLElement | null {
  const end = run.endOfLife;
  if (end === null && run.remarks.length === 0) return null;
  return html(
    "aside",
    { class: "notice", role: "note" },
    end !== null && html("strong", {}, endOfLife(end)),
    run.remarks.length > 0 &&
      html("ul", {}, ...run.remarks.map((remark) => html("li", {}, remark))),
  );
}

function endOfLife(end: EndOfLife): string {
  const when = end.atNs === null ? "" : ` after ${duration(end.atNs)}`;
  const written =
    end.hostBytes === null ? "" : ` The host had written ${bytes(end.hostBytes)} in the run.`;
  return `The drive wore out${when}${end.why === null ? "" : `: ${end.why}`}.${written}`;
}

/** Throughput and longest latency over time. */
export function throughputFigures(run: Run): (Panel | Panel[])[] {
  const rates = run.throughput ?? [];
  return [
    [
      panel("requests a second", iopsFigure(rates)),
      panel("throughput over time", bytesFigure(rates)),
    ],
    panel("longest latency", longestFigure(rates)),
  ];
}

/** A value in words, or the sign for a missing one. */
function some(value: number | null, say: (value: number) => string): string {
  return value === null ? MISSING : say(value);
}

function rate(iops: number): string {
  return iops >= 100 ? whole(iops) : plain(Number(iops.toPrecision(3)));
}

/** How many requests of each operation there were, and how fast they went. */
export function requestTable(latency: readonly Latency[]): HTMLElement {
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
      some(entry.iops, rate),
      some(entry.mbS, (mbS) => fixed(mbS, mbS >= 100 ? 0 : 2)),
    ]),
  });
  return html("div", { class: "plain-table" }, table);
}

/** What each flow got and what it caused; nothing where the run has none. */
export function flowTable(flows: readonly Flow[] | null): HTMLElement | null {
  if (flows === null) return null;
  const time = (us: number) => evenDuration(us * 1e3);
  const columns: [Column, (flow: Flow) => string][] = [
    [words("Flow"), (flow) => flow.name],
    [numbers("Queue"), (flow) => some(flow.queue, whole)],
    [numbers("Reads/s"), (flow) => some(flow.readIops, rate)],
    [numbers("Writes/s"), (flow) => some(flow.writeIops, rate)],
    [numbers("Mean latency"), (flow) => some(flow.meanUs, time)],
    [numbers("99 %"), (flow) => some(flow.p99Us, time)],
    [numbers("Write amplification"), (flow) => some(flow.waf, (waf) => fixed(waf, 3))],
    [numbers("Share of pages moved"), (flow) => some(flow.gcShare, percent)],
  ];
  const table = tableElement({
    caption: "Each flow by itself; the last column is its share of the pages that the drive moved.",
    columns: columns.map(([column]) => column),
    rows: flows.map((flow) => columns.map(([, of]) => of(flow))),
  });
  return html(
    "section",
    { class: "figure figure-flows" },
    html("div", { class: "figure-head" }, html("h3", {}, "Flows")),
    html("div", { class: "plain-table" }, table),
  );
}

/** Write amplification as a sum, and of each span; neither means anything where the host wrote nothing. */
export function amplification(run: Run): Panel[] {
  if (run.writeAmplification?.hostBytes === 0)
    return [{ absent: "write amplification (the host wrote nothing)" }];
  return [
    panel("write amplification by cause", amplificationFigure([run])),
    panel("write amplification over time", spanAmplificationFigure(run.timeline ?? [])),
  ];
}

/** Erasures over time. */
export function erasesFigure(run: Run): Panel {
  return panel(
    "erasures over time",
    valueOverTimeFigure(run, {
      name: "erases",
      title: "Erasures",
      caption: "Blocks erased since the run began.",
      axisLabel: "Erasures",
      slot: 2,
      value: (moment) => moment.erases,
      say: whole,
    }),
  );
}

/** How much dies and channels had to do. */
export function utilisationFigures(run: Run): Panel[] {
  return [
    panel("dies at work", utilisationFigure(run.utilisation?.dies ?? null, DIES)),
    panel("channels at work", utilisationFigure(run.utilisation?.channels ?? null, CHANNELS)),
  ];
}

/** Phases of the load; nothing where the run has none. */
export function phases(run: Run): Panel[] {
  return run.phases === null ? [] : phaseFigures(run.phases);
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
