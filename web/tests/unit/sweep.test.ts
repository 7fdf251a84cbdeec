import assert from "node:assert/strict";
import { test } from "node:test";
import { onlyValue, placesOn, valueScale } from "../../src/layout/lines.js";
import { readReport } from "../../src/read.js";
import { sweep } from "../sweepFixture.js";

test("a sweep is read, and a chart that does not hold together says why", () => {
  const { report, problems } = readReport(JSON.parse(JSON.stringify(sweep())));
  const wrong = "sweep.lines[5].series[0] has 2\u00a0values, x has 4\u00a0values";
  assert.deepEqual(problems, [wrong]);
  const { points, axes, metrics, rows, answer, lines, figures } = report.sweep!;
  assert.deepEqual([points, rows.length, answer.length, figures.length], [12, 11, 1, 1]);
  assert.deepEqual(axes[0], { key: "ssd.ftl.gc", values: ["greedy", "fifo", "cost-benefit"] });
  assert.deepEqual(metrics[0], { id: "waf", label: "write amplification", unit: "" });
  assert.deepEqual(
    rows[3]!.metrics,
    [2.08, 220_000, null],
    "a metric without a value keeps its place",
  );
  assert.deepEqual(lines[5], { id: "broken", title: "Lines of another length", wrong });
  assert.equal(report.runs, null);
  assert.equal(readReport({}).report.sweep, null);
});

test("every way in which a chart of lines does not hold together is named", () => {
  const values = ["1", "2"];
  const wrong = (chart: object) => readReport({ sweep: { lines: [chart] } }).problems;
  const at = (text: string) => [`sweep.lines[0]${text}`];
  assert.deepEqual(wrong({ x: { values: [] } }), at(".x.values has no value"));
  assert.deepEqual(
    wrong({ x: { values, numbers: [1] } }),
    at(".x.numbers has 1\u00a0number for 2\u00a0values"),
  );
  assert.deepEqual(
    wrong({ x: { values, numbers: [0, 1], log: true } }),
    at(".x has a logarithmic scale and numbers that are not above 0"),
  );
  assert.deepEqual(wrong({ x: { values } }), at(".series is not a list"));
  assert.deepEqual(wrong({ x: { values }, series: [{}] }), at(".series[0].values is not a list"));
  assert.deepEqual(
    wrong({ x: { values }, series: [{ values: [1, "2"] }] }),
    at(".series[0].values[1] is not a number"),
  );
});

test("numbers lie to scale and ascend, words stand at even distances", () => {
  const places = (values: string[], numbers: number[] | null, log = false) =>
    placesOn({ label: "", log, values, numbers }).map(({ text, index, place }) => [
      text,
      index,
      Math.round(place * 1000) / 1000,
    ]);
  assert.deepEqual(places(["50", "10", "20"], [50, 10, 20]), [
    ["10", 1, 0],
    ["20", 2, 0.25],
    ["50", 0, 1],
  ]);
  assert.deepEqual(places(["1", "10", "100"], [1, 10, 100], true)[1], ["10", 1, 0.5]);
  assert.deepEqual(places(["greedy", "fifo"], null), [
    ["greedy", 0, 0.25],
    ["fifo", 1, 0.75],
  ]);
  assert.deepEqual(places(["8"], [8]), [["8", 0, 0.5]]);
});

test("the scale begins at zero unless the values hardly differ, and wide ones have decades", () => {
  const of = (...values: (number | null)[]) => {
    const x = { label: "", log: false, values: values.map(String), numbers: null };
    return valueScale({ id: "", title: "", unit: "", x, series: [{ name: "", values }] });
  };
  assert.equal(of(null, null), null);
  assert.deepEqual(of(1, 2, null)!.domain, [0, 2.12]);
  assert.deepEqual(of(-2, 4)!.domain, [-2.12, 4.24]);
  assert.deepEqual(of(0, 0)!.domain, [0, 1]);
  assert.deepEqual(of(5, 5)!.domain, [0, 5.300000000000001]);
  const near = of(1.0, 1.02)!.domain;
  assert.ok(near[0] > 0.99 && near[0] < 1 && near[1] > 1.02, `${near}`);
  assert.deepEqual(of(3, 900), { domain: [1, 1000], log: true, decades: [1, 10, 100, 1000] });
  assert.equal(of(10, 299)!.log, false);
});

test("a chart whose results are all the same has one value", () => {
  const x = { label: "", log: false, values: ["a", "b"], numbers: null };
  const of = (...values: (number | null)[]) =>
    onlyValue({ id: "", title: "", unit: "", x, series: [{ name: "", values }] });
  assert.deepEqual(
    [of(3, 3), of(0, null, 0), of(3, 4), of(3, null), of()],
    [3, 0, null, null, null],
  );
});
