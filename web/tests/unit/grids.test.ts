import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alongLine,
  boxAround,
  fieldOf,
  firstFree,
  isolines,
  lengthOf,
  placeOn,
  valueAt,
  type Place,
} from "../../src/layout/contour.js";
import { pathTree } from "../../src/layout/pathTree.js";
import { readReport } from "../../src/read.js";
import { keyTarget } from "../../src/ui/readout.js";
import { ssd, type Fixture } from "../fixture.js";
import { grids } from "../studyFixture.js";

const even = (values: number[]) => ({ label: "", log: false, values });
const NEAR = 1e-6;

test("values between the points are in proportion, on a logarithmic axis to the logarithm", () => {
  const log = { label: "", log: true, values: [1, 4, 16] };
  assert.equal(placeOn(log, 2), 0.25);
  const field = fieldOf(log, even([0, 10]), [
    [0, 10, 30],
    [100, 110, 130],
  ]);
  const at = (x: number, y: number) => valueAt(field, placeOn(log, x), y / 10);
  for (const [x, y, value] of [
    [1, 0, 0],
    [16, 10, 130],
    [2, 0, 5],
    [8, 5, 70],
  ] as const) {
    assert.ok(Math.abs(at(x, y) - value) < NEAR, `${x}, ${y}: ${at(x, y)}`);
  }
  assert.ok(Number.isNaN(at(17, 0)) && Number.isNaN(at(2, -1)));
});

test("an empty cell spoils only what lies between it and its neighbours", () => {
  const field = fieldOf(even([0, 1, 2]), even([0, 1]), [
    [1, 2, null],
    [3, 4, 5],
  ]);
  assert.equal(valueAt(field, 0.25, 0.5), 2.5);
  assert.equal(valueAt(field, 0.5, 0), 2);
  assert.ok(Number.isNaN(valueAt(field, 0.75, 0.5)));
  assert.equal(valueAt(field, 0.75, 1), 4.5);
  for (const line of isolines(field, 3.5)) {
    assert.ok(line.every(([u]) => u <= 0.5 + NEAR));
  }
});

test("a line of a plane is straight and runs from edge to edge", () => {
  const field = fieldOf(even([0, 1, 3]), even([0, 2]), [
    [0, 1, 3],
    [2, 3, 5],
  ]);
  const lines = isolines(field, 2.5);
  assert.equal(lines.length, 1);
  for (const [u, v] of lines[0]!) assert.ok(Math.abs(3 * u + 2 * v - 2.5) < NEAR, `${u}, ${v}`);
  const ends = [lines[0]![0]!, lines[0]![lines[0]!.length - 1]!].sort(([a], [b]) => a - b);
  assert.ok(Math.abs(ends[0]![1] - 1) < NEAR && Math.abs(ends[1]![1]) < NEAR, String(ends));
  assert.deepEqual(isolines(field, 9), []);
});

test("a line about a summit is a ring, and a saddle parts two lines", () => {
  const summit = fieldOf(even([0, 1, 2]), even([0, 1, 2]), [
    [0, 0, 0],
    [0, 8, 0],
    [0, 0, 0],
  ]);
  const [ring, ...more] = isolines(summit, 4);
  assert.equal(more.length, 0);
  assert.deepEqual(ring![0], ring![ring!.length - 1]);
  for (const place of ring!) assert.ok(Math.abs(valueAt(summit, ...place) - 4) < 0.05);

  const saddle = fieldOf(even([0, 1]), even([0, 1]), [
    [10, 0],
    [0, 10],
  ]);
  for (const level of [4, 6]) {
    const lines = isolines(saddle, level);
    assert.equal(lines.length, 2, `${level}`);
    // Below the middle's value the heights hang together: each line goes about a low corner.
    const low = lines.every(
      (line) => line.every(([u, v]) => u > v) || line.every(([u, v]) => u < v),
    );
    assert.equal(low, level < 5);
  }
});

test("a number stands on its line where there is room", () => {
  const line: Place[] = [
    [0, 50],
    [50, 50],
    [100, 50],
  ];
  assert.equal(lengthOf(line), 100);
  assert.deepEqual(alongLine(line)[0], [50, 50]);
  const frame = { left: 0, top: 0, width: 100, height: 100 };
  const places = [boxAround(0, 50, 20, 10), boxAround(50, 50, 20, 10), boxAround(80, 50, 20, 10)];
  const free = (taken: typeof places) =>
    firstFree(
      places.map((box) => ({ box })),
      frame,
      taken,
    )?.box ?? null;
  assert.equal(free([]), places[1]);
  assert.equal(free([boxAround(55, 50, 4, 4)]), places[2]);
  assert.equal(free([frame]), null);
});

test("keys lead from row to row where stops lie in rows", () => {
  assert.equal(keyTarget("ArrowDown", 1, 10, 4), 5);
  assert.equal(keyTarget("ArrowUp", 1, 10, 4), 0);
  assert.equal(keyTarget("ArrowRight", 1, 10, 4), 2);
  assert.equal(keyTarget("ArrowDown", -1, 10, 4), 0);
  assert.equal(keyTarget("ArrowUp", -1, 10, 4), 9);
  assert.equal(keyTarget("ArrowDown", 1, 10), 2);
});

