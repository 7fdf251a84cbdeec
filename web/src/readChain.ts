/** Reads the way of the bytes from a program on a file system to the cells. */
import type { Chain, End, Layer } from "./schema.js";
import type { Reader } from "./read.js";
import { readPart } from "./readSsd.js";

/** The layers and the ends of the flash's life; nothing for a run without a file system. */
export function readChain(reader: Reader, value: unknown, path: string): Chain | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const layers = reader.list(fields["layers"], `${path}.layers`, (v, p) => readLayer(reader, v, p));
  const life = reader.list(fields["life"], `${path}.life`, (v, p) => readEnd(reader, v, p));
  if (layers === null || layers.length === 0) return null;
  return { layers, erases: reader.number(fields["erases"], `${path}.erases`), life: life ?? [] };
}

function readLayer(reader: Reader, value: unknown, path: string): Layer | null {
  const fields = reader.fields(value, path);
  const bytes = fields && reader.number(fields["bytes"], `${path}.bytes`);
  if (fields === null || bytes === null) return null;
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    bytes,
    ratio: reader.number(fields["ratio"], `${path}.ratio`),
    parts: reader.list(fields["parts"], `${path}.parts`, (v, p) => readPart(reader, v, p)) ?? [],
  };
}

function readEnd(reader: Reader, value: unknown, path: string): End | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    name: reader.text(fields["name"], `${path}.name`) ?? "unnamed",
    years: reader.list(fields["years"], `${path}.years`, (v, p) => reader.number(v, p)) ?? [],
    hostBytes: reader.number(fields["host_bytes"], `${path}.host_bytes`),
  };
}
