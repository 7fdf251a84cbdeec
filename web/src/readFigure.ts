/** Reads pictures of grids: one that does not hold together becomes the sentence that says why. */
import { counted, whole } from "./format.js";
import type { FigureAxis, FigureMark, StudyFigure, UnreadableFigure } from "./schema.js";
import type { Fields, Reader } from "./read.js";

/** A picture has at most as many cells. */
const GREATEST = 40_000;

/** A picture, or why it is none; nothing where the document has no object. */
export function readFigure(
  reader: Reader,
  value: unknown,
  path: string,
): StudyFigure | UnreadableFigure | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const head = readHead(reader, fields, path);
  const read = readGrid(reader, fields, path);
  if (typeof read !== "string") return { ...head, ...read };
  reader.problems.push(`${path}${read}`);
  return { ...head, wrong: `${path}${read}` };
}

/** Id and title of a picture. */
export function readHead(reader: Reader, fields: Fields, path: string) {
  const id = reader.text(fields["id"], `${path}.id`) ?? "";
  return { id, title: reader.text(fields["title"], `${path}.title`) ?? (id || "Picture") };
}

/** A text tells what is wrong, behind the path of the picture. */
function readGrid(
  reader: Reader,
  fields: Fields,
  path: string,
): Omit<StudyFigure, "id" | "title"> | string {
  const x = readAxis(reader, fields, path, "x");
  if (typeof x === "string") return x;
  const y = readAxis(reader, fields, path, "y");
  if (typeof y === "string") return y;
  const [columns, rows] = [x.values.length, y.values.length];
  if (columns * rows > GREATEST) return ` has more than ${whole(GREATEST)} cells`;
  const given = fields["z"];
  if (!Array.isArray(given)) return ".z is not a list";
  if (given.length !== rows)
    return `.z has ${counted(given.length, "row")}, y has ${counted(rows, "value")}`;
  const z: (number | null)[][] = [];
  for (const [j, row] of (given as unknown[]).entries()) {
    if (!Array.isArray(row)) return `.z[${j}] is not a list`;
    if (row.length !== columns)
      return `.z[${j}] has ${counted(row.length, "cell")}, x has ${counted(columns, "value")}`;
    const wrong = row.findIndex((cell) => cell !== null && !isNumber(cell));
    if (wrong >= 0) return `.z[${j}][${wrong}] is not a number`;
    z.push(row as (number | null)[]);
  }
  if (!z.flat().some(isNumber)) return ".z has no figure in any cell";
  const levels = reader.list(fields["levels"], `${path}.levels`, (v, p) => reader.number(v, p));
  const marks = reader.list(fields["marks"], `${path}.marks`, (v, p) => readMark(reader, v, p));
  return {
    unit: reader.text(fields["unit"], `${path}.unit`) ?? "",
    x,
    y,
    z,
    levels: levels ?? [],
    marks: marks ?? [],
  };
}

/** A number that is finite. */
export function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function readAxis(
  reader: Reader,
  fields: Fields,
  path: string,
  name: "x" | "y",
): FigureAxis | string {
  const axis = reader.fields(fields[name], `${path}.${name}`);
  const values: unknown = axis?.["values"];
  if (!Array.isArray(values) || values.length < 2) {
    return `.${name}.values is not a list of two numbers or more`;
  }
  const wrong = values.findIndex(
    (value, i) => !isNumber(value) || (i > 0 && value <= values[i - 1]),
  );
  if (wrong >= 0) return `.${name}.values[${wrong}] is not a number above the one before`;
  const numbers = values as number[];
  const log = axis?.["log"] === true;
  if (log && numbers[0]! <= 0)
    return `.${name} has a logarithmic scale and values that are not above 0`;
  return {
    label: reader.text(axis?.["label"], `${path}.${name}.label`) ?? name,
    log,
    values: numbers,
  };
}

function readMark(reader: Reader, value: unknown, path: string): FigureMark | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const x = reader.number(fields["x"], `${path}.x`);
  const y = reader.number(fields["y"], `${path}.y`);
  if (x === null || y === null) {
    reader.problems.push(`${path} has no place`);
    return null;
  }
  const z = reader.number(fields["z"], `${path}.z`);
  return { x, y, z, label: reader.text(fields["label"], `${path}.label`) ?? "mark" };
}
