/** Parts of sums laid end to end, one row for each sum. */
import type { Part } from "../schema.js";

/** A sum with the parts that it consists of. */
export interface Stack {
  name: string;
  parts: readonly Part[];
}

/** A part at its place in its row; `from` and `to` are amounts, or shares of the row. */
export interface Segment {
  row: number;
  name: string;
  amount: number;
  share: number;
  from: number;
  to: number;
}

/**
 * The segments of all rows, parts in the order of `order`; a part of another name follows in the
 * order in which it is found. Parts that are not above zero have no segment.
 */
export function segmentsOf(
  stacks: readonly Stack[],
  order: readonly string[],
  shares: boolean,
): Segment[] {
  const names = partNames(stacks, order);
  return stacks.flatMap(({ parts }, row) => {
    const sum = sumOf(parts);
    let reached = 0;
    return names.flatMap((name) => {
      const amount = sumOf(parts.filter((part) => part.name === name));
      if (amount <= 0) return [];
      const from = reached;
      reached += amount;
      const unit = shares ? sum : 1;
      return { row, name, amount, share: amount / sum, from: from / unit, to: reached / unit };
    });
  });
}

/** The names that have an amount in any row, in the order in which they are drawn. */
export function partNames(stacks: readonly Stack[], order: readonly string[]): string[] {
  const found = new Set<string>();
  for (const { parts } of stacks) {
    for (const { name, amount } of parts) if (amount > 0) found.add(name);
  }
  const known = order.filter((name) => found.has(name));
  return [...known, ...[...found].filter((name) => !order.includes(name))];
}

/** The sum of the parts that are above zero. */
export function sumOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { amount }) => sum + Math.max(0, amount), 0);
}
