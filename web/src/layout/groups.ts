/** Which PEB belongs to which group, and what a group looks like in sum. */
import type { PebGroup, Wear } from "../schema.js";

/** A group with the colour slot it keeps in every chart of a run. */
export interface NamedGroup extends PebGroup {
  slot: number;
}

/** Plain facts of one group's erase counts, for captions and tables. */
export interface GroupFacts {
  name: string;
  slot: number;
  count: number;
  min: number;
  avg: number;
  max: number;
}

/**
 * The groups of a device in order, cut to the device's size. Without any group
 * the whole device is one. PEBs that no group names form a last group of their own.
 */
export function groupsOf(wear: Wear): NamedGroup[] {
  const size = wear.eraseCounts.length;
  if (wear.groups.length === 0) return [{ name: `all ${wear.unit}s`, from: 0, to: size, slot: 0 }];
  const groups = wear.groups.map((group, slot) => ({
    ...group,
    from: Math.max(0, Math.min(size, Math.trunc(group.from))),
    to: Math.max(0, Math.min(size, Math.trunc(group.to))),
    slot,
  }));
  const index = groupIndex(groups, size);
  if (index.includes(UNGROUPED)) {
    groups.push({ name: "in no group", from: 0, to: size, slot: groups.length });
  }
  return groups;
}

const UNGROUPED = 0xffff;

/** For every PEB the place of its group in `groups`; the first group that names it wins. */
export function groupIndex(groups: readonly PebGroup[], size: number): Uint16Array {
  const index = new Uint16Array(size).fill(UNGROUPED);
  groups.forEach((group, place) => {
    for (const { from, to } of rangesOf(group, size)) {
      for (let peb = from; peb < to; peb++) {
        if (index[peb] === UNGROUPED) index[peb] = place;
      }
    }
  });
  return index;
}

/** The ranges of a group: one, or one at each repetition. */
export function rangesOf(group: PebGroup, size: number): { from: number; to: number }[] {
  const { from, to } = group;
  const every = Math.trunc(group.every ?? 0);
  if (every <= 0) return [{ from, to }];
  return Array.from({ length: Math.ceil(Math.max(0, size - from) / every) }, (_, i) => ({
    from: from + i * every,
    to: Math.min(size, to + i * every),
  }));
}

/** Count, least, mean and greatest erase count of every group, empty groups left out. */
export function groupFacts(counts: Uint32Array, groups: readonly NamedGroup[]): GroupFacts[] {
  const index = groupIndex(groups, counts.length);
  const facts = groups.map((group) => ({
    name: group.name,
    slot: group.slot,
    count: 0,
    min: Infinity,
    avg: 0,
    max: -Infinity,
  }));
  for (let peb = 0; peb < counts.length; peb++) {
    const fact = facts[index[peb]!];
    const count = counts[peb]!;
    if (fact === undefined) continue;
    fact.count += 1;
    fact.avg += count;
    if (count < fact.min) fact.min = count;
    if (count > fact.max) fact.max = count;
  }
  const filled = facts.filter((fact) => fact.count > 0);
  for (const fact of filled) fact.avg /= fact.count;
  return filled;
}

/** Least and greatest value of a list that has at least one. */
export function extentOf(counts: ArrayLike<number>): [number, number] {
  let least = Infinity;
  let greatest = -Infinity;
  for (let i = 0; i < counts.length; i++) {
    const count = counts[i]!;
    if (count < least) least = count;
    if (count > greatest) greatest = count;
  }
  return [least, greatest];
}
