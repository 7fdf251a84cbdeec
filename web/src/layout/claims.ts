/**
 * Published beside found: the deviation of one number from another, the
 * tolerance a study states, how many verdicts of each kind there are, and what
 * that comes to in words. The verdict itself is the document's; nothing here judges.
 */
import { cell, counted, plain, signedPercent, whole } from "../format.js";
import type { Cell, Claim, ClaimKind, Study } from "../schema.js";

/** The verdicts a study may give, in the order in which they are shown. */
export const VERDICTS = ["hit", "miss", "calibrated"] as const;

/** One of the known verdicts, or `other` for a word this page does not know. */
export type VerdictKind = (typeof VERDICTS)[number] | "other";

/** The kind of a verdict as written. */
export function verdictKind(verdict: string): VerdictKind {
  const known = VERDICTS.find((kind) => kind === verdict.toLowerCase());
  return known ?? "other";
}

/** The word of a verdict: a self-check is no hit, as it foretells nothing. The same words as in the terminal. */
export function verdictWord(verdict: string, claim: ClaimKind): string {
  const kind = verdictKind(verdict);
  if (claim !== "self-check") return verdict;
  return kind === "hit" ? "holds" : kind === "miss" ? "fails" : verdict;
}

/** A verdict and how often it was given. */
export interface VerdictCount {
  verdict: string;
  kind: VerdictKind;
  count: number;
}

/** Claims that the document names. */
export function claimsOf(studies: readonly Study[], kind?: ClaimKind): Claim[] {
  const all = studies.flatMap((study) => study.claims ?? []);
  return kind === undefined ? all : all.filter((claim) => claim.kind === kind);
}

/** What one claim of a kind is called. */
export function kindName(kind: ClaimKind): string {
  return kind === "self-check" ? kind : `${kind} claim`;
}

