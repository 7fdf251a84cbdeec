/**
 * Made-up documents in the shape that nandlab writes, to test the page with.
 * All numbers come from a fixed random sequence, so every document is the same
 * each time.
 */

/** A document before it is turned into text. */
export type Fixture = Record<string, unknown>;

/** Uniform numbers in [0, 1) from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A number scattered about a mean like the sum of many small causes. */
function about(random: () => number, mean: number, spread: number): number {
  const sum = random() + random() + random() + random() + random() + random();
  return Math.max(0, Math.round(mean + (sum - 3) * spread * 1.41));
}

interface Device {
  name: string;
  pebs: number;
  hot: number;
  hotMean: number;
  coldMean: number;
  days: number;
  seed: number;
}

const GROUPS = (device: Device) => [
  { name: `first ${device.hot}`, from: 0, to: device.hot },
  { name: "others", from: device.hot, to: device.pebs },
];

function eraseCounts(device: Device): number[] {
  const random = randomFrom(device.seed);
  return Array.from({ length: device.pebs }, (_, peb) =>
    peb < device.hot
      ? about(random, device.hotMean, device.hotMean * 0.002)
      : about(
          random,
          device.coldMean * (1 + 0.0006 * Math.sin(peb / 37)),
          device.coldMean * 0.0012,
        ),
  );
}

function timeline(device: Device, moments: number): Fixture[] {
  const random = randomFrom(device.seed + 1);
  const dayNs = 86_400e9;
  return Array.from({ length: moments }, (_, i) => {
    const part = i / (moments - 1);
    const hot = device.hotMean * (part + 0.02 * (1 - Math.exp(-part * 30)) * (1 - part));
    const cold = device.coldMean * part;
    const spread = 40 + 500 * part;
    return {
      t_ns: Math.round(part * device.days * dayNs),
      erases: Math.round(hot * device.hot + cold * (device.pebs - device.hot)),
      groups: [
        {
          min: Math.max(0, Math.round(hot - spread * 4)),
          avg: hot,
          max: Math.round(hot + spread * 4),
        },
        {
          min: Math.max(0, Math.round(cold - spread)),
          avg: cold,
          max: Math.round(cold + spread * 2),
        },
      ],
      free: Math.round(24 + 6 * Math.sin(i / 3) + 4 * random()),
      waf: i === 0 ? null : 1.18 + 0.9 * Math.exp(-part * 9) + 0.02 * random(),
    };
  });
}

function cdf(p50: number, p99: number, max: number): [number, number][] {
  const points: [number, number][] = [];
  for (let i = 0; i <= 60; i++) {
    const fraction = i < 40 ? (i / 40) * 0.9 : 1 - 0.1 * 10 ** (-(i - 40) / 5);
    const tail = -Math.log10(Math.max(1 - fraction, 1e-6));
    const ns =
      fraction <= 0.5
        ? p50 * (0.82 + 0.36 * fraction)
        : p50 * (p99 / p50) ** Math.min(1, (tail - 0.3) / 1.7);
    points.push([Math.round(tail > 2 ? p99 * (max / p99) ** ((tail - 2) / 3) : ns), fraction]);
  }
  points.push([max, 1]);
  return points;
}

function latency(op: string, count: number, p50: number, p99: number, max: number): Fixture {
  return {
    op,
    count,
    min_ns: Math.round(p50 * 0.82),
    p50_ns: p50,
    p90_ns: Math.round(p50 * 1.4),
    p99_ns: p99,
    p999_ns: Math.round(Math.sqrt(p99 * max)),
    max_ns: max,
    mean_ns: Math.round(p50 * 1.12),
    cdf: cdf(p50, p99, max),
  };
}

