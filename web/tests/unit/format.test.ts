import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bytes,
  cell,
  counted,
  duration,
  evenDuration,
  percent,
  plain,
  signedPercent,
  timeUnitFor,
  whole,
} from "../../src/format.js";

/** Compares with plain spaces, since units stand behind a space that does not break. */
function is(actual: string, expected: string): void {
  assert.equal(actual.replaceAll("\u00a0", " "), expected);
}

test("whole numbers have thousands separators and a real minus", () => {
  is(whole(1_234_567), "1,234,567");
  is(whole(0), "0");
  is(whole(-1234), "\u22121,234");
  for (const zero of [whole(-0), whole(-0.2), plain(-0), percent(-1e-6, 0).slice(0, 1)])
    is(zero, "0");
});

test("plain numbers keep the decimals that fit their size", () => {
  is(plain(29_280.94), "29,280.9");
  is(plain(117.256), "117.26");
  is(plain(4.0213), "4.021");
  is(plain(0.000123456), "0.0001235");
  is(plain(1024), "1,024");
  is(plain(NaN), "not a number");
});

test("cells show texts as they are and a dash for nothing", () => {
  is(cell("about four"), "about four");
  is(cell(null), "–");
  is(cell(1e6), "1,000,000");
});

test("shares never round a trace to nothing", () => {
  is(percent(0.614), "61.4 %");
  is(percent(0), "0.0 %");
  is(percent(0.0000001), "< 0.1 %");
  is(percent(0.0005), "0.1 %");
  is(percent(1, 2), "100.00 %");
});

test("deviations have a sign, zero has none", () => {
  is(signedPercent(0.0199), "+2.0 %");
  is(signedPercent(-0.166), "\u221216.6 %");
  is(signedPercent(0), "0.00 %");
  is(signedPercent(-0.000001), "0.00 %");
  is(signedPercent(2.5), "+250 %");
});

test("bytes use binary units", () => {
  is(bytes(0), "0 B");
  is(bytes(1023), "1,023 B");
  is(bytes(1024), "1.00 KiB");
  is(bytes(126_976), "124 KiB");
  is(bytes(3.05 * 2 ** 40), "3.05 TiB");
});

test("durations use the unit that fits", () => {
  is(duration(0), "0 s");
  is(duration(412_000), "412 µs");
  is(duration(1e6), "1 ms");
  is(duration(19.7e6), "19.7 ms");
  is(duration(90e9), "1.50 min");
  is(duration(86_400e9), "1 day");
  is(duration(2 * 86_400e9), "2 days");
  is(evenDuration(78_000), "78.0 µs");
  is(evenDuration(61e6), "61.0 ms");
  is(evenDuration(5), "5 ns");
});

test("a time axis has at least two of its unit", () => {
  const name = (seconds: number) => timeUnitFor(seconds * 1e9).name;
  assert.equal(name(1.5), "milliseconds");
  assert.equal(name(90), "seconds");
  assert.equal(name(600), "minutes");
  assert.equal(name(7200), "hours");
  assert.equal(name(412 * 86_400), "days");
  assert.equal(name(9 * 366 * 86_400), "years");
});

test("counts carry their noun", () => {
  is(counted(1, "PEB"), "1 PEB");
  is(counted(1024, "PEB"), "1,024 PEBs");
});
