/** Head of the page: what was asked, how it came out, and the key facts. */
import type { Report } from "../schema.js";
import { CLAIM_KINDS, SCHEMA } from "../schema.js";
import { counted } from "../format.js";
import { claimsOf, kindName, studyAnswer, verdictCounts, verdictWord } from "../layout/claims.js";
import { html, type Child } from "../ui/dom.js";
import { themeControl } from "../ui/theme.js";
import { answerLines } from "./answer.js";
import { verdictMark } from "./verdict.js";

/** The header; sections that the page shows are named for the table of contents. */
export function pageHeader(
  report: Report,
  contents: readonly { id: string; name: string }[],
): HTMLElement {
  return html(
    "header",
    { class: "page-head" },
    html(
      "div",
      { class: "page-bar" },
      html("span", { class: "page-kind" }, "nandlab report"),
      html(
        "nav",
        { "aria-label": "Sections" },
        ...contents.map(({ id, name }) => html("a", { href: `#${id}` }, name)),
      ),
      themeControl(),
    ),
    html("h1", {}, report.title ?? "Untitled report"),
    question(report),
    answerLines(answer(report)),
    ...verdictLines(report),
    provenance(report),
    summary(report),
  );
}

/** What was asked; several studies ask each their own question. */
function question(report: Report): Child {
  const text = report.question;
  const several = (report.studies ?? []).length > 1;
  return text !== null && !several && html("p", { class: "question" }, text);
}

/** What came out, for a page with one answer. */
function answer({ studies, sweep, runs, comparison }: Report): string[] {
  if (sweep !== null) return sweep.answer;
  if (studies !== null) return studies.length === 1 ? studyAnswer(studies[0]!) : [];
  return runs?.length === 1 ? [...runs[0]!.answer, ...comparison] : comparison;
}

/** Verdicts, counted apart for each kind of claim; one verdict of one study is in the answer. */
function verdictLines(report: Report): HTMLElement[] {
  const studies = report.studies ?? [];
  return CLAIM_KINDS.flatMap((kind) => {
    const claims = claimsOf(studies, kind);
    const counts = verdictCounts(claims);
    return counts.length === 0 || (counts.length === 1 && studies.length === 1)
      ? []
      : html(
          "p",
          { class: "verdict-line" },
          html("span", { class: "verdict-total" }, `${counted(claims.length, kindName(kind))}:`),
          ...counts.map(({ verdict, kind: mark, count }) =>
            html(
              "span",
              { class: "verdict-count" },
              html("b", {}, count),
              verdictMark(verdictWord(verdict, kind), mark),
            ),
          ),
        );
  });
}

/** Most values of a fact that stand open on the page: a study of many runs has a fingerprint of each. */
const OPEN_VALUES = 4;

function folded(label: string, text: string): Child {
  const values = label === "fingerprint" ? text.split(/[\s,]+/) : [text];
  if (values.length <= OPEN_VALUES) return text;
  return html("details", {}, html("summary", {}, counted(values.length, label)), text);
}

/** Where the numbers come from; what is missing is said as such. */
function provenance(report: Report): HTMLElement {
  const simulated: [string, string | null][] = [
    ["model version", report.modelVersion],
    ["seed", report.seed],
    ["fingerprint", report.fingerprint],
  ];
  // A trace alone comes from no model.
  const onlyTrace = report.trace !== null && report.runs === null;
  // The points of a sweep have each their own.
  if (report.sweep !== null) simulated.pop();
  const facts: [string, string | null][] = [
    ["nandlab", report.version],
    ...(onlyTrace ? simulated.filter(([, value]) => value !== null) : simulated),
  ];
  return html(
    "dl",
    { class: "provenance" },
    ...facts.map(([label, value]) =>
      html(
        "div",
        {},
        html("dt", {}, label),
        html(
          "dd",
          { class: value === null ? "missing" : null },
          folded(label, value ?? "not recorded"),
        ),
      ),
    ),
  );
}

function summary(report: Report): Child {
  if (report.summary === null) return null;
  return html(
    "dl",
    { class: "summary", "aria-label": "Key facts" },
    ...report.summary.map((fact) =>
      html("div", {}, html("dt", {}, fact.label), html("dd", {}, fact.value)),
    ),
  );
}

/** Says what of the document could not be understood; nothing if all was. */
export function readingNotice(report: Report, problems: readonly string[]): Child {
  const notes = [...problems];
  if (report.schema !== SCHEMA) {
    notes.unshift(
      report.schema === null
        ? `The document names no schema; it was read as ${SCHEMA}`
        : `The document follows ${report.schema}; this page knows ${SCHEMA} and shows what it understands`,
    );
  }
  if (notes.length === 0) return null;
  const shown = notes.slice(0, 12);
  return html(
    "aside",
    { class: "notice", role: "note" },
    html("strong", {}, "Parts of this document could not be read."),
    html("ul", {}, ...shown.map((note) => html("li", {}, `${note}.`))),
    notes.length > shown.length && html("p", {}, `And ${notes.length - shown.length} more.`),
  );
}
