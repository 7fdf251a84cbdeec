/** Reads the document of this page and lays the page out. */
import { eventsOf, follow } from "./live.js";
import { pageOf } from "./page.js";
import { readReport, type Reading } from "./read.js";
import { firstViews } from "./sections/runs.js";
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

function show(reading: Reading): void {
  const { title } = reading.report;
  document.title = title === null ? "nandlab report" : `${title} – nandlab report`;
  document.body.prepend(pageOf(reading, firstViews()));
}

const text = documentText();
if (text === null) {
  message(
    "Empty report template",
    "This page is the template of nandlab reports; no document was put into it.",
  );
} else {
  try {
    const value: unknown = JSON.parse(text);
    const events = eventsOf(value);
    if (events === null) show(readReport(value));
    else follow(events);
  } catch (error) {
    message("Unreadable report", `The document of this page could not be shown: ${String(error)}`);
  }
}