function run(device: Device): Fixture {
  const counts = eraseCounts(device);
  const erases = counts.reduce((sum, count) => sum + count, 0);
  const page = 126_976;
  return {
    name: device.name,
    wear: { erase_counts: counts, groups: GROUPS(device), endurance: 100_000 },
    timeline: timeline(device, 160),
    chain: {
      layers: [
        { name: "written by the program", bytes: erases * 51_200, ratio: null, parts: [] },
        { name: "out of the page cache", bytes: erases * 81_920, ratio: 1.6, parts: [] },
        {
          name: "programmed",
          bytes: erases * page,
          ratio: 1.55,
          parts: [
            ["fastmap", erases * 26_976],
            ["written to LEBs", erases * 100_000],
          ],
        },
      ],
      erases,
      life: [
        { name: "first block worn out", years: [2.96, 4.74, 6.4], host_bytes: 1.7e12 },
        { name: "reserve used up", years: [8.51, 9.44, 10.35], host_bytes: 3.4e12 },
      ],
    },
    collection: {
      moment_ns: 36e9,
      moments: Array.from({ length: 40 }, (_, i) => {
        const waits = i % 7 === 3 ? 2.4e9 : 0;
        return [
          i * 36e9,
          9e9 + (i % 5) * 3e9,
          waits,
          waits / 2,
          4e6 - (i % 8) * 3e5,
          2e6 + i * 2e4,
        ];
      }),
      passes: [
        { by: "thread", kind: "move", count: 4120, ns: 4.1e11, moved_bytes: 16_777_216 },
        { by: "writer", kind: "move", count: 96, ns: 1.2e10, moved_bytes: 393_216 },
      ],
      waited: [
        ["processor", 2e9],
        ["reads", 0],
        ["erases", 1.2e10],
      ],
      worst: [
        {
          op: "append",
          start_ns: 108e9,
          ns: 1.2e9,
          parts: [
            ["processor", 4e8],
            ["erases", 8e8],
          ],
        },
      ],
      mounts: [
        {
          name: "last",
          parts: [
            ["scan", 2.5e8],
            ["build", 3e6],
            ["check", 4e9],
          ],
        },
      ],
    },
    causes: [
      { cause: "host", bytes: erases * page * 0.71 },
      { cause: "wear levelling", bytes: erases * page * 0.094 },
      { cause: "fastmap", bytes: erases * page * 0.138 },
      { cause: "EC and VID headers", bytes: erases * page * 0.0322 },
      { cause: "garbage collection", bytes: erases * page * 0.0254 },
      { cause: "scrubbing", bytes: 4_063_232 },
    ].map(({ cause, bytes }) => ({ cause, bytes: Math.round(bytes) })),
    erase_causes: [
      { cause: "host overwrite", erases: Math.round(erases * 0.738) },
      { cause: "fastmap anchor", erases: Math.round(erases * 0.201) },
      { cause: "wear levelling", erases: Math.round(erases * 0.061) },
      { cause: "scrubbing", erases: 32 },
    ],
    latency: [
      latency("write", 9_437_184, 412_000, 2_350_000, 61_000_000),
      latency("read", 31_250_112, 78_000, 131_000, 3_100_000),
      latency("sync", 118_204, 4_800_000, 19_700_000, 148_000_000),
    ],
    counters: [
      { id: "fastmap.writes", name: "fastmap writes", value: 7_341_022, unit: "" },
      { name: "fastmap anchor moves", value: 118_032, unit: "" },
      { name: "wear-levelling moves", value: 2_011_774, unit: "" },
      { name: "erase retries", value: 0, unit: "" },
      { name: "write amplification", value: 1.187_4, unit: "" },
      { name: "attach time", value: 41.5, unit: "ms" },
    ],
  };
}

const DEVICE_A: Device = {
  name: "device A, linux-6.1",
  pebs: 1024,
  hot: 64,
  hotMean: 117_900,
  coldMean: 29_280,
  days: 412,
  seed: 11,
};

