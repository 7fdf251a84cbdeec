/**
 * The report document, schema version 1, as the page holds it after reading.
 *
 * Every section of the document is optional. A section that was not recorded
 * is `null` here, never an empty stand-in, so that the page names it as absent
 * instead of drawing an empty chart.
 */

/** The schema name this page was written for. */
export const SCHEMA = "nandlab-report/1";

/** One key fact of the header, already formatted by the writer. */
export interface Fact {
  label: string;
  value: string;
}

/** What a device wears by: PEBs below UBI, blocks in an SSD. */
export type WearUnit = "PEB" | "block";

/**
 * A half-open range of PEB (or block) numbers, `from` inclusive, `to` exclusive; with `every` it is
 * repeated at that distance, as the SLC blocks of each unit of a drive are.
 */
export interface PebGroup {
  name: string;
  from: number;
  to: number;
  every?: number | null;
}

/** Erase count of every PEB at the end of the run; of an SSD, erasures of every block in the run. */
export interface Wear {
  unit: WearUnit;
  eraseCounts: Uint32Array;
  groups: PebGroup[];
  /** Erases a PEB is rated for, if the experiment states it. */
  endurance: number | null;
}

/** Least, mean and greatest erase count of one group at one moment. */
export interface GroupWear {
  min: number | null;
  avg: number | null;
  max: number | null;
}

/** The state of the device at one moment of virtual time. */
export interface Moment {
  tNs: number | null;
  erases: number | null;
  groups: GroupWear[];
  free: number | null;
  waf: number | null;
}

/** Programmed bytes that one cause is answerable for. */
export interface ProgramCause {
  cause: string;
  bytes: number;
}

/** Erases that one cause is answerable for. */
export interface EraseCause {
  cause: string;
  erases: number;
}

/** The latency of one kind of operation, in virtual nanoseconds. */
export interface Latency {
  op: string;
  count: number | null;
  minNs: number | null;
  p50Ns: number | null;
  p90Ns: number | null;
  p99Ns: number | null;
  p999Ns: number | null;
  p9999Ns: number | null;
  p99999Ns: number | null;
  maxNs: number | null;
  meanNs: number | null;
  errors: number | null;
  bytes: number | null;
  iops: number | null;
  mbS: number | null;
  /** Where the time of a request went on average, a head and its nanoseconds; they sum to the mean. */
  time: Part[] | null;
  /** Points `[ns, fraction of operations no slower]`, ascending; `null` if not recorded. */
  cdf: [number, number][] | null;
}

/** One named number of a run. */
export interface Counter {
  /** Its id, which claims and scripts use; `null` in documents of old versions. */
  id: string | null;
  name: string;
  value: number | string | null;
  unit: string;
}

/** One named part of a sum. */
export interface Part {
  name: string;
  amount: number;
}

/** Rates over the span that ends at `tNs`, and the longest latency in it. */
export interface Rate {
  tNs: number;
  readIops: number | null;
  writeIops: number | null;
  readMbS: number | null;
  writeMbS: number | null;
  maxNs: number | null;
}

/** Shares of the run in which each die and each channel was at work. */
export interface Utilisation {
  dies: number[] | null;
  channels: number[] | null;
}

/** Bytes programmed into flash per byte of the host, as a sum over causes. */
export interface WriteAmplification {
  hostBytes: number | null;
  flashBytes: number | null;
  /** Nothing if the host wrote nothing. */
  total: number | null;
  byCause: { cause: string; bytes: number; perHostByte: number | null }[];
}

/** A part of a run that has a name and numbers of its own. */
export interface Phase {
  name: string;
  seconds: number | null;
  mbS: number | null;
  requests: number | null;
}

/** A value that the drive's host can read at a path, for instance `hpb_stats/hit_cnt`. */
export interface Attribute {
  path: string;
  value: string;
}

/** A figure of a part that was written down from memory. */
export interface RecalledFigure {
  key: string;
  value: string;
  /** What of it is recalled; empty where all of it is. */
  what: string;
}

/** The flash part or drive that the experiment names. */
export interface FlashPart {
  name: string;
  title: string;
  /** How many values its file has. */
  values: number | null;
  /** Those that the run uses and that no source was read for. */
  recalled: RecalledFigure[];
}

/** The end of a drive's life. */
export interface EndOfLife {
  atNs: number | null;
  why: string | null;
  hostBytes: number | null;
}

/** The requests of one submission queue of a drive, and what they caused. */
export interface Flow {
  name: string;
  queue: number | null;
  readIops: number | null;
  writeIops: number | null;
  meanUs: number | null;
  p99Us: number | null;
  waf: number | null;
  /** Its share of the pages that the drive moved. */
  gcShare: number | null;
}

/** A layer that the bytes of a program pass on their way to the cells. */
export interface Layer {
  name: string;
  bytes: number;
  /** Bytes per byte of the layer before. */
  ratio: number | null;
  parts: Part[];
}

