/** Reads garbage collection as the programs of a run on a file system felt it. */
import type { Collection, CollectionMoment, Mount, PassSum, Wait } from "./schema.js";
import type { Reader } from "./read.js";
import { readPart } from "./readSsd.js";

/** Passes, waits and mounts; nothing for a run without them. */
export function readCollection(reader: Reader, value: unknown, path: string): Collection | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const list = <T>(name: string, read: (value: unknown, path: string) => T | null): T[] =>
    reader.list(fields[name], `${path}.${name}`, read) ?? [];
  return {
    momentNs: reader.number(fields["moment_ns"], `${path}.moment_ns`) ?? 1,
    moments: list("moments", (v, p) => readMoment(reader, v, p)),
    passes: list("passes", (v, p) => readPasses(reader, v, p)),
    waited: list("waited", (v, p) => readPart(reader, v, p)),
    worst: list("worst", (v, p) => readWait(reader, v, p)),
    mounts: list("mounts", (v, p) => readMount(reader, v, p)),
  };
}

function readMoment(reader: Reader, value: unknown, path: string): CollectionMoment | null {
  const numbers = reader.list(value, path, (v, p) => reader.number(v, p));
  if (numbers === null || numbers.length !== 6) return null;
  const [tNs, threadNs, waitedNs, longestNs, freeBytes, dirtyBytes] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return { tNs, threadNs, waitedNs, longestNs, freeBytes, dirtyBytes };
}

function readPasses(reader: Reader, value: unknown, path: string): PassSum | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    by: reader.text(fields["by"], `${path}.by`) ?? "unnamed",
    kind: reader.text(fields["kind"], `${path}.kind`) ?? "unnamed",
    count: reader.number(fields["count"], `${path}.count`) ?? 0,
    ns: reader.number(fields["ns"], `${path}.ns`) ?? 0,
    movedBytes: reader.number(fields["moved_bytes"], `${path}.moved_bytes`) ?? 0,
  };
}

function readWait(reader: Reader, value: unknown, path: string): Wait | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    op: reader.text(fields["op"], `${path}.op`) ?? "unnamed",
    startNs: reader.number(fields["start_ns"], `${path}.start_ns`) ?? 0,
    ns: reader.number(fields["ns"], `${path}.ns`) ?? 0,
    parts: reader.list(fields["parts"], `${path}.parts`, (v, p) => readPart(reader, v, p)) ?? [],
  };
}

function readMount(reader: Reader, value: unknown, path: string): Mount | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    parts: reader.list(fields["parts"], `${path}.parts`, (v, p) => readPart(reader, v, p)) ?? [],
  };
}
