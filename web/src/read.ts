/**
 * Reads a parsed JSON value into a {@link Report}.
 *
 * Reading never fails: a field that is absent or `null` was not recorded, and
 * a field of the wrong kind is treated as not recorded and named in the list
 * of problems, which the page shows.
 */
import type {
  Cell,
  Counter,
  EraseCause,
  Fact,
  FlashPart,
  GroupWear,
  Latency,
  Moment,
  PebGroup,
  ProgramCause,
  RecalledFigure,
  Report,
  Run,
  Wear,
  WearUnit,
} from "./schema.js";
import { capital } from "./format.js";
import {
  readAttribute,
  readEndOfLife,
  readFlow,
  readPart,
  readPhase,
  readRate,
  readUtilisation,
  readWriteAmplification,
} from "./readSsd.js";
import { readChain } from "./readChain.js";
import { readCollection } from "./readCollection.js";
import { readStudy } from "./readStudy.js";
import { readSweep } from "./readSweep.js";
import { readTrace } from "./readTrace.js";

/** What reading gave: the report, and the fields that could not be understood. */
export interface Reading {
  report: Report;
  problems: string[];
}

/** An object of the document. */
export type Fields = Record<string, unknown>;

/** Walks the document and remembers what it could not understand. */
export class Reader {
  readonly problems: string[] = [];

  private absent(value: unknown): boolean {
    return value === undefined || value === null;
  }

  private wrong(path: string, wanted: string): null {
    this.problems.push(`${path} is not ${wanted}`);
    return null;
  }

  fields(value: unknown, path: string): Fields | null {
    if (this.absent(value)) return null;
    if (typeof value !== "object" || Array.isArray(value)) return this.wrong(path, "an object");
    return value as Fields;
  }

  text(value: unknown, path: string): string | null {
    if (this.absent(value)) return null;
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    return this.wrong(path, "a text");
  }

  number(value: unknown, path: string): number | null {
    if (this.absent(value)) return null;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    return this.wrong(path, "a number");
  }

  cell(value: unknown, path: string): Cell {
    if (this.absent(value)) return null;
    if (typeof value === "number" || typeof value === "string") return value;
    if (typeof value === "boolean") return String(value);
    return this.wrong(path, "a number or a text");
  }

  /** A list whose unreadable items are left out; `null` if absent. */
  list<T>(
    value: unknown,
    path: string,
    item: (value: unknown, path: string) => T | null,
  ): T[] | null {
    if (this.absent(value)) return null;
    if (!Array.isArray(value)) return this.wrong(path, "a list");
    const items: T[] = [];
    value.forEach((entry: unknown, index) => {
      const read = item(entry, `${path}[${index}]`);
      if (read !== null) items.push(read);
    });
    return items;
  }

  /** Like {@link list}, but an empty list counts as not recorded. */
  filled<T>(
    value: unknown,
    path: string,
    item: (value: unknown, path: string) => T | null,
  ): T[] | null {
    const items = this.list(value, path, item);
    return items !== null && items.length > 0 ? items : null;
  }

  /** A list of texts; empty if absent. */
  texts(value: unknown, path: string): string[] {
    return this.list(value, path, (v, p) => this.text(v, p)) ?? [];
  }

  /** One of some words, by default the first. */
  word<T extends string>(value: unknown, path: string, words: readonly [T, ...T[]]): T {
    if (this.absent(value)) return words[0];
    const known = words.find((word) => word === value);
    if (known === undefined) this.problems.push(`${path} is not ${words.join(" or ")}`);
    return known ?? words[0];
  }

  eraseCounts(value: unknown, path: string): Uint32Array | null {
    if (this.absent(value)) return null;
    if (!Array.isArray(value)) return this.wrong(path, "a list");
    const counts = new Uint32Array(value.length);
    for (let peb = 0; peb < value.length; peb++) {
      const count: unknown = value[peb];
      if (typeof count !== "number" || !(count >= 0 && count <= 0xffffffff)) {
        return this.wrong(`${path}[${peb}]`, "an erase count");
      }
      counts[peb] = count;
    }
    return counts.length > 0 ? counts : null;
  }
}

