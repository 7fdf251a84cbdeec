/** Reads the sections that only runs on an SSD have; gaps as in {@link readReport}. */
import type {
  Attribute,
  EndOfLife,
  Flow,
  Part,
  Phase,
  Rate,
  Utilisation,
  WriteAmplification,
} from "./schema.js";
import type { Reader } from "./read.js";

/** A pair of a name and an amount. */
export function readPart(reader: Reader, value: unknown, path: string): Part | null {
  if (!Array.isArray(value) || value.length !== 2) {
    reader.problems.push(`${path} is not a pair of a name and a number`);
    return null;
  }
  const name = reader.text(value[0], `${path}[0]`);
  const amount = reader.number(value[1], `${path}[1]`);
  return amount === null ? null : { name: name ?? "unnamed", amount };
}

/** Rates of one span; a span without an end has no place. */
export function readRate(reader: Reader, value: unknown, path: string): Rate | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  const tNs = number("t_ns");
  if (tNs === null) return null;
  return {
    tNs,
    readIops: number("read_iops"),
    writeIops: number("write_iops"),
    readMbS: number("read_mb_s"),
    writeMbS: number("write_mb_s"),
    maxNs: number("max_ns"),
  };
}

/** Shares by die and by channel; one that is no share spoils its list, since places are numbers. */
export function readUtilisation(reader: Reader, value: unknown, path: string): Utilisation | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const shares = (name: string): number[] | null => {
    const given = fields[name];
    const list = reader.filled(given, `${path}.${name}`, (v, p) => reader.number(v, p));
    if (list === null || !Array.isArray(given)) return null;
    const wrong = list.findIndex((share) => share < 0 || share > 1 + 1e-9);
    if (wrong >= 0) reader.problems.push(`${path}.${name} has a share outside of 0 to 1`);
    return wrong >= 0 || list.length < given.length ? null : list;
  };
  const dies = shares("dies");
  const channels = shares("channels");
  return dies === null && channels === null ? null : { dies, channels };
}

/** Write amplification and its causes. */
export function readWriteAmplification(
  reader: Reader,
  value: unknown,
  path: string,
): WriteAmplification | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  const byCause = reader.list(fields["by_cause"], `${path}.by_cause`, (v, p) => {
    const cause = reader.fields(v, p);
    const bytes = cause && reader.number(cause["bytes"], `${p}.bytes`);
    if (cause === null || bytes === null) return null;
    return {
      cause: reader.text(cause["cause"], `${p}.cause`) ?? "unnamed",
      bytes,
      perHostByte: reader.number(cause["per_host_byte"], `${p}.per_host_byte`),
    };
  });
  return {
    hostBytes: number("host_bytes"),
    flashBytes: number("flash_bytes"),
    total: number("total"),
    byCause: byCause ?? [],
  };
}

/** A phase; one without a single number says nothing. */
export function readPhase(reader: Reader, value: unknown, path: string): Phase | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const amount = (name: string): number | null => {
    const given = reader.number(fields[name], `${path}.${name}`);
    if (given === null || given >= 0) return given;
    reader.problems.push(`${path}.${name} is below 0`);
    return null;
  };
  const phase = { seconds: amount("seconds"), mbS: amount("mb_s"), requests: amount("requests") };
  if (Object.values(phase).every((number) => number === null)) return null;
  return { name: reader.text(fields["name"], `${path}.name`) ?? "unnamed", ...phase };
}

/** A pair of a path and a value. */
export function readAttribute(reader: Reader, value: unknown, path: string): Attribute | null {
  if (!Array.isArray(value) || value.length !== 2) {
    reader.problems.push(`${path} is not a pair of a path and a value`);
    return null;
  }
  const at = reader.text(value[0], `${path}[0]`);
  return at === null ? null : { path: at, value: reader.text(value[1], `${path}[1]`) ?? "" };
}

/** The end of a drive's life; nothing if it did not come. */
export function readEndOfLife(reader: Reader, value: unknown, path: string): EndOfLife | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    atNs: reader.number(fields["at_ns"], `${path}.at_ns`),
    why: reader.text(fields["why"], `${path}.why`),
    hostBytes: reader.number(fields["host_bytes"], `${path}.host_bytes`),
  };
}

/** The requests of one queue. */
export function readFlow(reader: Reader, value: unknown, path: string): Flow | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const number = (name: string) => reader.number(fields[name], `${path}.${name}`);
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    queue: number("queue"),
    readIops: number("read_iops"),
    writeIops: number("write_iops"),
    meanUs: number("mean_us"),
    p99Us: number("p99_us"),
    waf: number("waf"),
    gcShare: number("gc_share"),
  };
}
