/** Made-up studies with pictures of grids, with bars and with requests. */
import { HEAD, randomFrom, type Fixture } from "./fixture.js";

/** A picture over two logarithmic axes, with lines, two cells without a figure and points to compare with. */
function picture(): Fixture {
  const sets = [1, 2, 4, 8, 16, 32];
  const caches = [0.25, 0.5, 1, 1.5, 2, 4, 8];
  const gain = (set: number, cache: number) => {
    const held = Math.min(1, cache / set);
    return Math.round(10 * (100 * (1 - held) ** 1.5 * (set / (set + 0.6)))) / 10;
  };
  return {
    id: "sram",
    title: "Gain of random reads",
    unit: "%",
    x: { label: "working set, GiB", log: true, values: sets },
    y: { label: "map cache, MiB", log: true, values: caches },
    z: caches.map((cache) =>
      sets.map((set) => (set === 32 && cache > 2 ? null : gain(set, cache))),
    ),
    levels: [10, 58, 67, 80],
    marks: [
      { x: 4, y: 1.26, z: 63.7, label: "published: 4 GB, 63.7 %" },
      { x: 27, y: 0.28, label: "near a corner" },
      { x: 64, y: 1, label: "another drive" },
    ],
  };
}

/** A study whose grids are drawn: one with two logarithmic axes, one small and even, and one that is none. */
export function grids(): Fixture {
  const even = {
    id: "depth",
    title: "Requests a second",
    unit: "",
    x: { label: "depth", log: false, values: [1, 2, 4] },
    y: { label: "block size, KiB", log: true, values: [4, 64] },
    z: [
      [12_000, 22_500.25, 41_000],
      [3_000, 5_900, 6_100],
    ],
    levels: [],
    marks: [],
  };
  const broken = { ...even, id: "broken", title: "A picture of another shape", z: [[1, 2, 3]] };
  return {
    ...HEAD,
    fingerprint: Array.from({ length: 132 }, (_, run) => (0xabc000 + run).toString(16)).join(" "),
    title: "grids",
    question: "What does a measure do over two parameters?",
    studies: [{ study: "ssd-made-up", claims: null, figures: [picture(), even, broken] }],
  };
}

/** A study with bars: on a scale from zero, on a logarithmic one, and bars that are none. */
export function bars(): Fixture {
  const rate = {
    title: "Transactions a second",
    unit: "1/s",
    log: false,
    groups: ["SS", "SL"],
    series: ["ext2", "nilfs2", "a file system with a long name"],
    values: [
      [1_250, 2_125.25, 800],
      [400, null, 200],
    ],
  };
  const erases = {
    ...rate,
    title: "Erasures",
    unit: "",
    log: true,
    values: [
      [1, 20, 3_000],
      [7, 100, 5],
    ],
  };
  const broken = { ...rate, title: "Bars of another shape", values: [[1, 2, 3]] };
  return {
    ...HEAD,
    title: "bars",
    question: "Which file system is fastest?",
    studies: [{ study: "ssd-bars", claims: null, bars: [rate, erases, broken] }],
  };
}

/** A study with the requests of three runs: one drawn, one without a log, one that asked for nothing. */
export function requests(): Fixture {
  const random = randomFrom(7);
  const cells = Array.from({ length: 1_500 }, (_, at) => {
    const [column, row] = [Math.floor(random() * 400), Math.floor(random() * 200)];
    return at % 3 === 0 ? [column, row, 2, 0, 0] : [column, row % 40, 0, 1, 0];
  });
  const drawn = {
    reads: { requests: 1_000, mean_bytes: 4_096 },
    writes: { requests: 1_000, mean_bytes: 131_072 },
    seg_seq: 0.125,
    seg_cont: 0.1,
    picture: {
      from_ns: 0,
      column_ns: 2 ** 27,
      columns: 400,
      from_bytes: 0,
      row_bytes: 2 ** 22,
      rows: 200,
      cells,
    },
  };
  const nothing = { requests: 0, mean_bytes: null };
  const idle = { reads: nothing, writes: nothing, seg_seq: null, seg_cont: null, picture: null };
  return {
    ...HEAD,
    title: "requests",
    question: "What are the requests?",
    studies: [
      {
        study: "ssd-requests",
        claims: null,
        pictures: [
          {
            title: "postmark",
            runs: [
              { run: "ext4", title: "ext4, SS", requests: drawn, missing: null },
              {
                run: "xfs",
                title: "xfs, SS",
                requests: null,
                missing: "no log of xfs; make it with `nandlab study x --refresh --only xfs`",
              },
              { run: "idle", title: "nothing", requests: idle, missing: null },
            ],
          },
        ],
      },
    ],
  };
}