const EXPERIMENT = `# resolved: every default filled in
[device]
pebs = 1024
leb_size = 126976
page_size = 2048
endurance = 100000

[ubi]
fastmap = true
fastmap_pool_size = 51
fastmap_wl_pool_size = 25
wl_threshold = 4096
model = "linux-6.1"

[workload]
kind = "random-overwrite"
volume_lebs = 940
seed = 1

[[stop]]
mean_erases = 34818
`;

/** What every document begins with. */
export const HEAD = {
  schema: "nandlab-report/1",
  version: "0.1.0",
  model_version: 1,
  seed: 1,
  fingerprint: "5be2a1f07c9d4e83",
  experiment_toml: EXPERIMENT,
};

/** One run of a device whose first 64 PEBs wear about four times as fast as the others. */
export function deviceA(): Fixture {
  return {
    ...HEAD,
    title: "fastmap-device-a",
    question: "Does fastmap concentrate wear on the first 64 PEBs of a device, and how fast?",
    summary: [
      { label: "PEBs", value: "1,024" },
      { label: "LEB size", value: "124 KiB" },
      { label: "Virtual time", value: "412 days" },
      { label: "Host writes", value: "3.05 TiB" },
      { label: "Mean erase count", value: "34,818.7" },
      { label: "Ratio first 64 to others", value: "4.03" },
    ],
    runs: [run(DEVICE_A)],
  };
}

/** A study with four runs, one of them without a timeline, and verdicts of every kind. */
export function study(): Fixture {
  const columns = ["from", "to", "count", "min", "avg", "max"];
  const mainline: Device = { ...DEVICE_A, name: "device A, linux-6.14", hotMean: 61_200, seed: 21 };
  const fixed: Device = {
    ...DEVICE_A,
    name: "device A, without fastmap",
    hotMean: 34_900,
    coldMean: 34_700,
    seed: 31,
  };
  const deviceB: Device = {
    ...DEVICE_A,
    name: "device B, linux-6.1",
    pebs: 4096,
    hotMean: 88_400,
    coldMean: 17_350,
    days: 1204,
    seed: 41,
  };
  return {
    ...HEAD,
    title: "fastmap-first-64",
    question:
      "Can the published wear of the first 64 PEBs under fastmap be reproduced in simulation, and what takes it away?",
    summary: [
      { label: "Runs", value: "4" },
      { label: "Devices", value: "A (1,024 PEBs), B (4,096 PEBs)" },
      { label: "Ratio, device A", value: "4.03" },
      { label: "Ratio, without fastmap", value: "1.01" },
    ],
    runs: [run(DEVICE_A), run(mainline), run(fixed), { ...run(deviceB), timeline: undefined }],
    studies: [
      {
        study: "fastmap-first-64",
        question: "Can the published wear be reproduced?",
        quick: true,
        claims: [
          {
            id: "ratio-a",
            text: "The first 64 PEBs of device A wear about four times as fast as the others.",
            kind: "published",
            expected: 4.02,
            ours: 4.1,
            relation: { within: 0.1 },
            verdict: "hit",
            reason: null,
          },
          {
            id: "mean-first-a",
            text: "Mean erase count of the first 64 PEBs of device A.",
            kind: "published",
            expected: 117_894,
            ours: 117_894,
            relation: { within: 0.01 },
            verdict: "calibrated",
            reason:
              "The length of the run was chosen so that this number is met; it proves nothing.",
          },
          {
            id: "mean-others-a",
            text: "Mean erase count of the other PEBs of device A.",
            kind: "published",
            expected: 29_281,
            ours: 28_755.2,
            relation: { within: 0.05 },
            verdict: "hit",
            reason: null,
          },
          {
            id: "ratio-b",
            text: "The first 64 PEBs of device B wear about six times as fast as the others.",
            kind: "published",
            expected: 6.1,
            ours: 5.09,
            relation: { within: 0.1 },
            verdict: "miss",
            reason: "The published device ran a workload with bursts; the workload here is even.",
          },
          {
            id: "idle-b",
            text: "Erasures of device B while it is idle.",
            kind: "published",
            expected: 3,
            ours: 159,
            relation: { within: 0.1 },
            verdict: "miss",
            reason: "The published device ran a workload with bursts; the workload here is even.",
          },
          {
            id: "difference",
            text: "The difference stays within twice the threshold.",
            kind: "published",
            expected: 3774,
            ours: 6379,
            relation: { below: 8192 },
            verdict: "hit",
            reason: null,
          },
          {
            id: "arithmetic",
            kind: "derived",
            text: "waf(a)",
            expected: 1.18,
            relation: { within: 0.05 },
            ours: 1.187,
            verdict: "hit",
            reason: null,
          },
          {
            id: "order",
            kind: "self-check",
            text: "waf(a) / waf(b)",
            expected: null,
            relation: { above: 1 },
            ours: 1.4,
            verdict: "hit",
            reason: null,
          },
          {
            id: "no-fastmap",
            text: "Without fastmap the ratio is close to one.",
            kind: "published",
            expected: 1,
            ours: 1.006,
            relation: { within: 0.05 },
            verdict: "hit",
            reason: null,
          },
        ],
        tables: [
          {
            title: "Erase counts of device A by PEB range",
            columns,
            published: [
              [0, 63, 64, 116_980, 117_894, 118_720],
              [64, 1023, 960, 29_012, 29_281, 31_077],
            ],
            ours: [
              [0, 63, 64, 117_204, 117_894, 118_455],
              [64, 1023, 960, 28_540, 28_755.2, 29_930],
            ],
          },
          {
            title: "Erase counts of device B by PEB range",
            columns: [...columns, "spread"],
            published: [
              [0, 63, 64, 87_200, 88_400, 90_114],
              [64, 4095, 4032, 14_100, 14_492, 17_800],
            ],
            ours: null,
          },
          { title: "A table of nothing", columns, published: [[null, ""], []], ours: [[]] },
        ],
      },
    ],
  };
}

