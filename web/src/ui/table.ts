/** Tables: heads, aligned numbers, and an honest note where rows were left out. */
import { html, type Child } from "./dom.js";
import { whole } from "../format.js";
import { thin } from "../layout/timeline.js";

/** A column; numbers stand at the right. */
export interface Column {
  head: string;
  numeric: boolean;
}

/** A table as plain text cells. */
export interface TableText {
  caption: string;
  columns: Column[];
  rows: string[][];
}

/** Rows that a table beside a chart shows at most. */
const GREATEST_LENGTH = 400;

/** A column of numbers. */
export function numbers(head: string): Column {
  return { head, numeric: true };
}

/** A column of texts. */
export function words(head: string): Column {
  return { head, numeric: false };
}

/** The head row of a table. */
export function headRow(columns: readonly Column[]): HTMLElement {
  return html(
    "thead",
    {},
    html(
      "tr",
      {},
      ...columns.map((column) =>
        html("th", { scope: "col", class: column.numeric ? "number" : null }, column.head),
      ),
    ),
  );
}

/** A table; of a very long one, rows at even distances. */
export function tableElement(table: TableText, greatest = GREATEST_LENGTH): HTMLElement {
  const rows = thin(table.rows, greatest);
  const note: Child =
    rows.length < table.rows.length
      ? `${table.caption} ${whole(rows.length)} of ${whole(table.rows.length)} rows, at even distances.`
      : table.caption;
  const body = rows.map((row) =>
    html(
      "tr",
      {},
      ...row.map((text, place) =>
        html("td", { class: table.columns[place]?.numeric ? "number" : null }, text),
      ),
    ),
  );
  return html(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": table.caption },
    html(
      "table",
      {},
      html("caption", {}, note),
      headRow(table.columns),
      html("tbody", {}, ...body),
    ),
  );
}

/** A part of the page behind its name. */
export function fold(name: string, content: HTMLElement): HTMLElement {
  return html("details", { class: "fold" }, html("summary", {}, name), content);
}

/** A closed block that makes its table when it is first opened. */
export function tableDetails(table: () => TableText): HTMLElement {
  const details = html(
    "details",
    { class: "figure-table" },
    html("summary", {}, "Numbers as a table"),
  );
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(tableElement(table()));
  });
  return details;
}
