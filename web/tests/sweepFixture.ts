/** A made-up sweep. */
import { HEAD, type Fixture } from "./fixture.js";

/** A sweep over words and numbers, of which one point has no result yet. */
export function sweep(): Fixture {
  const policies = ["greedy", "fifo", "cost-benefit"];
  const spare = [7, 12.5, 28, 50];
  const depths = [1, 4, 32];
  const waf = (policy: number, percent: number) =>
    Math.round(1000 * (1 + (60 / percent) * (1 + 0.25 * policy) * 0.9)) / 1000;
  const p99 = (percent: number, depth: number) => 90 * depth ** 1.1 + 4000 / percent;
  const missing = (policy: number, percent: number) => policy === 1 && percent === 28;
  const rows = policies.flatMap((policy, at) =>
    spare
      .filter((percent) => !missing(at, percent))
      .map((percent) => ({
        values: [policy, String(percent)],
        metrics: [
          waf(at, percent),
          20_000 + 4000 * percent,
          percent === 50 ? null : 9000 / percent,
        ],
        fingerprint: `f${at}${percent}`.padEnd(64, "0"),
      })),
  );
  const key = "ssd.over_provisioning_percent";
  const values = spare.map(String);
  const x = { label: key, log: false, values, numbers: spare };
  const series = (value: (policy: number, percent: number) => number | null) =>
    policies.map((policy, at) => ({
      name: `ssd.ftl.gc ${policy}`,
      values: spare.map((percent) => (missing(at, percent) ? null : value(at, percent))),
    }));
  const many = Array.from({ length: 14 }, (_, i) => ({
    name: `seed ${i}`,
    values: policies.map((_, at) => 40 * 10 ** (at + i / 13)),
  }));
  return {
    ...HEAD,
    title: "spare-and-policy",
    question: "What do the policy of collection and spare blocks do to write amplification?",
    sweep: {
      points: 12,
      axes: [
        { key: "ssd.ftl.gc", values: policies, numbers: null },
        { key, values, numbers: spare },
      ],
      metrics: [
        { id: "waf", label: "write amplification", unit: "" },
        { id: "read.iops", label: "requests per second", unit: "1/s" },
        { id: "write.iops", label: "requests per second", unit: "1/s" },
      ],
      rows,
      answer: [
        "waf: least 2.08 at ssd.ftl.gc greedy, ssd.over_provisioning_percent 50; most 12.57 at ssd.ftl.gc cost-benefit, ssd.over_provisioning_percent 7, 6.04 times.",
      ],
      lines: [
        { id: "waf", title: "write amplification", unit: "", x, series: series(waf) },
        {
          id: "read.iops",
          title: "requests per second",
          unit: "1/s",
          x: { ...x, log: true, values: [...values].reverse(), numbers: [...spare].reverse() },
          series: [{ name: "", values: [...spare].reverse().map((p) => 1_000_000 + 100 * p) }],
        },
        {
          id: "write.iops",
          title: "requests per second",
          unit: "1/s",
          x: { label: "ssd.ftl.gc", log: false, values: policies, numbers: null },
          series: many,
        },
        {
          id: "gone",
          title: "a metric of no run",
          unit: "",
          x,
          series: [{ name: "", values: [null, null, null, null] }],
        },
        { id: "same", title: "a metric of one value", unit: "", x, series: series(() => 3) },
        { id: "broken", title: "Lines of another length", x, series: [{ values: [1, 2] }] },
      ],
      figures: [
        {
          id: "read.p99_us",
          title: "99th percentile of latency",
          unit: "µs",
          x: { label: key, log: false, values: spare },
          y: { label: "workload.depth", log: true, values: depths },
          z: depths.map((depth) => spare.map((percent) => p99(percent, depth))),
          levels: [500, 1000, 2000],
          marks: [],
        },
      ],
    },
  };
}
