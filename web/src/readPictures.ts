/** Reads the pictures of a study's requests; gaps as in {@link readReport}. */
import type { Reader } from "./read.js";
import { readPicture } from "./readTrace.js";
import type { PicturedOp, PicturedRequests, PicturedRun, StudyPictures } from "./schema.js";

/** Pictures under one title. */
export function readPictures(reader: Reader, value: unknown, path: string): StudyPictures | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const runs = reader.filled(fields["runs"], `${path}.runs`, (v, p) => readRun(reader, v, p));
  return { title: reader.text(fields["title"], `${path}.title`) ?? "", runs: runs ?? [] };
}

function readRun(reader: Reader, value: unknown, path: string): PicturedRun | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    title: reader.text(fields["title"], `${path}.title`) ?? "unnamed run",
    requests: readRequests(reader, fields["requests"], `${path}.requests`),
    missing: reader.text(fields["missing"], `${path}.missing`),
  };
}

function readRequests(reader: Reader, value: unknown, path: string): PicturedRequests | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const operation = (name: string): PicturedOp => {
    const of = reader.fields(fields[name], `${path}.${name}`);
    return {
      requests: reader.number(of?.["requests"], `${path}.${name}.requests`) ?? 0,
      meanBytes: reader.number(of?.["mean_bytes"], `${path}.${name}.mean_bytes`),
    };
  };
  return {
    reads: operation("reads"),
    writes: operation("writes"),
    segSeq: reader.number(fields["seg_seq"], `${path}.seg_seq`),
    picture: readPicture(reader, fields["picture"], `${path}.picture`),
  };
}
