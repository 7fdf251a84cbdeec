/** Reads the section of a block trace; gaps are treated as in `read.ts`. */
import type { Reader } from "./read.js";
import type {
  Distribution,
  Trace,
  TraceDepth,
  TraceDevice,
  TraceOp,
  TracePicture,
  TraceSegments,
} from "./schema.js";

/** The trace of a document, or `null` if it has none with a device. */
export function readTrace(reader: Reader, value: unknown, path: string): Trace | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const devices = reader.filled(fields["devices"], `${path}.devices`, (v, p) =>
    readDevice(reader, v, p),
  );
  return {
    format: reader.text(fields["format"], `${path}.format`),
    notes: reader.filled(fields["notes"], `${path}.notes`, (v, p) => reader.text(v, p)),
    devices: devices ?? [],
    otherDevices: reader.number(fields["other_devices"], `${path}.other_devices`),
  };
}

function readDevice(reader: Reader, value: unknown, path: string): TraceDevice | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  const footprint = reader.fields(fields["footprint_bytes"], `${path}.footprint_bytes`);
  const bytes = (name: string) =>
    reader.number(footprint?.[name], `${path}.footprint_bytes.${name}`);
  return {
    name: `device ${reader.text(fields["device"], `${path}.device`) ?? "without a number"}`,
    firstNs: number("first_ns"),
    durationNs: number("duration_ns"),
    readShare: number("read_share"),
    segSeq: number("seg_seq"),
    segCont: number("seg_cont"),
    footprint: footprint && {
      read: bytes("read"),
      written: bytes("written"),
      either: bytes("either"),
    },
    ops: reader.filled(fields["ops"], `${path}.ops`, (v, p) => readOp(reader, v, p)),
    gapsNs: readDistribution(reader, fields["gaps_ns"], `${path}.gaps_ns`),
    depth: readDepth(reader, fields["depth"], `${path}.depth`),
    picture: readPicture(reader, fields["picture"], `${path}.picture`),
    segments: readSegments(reader, fields["segments"], `${path}.segments`),
  };
}

function readOp(reader: Reader, value: unknown, path: string): TraceOp | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  return {
    op: reader.text(fields["op"], `${path}.op`) ?? "unnamed",
    requests: number("requests") ?? 0,
    bytes: number("bytes"),
    meanBytes: number("mean_bytes"),
    fua: number("fua"),
    sizes: readDistribution(reader, fields["sizes"], `${path}.sizes`),
    latencyNs: readDistribution(reader, fields["latency_ns"], `${path}.latency_ns`),
  };
}

function readDistribution(reader: Reader, value: unknown, path: string): Distribution | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  return {
    count: number("count"),
    min: number("min"),
    mean: number("mean"),
    max: number("max"),
    bins: rows(reader, fields["bins"], `${path}.bins`, 2) as [number, number][],
  };
}

function readDepth(reader: Reader, value: unknown, path: string): TraceDepth | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  const spanNs = number("span_ns");
  const overTime = reader.filled(fields["over_time"], `${path}.over_time`, (v, p) =>
    reader.number(v, p),
  );
  if (spanNs === null || overTime === null) return null;
  return { mean: number("mean"), max: number("max"), spanNs, overTime };
}

/** The cells of a picture, or `null` where they do not hold together. */
export function readPicture(reader: Reader, value: unknown, path: string): TracePicture | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  const [fromNs, columnNs, fromBytes, rowBytes] = [
    number("from_ns"),
    number("column_ns"),
    number("from_bytes"),
    number("row_bytes"),
  ];
  const [columns, lines] = [number("columns"), number("rows")];
  const sized = (count: number | null): count is number =>
    count !== null && count >= 1 && count <= 4096;
  if (!sized(columns) || !sized(lines)) return null;
  if (fromNs === null || columnNs === null || fromBytes === null || rowBytes === null) return null;
  const cells = rows(reader, fields["cells"], `${path}.cells`, 5) as TracePicture["cells"];
  const inside = cells.filter(([x, y]) => x >= 0 && x < columns && y >= 0 && y < lines);
  if (inside.length < cells.length) reader.problems.push(`${path}.cells has cells outside of it`);
  return { fromNs, columnNs, columns, fromBytes, rowBytes, rows: lines, cells: inside };
}

function readSegments(reader: Reader, value: unknown, path: string): TraceSegments | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const barBytes = reader.number(fields["bar_bytes"], `${path}.bar_bytes`);
  const bars = rows(reader, fields["bars"], `${path}.bars`, 3) as [number, number, number][];
  return barBytes === null || bars.length === 0 ? null : { barBytes, bars };
}

/** Rows of `length` numbers each; others are left out and named. */
function rows(reader: Reader, value: unknown, path: string, length: number): number[][] {
  const all = reader.list(value, path, (row, rowPath) => {
    const whole =
      Array.isArray(row) && row.length === length && row.every((it) => Number.isFinite(it));
    if (!whole) reader.problems.push(`${rowPath} is not ${length} numbers`);
    return whole ? (row as number[]) : null;
  });
  return all ?? [];
}