/** Counts of all verdicts: known ones first, in their order, zero counts left out. */
export function verdictCounts(claims: readonly Claim[]): VerdictCount[] {
  const counts = new Map<string, number>();
  for (const claim of claims) {
    const kind = verdictKind(claim.verdict);
    const key = kind === "other" ? claim.verdict : kind;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const rank = (verdict: string) => {
    const place = VERDICTS.findIndex((kind) => kind === verdict);
    return place < 0 ? VERDICTS.length : place;
  };
  return [...counts]
    .map(([verdict, count]) => ({ verdict, kind: verdictKind(verdict), count }))
    .sort((a, b) => rank(a.verdict) - rank(b.verdict));
}

/** How far `ours` lies from `published`, as a fraction of it; `null` where that means nothing. */
export function deviation(published: Cell | undefined, ours: Cell | undefined): number | null {
  if (typeof published !== "number" || typeof ours !== "number") return null;
  if (published === 0) return ours === 0 ? 0 : null;
  return (ours - published) / Math.abs(published);
}

/** Deviations are drawn from -20 % to +20 %, so that one outlier does not flatten all others. */
export const REACH = 0.2;

/** A bound in words, `below 8,192`; nothing for a claim with a tolerance on both sides. */
export function boundText({ relation }: Claim): string | null {
  return relation === null || relation.word === "within"
    ? null
    : `${relation.word} ${plain(relation.amount)}`;
}

/** The tolerance of a claim that has one, as a fraction of the expected number. */
export function toleranceOf({ relation }: Claim): number | null {
  return relation?.word === "within" ? relation.amount : null;
}

/** What is expected of our number: a number, a bound, or both where they differ. */
export function expectedText(claim: Claim): string {
  const { expected, relation } = claim;
  const bound = boundText(claim);
  if (bound === null) return cell(expected);
  return expected === null || expected === relation?.amount
    ? bound
    : `${plain(expected)}, ${bound}`;
}

/** How far our number lies from the one that is expected; a bound has no deviation. */
export function deviationOf(claim: Claim): number | null {
  return boundText(claim) === null ? deviation(claim.expected, claim.ours) : null;
}

/** A claim's figures in words: `published 6.1, ours 5.09, -16.6 %`, or `below 67, ours 69`. */
export function figuresText(claim: Claim): string {
  const expected = expectedText(claim);
  const name = expected === boundText(claim) ? "" : `${claim.kind} `;
  const away = deviationOf(claim);
  const percent = away === null ? "" : `, ${signedPercent(away)}`;
  return `${name}${expected}, ours ${cell(claim.ours)}${percent}`;
}

/** What a study found, a sentence for each kind of claim that it has. */
export function studyAnswer(study: Study): string[] {
  const answer: string[] = [];
  const published = claimsOf([study], "published");
  if (published.length > 0) {
    const within = published.some((claim) => toleranceOf(claim) !== null);
    const [limit, limits] = within ? ["tolerance", "tolerance"] : ["bound", "bounds"];
    const orders = published.filter((claim) => claim.stated !== null).length;
    const one = orders === 0 ? "number" : "order";
    const many =
      orders === 0 ? "numbers" : orders === published.length ? "orders" : "numbers and orders";
    answer.push(
      sentence(published, {
        one: `The published ${one} comes out within its ${limit}`,
        none: `The published ${one} does not come out within its ${limit}`,
        many: (share) => `${share} published ${many} come out within their ${limits}`,
      }),
    );
  }
  const derived = claimsOf([study], "derived");
  if (derived.length > 0) {
    answer.push(
      sentence(derived, {
        one: "The derived claim (arithmetic or theory) holds",
        none: "The derived claim (arithmetic or theory) does not hold",
        many: (share) => `${share} derived claims (arithmetic, theory) hold`,
      }),
    );
  }
  const checks = claimsOf([study], "self-check");
  if (checks.length > 0) {
    answer.push(
      sentence(checks, {
        one: "The self-check (it follows from the model's own rules) holds",
        none: "The self-check (it follows from the model's own rules) fails",
        many: (share) => `${share} self-checks (they follow from the model's own rules) hold`,
      }),
    );
  }
  if (study.quick) {
    const judged =
      answer.length > 0
        ? "only claims that do not depend on their length are judged"
        : "no claim is judged";
    answer.push(
      `The runs were cut short: ${judged}, and tables and figures show what short runs give.`,
    );
  }
  return answer;
}

function sentence(
  claims: readonly Claim[],
  words: { one: string; none: string; many(share: string): string },
): string {
  const count = (kind: VerdictKind) =>
    claims.filter((claim) => verdictKind(claim.verdict) === kind).length;
  const hits = count("hit");
  const judged = hits + count("miss");
  const parts: string[] = [];
  if (judged === 1) parts.push(hits === 1 ? words.one : words.none);
  else if (judged > 1) {
    const share =
      hits === judged
        ? `All ${whole(judged)}`
        : hits === 0
          ? `None of ${whole(judged)}`
          : `${whole(hits)} of ${whole(judged)}`;
    parts.push(words.many(share));
  }
  const calibrated = count("calibrated");
  if (calibrated > 0) {
    const were = calibrated === 1 ? "was" : "were";
    parts.push(
      `${whole(calibrated)} ${were} used to calibrate the model and ${calibrated === 1 ? "proves" : "prove"} nothing`,
    );
  }
  const other = count("other");
  if (other > 0) parts.push(`${counted(other, "claim")} ${other === 1 ? "is" : "are"} not judged`);
  return `${parts.join("; ")}.`;
}

/** Claims that miss for the same reason. */
export interface Misses {
  reason: string | null;
  claims: Claim[];
}

/** What a study misses, by reason, in the order in which the reasons are given. */
export function missesOf(claims: readonly Claim[]): Misses[] {
  const groups = new Map<string | null, Claim[]>();
  for (const claim of claims) {
    if (verdictKind(claim.verdict) !== "miss") continue;
    groups.set(claim.reason, [...(groups.get(claim.reason) ?? []), claim]);
  }
  return [...groups].map(([reason, missed]) => ({ reason, claims: missed }));
}