/** A device of the greatest size the page has to draw. */
export function largeDevice(): Fixture {
  const device: Device = {
    ...DEVICE_A,
    name: "large device",
    pebs: 262_144,
    hotMean: 4100,
    coldMean: 1010,
    seed: 51,
  };
  return {
    ...HEAD,
    title: "large-device",
    question: "How does wear spread over 262,144 PEBs?",
    runs: [run(device)],
  };
}

/** A document with a title and one run that recorded nothing. */
export function sparse(): Fixture {
  return { schema: "nandlab-report/1", title: "nothing recorded", runs: [{ name: "empty run" }] };
}

/** A document with wrong kinds, markup in its texts, odd numbers and a foreign schema. */
export function hostile(): Fixture {
  return {
    schema: "nandlab-report/9",
    title: "</script><script>window.broken=1</script>",
    question: "<img src=x onerror='window.broken=1'> & $& $1 /*NANDLAB_DATA*/",
    seed: 2 ** 60,
    summary: { label: "not a list" },
    runs: [
      {
        name: "<b>bold</b>",
        wear: {
          erase_counts: [7, 7, 7, 7, 7],
          groups: [{ name: "two of them", from: 1, to: 3 }, { from: "x" }],
          endurance: "many",
        },
        timeline: [
          { t_ns: 0, erases: 5, groups: [{ min: 7, avg: 7, max: 7 }], free: 0, waf: null },
        ],
        causes: [{ cause: "host", bytes: 0 }],
        erase_causes: [
          { cause: "a cause with a very long name that cannot fit beside a bar at all", erases: 1 },
        ],
        latency: [{ op: "write", count: 1, cdf: [[0, 1]] }, { op: "read" }],
        counters: [{ name: "text value", value: "yes", unit: 5 }],
      },
      17,
    ],
    studies: [{ study: "odd", claims: [{ id: "zero", expected: 0, ours: 1, verdict: "odd" }] }],
  };
}

