/** A sweep: what it varied, its charts, and behind them the table of its points. */
import { contourFigure } from "../charts/contour.js";
import { linesFigure } from "../charts/lines.js";
import { capital, cell, counted, whole } from "../format.js";
import type { LineFigure, Sweep, UnreadableFigure } from "../schema.js";
import { onlyValue } from "../layout/lines.js";
import { html } from "../ui/dom.js";
import { drawnOrReason } from "../ui/figure.js";
import { panel, panels, type Panel } from "../ui/panels.js";
import { fold, numbers, tableElement, words } from "../ui/table.js";

/** The sweep; its answer stands in the head of the page. */
export function sweepSection(sweep: Sweep, id: string): HTMLElement {
  const contours = named(sweep.figures).map((figure) => drawnOrReason(figure, contourFigure));
  const lines = named(sweep.lines).map(linesPanel);
  const table = fold(`Table: ${counted(sweep.rows.length, "point")}`, pointsTable(sweep));
  table.toggleAttribute("open", contours.length + lines.length === 0);
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Sweep"),
    html("p", { class: "lead" }, whatVaried(sweep)),
    panels([contours, lines]),
    sweep.rows.length > 0 && table,
  );
}

/** A metric that has one value at every point needs no chart. */
function linesPanel(figure: LineFigure | UnreadableFigure): Panel {
  const only = "wrong" in figure ? null : onlyValue(figure);
  return only === null
    ? panel(figure.title, drawnOrReason(figure, linesFigure))
    : { absent: `${figure.title} (${cell(only)} at every point)` };
}

/** How many points there are, of which values, and whether all have a result. */
function whatVaried({ axes, points, rows }: Sweep): string {
  const keys = axes.map(({ key, values }) => `${key} (${values.join(", ")})`).join(" and ");
  const all = points ?? rows.length;
  const done =
    rows.length < all
      ? ` ${whole(rows.length)} of them have a result; the others were not run yet, or belong to another shard.`
      : "";
  return `${counted(all, "point")}${keys === "" ? "" : ` over ${keys}`}.${done}`;
}

/** Titles begin with a capital letter; those that are the same have their ids behind them. */
function named<T extends { id: string; title: string }>(figures: readonly T[]): T[] {
  return figures.map((figure) => {
    const same = figures.filter(({ title }) => title === figure.title).length;
    const title = capital(figure.title);
    return { ...figure, title: same > 1 ? `${title} (${figure.id})` : title };
  });
}

/** Digits of a fingerprint that are shown, as of the runs of a study. */
const FINGERPRINT = 8;

function pointsTable({ axes, metrics, rows }: Sweep): HTMLElement {
  const heads = named(metrics.map((metric) => ({ ...metric, title: metric.label })));
  const table = tableElement(
    {
      caption: "Points of the sweep that have a result.",
      columns: [
        ...axes.map(({ key, values }) => ({ head: key, numeric: values.every(isNumeric) })),
        ...heads.map(({ title, unit }) => numbers(unit === "" ? title : `${title}, ${unit}`)),
        words("Fingerprint"),
      ],
      rows: rows.map((row) => [
        ...axes.map((_, i) => row.values[i] ?? ""),
        ...metrics.map((_, i) => cell(row.metrics[i] ?? null)),
        row.fingerprint.slice(0, FINGERPRINT),
      ]),
    },
    Infinity,
  );
  return html("div", { class: "sweep-rows" }, table);
}

function isNumeric(text: string): boolean {
  return text !== "" && !Number.isNaN(Number(text.replaceAll("_", "")));
}
