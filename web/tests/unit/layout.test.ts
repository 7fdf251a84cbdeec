import assert from "node:assert/strict";
import { test } from "node:test";
import {
  besideBars,
  binLayout,
  countTicks,
  fillBins,
  roundUp,
  stackedBars,
  wholeTicks,
} from "../../src/layout/binning.js";
import {
  deviation,
  deviationOf,
  figuresText,
  missesOf,
  studyAnswer,
  verdictCounts,
  verdictWord,
} from "../../src/layout/claims.js";
import { groupFacts, groupIndex, groupsOf } from "../../src/layout/groups.js";
import {
  boundaryPath,
  cellBox,
  heatGrid,
  labelledRows,
  pebAt,
} from "../../src/layout/heatCells.js";
import { heatScale, lowerBound } from "../../src/layout/heatScale.js";
import {
  ratioSeries,
  settledTop,
  spanOf,
  thin,
  timeAxis,
  wearSeries,
} from "../../src/layout/timeline.js";
import type { Moment } from "../../src/schema.js";
import type { Claim, Study } from "../../src/schema.js";

test("bins have round whole widths and cover both ends", () => {
  assert.deepEqual(binLayout(7, 7, 60), { start: 7, width: 1, bins: 1 });
  assert.deepEqual(binLayout(29_166, 118_361, 60), { start: 28_000, width: 2000, bins: 46 });
  for (const [min, max] of [
    [0, 59],
    [0, 60],
    [999, 1_000_001],
  ] as const) {
    const layout = binLayout(min, max, 60);
    assert.ok(layout.start <= min && layout.start + layout.bins * layout.width > max);
    assert.ok(layout.bins <= 62);
  }
  assert.deepEqual([0.2, 1, 1.1, 3, 7, 10, 11].map(roundUp), [1, 1, 2, 5, 10, 10, 20]);
});

test("ticks stand at whole numbers", () => {
  assert.deepEqual(wholeTicks(4.5, 9.5, 8), [5, 6, 7, 8, 9]);
  assert.deepEqual(wholeTicks(0, 960, 5), [0, 200, 400, 600, 800]);
  assert.deepEqual(countTicks(6), [1, 2, 5]);
  assert.deepEqual(countTicks(960), [1, 10, 100, 1000]);
});

test("every PEB falls into exactly one bin of its group", () => {
  const layout = binLayout(0, 9, 2);
  const bins = fillBins([0, 4, 5, 9, 9], [0, 1, 0, 1, 1], 2, layout);
  assert.deepEqual(
    bins.map((bin) => [bin.from, bin.to, bin.perGroup, bin.total]),
    [
      [0, 5, [1, 1], 2],
      [5, 10, [1, 2], 3],
    ],
  );
});

test("bars are stacked on a linear axis and stand side by side on a logarithmic one", () => {
  const bins = [
    { from: 0, to: 10, perGroup: [2, 3], total: 5 },
    { from: 10, to: 20, perGroup: [0, 4], total: 4 },
  ];
  assert.deepEqual(stackedBars(bins), [
    { x1: 0, x2: 10, y1: 0, y2: 2, group: 0 },
    { x1: 0, x2: 10, y1: 2, y2: 5, group: 1 },
    { x1: 10, x2: 20, y1: 0, y2: 4, group: 1 },
  ]);
  assert.deepEqual(besideBars(bins, 0.7), [
    { x1: 0, x2: 5, y1: 0.7, y2: 2, group: 0 },
    { x1: 5, x2: 10, y1: 0.7, y2: 3, group: 1 },
    { x1: 10, x2: 20, y1: 0.7, y2: 4, group: 1 },
  ]);
});

test("groups are cut to the device, and PEBs in none form their own", () => {
  const wear = {
    unit: "PEB" as const,
    eraseCounts: Uint32Array.from([5, 7, 1, 2, 3]),
    groups: [{ name: "first", from: 0, to: 2 }],
    endurance: null,
  };
  const groups = groupsOf(wear);
  assert.deepEqual([...groupIndex(groups, 5)], [0, 0, 1, 1, 1]);
  assert.deepEqual(groupFacts(wear.eraseCounts, groups), [
    { name: "first", slot: 0, count: 2, min: 5, avg: 6, max: 7 },
    { name: "in no group", slot: 1, count: 3, min: 1, avg: 2, max: 3 },
  ]);
  const beyond = groupsOf({ ...wear, groups: [{ name: "all", from: -3, to: 99 }] });
  assert.deepEqual(beyond, [{ name: "all", from: 0, to: 5, slot: 0 }]);
  assert.equal(groupsOf({ ...wear, groups: [] })[0]?.name, "all PEBs");
});