/** Reads a parsed JSON value; see the module comment for how it treats gaps. */
export function readReport(value: unknown): Reading {
  const reader = new Reader();
  const root = reader.fields(value, "document") ?? {};
  const report: Report = {
    schema: reader.text(root["schema"], "schema"),
    title: reader.text(root["title"], "title"),
    question: reader.text(root["question"], "question") || null,
    version: reader.text(root["version"], "version"),
    modelVersion: reader.text(root["model_version"], "model_version"),
    seed: readSeed(reader, root["seed"]),
    fingerprint: reader.text(root["fingerprint"], "fingerprint"),
    summary: reader.filled(root["summary"], "summary", (v, p) => readFact(reader, v, p)),
    comparison: reader.texts(root["comparison"], "comparison"),
    experimentToml: reader.text(root["experiment_toml"], "experiment_toml") || null,
    runs: reader.filled(root["runs"], "runs", (v, p) => readRun(reader, v, p)),
    sweep: readSweep(reader, root["sweep"], "sweep"),
    studies: reader.filled(root["studies"], "studies", (v, p) => readStudy(reader, v, p)),
    trace: readTrace(reader, root["trace"], "trace"),
  };
  return { report, problems: reader.problems };
}

/** A seed beyond 2^53 written as a JSON number has lost digits; that is said. */
function readSeed(reader: Reader, value: unknown): string | null {
  const text = reader.text(value, "seed");
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    reader.problems.push("seed is a number beyond 2^53, so its last digits are lost");
  }
  return text;
}

function readFact(reader: Reader, value: unknown, path: string): Fact | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    label: reader.text(fields["label"], `${path}.label`) ?? "",
    value: reader.text(fields["value"], `${path}.value`) ?? "not recorded",
  };
}

function readRun(reader: Reader, value: unknown, path: string): Run | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const kind = reader.text(fields["kind"], `${path}.kind`) === "ssd" ? "ssd" : "ubi";
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed run",
    answer: reader.texts(fields["answer"], `${path}.answer`),
    ended: reader.text(fields["ended"], `${path}.ended`),
    kind,
    part: readFlashPart(reader, fields["part"], `${path}.part`),
    wear: readWear(reader, fields["wear"], `${path}.wear`, kind === "ssd" ? "block" : "PEB"),
    timeline: reader.filled(fields["timeline"], `${path}.timeline`, (v, p) =>
      readMoment(reader, v, p),
    ),
    chain: readChain(reader, fields["chain"], `${path}.chain`),
    collection: readCollection(reader, fields["collection"], `${path}.collection`),
    causes: reader.filled(fields["causes"], `${path}.causes`, (v, p) =>
      readProgramCause(reader, v, p),
    ),
    eraseCauses: reader.filled(fields["erase_causes"], `${path}.erase_causes`, (v, p) =>
      readEraseCause(reader, v, p),
    ),
    latency: reader.filled(fields["latency"], `${path}.latency`, (v, p) =>
      readLatency(reader, v, p),
    ),
    throughput: reader.filled(fields["throughput"], `${path}.throughput`, (v, p) =>
      readRate(reader, v, p),
    ),
    utilisation: readUtilisation(reader, fields["utilisation"], `${path}.utilisation`),
    writeAmplification: readWriteAmplification(
      reader,
      fields["write_amplification"],
      `${path}.write_amplification`,
    ),
    counters: reader.filled(fields["counters"], `${path}.counters`, (v, p) =>
      readCounter(reader, v, p),
    ),
    phases: reader.filled(fields["phases"], `${path}.phases`, (v, p) => readPhase(reader, v, p)),
    sysfs: reader.filled(fields["sysfs"], `${path}.sysfs`, (v, p) => readAttribute(reader, v, p)),
    flows: reader.filled(fields["flows"], `${path}.flows`, (v, p) => readFlow(reader, v, p)),
    endOfLife: readEndOfLife(reader, fields["end_of_life"], `${path}.end_of_life`),
    remarks: reader.texts(fields["remarks"], `${path}.remarks`),
  };
}

function readFlashPart(reader: Reader, value: unknown, path: string): FlashPart | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    title: reader.text(fields["title"], `${path}.title`) ?? "",
    values: reader.number(fields["values"], `${path}.values`),
    recalled:
      reader.list(fields["recalled"], `${path}.recalled`, (v, p) => readRecalled(reader, v, p)) ??
      [],
  };
}

function readRecalled(reader: Reader, value: unknown, path: string): RecalledFigure | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    key: reader.text(fields["key"], `${path}.key`) ?? "unnamed",
    value: reader.text(fields["value"], `${path}.value`) ?? "",
    what: reader.text(fields["what"], `${path}.what`) ?? "",
  };
}

