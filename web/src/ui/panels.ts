/**
 * Panels below one another. One with nothing to show is not shown; a line at
 * the end names those that are left out, so that nobody looks for them.
 */
import { html, type Child } from "./dom.js";

/** A panel, or what is absent, as it stands in the line at the end; `null` is not missed. */
export type Panel = HTMLElement | Absent | null;

/** What would have been shown, for instance `latency (not recorded)`. */
export interface Absent {
  absent: string;
}

/** The panel, or that it is absent. */
export function panel(name: string, element: HTMLElement | null | false): Panel {
  return element || { absent: name };
}

/** All panels with something to show; those of an inner list stand side by side. */
export function panels(rows: readonly (Panel | Panel[])[]): HTMLElement {
  const absent: string[] = [];
  const shown = (given: Panel): HTMLElement[] => {
    if (given === null) return [];
    if (!("absent" in given)) return [given];
    absent.push(given.absent);
    return [];
  };
  const children: Child[] = rows.map((row) => {
    if (!Array.isArray(row)) return shown(row)[0];
    const pair = row.flatMap(shown);
    return pair.length > 0 && html("div", { class: "figure-pair" }, ...pair);
  });
  return html(
    "div",
    { class: "run-body" },
    ...children,
    absent.length > 0 && html("p", { class: "absent" }, `Nothing to show: ${absent.join("; ")}.`),
  );
}
