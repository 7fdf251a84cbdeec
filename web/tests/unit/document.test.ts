import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";
import { paintedCells } from "../../src/layout/traceCells.js";
import { readReport } from "../../src/read.js";
import { keyTarget, nearestStop } from "../../src/ui/readout.js";
import { deviceA, drives, hostile, ssd, study, trace } from "../fixture.js";

test("a whole document is read without a problem", () => {
  for (const fixture of [deviceA(), study()]) {
    const { report, problems } = readReport(JSON.parse(JSON.stringify(fixture)));
    assert.deepEqual(problems, []);
    assert.equal(report.runs?.[0]?.wear?.eraseCounts.length, 1024);
    assert.equal(report.runs?.[0]?.latency?.[0]?.p999Ns !== null, true);
  }
});

test("absent, null and empty sections were not recorded", () => {
  for (const value of [{}, { runs: null, studies: [], summary: [] }]) {
    const { report, problems } = readReport(value);
    assert.deepEqual(problems, []);
    assert.equal(report.runs, null);
    assert.equal(report.studies, null);
    assert.equal(report.summary, null);
  }
});

test("what cannot be read is named and does no harm", () => {
  const { report, problems } = readReport(JSON.parse(JSON.stringify(hostile())));
  for (const named of [
    "seed is a number beyond 2^53",
    "summary is not a list",
    "runs[0].wear.groups[1].from is not a number",
    "runs[0].wear.endurance is not a number",
    "runs[1] is not an object",
  ]) {
    assert.ok(
      problems.some((problem) => problem.startsWith(named)),
      named,
    );
  }
  assert.equal(report.runs?.length, 1);
  for (const value of [null, 3, "text", []]) assert.equal(readReport(value).report.runs, null);
});

test("one unreadable erase count makes the wear not recorded", () => {
  for (const bad of [-1, 2 ** 32, "7", null]) {
    const wear = { erase_counts: [1, bad, 3] };
    const { report, problems } = readReport({ runs: [{ name: "r", wear }] });
    assert.equal(report.runs?.[0]?.wear, null);
    assert.equal(problems.length, 1);
  }
});

test("answers, the end, flows and the comparison are read, and need not be there", () => {
  const flow = { name: "logger", queue: 1, write_iops: 250.5, mean_us: 90, gc_share: 0.25 };
  const run = { answer: ["74 h.", "3 TB."], ended: "The run ended.", flows: [flow] };
  const { report, problems } = readReport({ comparison: ["3.3 times"], runs: [run, {}] });
  assert.deepEqual(problems, []);
  assert.deepEqual(report.comparison, ["3.3 times"]);
  const [first, second] = report.runs!;
  assert.deepEqual([first!.answer, first!.ended], [run.answer, run.ended]);
  assert.deepEqual(first!.flows, [
    {
      name: "logger",
      queue: 1,
      readIops: null,
      writeIops: 250.5,
      meanUs: 90,
      p99Us: null,
      waf: null,
      gcShare: 0.25,
    },
  ]);
  assert.deepEqual([second!.answer, second!.ended, second!.flows], [[], null, null]);
  const { problems: wrong } = readReport({ comparison: "text", runs: [{ answer: [{}] }] });
  assert.deepEqual(wrong, ["comparison is not a list", "runs[0].answer[0] is not a text"]);
});

test("garbage collection is read, and need not be there", () => {
  const collection = {
    moment_ns: 5,
    moments: [
      [0, 1, 2, 3, 4, 5],
      [5, 1],
    ],
    passes: [{ by: "thread", kind: "erase", count: 3, ns: 40 }],
    waited: [["erases", 7]],
    worst: [{ op: "write", start_ns: 1, ns: 7, parts: [["erases", 7]] }],
    mounts: [{ name: "first", parts: [["scan", 9]] }],
  };
  const { report, problems } = readReport({ runs: [{ collection }, {}] });
  assert.deepEqual(problems, []);
  const [first, second] = report.runs ?? [];
  const part = (name: string, amount: number) => ({ name, amount });
  assert.deepEqual(first!.collection, {
    momentNs: 5,
    moments: [{ tNs: 0, threadNs: 1, waitedNs: 2, longestNs: 3, freeBytes: 4, dirtyBytes: 5 }],
    passes: [{ by: "thread", kind: "erase", count: 3, ns: 40, movedBytes: 0 }],
    waited: [part("erases", 7)],
    worst: [{ op: "write", startNs: 1, ns: 7, parts: [part("erases", 7)] }],
    mounts: [{ name: "first", parts: [part("scan", 9)] }],
  });
  assert.equal(second!.collection, null);
});