/** An end of a flash's life. */
export interface End {
  name: string;
  /** Years that 10, 50 and 90 % of devices do not reach. */
  years: number[];
  /** Bytes that the programs have written by the median. */
  hostBytes: number | null;
}

/** The layers from a program on a file system to the cells, and how long those last. */
export interface Chain {
  layers: Layer[];
  erases: number | null;
  life: End[];
}

/** A part of a run, with the garbage collection in it. */
export interface CollectionMoment {
  tNs: number;
  /** How long the file system's thread collected. */
  threadNs: number;
  /** How long programs waited for garbage collection. */
  waitedNs: number;
  longestNs: number;
  freeBytes: number;
  /** Bytes that only garbage collection makes free. */
  dirtyBytes: number;
}

/** Passes of one kind by one actor. */
export interface PassSum {
  by: string;
  kind: string;
  count: number;
  ns: number;
  movedBytes: number;
}

/** An operation that waited. */
export interface Wait {
  op: string;
  startNs: number;
  ns: number;
  /** Nanoseconds by what they were spent on. */
  parts: Part[];
}

/** A mount, by what its time was spent on. */
export interface Mount {
  name: string;
  parts: Part[];
}

/** Garbage collection of a file system as its programs felt it. */
export interface Collection {
  momentNs: number;
  moments: CollectionMoment[];
  passes: PassSum[];
  /** All waits, by what they were for. */
  waited: Part[];
  worst: Wait[];
  mounts: Mount[];
}

/** One simulated run. */
export interface Run {
  name: string;
  /** What its user wanted to know, a sentence each. */
  answer: string[];
  /** Why it ended, as a sentence. */
  ended: string | null;
  /** A run on an SSD has sections of its own. */
  kind: "ubi" | "ssd";
  part: FlashPart | null;
  wear: Wear | null;
  timeline: Moment[] | null;
  chain: Chain | null;
  collection: Collection | null;
  causes: ProgramCause[] | null;
  eraseCauses: EraseCause[] | null;
  latency: Latency[] | null;
  throughput: Rate[] | null;
  utilisation: Utilisation | null;
  writeAmplification: WriteAmplification | null;
  counters: Counter[] | null;
  phases: Phase[] | null;
  sysfs: Attribute[] | null;
  flows: Flow[] | null;
  endOfLife: EndOfLife | null;
  /** What the user of the load may not expect, a sentence each. */
  remarks: string[];
}

/** A value of a table: a number, a text, or nothing. */
export type Cell = number | string | null;

/**
 * The kinds of claims, in the order in which they are shown: a document has the number or states the
 * order; it follows from arithmetic or theory; or it follows from the model's own rules.
 */
export const CLAIM_KINDS = ["published", "derived", "self-check"] as const;

/** The kind of a claim. */
export type ClaimKind = (typeof CLAIM_KINDS)[number];

/** How ours must stand to a number: near it on both sides, below a bound or above it. */
export const RELATIONS = ["within", "below", "above"] as const;

/** What a claim asks of our number. */
export interface Relation {
  word: (typeof RELATIONS)[number];
  /** The greatest deviation as a fraction of the expected number, or the bound. */
  amount: number;
}

/** One statement of a study and what its runs found. */
export interface Claim {
  id: string;
  kind: ClaimKind;
  text: string;
  /** The published or derived number; a bound may stand without one. */
  expected: number | null;
  relation: Relation | null;
  ours: number | null;
  /** `hit`, `miss` or `calibrated`; any other word is shown as written. */
  verdict: string;
  /** Where a document states the order, and in which words. */
  stated: string | null;
  reason: string | null;
}

/** A published table beside the one found here. */
export interface StudyTable {
  title: string;
  columns: string[];
  published: Cell[][] | null;
  ours: Cell[][] | null;
}

/** One parameter of a picture; its values ascend, and are above 0 if the scale is logarithmic. */
export interface FigureAxis {
  label: string;
  log: boolean;
  values: number[];
}

/** A point beside the figures of a picture. */
export interface FigureMark {
  x: number;
  y: number;
  z: number | null;
  label: string;
}

/** A measure over two parameters: a row of `z` for each value of `y`, in it a cell for each of `x`. */
export interface StudyFigure {
  id: string;
  title: string;
  unit: string;
  x: FigureAxis;
  y: FigureAxis;
  z: (number | null)[][];
  levels: number[];
  marks: FigureMark[];
}

/** A picture that the document has and that cannot be drawn. */
export interface UnreadableFigure {
  id: string;
  title: string;
  wrong: string;
}

/** One published study that was repeated. */
export interface Study {
  study: string;
  question: string | null;
  /** Whether runs were cut short, so that not every claim is judged. */
  quick: boolean;
  claims: Claim[] | null;
  tables: StudyTable[] | null;
  figures: (StudyFigure | UnreadableFigure)[] | null;
  bars: (StudyBars | UnreadableFigure)[] | null;
  pictures: StudyPictures[] | null;
}