test("pictures are read, and one that does not hold together becomes the reason", () => {
  const { report, problems } = readReport(JSON.parse(JSON.stringify(grids())));
  const [first, , broken] = report.studies![0]!.figures!;
  assert.ok(first !== undefined && "z" in first && first.z[6]![5] === null);
  assert.equal(first.marks[0]!.z, 63.7);
  assert.equal(first.marks[1]!.z, null);
  assert.ok(broken !== undefined && "wrong" in broken && broken.id === "broken");
  assert.deepEqual(problems, ["studies[0].figures[2].z has 1\u00a0row, y has 2\u00a0values"]);
  assert.equal(readReport({ studies: [{ study: "s" }] }).report.studies![0]!.figures, null);
});

test("every way in which a picture may be none is told, and none is an exception", () => {
  const axis = (values: unknown, log: unknown = false) => ({ label: "a", log, values });
  const good = {
    title: "t",
    x: axis([1, 2]),
    y: axis([1, 2]),
    z: [
      [1, null],
      [3, 4],
    ],
  };
  const wrong = (change: Fixture): string => {
    const read = readReport({ studies: [{ study: "s", figures: [{ ...good, ...change }] }] });
    const figure = read.report.studies![0]!.figures![0]!;
    assert.ok("wrong" in figure, JSON.stringify(change));
    assert.ok(read.problems.includes(figure.wrong));
    return figure.wrong.replace("studies[0].figures[0]", "");
  };
  const list = ".x.values is not a list of two numbers or more";
  for (const [change, told] of [
    [{ x: undefined }, list],
    [{ x: 7 }, list],
    [{ x: axis([1]) }, list],
    [{ x: axis("1, 2") }, list],
    [{ y: axis([2, 1]) }, ".y.values[1] is not a number above the one before"],
    [{ y: axis([1, "2"]) }, ".y.values[1] is not a number above the one before"],
    [{ y: axis([0, 1], true) }, ".y has a logarithmic scale and values that are not above 0"],
    [{ z: null }, ".z is not a list"],
    [{ z: [[1, 2], 3] }, ".z[1] is not a list"],
    [{ z: [[1, 2], [3]] }, ".z[1] has 1\u00a0cell, x has 2\u00a0values"],
    [
      {
        z: [
          [1, 2],
          [3, "4"],
        ],
      },
      ".z[1][1] is not a number",
    ],
    [
      {
        z: [
          [null, null],
          [null, null],
        ],
      },
      ".z has no figure in any cell",
    ],
    [{ x: axis(Array.from({ length: 20_001 }, (_, i) => i)) }, " has more than 40,000 cells"],
  ] as const) {
    assert.equal(wrong(change as Fixture), told);
  }
  const odd = { ...good, levels: [1, "x"], marks: [{ x: 1 }, { x: 1, y: 2 }, 5] };
  const { report, problems } = readReport({ studies: [{ figures: [odd, 4] }] });
  const [figure, ...others] = report.studies![0]!.figures!;
  assert.ok(figure !== undefined && "z" in figure && others.length === 0);
  assert.deepEqual([figure.levels, figure.unit], [[1], ""]);
  assert.deepEqual(figure.marks, [{ x: 1, y: 2, z: null, label: "mark" }]);
  assert.deepEqual(problems, [
    "studies[0].figures[0].levels[1] is not a number",
    "studies[0].figures[0].marks[0] has no place",
    "studies[0].figures[0].marks[2] is not an object",
    "studies[0].figures[1] is not an object",
  ]);
});

test("phases and values by path are read, and need not be there", () => {
  const { report, problems } = readReport(JSON.parse(JSON.stringify(ssd())));
  assert.deepEqual(problems, []);
  const [run] = report.runs!;
  assert.deepEqual(run!.phases![3], { name: "settle", seconds: 6, mbS: null, requests: null });
  assert.deepEqual(run!.sysfs![0], { path: "hpb_stats/hit_cnt", value: "123" });
  const bad = {
    phases: [{ name: "a", seconds: -1, mb_s: 2 }, { name: "b" }, "c", { requests: "x" }],
    sysfs: [["a", 1], ["b"], "c", [null, 3], ["d", {}]],
  };
  const read = readReport({ runs: [bad, {}] });
  const [one, other] = read.report.runs!;
  assert.deepEqual(one!.phases, [{ name: "a", seconds: null, mbS: 2, requests: null }]);
  assert.deepEqual(one!.sysfs, [
    { path: "a", value: "1" },
    { path: "d", value: "" },
  ]);
  assert.deepEqual([other!.phases, other!.sysfs], [null, null]);
  assert.deepEqual(read.problems, [
    "runs[0].phases[0].seconds is below 0",
    "runs[0].phases[2] is not an object",
    "runs[0].phases[3].requests is not a number",
    "runs[0].sysfs[1] is not a pair of a path and a value",
    "runs[0].sysfs[2] is not a pair of a path and a value",
    "runs[0].sysfs[4][1] is not a text",
  ]);
});

test("values of one branch stand together, its name once above them", () => {
  const attribute = (path: string) => ({ path, value: path.length.toString() });
  const tree = pathTree(["a/x", "a/b/c/y", "a/b/c/z", "a/b/w", "q", "a/v", "/"].map(attribute));
  assert.deepEqual(
    tree.map(({ name, rows }) => [name, rows.map((row) => [row.depth, row.name, row.value])]),
    [
      [
        "a",
        [
          [0, "x", "3"],
          [0, "b/", null],
          [1, "c/", null],
          [2, "y", "7"],
          [2, "z", "7"],
          [1, "w", "5"],
          [0, "v", "3"],
        ],
      ],
      [
        "",
        [
          [0, "q", "1"],
          [0, "/", "1"],
        ],
      ],
    ],
  );
});