test("the chain from the program to the cells is read, and need not be there", () => {
  const chain = {
    layers: [
      { name: "written by the program", bytes: 6000, ratio: null, parts: [] },
      { name: "programmed", bytes: 9000, ratio: 1.5, parts: [["fastmap", 3000]] },
    ],
    erases: 12,
    life: [{ name: "reserve used up", years: [1, 2, 3], host_bytes: 7 }],
  };
  const { report, problems } = readReport({ runs: [{ chain }, {}, { chain: { layers: [] } }] });
  assert.deepEqual(problems, []);
  const [first, ...others] = report.runs!;
  const { host_bytes: hostBytes, ...end } = chain.life[0]!;
  const layers = chain.layers.map((layer) => ({
    ...layer,
    parts: layer.parts.map(([name, amount]) => ({ name, amount })),
  }));
  assert.deepEqual(first!.chain, { ...chain, layers, life: [{ ...end, hostBytes }] });
  assert.deepEqual(
    others.map((run) => run.chain),
    [null, null],
  );
  const wrong = {
    layers: [
      { name: "x", bytes: "many" },
      { bytes: 1, ratio: 1, parts: [] },
    ],
  };
  assert.deepEqual(readReport({ runs: [{ chain: wrong }] }).problems, [
    "runs[0].chain.layers[0].bytes is not a number",
  ]);
});

test("a claim is published, derived or a self-check, near a number or at a bound", () => {
  const read = (claim: object) => readReport({ studies: [{ claims: [claim] }] });
  const of = (claim: object) => {
    const { report, problems } = read(claim);
    assert.deepEqual(problems, []);
    const { kind, expected, relation } = report.studies![0]!.claims![0]!;
    return [kind, expected, relation];
  };
  for (const [claim, expected] of [
    [
      { kind: "published", expected: 4, relation: { within: 0.1 } },
      ["published", 4, { word: "within", amount: 0.1 }],
    ],
    [
      { kind: "published", expected: 3774, relation: { below: 8192 } },
      ["published", 3774, { word: "below", amount: 8192 }],
    ],
    [
      { kind: "self-check", expected: null, relation: { above: 1 } },
      ["self-check", null, { word: "above", amount: 1 }],
    ],
    [{}, ["published", null, null]],
  ] as const)
    assert.deepEqual(of(claim), expected);
  // One form, the one that the runner writes.
  const path = "studies[0].claims[0]";
  for (const relation of [{ near: 4 }, { within: "10 %" }, {}])
    assert.deepEqual(read({ relation }).problems, [`${path}.relation is not a relation`]);
  assert.deepEqual(read({ kind: "odd", expected: "4", relation: "within" }).problems, [
    `${path}.kind is not published or derived or self-check`,
    `${path}.expected is not a number`,
    `${path}.relation is not an object`,
  ]);
});

test("a trace is read without a problem, and its gaps are gaps", () => {
  const { report, problems } = readReport(JSON.parse(JSON.stringify(trace())));
  assert.deepEqual(problems, []);
  assert.equal(report.runs, null);
  const [first, second] = report.trace!.devices;
  assert.equal(first!.picture!.cells.length > 400, true);
  assert.equal(first!.ops![0]!.latencyNs!.mean, 61_000);
  assert.equal(second!.depth, null);
  assert.equal(second!.ops![0]!.latencyNs, null);
  assert.equal(readReport({}).report.trace, null);
});

