/** A verdict as sign, word and colour, so that none of them is needed alone. */
import type { VerdictKind } from "../layout/claims.js";
import { html, svg } from "../ui/dom.js";

const SIGNS: Record<VerdictKind, string> = {
  hit: "M3 8.5 6.5 12 13 4.5",
  miss: "M4 4 12 12M12 4 4 12",
  calibrated: "M3 5.6h10M3 10.4h10",
  other: "M4 8h8",
};

/** The word of a verdict behind its sign. */
export function verdictMark(verdict: string, kind: VerdictKind): HTMLElement {
  return html(
    "span",
    { class: `verdict verdict-${kind}` },
    svg(
      "svg",
      { viewBox: "0 0 16 16", width: 13, height: 13, "aria-hidden": "true" },
      svg("path", { d: SIGNS[kind] }),
    ),
    verdict,
  );
}
