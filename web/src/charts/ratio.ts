/** Small multiples: how unevenly the groups of each run wear, over time. */
import type { Run } from "../schema.js";
import { fixed } from "../format.js";
import {
  groupCount,
  groupName,
  ratioSeries,
  settledTop,
  spanOf,
  timeAxis,
  type SeriesPoint,
} from "../layout/timeline.js";
import { html } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import { numbers } from "../ui/table.js";
import { drawValue, type SharedBounds } from "./overTime.js";

interface RunRatio {
  run: Run;
  points: SeriesPoint[];
  /** Which group is divided by which. */
  pair: string;
}

/** One small chart per run with shared axes, for those that have a ratio; `null` if none has. */
export function ratioMultiples(runs: readonly Run[]): HTMLElement | null {
  const span = runs.reduce((longest, run) => Math.max(longest, spanOf(run.timeline ?? [])), 0);
  const axis = timeAxis(span);
  const ratios: RunRatio[] = runs.map((run) => {
    const moments = run.timeline ?? [];
    const last = groupCount(moments) - 1;
    return {
      run,
      points: last < 1 ? [] : ratioSeries(moments, 0, last, axis),
      pair: last < 1 ? "" : `${groupName(run, 0)} ÷ ${groupName(run, last)}`,
    };
  });
  const points = ratios.flatMap((ratio) => ratio.points);
  if (points.length === 0) return null;
  const end = points.reduce((far, point) => Math.max(far, point.x), 0) || 1;
  const tops = ratios.map((ratio) => settledTop(ratio.points));
  const bounds: SharedBounds = { x: [0, end], y: [0, Math.max(1.2, ...tops) * 1.15] };
  const say = (value: number) => `${fixed(value, 2)} ×`;
  const panels = ratios.map(({ run, points: line, pair }) => {
    const last = line.at(-1);
    const cut = line.filter((point) => point.y > bounds.y[1]).length;
    if (last === undefined) return null;
    return chartFigure(
      {
        name: "ratio",
        title: run.name,
        spoken: `Ratio of mean erase counts, ${pair}, over ${axis.label}; at the end ${say(last.y)}.`,
        caption: [
          html("span", { class: "multiple-end" }, say(last.y)),
          ` at the end; ${pair}.`,
          cut > 0 && ` Early values above ${fixed(bounds.y[1], 1)} × are cut off.`,
        ],
        table: () => ({
          caption: `Ratio of mean erase counts, ${pair}.`,
          columns: [numbers(axis.label), numbers("Ratio")],
          rows: line.map((point) => [axis.say(point.x), say(point.y)]),
        }),
      },
      (width) =>
        drawValue(
          line,
          axis,
          { axisLabel: "Ratio", slot: 0, say, guide: 1 },
          width,
          end,
          200,
          bounds,
        ),
    ).element;
  });
  return html("div", { class: "multiples" }, ...panels);
}
