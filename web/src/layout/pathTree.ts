/** Values by path, as a tree whose branches stand above their leaves. */
import type { Attribute } from "../schema.js";

/** A line of the tree: a branch has no value. */
export interface TreeRow {
  depth: number;
  name: string;
  value: string | null;
}

/** What lies under one first part of a path. */
export interface TreeGroup {
  /** The first part; empty for paths of one part. */
  name: string;
  rows: TreeRow[];
}

/** Groups in the order in which they first appear, and in each its values in their order. */
export function pathTree(attributes: readonly Attribute[]): TreeGroup[] {
  const groups = new Map<string, { branch: string[]; rows: TreeRow[] }>();
  for (const { path, value } of attributes) {
    const parts = path.split("/").filter((part) => part !== "");
    const name = parts.length > 1 ? parts.shift()! : "";
    const group = groups.get(name) ?? { branch: [], rows: [] };
    groups.set(name, group);
    const leaf = parts.pop() ?? path;
    let shared = 0;
    while (shared < parts.length && group.branch[shared] === parts[shared]) shared += 1;
    parts.slice(shared).forEach((branch, i) => {
      group.rows.push({ depth: shared + i, name: `${branch}/`, value: null });
    });
    group.branch = parts;
    group.rows.push({ depth: parts.length, name: leaf, value });
  }
  return [...groups].map(([name, { rows }]) => ({ name, rows }));
}
