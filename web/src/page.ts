/** Lays out the page of a document. */
import type { Reading } from "./read.js";
import { experimentSection } from "./sections/experiment.js";
import { pageHeader, readingNotice } from "./sections/header.js";
import { comparisonSection, runsSection, type Views } from "./sections/runs.js";
import { studiesSection } from "./sections/studies.js";
import { sweepSection } from "./sections/sweep.js";
import { traceSection } from "./sections/trace.js";
import { html } from "./ui/dom.js";

/** The page; `views` hold what the reader chose to see in its figures, `absent` says that there is no result. */
export function pageOf(
  { report, problems }: Reading,
  views: Views,
  absent = "The document holds no run.",
): HTMLElement {
  const { runs, studies, sweep, trace } = report;
  const sections: { id: string; name: string; element: HTMLElement }[] = [];
  const add = (id: string, name: string, element: HTMLElement | null) => {
    if (element !== null) sections.push({ id, name, element });
  };
  if (studies !== null) add("findings", "Findings", studiesSection(studies, "findings"));
  if (sweep !== null) add("sweep", "Sweep", sweepSection(sweep, "sweep"));
  if (runs !== null && runs.length > 1)
    add("compared", "Compared", comparisonSection(runs, "compared"));
  if (runs !== null)
    add("runs", runs.length === 1 ? "Run" : "Runs", runsSection(runs, "runs", views));
  if (trace !== null) add("trace", "Trace", traceSection(trace, "trace"));
  if (report.experimentToml !== null)
    add("experiment", "Experiment", experimentSection(report.experimentToml, "experiment"));

  return html(
    "div",
    { class: "page" },
    pageHeader(report, sections),
    html(
      "main",
      {},
      readingNotice(report, problems),
      sections.every(({ id }) => id === "experiment") &&
        html("section", { class: "page-section" }, html("p", { class: "absent" }, absent)),
      ...sections.map(({ element }) => element),
    ),
    html(
      "footer",
      { class: "page-foot" },
      runs === null && trace !== null
        ? "All times are those of the trace, from its beginning. This page draws the numbers of its document and holds no others."
        : "All times are virtual: they come from the timing model of the simulated device, not from a clock. This page draws the numbers of its document and holds no others.",
    ),
  );
}
