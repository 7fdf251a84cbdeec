/** Reads studies: their claims, tables and pictures; gaps as in {@link readReport}. */
import { readBars } from "./readBars.js";
import { readFigure } from "./readFigure.js";
import { readPictures } from "./readPictures.js";
import type { Reader } from "./read.js";
import { CLAIM_KINDS, RELATIONS } from "./schema.js";
import type { Cell, Claim, ClaimKind, Relation, Study, StudyTable } from "./schema.js";

/** A study. */
export function readStudy(reader: Reader, value: unknown, path: string): Study | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    study: reader.text(fields["study"], `${path}.study`) ?? "unnamed study",
    question: reader.text(fields["question"], `${path}.question`) || null,
    quick: fields["quick"] === true,
    claims: reader.filled(fields["claims"], `${path}.claims`, (v, p) => readClaim(reader, v, p)),
    tables: reader.filled(fields["tables"], `${path}.tables`, (v, p) => readTable(reader, v, p)),
    figures: reader.filled(fields["figures"], `${path}.figures`, (v, p) =>
      readFigure(reader, v, p),
    ),
    bars: reader.filled(fields["bars"], `${path}.bars`, (v, p) => readBars(reader, v, p)),
    pictures: reader.filled(fields["pictures"], `${path}.pictures`, (v, p) =>
      readPictures(reader, v, p),
    ),
  };
}

function readClaim(reader: Reader, value: unknown, path: string): Claim | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  return {
    id: reader.text(fields["id"], `${path}.id`) ?? "",
    kind: reader.word<ClaimKind>(fields["kind"], `${path}.kind`, CLAIM_KINDS),
    text: reader.text(fields["text"], `${path}.text`) ?? "",
    expected: reader.number(fields["expected"], `${path}.expected`),
    relation: readRelation(reader, fields["relation"], `${path}.relation`),
    ours: reader.number(fields["ours"], `${path}.ours`),
    verdict: reader.text(fields["verdict"], `${path}.verdict`) ?? "not judged",
    stated: reader.text(fields["stated"], `${path}.stated`),
    reason: reader.text(fields["reason"], `${path}.reason`),
  };
}

/** An object of one word and its amount, as `{"within": 0.1}`. */
function readRelation(reader: Reader, value: unknown, path: string): Relation | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const word = RELATIONS.find((known) => typeof fields[known] === "number");
  if (word === undefined) reader.problems.push(`${path} is not a relation`);
  return word === undefined ? null : { word, amount: fields[word] as number };
}

function readTable(reader: Reader, value: unknown, path: string): StudyTable | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const rows = (name: string) =>
    reader.filled(fields[name], `${path}.${name}`, (v, p) => readRow(reader, v, p));
  return {
    title: reader.text(fields["title"], `${path}.title`) ?? "",
    columns:
      reader.list(fields["columns"], `${path}.columns`, (v, p) => reader.text(v, p) ?? "") ?? [],
    published: rows("published"),
    ours: rows("ours"),
  };
}

/** A row keeps empty cells in place, so that columns stay under their heads. */
function readRow(reader: Reader, value: unknown, path: string): Cell[] | null {
  if (!Array.isArray(value)) {
    reader.problems.push(`${path} is not a list`);
    return null;
  }
  return value.map((entry: unknown, index) => reader.cell(entry, `${path}[${index}]`));
}