function readWear(reader: Reader, value: unknown, path: string, unit: WearUnit): Wear | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const eraseCounts = reader.eraseCounts(fields["erase_counts"], `${path}.erase_counts`);
  if (eraseCounts === null) return null;
  return {
    unit,
    eraseCounts,
    groups:
      reader.list(fields["groups"], `${path}.groups`, (v, p) => readGroup(reader, v, p, unit)) ??
      [],
    endurance: reader.number(fields["endurance"], `${path}.endurance`),
  };
}

function readGroup(reader: Reader, value: unknown, path: string, unit: WearUnit): PebGroup | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const from = reader.number(fields["from"], `${path}.from`);
  const to = reader.number(fields["to"], `${path}.to`);
  if (from === null || to === null) {
    reader.problems.push(`${path} has no range`);
    return null;
  }
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? `${capital(unit)}s ${from} to ${to}`,
    from,
    to,
    every: reader.number(fields["every"], `${path}.every`),
  };
}

function readMoment(reader: Reader, value: unknown, path: string): Moment | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    tNs: reader.number(fields["t_ns"], `${path}.t_ns`),
    erases: reader.number(fields["erases"], `${path}.erases`),
    groups:
      reader.list(fields["groups"], `${path}.groups`, (v, p) => readGroupWear(reader, v, p)) ?? [],
    free: reader.number(fields["free"], `${path}.free`),
    waf: reader.number(fields["waf"], `${path}.waf`),
  };
}

/** A group keeps its place in the list even when its numbers are missing. */
function readGroupWear(reader: Reader, value: unknown, path: string): GroupWear {
  const fields = reader.fields(value, path) ?? {};
  return {
    min: reader.number(fields["min"], `${path}.min`),
    avg: reader.number(fields["avg"], `${path}.avg`),
    max: reader.number(fields["max"], `${path}.max`),
  };
}

function readProgramCause(reader: Reader, value: unknown, path: string): ProgramCause | null {
  const fields = reader.fields(value, path);
  const bytes = fields && reader.number(fields["bytes"], `${path}.bytes`);
  if (fields === null || bytes === null) return null;
  return { cause: reader.text(fields["cause"], `${path}.cause`) ?? "unnamed", bytes };
}

function readEraseCause(reader: Reader, value: unknown, path: string): EraseCause | null {
  const fields = reader.fields(value, path);
  const erases = fields && reader.number(fields["erases"], `${path}.erases`);
  if (fields === null || erases === null) return null;
  return { cause: reader.text(fields["cause"], `${path}.cause`) ?? "unnamed", erases };
}

function readLatency(reader: Reader, value: unknown, path: string): Latency | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const ns = (name: string) => reader.number(fields[name], `${path}.${name}`);
  return {
    op: reader.text(fields["op"], `${path}.op`) ?? "unnamed",
    count: ns("count"),
    minNs: ns("min_ns"),
    p50Ns: ns("p50_ns"),
    p90Ns: ns("p90_ns"),
    p99Ns: ns("p99_ns"),
    p999Ns: ns("p999_ns"),
    p9999Ns: ns("p9999_ns"),
    p99999Ns: ns("p99999_ns"),
    maxNs: ns("max_ns"),
    meanNs: ns("mean_ns"),
    errors: ns("errors"),
    bytes: ns("bytes"),
    iops: ns("iops"),
    mbS: ns("mb_s"),
    time: reader.filled(fields["time"], `${path}.time`, (v, p) => readPart(reader, v, p)),
    cdf: reader.filled(fields["cdf"], `${path}.cdf`, (v, p) => readPoint(reader, v, p)),
  };
}

function readPoint(reader: Reader, value: unknown, path: string): [number, number] | null {
  const pair = reader.list(value, path, (v, p) => reader.number(v, p));
  if (pair === null) return null;
  const [ns, fraction] = pair;
  if (ns === undefined || fraction === undefined) {
    reader.problems.push(`${path} is not a pair of numbers`);
    return null;
  }
  return [ns, fraction];
}

function readCounter(reader: Reader, value: unknown, path: string): Counter | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    id: reader.text(fields["id"], `${path}.id`),
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    value: reader.cell(fields["value"], `${path}.value`),
    unit: reader.text(fields["unit"], `${path}.unit`) ?? "",
  };
}