test("a run on a drive is read without a problem, its blocks are called blocks", () => {
  for (const fixture of [ssd(), drives()]) {
    const { report, problems } = readReport(JSON.parse(JSON.stringify(fixture)));
    assert.deepEqual(problems, []);
    const [run, silent, device] = report.runs!;
    assert.equal(run!.kind, "ssd");
    assert.equal(run!.wear!.unit, "block");
    assert.deepEqual(run!.timeline![0]!.groups, []);
    assert.equal(run!.timeline![0]!.free, null);
    assert.equal(run!.latency![0]!.p99999Ns, 639_671);
    assert.deepEqual(run!.latency![2]!.time, [{ name: "flush", amount: 1_170_000 }]);
    assert.equal(run!.throughput!.length, 120);
    assert.deepEqual(run!.utilisation!.channels, [0.21, 0.18]);
    const { total, byCause } = run!.writeAmplification!;
    const sum = byCause.reduce((all, part) => all + part.perHostByte!, 0);
    assert.ok(Math.abs(sum - total!) < 1e-9);
    if (silent === undefined) continue;
    assert.equal(silent.writeAmplification!.total, null);
    assert.deepEqual(silent.utilisation, { dies: [0, 0, 0, 0], channels: [0, 0] });
    assert.equal(device!.kind, "ubi");
    assert.equal(device!.wear!.unit, "PEB");
    assert.equal(device!.latency![0]!.p9999Ns, null);
  }
});

test("the end of a drive and remarks are read, and need not be there", () => {
  const end = { at_ns: 5e9, why: "no free block is left in a unit", host_bytes: 1e9 };
  const worn = {
    status: "worn-out",
    stopped_by: "worn_out",
    end_of_life: end,
    remarks: ["one", "two"],
  };
  const { report, problems } = readReport({
    runs: [worn, { status: "done", end_of_life: null }, {}],
  });
  assert.deepEqual(problems, []);
  const [first, second, third] = report.runs!;
  assert.deepEqual(first!.endOfLife, { atNs: 5e9, why: end.why, hostBytes: 1e9 });
  assert.deepEqual(first!.remarks, ["one", "two"]);
  assert.equal(second!.endOfLife, null);
  assert.deepEqual([third!.endOfLife, third!.remarks], [null, []]);
});

test("what cannot be read of a drive is named and does no harm", () => {
  const bad = {
    name: "r",
    kind: "ssd",
    latency: [{ op: "read", time: [["die", 5], ["bus", "x"], ["queue"], 7] }],
    throughput: [{ t_ns: 1, max_ns: "x" }, { read_iops: 3 }, 4],
    utilisation: { dies: [0.5, 1.5], channels: [0.5, "x"] },
    write_amplification: { total: "x", by_cause: [{ cause: "gc" }, { cause: "gc", bytes: 1 }] },
  };
  const { report, problems } = readReport({ runs: [bad] });
  const run = report.runs![0]!;
  assert.deepEqual(run.latency![0]!.time, [{ name: "die", amount: 5 }]);
  assert.equal(run.throughput!.length, 1);
  assert.equal(run.utilisation, null);
  assert.deepEqual(run.writeAmplification!.byCause, [{ cause: "gc", bytes: 1, perHostByte: null }]);
  assert.deepEqual(problems, [
    "runs[0].latency[0].time[1][1] is not a number",
    "runs[0].latency[0].time[2] is not a pair of a name and a number",
    "runs[0].latency[0].time[3] is not a pair of a name and a number",
    "runs[0].throughput[0].max_ns is not a number",
    "runs[0].throughput[2] is not an object",
    "runs[0].utilisation.dies has a share outside of 0 to 1",
    "runs[0].utilisation.channels[1] is not a number",
    "runs[0].write_amplification.total is not a number",
  ]);
});