/** A trace of a log on one device and of scattered rewrites on another, without completions. */
export function trace(): Fixture {
  const random = randomFrom(61);
  const distribution = (bins: [number, number][], mean: number) => ({
    count: bins.reduce((sum, [, count]) => sum + count, 0),
    min: bins[0]![0],
    mean,
    max: bins.at(-1)![0],
    bins,
  });
  const op = (name: string, requests: number, bins: [number, number][], latency: boolean) => ({
    op: name,
    requests,
    bytes: requests * 16_384,
    mean_bytes: bins.length > 0 ? 16_384 : null,
    fua: name === "write" ? 12 : 0,
    sizes: bins.length > 0 ? distribution(bins, 16_384) : null,
    latency_ns: latency ? distribution([[65_536, requests]], 61_000) : null,
  });
  const cells: number[][] = [];
  for (let column = 0; column < 400; column++) {
    cells.push([column, Math.floor((column * 7) / 20), 0, 40 + Math.floor(random() * 9), 0]);
    if (random() < 0.4) cells.push([column, 150 + Math.floor(random() * 50), 1, 0, 0]);
    if (column % 40 === 0) cells.push([column, 220, 3, 2, 5]);
  }
  const sizes: [number, number][] = [
    [512, 210],
    [4096, 9140],
    [8192, 410],
    [131_072, 7440],
  ];
  const device = {
    device: 0,
    requests: 17_400,
    first_ns: 0,
    duration_ns: 400 * 2 ** 28,
    read_share: 0.012,
    seg_seq: 0.957,
    seg_cont: 0.981,
    footprint_bytes: { read: 2_097_152, written: 266_338_304, either: 267_386_880 },
    ops: [
      op("read", 205, sizes.slice(0, 2), true),
      op("write", 17_200, sizes, true),
      op("flush", 40, [], true),
    ],
    gaps_ns: distribution([[4_194_304, 17_400]], 6_100_000),
    depth: {
      known: 17_400,
      mean: 3.4,
      max: 17,
      gave_up: false,
      span_ns: 2 ** 29,
      over_time: Array.from({ length: 200 }, (_, i) => 3 + 2 * Math.sin(i / 9) + random()),
    },
    picture: {
      from_ns: 0,
      column_ns: 2 ** 28,
      columns: 400,
      from_bytes: 2 ** 30,
      row_bytes: 2 ** 21,
      rows: 240,
      cells,
    },
    segments: {
      bar_bytes: 2 ** 21,
      bars: Array.from({ length: 140 }, (_, i) => [
        512 + i,
        2 ** 21 + (i % 9 === 0 ? 2 ** 19 : 0),
        2 ** 21,
      ]),
    },
  };
  const second = {
    ...device,
    device: 8_388_608,
    seg_seq: 0.02,
    ops: [op("write", 900, sizes.slice(1, 2), false)],
    depth: null,
    picture: { ...device.picture, cells: cells.filter((_, i) => i % 3 === 0) },
    segments: { bar_bytes: 2 ** 20, bars: [[7, 2 ** 22, 2 ** 20]] },
  };
  return {
    schema: "nandlab-report/1",
    title: "usr_0.csv.gz",
    question: "What was asked of the device, where, when, and how sequentially?",
    version: "0.1.0",
    summary: [{ label: "requests", value: "18,300" }],
    trace: {
      format:
        "msr: 32 of the first 32 lines are: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime,AndMoreWithoutASpace",
      notes: ["12 records are before the record before them, by 0.100 ms at most."],
      devices: [device, second],
      other_devices: 3,
    },
  };
}

const SYSFS: [string, string][] = [
  ["hpb_stats/hit_cnt", "123"],
  ["hpb_stats/miss_cnt", "4,096"],
  ["hpb_stats/rcmd_noti_cnt", "0"],
  ["hpb_params/requeue_timeout_ms", "0"],
  ["hpb_params/activation_thld", "8"],
  ["max_number_of_rtt", "2"],
  ["power_info/active/icc_levels_vcc", "0x0f"],
  ["power_info/active/icc_levels_vccq", "0x0d"],
  ["power_info/idle", "yes"],
  ["string_descriptors/product_name", "A DRIVE OF A VERY LONG NAME THAT NEEDS A LINE OF ITS OWN"],
  ["hpb_stats/rb_inactive_cnt", "17"],
];

