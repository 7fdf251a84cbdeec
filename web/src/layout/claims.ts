/**
 * Published beside found: the deviation of one number from another, the
 * tolerance a study states, and how many verdicts of each kind there are. The
 * verdict itself is the document's; nothing here judges.
 */
import type { Cell, Study } from "../schema.js";

/** The verdicts a study may give, in the order in which they are shown. */
export const VERDICTS = ["hit", "miss", "calibrated"] as const;

/** One of the known verdicts, or `other` for a word this page does not know. */
export type VerdictKind = (typeof VERDICTS)[number] | "other";

/** The kind of a verdict as written. */
export function verdictKind(verdict: string): VerdictKind {
  const known = VERDICTS.find((kind) => kind === verdict.toLowerCase());
  return known ?? "other";
}

/** A verdict and how often it was given. */
export interface VerdictCount {
  verdict: string;
  kind: VerdictKind;
  count: number;
}

/** Counts of all verdicts: known ones first, in their order, zero counts left out. */
export function verdictCounts(studies: readonly Study[]): VerdictCount[] {
  const counts = new Map<string, number>();
  for (const study of studies) {
    for (const claim of study.claims ?? []) {
      const kind = verdictKind(claim.verdict);
      const key = kind === "other" ? claim.verdict : kind;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
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

/** A tolerance written as a percentage, as a fraction; `null` if it is written otherwise. */
export function toleranceFraction(tolerance: string | null): number | null {
  const match = /^[^\d]*?(\d+(?:\.\d+)?)\s*%\s*$/.exec(tolerance ?? "");
  return match ? Number(match[1]) / 100 : null;
}

/**
 * The end of a symmetric deviation axis that shows all values: a round
 * percentage, never below one percent.
 */
export function deviationReach(values: readonly number[]): number {
  const greatest = values.reduce((reach, value) => Math.max(reach, Math.abs(value)), 0);
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1];
  return steps.find((step) => step >= greatest - 1e-12) ?? Math.ceil(greatest);
}
