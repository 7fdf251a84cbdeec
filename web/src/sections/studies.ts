/** Studies: what was asked and found, what does not come out, and behind it every claim and table. */
import { CLAIM_KINDS } from "../schema.js";
import type { Cell, Claim, ClaimKind, Study, StudyTable } from "../schema.js";
import { contourFigure } from "../charts/contour.js";
import { groupedBarsFigure } from "../charts/groupedBars.js";
import { requestPictures } from "../charts/requestPictures.js";
import { cell, counted, MISSING, percent, signedPercent, whole } from "../format.js";
import {
  boundText,
  claimsOf,
  deviation,
  deviationOf,
  expectedText,
  figuresText,
  kindName,
  missesOf,
  REACH,
  studyAnswer,
  toleranceOf,
  verdictKind,
  verdictWord,
} from "../layout/claims.js";
import { html, svg, type Child } from "../ui/dom.js";
import { drawnOrReason } from "../ui/figure.js";
import { fold, headRow } from "../ui/table.js";
import { answerLines } from "./answer.js";
import { verdictMark } from "./verdict.js";

/** All studies of the document; the question and the answer of one that is alone stand in the head of the page. */
export function studiesSection(studies: readonly Study[], id: string): HTMLElement {
  const alone = studies.length === 1;
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, alone ? "Findings" : "Studies"),
    ...studies.map((study) => studyBlock(study, alone)),
  );
}

function studyBlock(study: Study, alone: boolean): HTMLElement {
  const tables = (study.tables ?? []).flatMap((table) => tablePair(table) ?? []);
  return html(
    "div",
    { class: "study" },
    ...(alone
      ? []
      : [
          html("h3", { class: "study-name" }, study.study),
          study.question !== null && html("p", { class: "question" }, study.question),
          answerLines(studyAnswer(study)),
        ]),
    missesList(claimsOf([study])),
    ...(study.figures ?? []).map((figure) =>
      html("div", { class: "study-figure" }, drawnOrReason(figure, contourFigure)),
    ),
    ...(study.bars ?? []).map((bars) =>
      html("div", { class: "study-figure" }, drawnOrReason(bars, groupedBarsFigure)),
    ),
    ...(study.pictures ?? []).map((pictures) =>
      fold(`Requests: ${pictures.title}`, requestPictures(pictures)),
    ),
    ...CLAIM_KINDS.map((kind) => claimsFold(study, kind)),
    ...tables,
  );
}

/** What the expected numbers of a table are called. */
const HEADS: Record<ClaimKind, string> = {
  published: "Published",
  derived: "Expected",
  "self-check": "Expected",
};

/** Most claims of one reason that are named. */
const NAMED = 6;

/** What does not come out, with its figures, and why. */
function missesList(claims: readonly Claim[]): Child {
  const misses = missesOf(claims);
  if (misses.length === 0) return null;
  return html(
    "div",
    { class: "misses" },
    html("h3", {}, "What does not come out"),
    html(
      "ul",
      {},
      ...misses.map(({ reason, claims: missed }) =>
        html(
          "li",
          {},
          ...missed
            .slice(0, NAMED)
            .flatMap((claim, place): Child[] => [
              place > 0 && "; ",
              html("b", {}, claim.id || claim.text),
              ` (${figuresText(claim)})`,
            ]),
          missed.length > NAMED && `; and ${whole(missed.length - NAMED)} more`,
          reason === null ? "." : `: ${reason.replace(/\.?$/, ".")}`,
        ),
      ),
    ),
  );
}

function claimsFold(study: Study, kind: ClaimKind): Child {
  const claims = claimsOf([study], kind);
  if (claims.length === 0) return null;
  const name = counted(claims.length, kindName(kind));
  return fold(name, claimsTable(`${name} of ${study.study}`, kind, claims));
}

function claimsTable(label: string, kind: ClaimKind, claims: readonly Claim[]): HTMLElement {
  const deviations = claims.map(deviationOf);
  // Bounds have no deviation; where all claims are such, neither have the columns.
  const measured = deviations.some((value) => value !== null);
  const end = percent(REACH, 0);
  const head = (name: string) => html("th", { scope: "col", class: "number" }, name);
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
          head(HEADS[kind]),
          head("Ours"),
          measured && head("Deviation"),
          measured &&
            html(
              "th",
              { scope: "col", class: "deviation-head", "aria-label": "Deviation drawn on an axis" },
              html("span", {}, `\u2212${end}`),
              html("span", {}, `+${end}`),
            ),
          measured && head("Tolerance"),
        ),
      ),
      html("tbody", {}, ...claims.map((claim, i) => claimRow(claim, deviations[i]!, measured))),
    ),
  );
}