/** A run on an SSD of two channels and four dies: reads, writes and flushes, and a span without any. */
export function ssd(): Fixture {
  const random = randomFrom(71);
  const spans = 120;
  const spanNs = 2 ** 29;
  const counts = Array.from({ length: 2048 }, () => about(random, 9, 4));
  const host = 400_000_000;
  const byCause = [
    { cause: "host", bytes: host },
    { cause: "gc", bytes: 860_000_000 },
    { cause: "map", bytes: 60_000_000 },
    { cause: "wear_level", bytes: 1_200_000 },
  ];
  const flash = byCause.reduce((sum, { bytes }) => sum + bytes, 0);
  const ops: [string, number, number, number, [string, number][]][] = [
    [
      "read",
      81_920,
      140_287,
      659_455,
      [
        ["controller", 10_500],
        ["link", 23_000],
        ["queue", 40_000],
        ["map", 8_000],
        ["bus", 9_000],
        ["die", 46_000],
        ["gc", 39_000],
        ["erase", 20],
      ],
    ],
    [
      "write",
      97_656,
      58_015,
      4_595_711,
      [
        ["host", 5_000],
        ["controller", 10_000],
        ["link", 25_000],
        ["a head of later days", 10_000],
        ["flush", 21_000],
      ],
    ],
    ["flush", 400, 857_087, 9_597_951, [["flush", 1_170_000]]],
  ];
  return {
    ...HEAD,
    title: "ssd-made-up",
    question: "How fast is a drive that copies, and where does the time go?",
    experiment_toml: '[ssd]\npreset = "sata-tlc"\n',
    summary: [{ label: "capacity", value: "2.0 GB" }],
    runs: [
      {
        name: "a drive",
        kind: "ssd",
        wear: {
          erase_counts: counts,
          groups: Array.from({ length: 4 }, (_, die) => ({
            name: `channel ${die % 2}, die ${Math.floor(die / 2)}`,
            from: die * 512,
            to: (die + 1) * 512,
          })),
          endurance: 3000,
        },
        timeline: Array.from({ length: spans }, (_, i) => ({
          t_ns: (i + 1) * spanNs,
          erases: 150 * i,
          waf: i === 40 ? null : i === 41 ? 410.5 : 2 + random(),
          groups: [],
        })),
        causes: byCause,
        latency: ops.map(([op, count, p50, max, time]) => ({
          ...latency(op, count, p50, Math.round(max * 0.6), max),
          p9999_ns: Math.round(max * 0.9),
          p99999_ns: Math.round(max * 0.97),
          mean_ns: time.reduce((sum, [, ns]) => sum + ns, 0),
          errors: 0,
          bytes: op === "flush" ? 0 : count * 4096,
          mean_bytes: op === "flush" ? 0 : 4096,
          iops: count / 64.4,
          mb_s: op === "flush" ? 0 : (count * 4096) / 64.4e6,
          time,
        })),
        throughput: Array.from({ length: spans }, (_, i) => {
          const idle = i === 40;
          const writes = idle ? 0 : 1500 + 200 * random();
          return {
            t_ns: (i + 1) * spanNs,
            read_iops: idle ? 0 : 1270,
            write_iops: writes,
            read_mb_s: idle ? 0 : 5.2,
            write_mb_s: writes * 0.004096,
            max_ns: idle ? 0 : i === 60 ? 61_000_000 : 700_000,
          };
        }),
        utilisation: { dies: [0.91, 0.88, 0.9, 0.4], channels: [0.21, 0.18] },
        write_amplification: {
          host_bytes: host,
          flash_bytes: flash,
          total: flash / host,
          by_cause: byCause.map((part) => ({ ...part, per_host_byte: part.bytes / host })),
        },
        counters: [
          { id: "flash.host_reads", name: "pages read for the host", value: 81_920, unit: "" },
        ],
        part: {
          name: "970-evo",
          title: "Samsung 970 EVO 1 TB",
          values: 34,
          recalled: [
            { key: "ssd.timing.erase_us", value: "3500.0", what: "" },
            { key: "ssd.pages", value: "1536", what: "the strings" },
          ],
        },
        answer: ["Reads: 1,270 a second; 99 % complete within 396 µs."],
        ended: "The run ended when the load was done, after 179,976 requests.",
        flows: [
          {
            name: "reader",
            queue: 0,
            read_iops: 1270,
            write_iops: 0,
            mean_us: 175.5,
            p99_us: 396,
            waf: null,
            gc_share: 0,
          },
          {
            name: "logger",
            queue: 1,
            read_iops: null,
            write_iops: 1516,
            mean_us: 71,
            p99_us: 2757,
            waf: 3.303,
            gc_share: 1,
          },
        ],
        phases: [
          { name: "write", seconds: 21.4, mb_s: 78.2, requests: 65_536 },
          { name: "rewrite", seconds: 22.9, mb_s: 73.1, requests: 65_536 },
          { name: "random read", seconds: 14.1, mb_s: 119, requests: 409_600 },
          { name: "settle", seconds: 6, mb_s: null, requests: null },
        ],
        sysfs: SYSFS,
      },
    ],
  };
}

