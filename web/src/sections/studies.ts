/** Published studies: every claim beside what was found, and the tables of both. */
import type { Claim, Study, StudyFigure, StudyTable, UnreadableFigure } from "../schema.js";
import { contourFigure } from "../charts/contour.js";
import { cell, fixed, MISSING, signedPercent } from "../format.js";
import { deviation, deviationReach, toleranceFraction, verdictKind } from "../layout/claims.js";
import { html, svg, type Child } from "../ui/dom.js";
import { notDrawn } from "../ui/figure.js";
import { verdictMark } from "./verdict.js";

/** All studies of the document. */
export function studiesSection(studies: readonly Study[], id: string): HTMLElement {
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, studies.length === 1 ? "Published claims" : "Published studies"),
    ...studies.map(studyBlock),
  );
}

function studyBlock(study: Study): HTMLElement {
  return html(
    "div",
    { class: "study" },
    html("h3", { class: "study-name" }, study.study),
    study.claims === null
      ? html(
          "p",
          { class: "not-recorded" },
          html("strong", {}, "Not recorded."),
          " This study names no claims.",
        )
      : claimsTable(study.study, study.claims),
    ...(study.figures ?? []).map(studyFigure),
    ...(study.tables ?? []).map(tablePair),
  );
}

/** A picture; where the document's is none, the reason stands in its place. */
function studyFigure(figure: StudyFigure | UnreadableFigure): HTMLElement {
  return html(
    "div",
    { class: "study-figure" },
    "wrong" in figure ? notDrawn(figure.title, `${figure.wrong}.`) : contourFigure(figure),
  );
}

function claimsTable(study: string, claims: readonly Claim[]): HTMLElement {
  const deviations = claims.map((claim) => deviation(claim.published, claim.ours));
  const tolerances = claims.map((claim) => toleranceFraction(claim.tolerance));
  const reach = deviationReach(
    [...deviations, ...tolerances].filter((value): value is number => value !== null),
  );
  const end = `${fixed(reach * 100, 0)} %`;
  const label = `Claims of ${study}`;
  return html(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": label },
    html(
      "table",
      { class: "claims" },
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          html("th", { scope: "col" }, "Verdict"),
          html("th", { scope: "col" }, "Claim"),
          html("th", { scope: "col", class: "number" }, "Published"),
          html("th", { scope: "col", class: "number" }, "Ours"),
          html("th", { scope: "col", class: "number" }, "Deviation"),
          html(
            "th",
            { scope: "col", class: "deviation-head", "aria-label": "Deviation drawn on an axis" },
            ...(deviations.every((value) => value === null)
              ? []
              : [html("span", {}, `\u2212${end}`), html("span", {}, `+${end}`)]),
          ),
          html("th", { scope: "col", class: "number" }, "Tolerance"),
        ),
      ),
      html(
        "tbody",
        {},
        ...claims.map((claim, i) => claimRow(claim, deviations[i]!, tolerances[i]!, reach)),
      ),
    ),
  );
}

function claimRow(
  claim: Claim,
  difference: number | null,
  tolerance: number | null,
  reach: number,
): HTMLElement {
  const kind = verdictKind(claim.verdict);
  return html(
    "tr",
    {},
    html("td", {}, verdictMark(claim.verdict, kind)),
    html(
      "td",
      { class: "claim-text" },
      html("span", {}, claim.id || claim.text),
      claim.id !== "" && claim.text !== "" && html("code", { class: "claim-id" }, claim.text),
      claim.reason !== null && html("p", { class: "claim-reason" }, claim.reason),
    ),
    html("td", { class: "number", "data-head": "Published" }, cell(claim.published)),
    html("td", { class: "number", "data-head": "Ours" }, cell(claim.ours)),
    html(
      "td",
      { class: "number", "data-head": "Deviation" },
      difference === null ? MISSING : signedPercent(difference),
    ),
    html(
      "td",
      { class: "deviation" },
      difference !== null && deviationMark(difference, tolerance, reach, kind),
    ),
    html("td", { class: "number", "data-head": "Tolerance" }, claim.tolerance ?? MISSING),
  );
}

/** The deviation as a point on an axis with zero in the middle, over the band of the tolerance. */
function deviationMark(
  difference: number,
  tolerance: number | null,
  reach: number,
  kind: string,
): Child {
  const half = 66;
  const middle = half + 4;
  const place = (fraction: number) =>
    middle + (Math.max(-reach, Math.min(reach, fraction)) / reach) * half;
  return svg(
    "svg",
    {
      class: `deviation-mark verdict-${kind}`,
      width: 2 * middle,
      height: 22,
      "aria-hidden": "true",
    },
    tolerance !== null &&
      svg("rect", {
        class: "deviation-band",
        x: place(-tolerance),
        y: 5,
        width: place(tolerance) - place(-tolerance),
        height: 12,
      }),
    svg("line", { class: "deviation-axis", x1: place(-reach), x2: place(reach), y1: 11, y2: 11 }),
    svg("line", { class: "deviation-zero", x1: middle, x2: middle, y1: 4, y2: 18 }),
    svg("circle", { class: "deviation-dot", cx: place(difference), cy: 11, r: 4.5 }),
  );
}

/** The published table at the left, ours at the right, deviations below our numbers; ours alone where none was published. */
function tablePair(table: StudyTable): HTMLElement {
  if (table.published === null && table.ours !== null) {
    return html(
      "div",
      { class: "table-pair-block" },
      html("h4", {}, table.title),
      html(
        "div",
        { class: "table-pair table-pair-single" },
        sideTable("Ours", table, table.ours, null),
      ),
    );
  }
  return html(
    "div",
    { class: "table-pair-block" },
    html("h4", {}, table.title),
    html(
      "div",
      { class: table.published && table.ours ? "table-pair table-pair-both" : "table-pair" },
      sideTable("Published", table, table.published, null),
      sideTable("Ours", table, table.ours, table.published),
    ),
  );
}

function sideTable(
  name: string,
  table: StudyTable,
  rows: StudyTable["ours"],
  beside: StudyTable["published"],
): HTMLElement {
  if (rows === null) {
    return html(
      "div",
      { class: "table-side not-recorded" },
      html("p", {}, html("strong", {}, "Not recorded."), ` ${name}: this table has no rows.`),
    );
  }
  const numeric = table.columns.map((_, place) =>
    rows.every((row) => typeof row[place] !== "string"),
  );
  return html(
    "div",
    {
      class: "table-side table-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": `${table.title}, ${name}`,
    },
    html(
      "table",
      {},
      html("caption", {}, name),
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          ...table.columns.map((column, place) =>
            html("th", { scope: "col", class: numeric[place] ? "number" : null }, column),
          ),
        ),
      ),
      html(
        "tbody",
        {},
        ...rows.map((row, line) =>
          html(
            "tr",
            {},
            ...row.map((value, place) => {
              const difference = deviation(beside?.[line]?.[place], value);
              return html(
                "td",
                { class: numeric[place] ? "number" : null },
                cell(value),
                difference !== null &&
                  difference !== 0 &&
                  html("small", { class: "cell-deviation" }, signedPercent(difference)),
              );
            }),
          ),
        ),
      ),
    ),
  );
}