/** Pictures of the requests of several runs. */
export interface StudyPictures {
  title: string;
  runs: PicturedRun[];
}

/** The requests of a run; `missing` says why there are none. */
export interface PicturedRun {
  title: string;
  requests: PicturedRequests | null;
  missing: string | null;
}

/** Reads and writes of a run, drawn on the same axes. */
export interface PicturedRequests {
  reads: PicturedOp;
  writes: PicturedOp;
  segSeq: number | null;
  picture: TracePicture | null;
}

/** Requests of one operation. */
export interface PicturedOp {
  requests: number;
  meanBytes: number | null;
}

/** A measure of runs that differ by name: a row of `values` for each group, in it a bar for each of `series`. */
export interface StudyBars {
  id: string;
  title: string;
  unit: string;
  /** Whether the scale of the values is logarithmic; they are above 0 then. */
  log: boolean;
  groups: string[];
  series: string[];
  values: (number | null)[][];
}

/** The axis of a chart of lines: numbers, or words that stand in their order. */
export interface LineAxis {
  label: string;
  log: boolean;
  /** Values as the experiment states them. */
  values: string[];
  /** The same as numbers, above 0 if the scale is logarithmic; `null` for words. */
  numbers: number[] | null;
}

/** One line: a value for each of the axis, `null` where there is no result. */
export interface Line {
  name: string;
  values: (number | null)[];
}

/** A measure over one parameter, a line for each combination of the others. */
export interface LineFigure {
  id: string;
  title: string;
  unit: string;
  x: LineAxis;
  series: Line[];
}

/** A key that a sweep varies. */
export interface SweepAxis {
  key: string;
  values: string[];
}

/** A metric that a sweep shows. */
export interface SweepMetric {
  id: string;
  label: string;
  unit: string;
}

/** A point of a sweep that has a result: a value of each axis, and each metric. */
export interface SweepRow {
  values: string[];
  metrics: (number | null)[];
  fingerprint: string;
}

/** One experiment over a grid of values of its keys. */
export interface Sweep {
  /** Points of the grid; those without a result have no row. */
  points: number | null;
  axes: SweepAxis[];
  metrics: SweepMetric[];
  rows: SweepRow[];
  /** Where each metric is least and greatest, a sentence each. */
  answer: string[];
  figures: (StudyFigure | UnreadableFigure)[];
  lines: (LineFigure | UnreadableFigure)[];
}

/** Values in bins of which each ends at a power of two. */
export interface Distribution {
  count: number | null;
  min: number | null;
  mean: number | null;
  max: number | null;
  /** `[greatest value of the bin, how many]`, ascending. */
  bins: [number, number][];
}

/** Requests of one operation of a trace. */
export interface TraceOp {
  op: string;
  requests: number;
  bytes: number | null;
  meanBytes: number | null;
  fua: number | null;
  sizes: Distribution | null;
  latencyNs: Distribution | null;
}

/** Requests by place and time: `[column, row, reads, writes, trims]` of every cell that holds one. */
export interface TracePicture {
  fromNs: number;
  columnNs: number;
  columns: number;
  fromBytes: number;
  rowBytes: number;
  rows: number;
  cells: [number, number, number, number, number][];
}

/** Sequentiality by place: `[number of the bar, written bytes, bytes of them in sequence]`. */
export interface TraceSegments {
  barBytes: number;
  bars: [number, number, number][];
}

/** Requests under way over time. */
export interface TraceDepth {
  mean: number | null;
  max: number | null;
  spanNs: number;
  overTime: number[];
}

/** One device of a trace. */
export interface TraceDevice {
  name: string;
  firstNs: number | null;
  durationNs: number | null;
  readShare: number | null;
  segSeq: number | null;
  segCont: number | null;
  /** Different bytes that were read, that were written, and that were either. */
  footprint: { read: number | null; written: number | null; either: number | null } | null;
  ops: TraceOp[] | null;
  gapsNs: Distribution | null;
  depth: TraceDepth | null;
  picture: TracePicture | null;
  segments: TraceSegments | null;
}

/** A block trace. */
export interface Trace {
  format: string | null;
  notes: string[] | null;
  devices: TraceDevice[];
  /** Devices that the document leaves out. */
  otherDevices: number | null;
}

/** The whole document. */
export interface Report {
  schema: string | null;
  title: string | null;
  question: string | null;
  version: string | null;
  modelVersion: string | null;
  seed: string | null;
  fingerprint: string | null;
  summary: Fact[] | null;
  /** In what several runs differ, a sentence each. */
  comparison: string[];
  experimentToml: string | null;
  runs: Run[] | null;
  studies: Study[] | null;
  sweep: Sweep | null;
  trace: Trace | null;
}