/** Two drives, of which the second was neither written nor erased, beside a device without a drive. */
export function drives(): Fixture {
  const one = ssd();
  const [drive] = one["runs"] as Fixture[];
  const blocks = (drive!["wear"] as { erase_counts: number[] }).erase_counts.length;
  const silent = {
    ...drive,
    name: "a drive that is only read",
    answer: ["Reads: 90 a second."],
    ended: "The run ended after 60 s of virtual time.",
    write_amplification: { host_bytes: 0, flash_bytes: 0, total: null, by_cause: [] },
    wear: { ...(drive!["wear"] as Fixture), erase_counts: new Array<number>(blocks).fill(0) },
    timeline: [1e9, 2e9].map((t_ns) => ({ t_ns, erases: 0, waf: null, groups: [] })),
    causes: [{ cause: "host", bytes: 0 }],
    latency: null,
    throughput: null,
    utilisation: { dies: [0, 0, 0, 0], channels: [0, 0] },
    flows: [],
    phases: [],
    sysfs: [],
    counters: [{ id: "gc.copied", name: "pages copied", value: 0, unit: "" }],
  };
  const comparison = ["write amplification: a drive 3.303, device A 1.187, 2.8 times"];
  return { ...one, title: "drives", comparison, runs: [drive, silent, run(DEVICE_A)] };
}

/** A drive whose units begin with SLC blocks, and a device on which one PEB reached its rated endurance. */
export function wornOut(): Fixture {
  const one = ssd();
  const [drive] = one["runs"] as Fixture[];
  const slc = Array.from({ length: 1024 }, (_, block) => (block % 256 < 12 ? 8 : 0));
  const groups = [
    { name: "SLC blocks", from: 0, to: 12, every: 256 },
    { name: "QLC blocks", from: 0, to: 1024 },
  ];
  const device = run({ ...DEVICE_A, hotMean: 99_800, coldMean: 60_000 });
  const wear = { erase_counts: slc, groups, endurance: 1000 };
  return { ...one, title: "worn-out", runs: [device, { ...drive, name: "SLC", wear }] };
}

/** Puts a document into the template as the Rust side does. */
export function fill(template: string, fixture: Fixture): string {
  const text = JSON.stringify(fixture).replaceAll("<", "\\u003c");
  return template.replace("/*NANDLAB_DATA*/", () => text);
}
