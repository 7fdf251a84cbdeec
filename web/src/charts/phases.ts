/** Bars of the phases of a run, in their order: how long each took, and how fast it went. */
import * as Plot from "@observablehq/plot";
import type { Phase } from "../schema.js";
import { duration, fixed, MISSING, whole } from "../format.js";
import { seriesColour } from "../ui/dom.js";
import { chartFigure } from "../ui/figure.js";
import type { Stop } from "../ui/readout.js";
import { numbers, words } from "../ui/table.js";
import { drawPlot, toPixels } from "./plot.js";

interface Measure {
  name: string;
  title: string;
  label: string;
  caption: string;
  slot: number;
  value(phase: Phase): number | null;
  say(value: number): string;
}

function rate(mbS: number): string {
  return `${fixed(mbS, mbS >= 100 ? 0 : mbS >= 10 ? 1 : 2)}\u00a0MB/s`;
}

const MEASURES: readonly Measure[] = [
  {
    name: "phase-seconds",
    title: "Time of each phase",
    label: "time",
    caption: "Virtual time that each phase took.",
    slot: 1,
    value: ({ seconds }) => seconds,
    say: (seconds) => duration(seconds * 1e9),
  },
  {
    name: "phase-rate",
    title: "Rate of each phase",
    label: "rate",
    caption: "Millions of bytes a second in each phase.",
    slot: 2,
    value: ({ mbS }) => mbS,
    say: rate,
  },
];

/** A chart for each measure that some phase has. */
export function phaseFigures(phases: readonly Phase[]): HTMLElement[] {
  return MEASURES.filter(({ value }) => phases.some((phase) => (value(phase) ?? 0) > 0)).map(
    (measure) => phaseFigure(phases, measure),
  );
}

function phaseFigure(phases: readonly Phase[], measure: Measure): HTMLElement {
  const say = (phase: Phase, { value, say }: Measure) => {
    const amount = value(phase);
    return amount === null ? MISSING : say(amount);
  };
  return chartFigure(
    {
      name: measure.name,
      title: measure.title,
      spoken: `${measure.title}: ${phases.map((phase) => `${phase.name} ${say(phase, measure)}`).join(", ")}.`,
      caption: [measure.caption],
      table: () => ({
        caption: "Phases of the run.",
        columns: [words("Phase"), numbers("Time"), numbers("Rate"), numbers("Requests")],
        rows: phases.map((phase) => [
          phase.name,
          ...MEASURES.map((one) => say(phase, one)),
          phase.requests === null ? MISSING : whole(phase.requests),
        ]),
      }),
    },
    (width) => drawPhases(phases, measure, width),
  ).element;
}

function drawPhases(phases: readonly Phase[], measure: Measure, width: number) {
  const row = 28;
  const longest = phases.reduce((length, phase) => Math.max(length, phase.name.length), 0);
  const margins = {
    marginTop: 6,
    marginBottom: 6,
    marginLeft: Math.min(Math.max(60, longest * 8 + 20), width * 0.42),
    marginRight: 84,
  };
  const height = phases.length * row + margins.marginTop + margins.marginBottom;
  const amount = (phase: Phase) => measure.value(phase) ?? 0;
  const greatest = phases.reduce((top, phase) => Math.max(top, amount(phase)), 0) || 1;
  const colour = seriesColour(measure.slot);
  const place = (_: Phase, at: number) => at;
  const said = (phase: Phase) => {
    const value = measure.value(phase);
    return value === null ? MISSING : measure.say(value);
  };
  const drawing = drawPlot({
    width,
    height,
    ...margins,
    x: { domain: [0, greatest], axis: null },
    y: { type: "band", domain: phases.map(place), padding: 0.32, axis: null },
    marks: [
      Plot.barX(phases, { x: amount, y: place, fill: colour }),
      Plot.ruleX([0], { stroke: "currentColor" }),
      Plot.text(phases, {
        x: 0,
        y: place,
        text: "name",
        textAnchor: "end",
        dx: -8,
        fill: "currentColor",
        fontSize: 13,
        lineWidth: (margins.marginLeft - 12) / 13,
        textOverflow: "ellipsis",
      }),
      Plot.text(phases, {
        x: amount,
        y: place,
        text: said,
        textAnchor: "start",
        dx: 7,
        fill: "var(--ink-soft)",
      }),
    ],
  });
  const x = toPixels(drawing, "x");
  const y = toPixels(drawing, "y");
  const stops: Stop[] = phases.map((phase, at) => ({
    x: x(amount(phase)),
    y: y(at) + row / 2 - 4,
    area: { x: 0, y: y(at) - 5, width, height: row - 1 },
    text: () => ({
      title: phase.name,
      rows: [
        ...MEASURES.filter(({ value }) => value(phase) !== null).map((one) => ({
          label: one.label,
          value: one.say(one.value(phase)!),
          ...(one === measure ? { colour } : {}),
        })),
        ...(phase.requests === null ? [] : [{ label: "requests", value: whole(phase.requests) }]),
      ],
    }),
  }));
  return { drawing, stops, nearest: "y" as const };
}