test("heat map grids have round rows and a pleasant shape", () => {
  const grid = (count: number, width: number) => {
    const { columns, rows, cell } = heatGrid(count, width);
    return { columns, rows, cell };
  };
  assert.deepEqual(grid(1024, 1054), { columns: 64, rows: 16, cell: 16 });
  assert.deepEqual(grid(262_144, 1054), { columns: 1024, rows: 256, cell: 1 });
  assert.deepEqual(grid(262_144, 330), { columns: 256, rows: 1024, cell: 1 });
  assert.deepEqual(grid(1, 1054), { columns: 1, rows: 1, cell: 16 });
  for (const count of [1, 5, 63, 1000, 4097, 100_000, 262_144]) {
    for (const width of [200, 640, 1054]) {
      const made = heatGrid(count, width);
      assert.ok(made.columns * made.rows >= count, `${count} cells fit`);
      assert.ok(made.columns * (made.rows - 1) < count, `${count} cells leave no empty row`);
      assert.ok(made.width <= width, `${count} cells are not too wide for ${width}`);
    }
  }
});

test("a cell's place and the cell at a place belong together", () => {
  const grid = heatGrid(1000, 1054);
  for (const peb of [0, 1, 63, 64, 500, 999]) {
    const box = cellBox(grid, peb);
    assert.equal(pebAt(grid, box.x + box.width / 2, box.y + box.height / 2), peb);
  }
  assert.deepEqual(cellBox(grid, 65), { x: 16, y: 16, width: 15, height: 15 });
  assert.equal(pebAt(grid, -1, 0), null);
  assert.equal(pebAt(grid, grid.width, 0), null);
  assert.equal(pebAt(grid, grid.width - 1, grid.height - 1), null, "behind the last PEB");
});

test("rows are labelled at even distances and groups parted by a line", () => {
  const grid = heatGrid(1024, 1054);
  assert.deepEqual(labelledRows(grid, 22), [0, 128, 256, 384, 512, 640, 768, 896]);
  assert.equal(boundaryPath(grid, 64), "M0 16H1024");
  assert.equal(boundaryPath(grid, 66), "M1024 16H32V32H0");
  assert.equal(boundaryPath(grid, 0), "");
  assert.equal(boundaryPath(grid, 1024), "");
});

test("colour scales run from zero, from the minimum, or by rank", () => {
  const counts = Uint32Array.from([10, 20, 20, 50]);
  assert.equal(heatScale(counts, "zero").place(10), 0.2);
  assert.equal(heatScale(counts, "range").place(10), 0);
  assert.equal(heatScale(counts, "range").place(50), 1);
  const rank = heatScale(counts, "rank");
  assert.deepEqual([10, 20, 50].map(rank.place), [0, 1 / 3, 1]);
  assert.deepEqual(
    heatScale(counts, "zero").marks.map((mark) => mark.count),
    [0, 12.5, 25, 37.5, 50],
  );
  const even = heatScale(Uint32Array.from([7, 7]), "range");
  assert.equal(even.place(7), 0);
  assert.equal(even.marks.length, 1);
  assert.equal(heatScale(Uint32Array.from([0, 0]), "zero").place(0), 0);
  assert.equal(lowerBound([1, 3, 3, 5], 4), 3);
});

function moment(tNs: number, first: number | null, others: number | null): Moment {
  const group = (avg: number | null) => ({ min: null, avg, max: null });
  return { tNs, erases: tNs, groups: [group(first), group(others)], free: null, waf: null };
}

test("series leave out what was not recorded", () => {
  const moments = [moment(0, 0, 0), moment(86_400e9, 8, 2), moment(4 * 86_400e9, null, 3)];
  const axis = timeAxis(spanOf(moments));
  assert.equal(axis.label, "Virtual time (days)");
  assert.deepEqual(ratioSeries(moments, 0, 1, axis), [{ x: 1, y: 4 }]);
  assert.deepEqual(
    wearSeries(moments, 0, axis).map((point) => [point.x, point.avg]),
    [
      [0, 0],
      [1, 8],
    ],
  );
});

test("without virtual time the axis counts erases", () => {
  const axis = timeAxis(0);
  assert.equal(axis.byTime, false);
  assert.equal(axis.at({ ...moment(0, 1, 1), erases: 17 }), 17);
});

test("an early swing does not set the top of a ratio chart", () => {
  const points = [
    { x: 1, y: 90 },
    { x: 20, y: 4 },
    { x: 100, y: 3 },
  ];
  assert.equal(settledTop(points), 4);
  assert.equal(settledTop([]), 0);
});

test("thinning keeps both ends", () => {
  const items = Array.from({ length: 1001 }, (_, i) => i);
  const kept = thin(items, 11);
  assert.deepEqual([kept.length, kept[0], kept[5], kept[10]], [11, 0, 500, 1000]);
  assert.deepEqual(thin([1, 2], 5), [1, 2]);
});

test("deviation and tolerance are fractions, or nothing", () => {
  assert.equal(deviation(4, 5), 0.25);
  assert.equal(deviation(-4, -5), -0.25);
  assert.equal(deviation(0, 0), 0);
  assert.equal(deviation(0, 1), null);
  assert.equal(deviation("four", 4), null);
  assert.equal(deviation(null, 4), null);
});

