/** Reads charts of bars: one that does not hold together becomes the sentence that says why. */
import { counted, whole } from "./format.js";
import type { Reader } from "./read.js";
import { isNumber, readHead } from "./readFigure.js";
import type { StudyBars, UnreadableFigure } from "./schema.js";

/** A chart has at most as many bars. */
const GREATEST = 1_000;

/** A chart, or why it is none; nothing where the document has no object. */
export function readBars(
  reader: Reader,
  value: unknown,
  path: string,
): StudyBars | UnreadableFigure | null {
  const fields = reader.fields(value, path);
  if (fields === null) return null;
  const head = readHead(reader, fields, path);
  const refused = (why: string) => {
    reader.problems.push(`${path}${why}`);
    return { ...head, wrong: `${path}${why}` };
  };
  const names = (name: string) =>
    reader.list(fields[name], `${path}.${name}`, (v, p) => reader.text(v, p) ?? "") ?? [];
  const [groups, series] = [names("groups"), names("series")];
  if (groups.length === 0 || series.length === 0) return refused(" names no bars");
  if (groups.length * series.length > GREATEST)
    return refused(` has more than ${whole(GREATEST)} bars`);
  const given: unknown = fields["values"];
  if (!Array.isArray(given) || given.length !== groups.length)
    return refused(`.values is not a list of ${counted(groups.length, "group")}`);
  const log = fields["log"] === true;
  const values: (number | null)[][] = [];
  for (const [at, group] of (given as unknown[]).entries()) {
    if (!Array.isArray(group) || group.length !== series.length)
      return refused(`.values[${at}] is not a list of ${counted(series.length, "bar")}`);
    const wrong = group.findIndex((bar) => bar !== null && !(isNumber(bar) && (!log || bar > 0)));
    if (wrong >= 0) return refused(`.values[${at}][${wrong}] is not a number that can be drawn`);
    values.push(group as (number | null)[]);
  }
  if (!values.flat().some(isNumber)) return refused(".values has no number");
  const unit = reader.text(fields["unit"], `${path}.unit`) ?? "";
  return { ...head, unit, log, groups, series, values };
}