function claimRow(claim: Claim, difference: number | null, measured: boolean): HTMLElement {
  const kind = verdictKind(claim.verdict);
  const figure = (name: string, text: string) =>
    html("td", { class: "number", "data-head": name }, text);
  return html(
    "tr",
    {},
    html("td", {}, verdictMark(verdictWord(claim.verdict, claim.kind), kind)),
    html(
      "td",
      { class: "claim-text" },
      html("span", {}, claim.id || claim.text),
      claim.id !== "" && claim.text !== "" && html("code", { class: "claim-id" }, claim.text),
      claim.stated !== null && html("p", { class: "claim-reason" }, claim.stated),
      claim.reason !== null && html("p", { class: "claim-reason" }, claim.reason),
    ),
    figure(HEADS[claim.kind], expectedText(claim)),
    figure("Ours", cell(claim.ours)),
    measured && figure("Deviation", difference === null ? MISSING : signedPercent(difference)),
    measured &&
      html(
        "td",
        { class: "deviation" },
        difference !== null && deviationMark(difference, toleranceOf(claim), kind),
      ),
    measured && figure("Tolerance", toleranceText(claim)),
  );
}

function toleranceText(claim: Claim): string {
  if (boundText(claim) !== null) return "bound";
  const share = toleranceOf(claim);
  return share === null ? MISSING : percent(share).replace(".0", "");
}

/**
 * The deviation as a point on an axis with zero in the middle, over the band of the tolerance; one
 * beyond the axis is an arrow at its end with the figure.
 */
function deviationMark(difference: number, tolerance: number | null, kind: string): Child {
  const half = 66;
  const middle = half + 4;
  const place = (fraction: number) =>
    middle + (Math.max(-REACH, Math.min(REACH, fraction)) / REACH) * half;
  const beyond = Math.abs(difference) > REACH;
  const side = difference < 0 ? -1 : 1;
  const tip = middle + side * (half + 3);
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
    svg("line", { class: "deviation-axis", x1: place(-REACH), x2: place(REACH), y1: 11, y2: 11 }),
    svg("line", { class: "deviation-zero", x1: middle, x2: middle, y1: 4, y2: 18 }),
    ...(beyond
      ? [
          svg("path", { class: "deviation-beyond", d: `M${tip} 11l${-side * 8} -5v10z` }),
          svg(
            "text",
            {
              class: "deviation-figure",
              x: tip - side * 12,
              y: 15,
              "text-anchor": side < 0 ? "start" : "end",
            },
            signedPercent(difference),
          ),
        ]
      : [svg("circle", { class: "deviation-dot", cx: place(difference), cy: 11, r: 4.5 })]),
  );
}

/** Tables of more columns do not fit beside one another. */
const BESIDE = 6;

const hasValue = (value: Cell | undefined) => value !== undefined && value !== null && value !== "";

/** The rows of a side; `null` if it has none with a value in it. */
function filledRows(rows: Cell[][] | null): Cell[][] | null {
  return rows?.some((row) => row.some(hasValue)) ? rows : null;
}

/**
 * The published table at the left, ours at the right, deviations below our numbers; one alone where
 * there is no other, nothing where there is neither.
 */
function tablePair(table: StudyTable): HTMLElement | null {
  const published = filledRows(table.published);
  const ours = filledRows(table.ours);
  const sides = [
    published && sideTable("Published", table, published, null),
    ours && sideTable("Ours", table, ours, published),
  ].filter((side) => side !== null);
  if (sides.length === 0) return null;
  const both = sides.length === 2;
  const beside = both && table.columns.length <= BESIDE;
  const names = ["table-pair", both && "table-pair-both", !beside && "table-pair-single"];
  return fold(
    `Table: ${table.title}`,
    html("div", { class: names.filter((name) => name !== false).join(" ") }, ...sides),
  );
}

function sideTable(
  name: string,
  table: StudyTable,
  rows: Cell[][],
  beside: Cell[][] | null,
): HTMLElement {
  const columns = table.columns
    .map((head, place) => ({
      head,
      place,
      numeric: rows.every((row) => typeof row[place] !== "string"),
    }))
    .filter(({ place }) => rows.some((row) => hasValue(row[place])));
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
      headRow(columns),
      html(
        "tbody",
        {},
        ...rows.map((row, line) =>
          html(
            "tr",
            {},
            ...columns.map(({ place, numeric }) => {
              const value = row[place] ?? null;
              const difference = deviation(beside?.[line]?.[place], value);
              return html(
                "td",
                { class: numeric ? "number" : null },
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
