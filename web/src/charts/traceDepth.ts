/** Requests under way over the time of a trace. */
import type { TraceDevice } from "../schema.js";
import { duration, fixed, timeUnitFor } from "../format.js";
import type { TimeAxis } from "../layout/timeline.js";
import { chartFigure } from "../ui/figure.js";
import { numbers } from "../ui/table.js";
import { drawValue } from "./overTime.js";

/** The chart of one device; `null` if the trace has no completions. */
export function depthFigure(device: TraceDevice): HTMLElement | null {
  const depth = device.depth;
  if (depth === null) return null;
  const from = device.firstNs ?? 0;
  const endNs = from + depth.overTime.length * depth.spanNs;
  const unit = timeUnitFor(endNs);
  const axis: TimeAxis = {
    label: `Time in the trace (${unit.name})`,
    byTime: true,
    at: () => null,
    say: (value) => duration(value * unit.ns),
  };
  const points = depth.overTime.map((y, span) => ({
    x: (from + (span + 0.5) * depth.spanNs) / unit.ns,
    y,
  }));
  const say = (value: number) => fixed(value, 2);
  return chartFigure(
    {
      name: "trace-depth",
      title: "Queue depth",
      spoken: `Requests under way over time; ${depth.mean === null ? "" : `${say(depth.mean)} on average.`}`,
      caption: [`Requests under way, averaged over spans of ${duration(depth.spanNs)}.`],
      table: () => ({
        caption: "Requests under way over time.",
        columns: [numbers(axis.label), numbers("Requests")],
        rows: points.map((point) => [axis.say(point.x), say(point.y)]),
      }),
    },
    (width) =>
      drawValue(points, axis, { axisLabel: "Requests", slot: 3, say }, width, endNs / unit.ns),
  ).element;
}
