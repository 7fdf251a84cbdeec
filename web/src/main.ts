/** Reads the document of this page and lays the page out. */
import { readReport } from "./read.js";
import { pageHeader, readingNotice } from "./sections/header.js";
import { experimentSection } from "./sections/experiment.js";
import { comparisonSection, runsSection } from "./sections/runs.js";
import { studiesSection } from "./sections/studies.js";
import { sweepSection } from "./sections/sweep.js";
import { traceSection } from "./sections/trace.js";
import { html } from "./ui/dom.js";

/** The document's text; `null` in a template that was never filled. */
function documentText(): string | null {
  const text = document.getElementById("nandlab-data")?.textContent?.trim() ?? "";
  return text === "" || text.startsWith("/*") ? null : text;
}

function message(title: string, text: string): void {
  document.title = title;
  document.body.prepend(
    html("main", { class: "page" }, html("h1", {}, title), html("p", { class: "question" }, text)),
  );
}

function show(value: unknown): void {
  const { report, problems } = readReport(value);
  const { runs, studies, sweep, trace } = report;
  const sections: { id: string; name: string; element: HTMLElement }[] = [];
  const add = (id: string, name: string, element: HTMLElement | null) => {
    if (element !== null) sections.push({ id, name, element });
  };
  if (studies !== null) add("findings", "Findings", studiesSection(studies, "findings"));
  if (sweep !== null) add("sweep", "Sweep", sweepSection(sweep, "sweep"));
  if (runs !== null && runs.length > 1)
    add("compared", "Compared", comparisonSection(runs, "compared"));
  if (runs !== null) add("runs", runs.length === 1 ? "Run" : "Runs", runsSection(runs, "runs"));
  if (trace !== null) add("trace", "Trace", traceSection(trace, "trace"));
  if (report.experimentToml !== null)
    add("experiment", "Experiment", experimentSection(report.experimentToml, "experiment"));

  document.title = report.title === null ? "nandlab report" : `${report.title} – nandlab report`;
  document.body.prepend(
    html(
      "div",
      { class: "page" },
      pageHeader(report, sections),
      html(
        "main",
        {},
        readingNotice(report, problems),
        sections.every(({ id }) => id === "experiment") &&
          html(
            "section",
            { class: "page-section" },
            html("p", { class: "absent" }, "The document holds no run."),
          ),
        ...sections.map(({ element }) => element),
      ),
      html(
        "footer",
        { class: "page-foot" },
        runs === null && trace !== null
          ? "All times are those of the trace, from its beginning. This page draws the numbers of its document and holds no others."
          : "All times are virtual: they come from the timing model of the simulated device, not from a clock. This page draws the numbers of its document and holds no others.",
      ),
    ),
  );
}

const text = documentText();
if (text === null) {
  message(
    "Empty report template",
    "This page is the template of nandlab reports; no document was put into it.",
  );
} else {
  try {
    show(JSON.parse(text));
  } catch (error) {
    message("Unreadable report", `The document of this page could not be shown: ${String(error)}`);
  }
}
