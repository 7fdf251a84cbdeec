/** Garbage collection of a file system: its timeline, its passes, the longest waits, and mounts. */
import type { Collection } from "../schema.js";
import { bytes, capital, duration, MISSING, whole } from "../format.js";
import { collectionFigure } from "../charts/collection.js";
import { html } from "../ui/dom.js";
import { fold, numbers, tableElement, words } from "../ui/table.js";

/** All of it; nothing for a run without garbage collection and mounts. */
export function collectionBlock(found: Collection | null): HTMLElement | null {
  if (found === null) return null;
  const { passes, waited, worst, mounts } = found;
  if (passes.length === 0 && mounts.length === 0) return null;
  const named = (parts: readonly { name: string; amount: number }[]) =>
    parts
      .filter(({ amount }) => amount > 0)
      .map(({ name, amount }) => `${name} ${duration(amount)}`)
      .join(", ");
  const passTable = tableElement({
    caption: `Passes of garbage collection, and who did them${waited.some(({ amount }) => amount > 0) ? `; programs waited for ${named(waited)}` : ""}.`,
    columns: [words("Done by"), words("What"), ...["Passes", "Time", "Moved"].map(numbers)],
    rows: passes.map(({ by, kind, count, ns, movedBytes }) => [
      by === "writer" ? "a program that needs space" : `the ${by}`,
      kind,
      whole(count),
      duration(ns),
      movedBytes === 0 ? MISSING : bytes(movedBytes),
    ]),
  });
  const worstTable = tableElement({
    caption: "The operations that waited longest for garbage collection, and for what of it.",
    columns: [words("Operation"), ...["Since", "Waited"].map(numbers), words("For")],
    rows: worst.map(({ op, startNs, ns, parts }) => [
      op,
      duration(startNs),
      duration(ns),
      named(parts),
    ]),
  });
  const mountTable = tableElement({
    caption: "Mounts, by part; a check goes on after a mount, and nobody waits for its end.",
    columns: [words("Mount"), words("Part"), numbers("Time")],
    rows: mounts.flatMap(({ name, parts }) =>
      parts.map((part, place) => [
        place === 0 ? capital(name) : "",
        part.name,
        duration(part.amount),
      ]),
    ),
  });
  return html(
    "div",
    { class: "block" },
    collectionFigure(found),
    passes.length > 0 && html("div", { class: "plain-table" }, passTable),
    worst.length > 0 && fold("Longest waits", html("div", { class: "plain-table" }, worstTable)),
    mounts.length > 0 && html("div", { class: "plain-table" }, mountTable),
  );
}
