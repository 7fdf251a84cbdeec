/**
 * Numbers as a reader wants to see them: thousands separated by commas, a real
 * minus sign, units in the size that fits. Nothing here knows about charts.
 */

const wholeFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A true minus sign instead of a hyphen; zero has none, also where a number was rounded to it. */
function withMinus(text: string): string {
  return text.replace("-", /[1-9]/.test(text) ? "\u2212" : "");
}

/** A whole number with thousands separators. */
export function whole(value: number): string {
  return withMinus(wholeFormat.format(value));
}

/** A number with exactly `digits` decimal places. */
export function fixed(value: number, digits: number): string {
  const format = new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return withMinus(format.format(value));
}

/** Any number: whole ones in full, others with decimals that fit their size. */
export function plain(value: number): string {
  if (!Number.isFinite(value)) return "not a number";
  if (Number.isInteger(value)) return whole(value);
  const size = Math.abs(value);
  const options: Intl.NumberFormatOptions =
    size >= 1000
      ? { maximumFractionDigits: 1 }
      : size >= 100
        ? { maximumFractionDigits: 2 }
        : size >= 1
          ? { maximumFractionDigits: 3 }
          : { maximumSignificantDigits: 4 };
  return withMinus(new Intl.NumberFormat("en-US", options).format(value));
}

/** A number with the four digits that count. */
export function fourDigits(value: number): string {
  return plain(Number(value.toPrecision(4)));
}

/** What stands where a value is missing. */
export const MISSING = "\u2013";

/** A number, a text as it is, or the sign for a missing value. */
export function cell(value: number | string | null): string {
  if (value === null) return MISSING;
  return typeof value === "number" ? plain(value) : value;
}

/** A fraction of one as a percentage: `0.614` is `61.4 %`. */
export function percent(fraction: number, digits = 1): string {
  if (fraction > 0 && fraction < 0.5 * 10 ** -(digits + 2)) {
    return `< ${fixed(10 ** -digits, digits)}\u00a0%`;
  }
  return `${fixed(fraction * 100, digits)}\u00a0%`;
}

/** A deviation as a percentage with its sign; plain zero has none. */
export function signedPercent(fraction: number): string {
  const points = fraction * 100;
  const digits = Math.abs(points) >= 100 ? 0 : Math.abs(points) >= 1 ? 1 : 2;
  const text = fixed(points, digits);
  if (Number(points.toFixed(digits)) === 0) return `${fixed(0, digits)}\u00a0%`;
  return `${points > 0 ? "+" : ""}${text}\u00a0%`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Bytes in the greatest binary unit that keeps the number at or above one. */
export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : Math.abs(size) >= 100 ? 0 : Math.abs(size) >= 10 ? 1 : 2;
  return `${fixed(size, digits)}\u00a0${BYTE_UNITS[unit]}`;
}

/** A unit in which a span of time is measured. */
export interface TimeUnit {
  /** Plural name, as an axis shows it. */
  name: string;
  /** Short sign, as it stands behind a number. */
  sign: string;
  ns: number;
}

const SECOND = 1e9;

/** All units, from the smallest to the greatest. */
export const TIME_UNITS: readonly TimeUnit[] = [
  { name: "nanoseconds", sign: "ns", ns: 1 },
  { name: "microseconds", sign: "µs", ns: 1e3 },
  { name: "milliseconds", sign: "ms", ns: 1e6 },
  { name: "seconds", sign: "s", ns: SECOND },
  { name: "minutes", sign: "min", ns: 60 * SECOND },
  { name: "hours", sign: "h", ns: 3600 * SECOND },
  { name: "days", sign: "days", ns: 86_400 * SECOND },
  { name: "years", sign: "years", ns: 365.25 * 86_400 * SECOND },
];

/**
 * The unit for a time axis that ends at `spanNs`: the greatest one of which the
 * span holds at least two, so that the axis has whole ticks.
 */
export function timeUnitFor(spanNs: number): TimeUnit {
  let chosen = TIME_UNITS[0]!;
  for (const unit of TIME_UNITS) {
    if (spanNs >= 2 * unit.ns) chosen = unit;
  }
  return chosen;
}

/** The greatest unit of which a span holds at least one. */
function fittingUnit(ns: number): TimeUnit {
  let chosen = TIME_UNITS[0]!;
  for (const unit of TIME_UNITS) {
    if (Math.abs(ns) >= unit.ns) chosen = unit;
  }
  return chosen;
}

function inUnit(ns: number, unit: TimeUnit, digits: number): string {
  const amount = ns / unit.ns;
  const sign = amount === 1 ? unit.sign.replace(/(day|year)s$/, "$1") : unit.sign;
  return `${fixed(amount, digits)}\u00a0${sign}`;
}

/** Decimal places that leave three significant digits. */
function threeDigits(amount: number): number {
  return Math.abs(amount) >= 100 ? 0 : Math.abs(amount) >= 10 ? 1 : 2;
}

/** A span of time in the unit that fits it: whole amounts as such, others with three digits. */
export function duration(ns: number): string {
  if (ns === 0) return "0\u00a0s";
  const unit = fittingUnit(ns);
  const amount = ns / unit.ns;
  return inUnit(ns, unit, Number.isInteger(amount) ? 0 : threeDigits(amount));
}

/** Like {@link duration}, but always with three digits, so that columns look alike. */
export function evenDuration(ns: number): string {
  if (ns === 0) return "0\u00a0s";
  const unit = fittingUnit(ns);
  return inUnit(ns, unit, unit.ns === 1 ? 0 : threeDigits(ns / unit.ns));
}

/** `1 PEB`, `64 PEBs`: a count with its noun. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)}\u00a0${count === 1 ? one : many}`;
}

/** A text with its first letter as at the beginning of a sentence. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
