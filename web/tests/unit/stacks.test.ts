import assert from "node:assert/strict";
import { test } from "node:test";
import { timeTicks } from "../../src/charts/stacks.js";
import { heatScale } from "../../src/layout/heatScale.js";
import { partNames, segmentsOf, sumOf } from "../../src/layout/stacks.js";
import { randomFrom } from "../fixture.js";

const parts = (given: Record<string, number>) =>
  Object.entries(given).map(([name, amount]) => ({ name, amount }));

test("parts stand in the given order, others behind them, and nothing without an amount", () => {
  const stacks = [
    { name: "a", parts: parts({ odd: 1, die: 5, queue: 4 }) },
    { name: "b", parts: parts({ queue: 0, link: 2, erase: -3 }) },
  ];
  const order = ["link", "queue", "die", "erase"];
  assert.deepEqual(partNames(stacks, order), ["link", "queue", "die", "odd"]);
  assert.deepEqual(
    segmentsOf(stacks, order, false).map(({ row, name, from, to }) => [row, name, from, to]),
    [
      [0, "queue", 0, 4],
      [0, "die", 4, 9],
      [0, "odd", 9, 10],
      [1, "link", 0, 2],
    ],
  );
  assert.deepEqual(
    segmentsOf(stacks, order, true).map(({ share, to }) => [share, to]),
    [
      [0.4, 0.4],
      [0.5, 0.9],
      [0.1, 1],
      [1, 1],
    ],
  );
  assert.deepEqual(segmentsOf([{ name: "none", parts: [] }], order, true), []);
});

test("segments of a row touch and sum to it, whatever the amounts", () => {
  const random = randomFrom(5);
  for (let round = 0; round < 200; round++) {
    const given = Array.from({ length: 1 + Math.floor(random() * 9) }, (_, i) => ({
      name: `part ${i % 6}`,
      amount: random() < 0.2 ? 0 : 10 ** (9 * random()),
    }));
    const segments = segmentsOf([{ name: "row", parts: given }], ["part 3"], false);
    segments.forEach((segment, i) => assert.equal(segment.from, segments[i - 1]?.to ?? 0));
    const sum = sumOf(given);
    assert.ok(Math.abs((segments.at(-1)?.to ?? 0) - sum) <= sum * 1e-12);
  }
});

test("ticks of a time are round and reach no further than it", () => {
  assert.deepEqual(timeTicks(166e6, 4), [0, 50e6, 100e6, 150e6]);
  assert.deepEqual(timeTicks(1e3, 2), [0, 500, 1000]);
  assert.deepEqual(timeTicks(4.6e6, 4), [0, 2e6, 4e6]);
});

test("a legend of few erase counts names each of them once", () => {
  const marks = heatScale(Uint32Array.from([0, 1, 2, 1]), "zero").marks;
  assert.deepEqual(marks, [
    { at: 0, count: 0 },
    { at: 0.5, count: 1 },
    { at: 1, count: 2 },
  ]);
  assert.deepEqual(heatScale(Uint32Array.from([7, 7]), "range").marks, [{ at: 0, count: 7 }]);
});
