import assert from "node:assert/strict";
import { test } from "node:test";
import { requestBars } from "../../src/layout/requestBars.js";
import { readReport } from "../../src/read.js";
import type { TracePicture } from "../../src/schema.js";
import { requests } from "../studyFixture.js";

const picture = (columns: number, rows: number, cells: TracePicture["cells"]): TracePicture => ({
  fromNs: 0,
  columnNs: 1,
  columns,
  fromBytes: 0,
  rowBytes: 1,
  rows,
  cells,
});

test("cells beside one another are one bar, the lowest address at the bottom", () => {
  const three = picture(10, 4, [
    [2, 0, 0, 1, 0],
    [1, 0, 0, 9, 0],
    [4, 0, 0, 1, 0],
    [9, 3, 1, 0, 0],
    [5, 1, 0, 0, 3],
  ]);
  assert.equal(requestBars(three, "writes", 100, 40), "M10 30h20v10h-20zM40 30h10v10h-10z");
  assert.equal(requestBars(three, "reads", 100, 40), "M90 0h10v10h-10z");
});

test("a bar is a pixel at least and stays within the field", () => {
  const fine = picture(1_000, 1_000, [
    [999, 0, 1, 0, 0],
    [0, 999, 1, 0, 0],
  ]);
  assert.equal(requestBars(fine, "reads", 100, 50), "M99 49h1v1h-1zM0 0h1v1h-1z");
});

test("pictures are read, and what is wrong with one is told", () => {
  const good = readReport(requests());
  assert.deepEqual(good.problems, []);
  const pictured = good.report.studies?.[0]?.pictures?.[0];
  assert.deepEqual(
    pictured?.runs.map((run) => [
      run.title,
      run.requests?.picture?.cells.length,
      run.missing !== null,
    ]),
    [
      ["ext4, SS", 1_500, false],
      ["xfs, SS", undefined, true],
      ["nothing", undefined, false],
    ],
  );
  const broken = structuredClone(requests()) as {
    studies: { pictures: { runs: { requests: { picture: { cells: unknown[] } } }[] }[] }[];
  };
  broken.studies[0]!.pictures[0]!.runs[0]!.requests.picture.cells[0] = [1, 2, 3];
  const { problems } = readReport(broken);
  assert.deepEqual(problems, [
    "studies[0].pictures[0].runs[0].requests.picture.cells[0] is not 5 numbers",
  ]);
});
