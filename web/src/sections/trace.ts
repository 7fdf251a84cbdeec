/** A block trace: where and when each device was read and written. */
import type { Trace, TraceDevice } from "../schema.js";
import { bytes, counted, duration, MISSING, percent, whole } from "../format.js";
import { depthFigure } from "../charts/traceDepth.js";
import { pictureFigure, type PictureView } from "../charts/tracePicture.js";
import { segmentsFigure } from "../charts/traceSegments.js";
import { sizesFigure } from "../charts/traceSizes.js";
import { tabs } from "../ui/choice.js";
import { html } from "../ui/dom.js";
import { panel, panels } from "../ui/panels.js";
import { numbers, tableElement, words } from "../ui/table.js";

/** The section of a trace: one device without tabs, several with. */
export function traceSection(trace: Trace, id: string): HTMLElement {
  const view: PictureView = { shown: "all" };
  const { devices } = trace;
  const others = trace.otherDevices ?? 0;
  const notes = [
    ...(trace.notes ?? []),
    ...(others > 0 ? [`${counted(others, "device")} more are not on this page.`] : []),
  ];
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Trace"),
    trace.format !== null && html("p", { class: "run-name" }, trace.format),
    notes.length > 0 &&
      html("ul", { class: "trace-notes" }, ...notes.map((n) => html("li", {}, n))),
    devices.length === 0
      ? html("p", { class: "absent" }, "The trace holds no request.")
      : devices.length === 1
        ? deviceBody(devices[0]!, view)
        : tabs(
            "Choose a device",
            devices.map((device) => device.name),
            (place) => deviceBody(devices[place]!, view),
          ),
  );
}

function deviceBody(device: TraceDevice, view: PictureView): HTMLElement {
  const { ops, picture, segments } = device;
  return panels([
    panel("requests", ops && html("div", { class: "plain-table" }, opsTable(device))),
    panel("addresses over time", picture && pictureFigure(picture, view)),
    [
      panel("sizes of requests", sizesFigure(device)),
      panel("sequentiality of writes", segments && segmentsFigure(segments, device.segSeq)),
    ],
    panel("queue depth (the trace does not tell when requests completed)", depthFigure(device)),
    measures(device),
  ]);
}

function opsTable(device: TraceDevice): HTMLElement {
  const span = (value: number | null | undefined) =>
    value === null || value === undefined ? MISSING : duration(value);
  const size = (value: number | null | undefined) =>
    value === null || value === undefined ? MISSING : bytes(value);
  return tableElement({
    caption: "Requests by operation.",
    columns: [
      words("Operation"),
      numbers("Requests"),
      numbers("Bytes"),
      numbers("Average size"),
      numbers("Force unit access"),
      numbers("Latency, mean"),
      numbers("Latency, max"),
    ],
    rows: (device.ops ?? []).map((op) => [
      op.op,
      whole(op.requests),
      size(op.bytes),
      size(op.meanBytes),
      op.fua === null ? MISSING : whole(op.fua),
      span(op.latencyNs?.mean),
      span(op.latencyNs?.max),
    ]),
  });
}

function measures(device: TraceDevice): HTMLElement {
  const { footprint, gapsNs, depth } = device;
  const rows: [string, string | null][] = [
    ["duration", device.durationNs === null ? null : duration(device.durationNs)],
    ["reads of reads and writes", device.readShare === null ? null : percent(device.readShare)],
    ["segmented sequentiality (SegSeq)", device.segSeq === null ? null : percent(device.segSeq)],
    [
      "right after the last write (SegCont)",
      device.segCont === null ? null : percent(device.segCont),
    ],
    ["different bytes read", footprint?.read == null ? null : bytes(footprint.read)],
    ["different bytes written", footprint?.written == null ? null : bytes(footprint.written)],
    ["different bytes in all", footprint?.either == null ? null : bytes(footprint.either)],
    ["between requests, mean", gapsNs?.mean == null ? null : duration(gapsNs.mean)],
    ["between requests, max", gapsNs?.max == null ? null : duration(gapsNs.max)],
    ["queue depth, mean", depth?.mean == null ? null : depth.mean.toFixed(2)],
    ["queue depth, max", depth?.max == null ? null : whole(depth.max)],
  ];
  return html(
    "section",
    { class: "figure" },
    html("div", { class: "figure-head" }, html("h3", {}, "Measures")),
    html(
      "div",
      { class: "plain-table counters" },
      tableElement({
        caption: "Measures of the device.",
        columns: [words("Measure"), numbers("Value")],
        rows: rows.flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
      }),
    ),
  );
}
