/** The sentences that the reader came for. */
import { html, type Child } from "../ui/dom.js";

/** Most sentences that stand out as a lead does; more of them are a list to read. */
const LEAD = 3;

/** A number and the unit behind it, which a line must not part. */
const AMOUNT = /(\d) (?=(?:%|[kMGT]?B|[mµn]?s|min|(?:hour|day|year)s?)(?![\w/]))/g;

/** A paragraph for each sentence; nothing for none. */
export function answerLines(lines: readonly string[]): Child {
  if (lines.length === 0) return null;
  return html(
    "div",
    { class: lines.length > LEAD ? "answer answer-long" : "answer" },
    ...lines.map((line) => html("p", {}, line.replace(AMOUNT, "$1\u00a0"))),
  );
}
