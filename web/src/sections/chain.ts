/** The way of the bytes from a program on a file system to the cells, and how long those last. */
import type { Chain } from "../schema.js";
import { bytes, capital, duration, fixed, MISSING, whole } from "../format.js";
import { html } from "../ui/dom.js";
import { numbers, tableElement, words } from "../ui/table.js";

const YEAR_NS = 365.25 * 86_400e9;

/** A table of the layers, and one of the ends of life; nothing for a run without a file system. */
export function chainBlock(chain: Chain | null): HTMLElement | null {
  if (chain === null) return null;
  const rows = chain.layers.flatMap(({ name, bytes: all, ratio, parts }) => [
    [capital(name), bytes(all), ratio === null ? MISSING : `× ${fixed(ratio, 3)}`, ""],
    ...[...parts]
      .sort((a, b) => b.amount - a.amount)
      .map((part) => ["", "", "", part.name, bytes(part.amount)]),
  ]);
  const layers = tableElement({
    caption: "Bytes that pass each layer, per byte of the layer before, and what they consist of.",
    columns: [
      words("Layer"),
      numbers("Bytes"),
      numbers("Per byte before"),
      words("Of which"),
      numbers("Bytes"),
    ],
    rows: rows.map((row) => [...row, ...Array<string>(5 - row.length).fill("")]),
  });
  const life = tableElement({
    caption: `At this load${chain.erases === null ? "" : `, with ${whole(chain.erases)} erasures so far`}: time that 10, 50 and 90 % of devices do not reach.`,
    columns: [words("End"), ...["10 %", "50 %", "90 %", "Written by then"].map(numbers)],
    rows: chain.life.map((end) => [
      capital(end.name),
      ...end.years.map((years) => duration(years * YEAR_NS)),
      end.hostBytes === null ? MISSING : bytes(end.hostBytes),
    ]),
  });
  return html(
    "section",
    { class: "figure figure-chain" },
    html("div", { class: "figure-head" }, html("h3", {}, "From the program to the cells")),
    html("div", { class: "plain-table" }, layers),
    chain.life.length > 0 && html("div", { class: "plain-table" }, life),
  );
}