test("cells outside of a trace's picture and rows of the wrong length are named", () => {
  const picture = {
    from_ns: 0,
    column_ns: 1,
    columns: 2,
    from_bytes: 0,
    row_bytes: 1,
    rows: 2,
    cells: [[0, 0, 1, 0, 0], [2, 0, 1, 0, 0], [0, 1, 1], "x"],
  };
  const { report, problems } = readReport({ trace: { devices: [{ device: 1, picture }] } });
  assert.equal(report.trace?.devices[0]?.picture?.cells.length, 1);
  assert.deepEqual(problems, [
    "trace.devices[0].picture.cells[2] is not 5 numbers",
    "trace.devices[0].picture.cells[3] is not 5 numbers",
    "trace.devices[0].picture.cells has cells outside of it",
  ]);
  const huge = { ...picture, columns: 1e9 };
  const read = readReport({ trace: { devices: [{ device: 1, picture: huge }] } });
  assert.equal(read.report.trace?.devices[0]?.picture, null);
});

test("cells are weighed by the logarithm of what is shown of them", () => {
  const picture = {
    fromNs: 0,
    columnNs: 1,
    columns: 3,
    fromBytes: 0,
    rowBytes: 1,
    rows: 2,
    cells: [
      [0, 0, 1, 0, 0],
      [1, 1, 10, 90, 0],
      [2, 0, 0, 10, 0],
    ] as [number, number, number, number, number][],
  };
  const weights = (shown: "all" | "reads" | "writes") =>
    paintedCells(picture, shown).map(({ column, weight }) => [column, weight]);
  assert.deepEqual(weights("all"), [
    [1, 1],
    [0, 0],
    [2, 0.5],
  ]);
  assert.deepEqual(weights("reads"), [
    [1, 1],
    [0, 0],
  ]);
  assert.equal(paintedCells(picture, "writes")[0]!.reads, 0);
});

test("the pointer finds the nearest stop and keys stay within the stops", () => {
  const stop = (x: number, y: number) => ({ x, y, text: () => ({ title: "", rows: [] }) });
  const stops = [stop(0, 0), stop(10, 100), stop(20, 0)];
  assert.equal(nearestStop(stops, 11, 0, "x"), 1);
  assert.equal(nearestStop(stops, 11, 0, "both"), 2);
  assert.equal(nearestStop(stops, 11, 90, "y"), 1);
  assert.equal(nearestStop([], 0, 0, "x"), -1);
  assert.equal(keyTarget("ArrowRight", -1, 3), 0);
  assert.equal(keyTarget("ArrowRight", 2, 3), 2);
  assert.equal(keyTarget("ArrowLeft", -1, 3), 2);
  assert.equal(keyTarget("End", 0, 3), 2);
  assert.equal(keyTarget("Home", 0, 0), null);
  assert.equal(keyTarget("a", 0, 3), null);
});

test("the committed page is what the sources build", async () => {
  const address = pathToFileURL(join(process.cwd(), "build.mjs")).href;
  const { buildPage } = (await import(address)) as { buildPage: () => Promise<string> };
  const page = await buildPage();
  assert.equal(await buildPage(), page, "two builds are alike");
  assert.ok(readFileSync("dist/report.html", "utf8") === page, "run npm run build");
});

test("the page stands alone and has one place for the document", () => {
  const page = readFileSync("dist/report.html", "utf8");
  const place = '<script id="nandlab-data" type="application/json">/*NANDLAB_DATA*/</script>';
  assert.equal(page.split(place).length, 2);
  assert.equal(page.split("/*NANDLAB_DATA*/").length, 2);
  assert.equal(/<(?:script|link|img|iframe)[^>]+(?:src|href)=/i.test(page), false);
  assert.equal(/@import|url\((?!"?data:)/.test(page.slice(0, page.indexOf("</style>"))), false);
  assert.equal(page.includes(process.cwd()), false, "no path of the machine that built it");
});

test("the lock file names no registry", () => {
  assert.ok(existsSync("package-lock.json"));
  assert.equal(readFileSync("package-lock.json", "utf8").includes('"resolved"'), false);
});
