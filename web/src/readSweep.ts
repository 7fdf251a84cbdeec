/** Reads a sweep: its points and the charts of them; gaps as in {@link readReport}. */
import { counted } from "./format.js";
import { isNumber, readFigure, readHead } from "./readFigure.js";
import type { Fields, Reader } from "./read.js";
import type { Line, LineAxis, LineFigure, Sweep, SweepRow, UnreadableFigure } from "./schema.js";

/** A sweep; nothing where the document has none. */
export function readSweep(reader: Reader, value: unknown, path: string): Sweep | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const list = <T>(name: string, item: (fields: Fields, path: string) => T | null): T[] =>
    reader.list(fields[name], `${path}.${name}`, (v, p) => {
      const read = reader.fields(v, p);
      return read && item(read, p);
    }) ?? [];
  return {
    points: reader.number(fields["points"], `${path}.points`),
    axes: list("axes", (axis, p) => ({
      key: reader.text(axis["key"], `${p}.key`) ?? "unnamed",
      values: reader.texts(axis["values"], `${p}.values`),
    })),
    metrics: list("metrics", (metric, p) => {
      const id = reader.text(metric["id"], `${p}.id`) ?? "unnamed";
      return {
        id,
        label: reader.text(metric["label"], `${p}.label`) ?? id,
        unit: reader.text(metric["unit"], `${p}.unit`) ?? "",
      };
    }),
    rows: list("rows", (row, p) => readRow(reader, row, p)),
    answer: reader.texts(fields["answer"], `${path}.answer`),
    figures: list("figures", (figure, p) => readFigure(reader, figure, p)),
    lines: list("lines", (figure, p) => readLines(reader, figure, p)),
  };
}

/** A row keeps the places of metrics without a value, so that the others stay under their heads. */
function readRow(reader: Reader, fields: Fields, path: string): SweepRow {
  const metrics: unknown = fields["metrics"];
  return {
    values: reader.texts(fields["values"], `${path}.values`),
    metrics: Array.isArray(metrics)
      ? metrics.map((value, i) => reader.number(value, `${path}.metrics[${i}]`))
      : [],
    fingerprint: reader.text(fields["fingerprint"], `${path}.fingerprint`) ?? "",
  };
}

/** A chart of lines, or why it is none. */
function readLines(reader: Reader, fields: Fields, path: string): LineFigure | UnreadableFigure {
  const head = readHead(reader, fields, path);
  const x = readAxis(reader, fields["x"], `${path}.x`);
  const series = typeof x === "string" ? x : readSeries(reader, fields["series"], x, path);
  if (typeof x === "string" || typeof series === "string") {
    const wrong = `${path}${String(typeof x === "string" ? x : series)}`;
    reader.problems.push(wrong);
    return { ...head, wrong };
  }
  return { ...head, unit: reader.text(fields["unit"], `${path}.unit`) ?? "", x, series };
}

/** A text tells what is wrong, behind the path of the chart. */
function readAxis(reader: Reader, value: unknown, path: string): LineAxis | string {
  const axis = reader.fields(value, path) ?? {};
  const values = reader.texts(axis["values"], `${path}.values`);
  if (values.length === 0) return ".x.values has no value";
  const log = axis["log"] === true;
  const numbers = reader.list(axis["numbers"], `${path}.numbers`, (v, p) => reader.number(v, p));
  if (numbers !== null && numbers.length !== values.length)
    return `.x.numbers has ${counted(numbers.length, "number")} for ${counted(values.length, "value")}`;
  if (log && numbers?.some((number) => number <= 0))
    return ".x has a logarithmic scale and numbers that are not above 0";
  return { label: reader.text(axis["label"], `${path}.label`) ?? "", log, values, numbers };
}

function readSeries(
  reader: Reader,
  given: unknown,
  { values: places }: LineAxis,
  path: string,
): Line[] | string {
  if (!Array.isArray(given)) return ".series is not a list";
  const series: Line[] = [];
  for (const [i, entry] of (given as unknown[]).entries()) {
    const fields = reader.fields(entry, `${path}.series[${i}]`);
    const values: unknown = fields?.["values"];
    if (!Array.isArray(values)) return `.series[${i}].values is not a list`;
    if (values.length !== places.length)
      return `.series[${i}] has ${counted(values.length, "value")}, x has ${counted(places.length, "value")}`;
    const wrong = values.findIndex((item) => item !== null && !isNumber(item));
    if (wrong >= 0) return `.series[${i}].values[${wrong}] is not a number`;
    const name = reader.text(fields?.["name"], `${path}.series[${i}].name`) ?? "";
    series.push({ name, values: values as (number | null)[] });
  }
  return series;
}
