/** Reads studies: their claims, tables and pictures; gaps as in {@link readReport}. */
import { percent } from "./format.js";
import { readFigure } from "./readFigure.js";
import type { Reader } from "./read.js";
import type { Cell, Claim, ClaimKind, Limit, Relation, Study, StudyTable } from "./schema.js";

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
  };
}

function readClaim(reader: Reader, value: unknown, path: string): Claim | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const expected = fields["expected"] === undefined ? "published" : "expected";
  return {
    id: reader.text(fields["id"], `${path}.id`) ?? "",
    kind: reader.word<ClaimKind>(fields["kind"], `${path}.kind`, ["published", "derived"]),
    text: reader.text(fields["text"], `${path}.text`) ?? "",
    expected: reader.cell(fields[expected], `${path}.${expected}`),
    limit: readLimit(reader, fields["relation"], fields["tolerance"], path),
    ours: reader.cell(fields["ours"], `${path}.ours`),
    verdict: reader.text(fields["verdict"], `${path}.verdict`) ?? "not judged",
    reason: reader.text(fields["reason"], `${path}.reason`),
  };
}

const RELATIONS: readonly [string, Relation][] = [
  ["within", "within"],
  ["at_most", "at_most"],
  ["below", "at_most"],
  ["at_least", "at_least"],
  ["above", "at_least"],
];

/**
 * How ours is compared: `relation` is a word, with the amount in the words of `tolerance`, or an
 * object of the word and the amount. Without it, a sign in `tolerance` tells a bound.
 */
function readLimit(reader: Reader, relation: unknown, tolerance: unknown, path: string): Limit {
  const told = reader.text(tolerance, `${path}.tolerance`);
  const sign = told?.startsWith("<") ? "below" : told?.startsWith(">") ? "above" : "within";
  const stated = typeof relation === "object" && relation !== null;
  const [word, amount] = stated
    ? (Object.entries(relation)[0] ?? [])
    : [reader.text(relation, `${path}.relation`) ?? sign, null];
  const known = RELATIONS.find(([name]) => name === word)?.[1];
  if (known === undefined) reader.problems.push(`${path}.relation is not a relation`);
  const number = reader.number(amount, `${path}.relation.${word}`);
  if (known === "at_most" || known === "at_least") {
    const bound = Number(/^[<>]=?\s*(\S+)$/.exec(told ?? "")?.[1] ?? NaN);
    return { relation: known, bound: number ?? (Number.isNaN(bound) ? null : bound) };
  }
  const match = /^[^\d]*?(\d+(?:\.\d+)?)\s*%\s*$/.exec(told ?? "");
  return {
    relation: "within",
    share: number ?? (match ? Number(match[1]) / 100 : null),
    tolerance: told ?? (number === null ? null : percent(number, 1).replace(".0", "")),
  };
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