const claim = (id: string, verdict: string, more: Partial<Claim> = {}): Claim => ({
  id,
  kind: "published",
  text: "",
  expected: 4,
  relation: { word: "within", amount: 0.1 },
  ours: 5,
  verdict,
  stated: null,
  reason: null,
  ...more,
});

const studyOf = (claims: Claim[], quick = false): Study => ({
  study: "a",
  question: null,
  quick,
  claims,
  tables: null,
  figures: null,
  bars: null,
  pictures: null,
});

test("verdicts are counted in a fixed order", () => {
  const verdicts = ["odd", "miss", "hit", "Hit", "calibrated"];
  const counts = verdictCounts(verdicts.map((verdict) => claim("", verdict)));
  assert.deepEqual(
    counts.map(({ verdict, kind, count }) => [verdict, kind, count]),
    [
      ["hit", "hit", 2],
      ["miss", "miss", 1],
      ["calibrated", "calibrated", 1],
      ["odd", "other", 1],
    ],
  );
});

test("the answer of a study counts each kind of claim apart", () => {
  const answer = (claims: Claim[], quick = false) => studyAnswer(studyOf(claims, quick));
  const derived = { kind: "derived" } as const;
  const bound = { relation: { word: "below", amount: 7 } } as const;
  assert.deepEqual(answer([]), []);
  assert.deepEqual(answer([claim("a", "hit"), claim("b", "hit")]), [
    "All 2 published numbers come out within their tolerance.",
  ]);
  assert.deepEqual(
    answer([
      claim("a", "hit"),
      claim("b", "miss"),
      claim("c", "calibrated"),
      claim("d", "hit", derived),
      claim("e", "?", derived),
    ]),
    [
      "1 of 2 published numbers come out within their tolerance; 1 was used to calibrate the model and proves nothing.",
      "The derived claim (arithmetic or theory) holds; 1\u00a0claim is not judged.",
    ],
  );
  const check = { kind: "self-check" } as const;
  assert.deepEqual(answer([claim("a", "hit", check), claim("b", "miss", check)]), [
    "1 of 2 self-checks (they follow from the model's own rules) hold.",
  ]);
  assert.deepEqual(
    ["hit", "miss", "calibrated"].map((word) => verdictWord(word, "self-check")),
    ["holds", "fails", "calibrated"],
  );
  assert.equal(verdictWord("hit", "derived"), "hit");
  const order = { ...bound, expected: null, stated: "slide 3: less" };
  assert.deepEqual(answer([claim("a", "hit", order)]), [
    "The published order comes out within its bound.",
  ]);
  assert.deepEqual(answer([claim("a", "hit", order), claim("b", "miss")]), [
    "1 of 2 published numbers and orders come out within their tolerance.",
  ]);
  assert.deepEqual(answer([claim("a", "miss", bound), claim("b", "miss", bound)]), [
    "None of 2 published numbers come out within their bounds.",
  ]);
  assert.match(answer([claim("a", "hit")], true)[1]!, /cut short: only claims that/);
  assert.match(answer([], true)[0]!, /cut short: no claim is judged/);
});

test("misses stand with their figures under their reason, and a bound has no deviation", () => {
  const late = { reason: "too late" };
  const bound = claim("b", "miss", { ...late, relation: { word: "above", amount: 7 } });
  const misses = missesOf([claim("a", "miss", late), claim("x", "hit"), claim("c", "miss"), bound]);
  assert.deepEqual(
    misses.map(({ reason, claims }) => [reason, claims.map(({ id }) => id)]),
    [
      ["too late", ["a", "b"]],
      [null, ["c"]],
    ],
  );
  assert.equal(figuresText(claim("a", "miss")), "published 4, ours 5, +25.0\u00a0%");
  assert.equal(figuresText(bound), "published 4, above 7, ours 5");
  assert.equal(figuresText({ ...bound, expected: null }), "above 7, ours 5");
  assert.equal(figuresText({ ...bound, expected: 7 }), "above 7, ours 5");
  assert.equal(deviationOf(bound), null);
});

test("a group may be repeated, as the SLC blocks of each unit are", () => {
  const wear = {
    unit: "block" as const,
    eraseCounts: Uint32Array.of(9, 1, 1, 8, 1, 1, 7),
    groups: [
      { name: "SLC", from: 0, to: 1, every: 3 },
      { name: "QLC", from: 0, to: 7 },
    ],
    endurance: null,
  };
  const groups = groupsOf(wear);
  assert.deepEqual([...groupIndex(groups, 7)], [0, 1, 1, 0, 1, 1, 0]);
  assert.deepEqual(
    groupFacts(wear.eraseCounts, groups).map(({ name, count, min, max }) => [
      name,
      count,
      min,
      max,
    ]),
    [
      ["SLC", 3, 7, 9],
      ["QLC", 4, 1, 1],
    ],
  );
});
