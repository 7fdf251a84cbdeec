import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import {
  deviceA,
  drives,
  grids,
  hostile,
  largeDevice,
  sparse,
  ssd,
  study,
  trace,
  type Fixture,
} from "../fixture.js";
import { open, picture, settle, startBrowser, type Opened } from "./open.js";

let browser: Browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

function quiet({ errors, requests }: Opened): void {
  assert.deepEqual(errors, []);
  assert.deepEqual(requests, []);
}

async function marks(page: Page, figure: string): Promise<number> {
  return page
    .locator(`.figure-${figure} svg`)
    .first()
    .locator("rect, path, circle, line, text")
    .count();
}

/** Points at the middle of a figure's drawing and gives the text of the readout. */
async function readoutOver(page: Page, figure: string, part = "svg.plot"): Promise<string> {
  const drawing = page.locator(`.figure-${figure} ${part}`).first();
  await drawing.scrollIntoViewIfNeeded();
  await settle(page);
  const box = await drawing.boundingBox();
  assert.ok(box !== null, `${figure} has a drawing`);
  await page.mouse.move(box.x + box.width * 0.45, box.y + box.height * 0.5);
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.5);
  await page.waitForSelector("#readout:not([hidden])");
  return page.locator("#readout").innerText();
}

const CHARTS = [
  "histogram",
  "wear-over-time",
  "waf",
  "free",
  "program-causes",
  "erase-causes",
  "latency",
];

for (const scheme of ["light", "dark"] as const) {
  test(`one run: every chart is drawn and can be read, ${scheme}`, async () => {
    const opened = await open(browser, `device-a-${scheme}`, deviceA(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `device-a-${scheme}`);
    for (const chart of CHARTS) {
      assert.ok((await marks(page, chart)) > 3, `${chart} has marks`);
      assert.match(await readoutOver(page, chart), /\d/, `${chart} can be read`);
    }
    await readoutOver(page, "wear-over-time");
    await page.screenshot({ path: `shots/readout-${scheme}.png` });
    assert.match(
      await readoutOver(page, "heatmap", ".heat-cells"),
      /PEB \d+\s+erase count\s+29,\d{3}/,
    );
    const paper = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    assert.equal(paper, scheme === "light" ? "rgb(253, 252, 248)" : "rgb(22, 24, 27)");
    quiet(opened);
    await opened.close();
  });

  test(`a study: claims, tables, tabs and small multiples, ${scheme}`, async () => {
    const opened = await open(browser, `study-${scheme}`, study(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `study-${scheme}`);
    assert.equal(await page.locator(".claims tbody tr").count(), 6);
    const verdicts = await page.locator(".verdict-line").innerText();
    assert.match(
      verdicts.replace(/\s+/g, " "),
      /6 published claims: 3 hit 1 miss 1 calibrated 1 not judged/,
    );
    assert.match(await page.locator(".claims tbody tr").first().innerText(), /\+2\.0\s%/);
    assert.equal(await page.locator(".multiples .surface svg").count(), 3);
    assert.match(await readoutOver(page, "ratio"), /Ratio\s+\d+\.\d\d ×/);

    const tabs = page.getByRole("tab");
    assert.equal(await tabs.count(), 4);
    await tabs.nth(1).click();
    assert.match(await page.locator(".run-body").innerText(), /61,\d{3}/);
    await page.keyboard.press("End");
    assert.equal(await tabs.nth(3).getAttribute("aria-selected"), "true");
    assert.match(await page.locator(".run-body").innerText(), /Not recorded/);
    assert.ok((await marks(page, "histogram")) > 3);
    quiet(opened);
    await opened.close();
  });
}

for (const scheme of ["light", "dark"] as const) {
  test(`a trace: picture, sizes, sequentiality and depth, ${scheme}`, async () => {
    const opened = await open(browser, `trace-${scheme}`, trace(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `trace-${scheme}`);
    for (const chart of ["trace-sizes", "trace-segments", "trace-depth"]) {
      assert.ok((await marks(page, chart)) > 3, `${chart} has marks`);
      assert.match(await readoutOver(page, chart), /\d/, `${chart} can be read`);
    }
    assert.match(await readoutOver(page, "trace-picture"), /MiB|GiB[^]*(reads|writes)\s+\d/);
    assert.match(await readoutOver(page, "trace-segments"), /SegSeq\s+\d/);
    const body = await page.locator("main").innerText();
    assert.match(body, /3\sdevices more are not on this page/);
    assert.doesNotMatch(body, /Not recorded/);
    assert.equal(await page.locator("#experiment").count(), 0);

    const cells = "document.querySelector('.trace-cells').getAttribute('href')";
    const all = await page.evaluate(cells);
    await page.locator(".figure-trace-picture").getByLabel("reads", { exact: true }).click();
    const reads = await page.evaluate(cells);
    assert.notEqual(reads, all, "the choice changes the picture");
    await page.locator("#theme-choice").selectOption(scheme === "light" ? "dark" : "light");
    assert.notEqual(await page.evaluate(cells), reads, "the picture follows the scheme");

    await page.getByRole("tab").nth(1).click();
    assert.match(await page.locator("main").innerText(), /does not tell when requests completed/);
    quiet(opened);
    await opened.close();
  });
}

const DRIVE_CHARTS = [
  "phase-seconds",
  "phase-rate",
  "iops",
  "throughput",
  "longest",
  "request-time",
  "latency",
  "amplification",
  "waf",
  "program-causes",
  "erases",
  "dies",
  "channels",
  "histogram",
];

for (const scheme of ["light", "dark"] as const) {
  test(`a drive: throughput, time, write amplification, utilisation and wear, ${scheme}`, async () => {
    const opened = await open(browser, `ssd-${scheme}`, ssd(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `ssd-${scheme}`);
    for (const chart of DRIVE_CHARTS) {
      assert.ok((await marks(page, chart)) > 3, `${chart} has marks`);
      assert.match(await readoutOver(page, chart), /\d/, `${chart} can be read`);
    }
    assert.match(await readoutOver(page, "iops"), /read\s+1,270\s\/s\s+write\s+1,\d{3}\s\/s/);
    const spent = await readoutOver(page, "request-time");
    assert.match(spent, /^write\s+host\s+5\.00\sµs\s+·\s+7\.0\s%/);
    assert.match(spent, /a head of later days\s+10\.0\sµs\s+·\s+14\.1\s%\s+mean\s+71\.0\sµs$/);
    assert.match(
      await readoutOver(page, "amplification"),
      /host\s+1\.000[^]*gc\s+2\.150[^]*wear_level\s+0\.003[^]*write amplification\s+3\.303/,
    );
    const body = await page.locator("main").innerText();
    assert.match(body, /host 1\.000 \+ gc 2\.150 \+ wear_level 0\.003 \+ map 0\.150 = 3\.303\b/);
    assert.match(body, /99\.999 %/);
    assert.doesNotMatch(body, /PEB|Not recorded/);
    assert.match(await readoutOver(page, "heatmap", ".heat-cells"), /^Block [\d,]+\s+erase count/);

    // Bars of a share end alike; bars of a time do not.
    const ends = `(() => {
      const ends = {};
      for (const bar of document.querySelectorAll(".figure-request-time g[aria-label=bar] rect")) {
        const end = Number(bar.getAttribute("x")) + Number(bar.getAttribute("width"));
        ends[bar.getAttribute("y")] = Math.max(end, ends[bar.getAttribute("y")] ?? 0);
      }
      return Object.values(ends);
    })()`;
    const full = (all: number[]) => all.filter((end) => end >= Math.max(...all) - 1).length;
    assert.equal((await page.evaluate<number[]>(ends)).length, 3);
    assert.equal(full(await page.evaluate<number[]>(ends)), 3);
    await page.locator(".figure-request-time").getByLabel("time", { exact: true }).click();
    assert.equal(full(await page.evaluate<number[]>(ends)), 1);
    quiet(opened);
    await opened.close();
  });
}

for (const scheme of ["light", "dark"] as const) {
  test(`pictures of grids: colours, lines with their numbers, points and cells, ${scheme}`, async () => {
    const opened = await open(browser, `grids-${scheme}`, grids(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `grids-${scheme}`);
    assert.doesNotMatch(await page.locator("main").innerText(), /holds no run/);
    const provenance = page.locator(".provenance");
    assert.match(await provenance.innerText(), /132\sfingerprints$/);
    await provenance.locator("summary").click();
    assert.match(await provenance.innerText(), /abc000 [^]*abc083$/);
    const first = page.locator(".figure-contour").first();
    assert.equal(await page.locator(".figure-contour").count(), 2);
    assert.deepEqual(await first.locator(".contour-label").allTextContents(), [
      "10",
      "58",
      "67",
      "80",
    ]);
    assert.equal(await first.locator(".contour-line").count(), 4);
    assert.deepEqual(await first.locator(".contour-mark-label").allTextContents(), [
      "published: 4 GB, 63.7 %",
      "near a corner",
    ]);
    assert.equal(await first.locator(".contour-node-empty").count(), 2);
    assert.deepEqual(
      await first.locator("g[aria-label='y-axis tick label'] text").allTextContents(),
      ["0.25", "0.5", "1", "1.5", "2", "4", "8"],
    );
    assert.match(await first.innerText(), /Beyond the axes: another drive/);
    assert.match(
      await readoutOver(page, "contour"),
      /^[\d.]+\s%\s+working set, GiB\s+\d+\s+map cache, MiB\s+[\d.]+$/,
    );

    // From the upper left by keys: a row down, a column to the right, and to the points behind the cells.
    const surface = first.locator(".surface");
    await surface.focus();
    await settle(page);
    for (const key of ["Home", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    const readout = page.locator("#readout");
    assert.match(await readout.innerText(), /working set, GiB\s+2\s+map cache, MiB\s+4$/);
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    assert.match(
      await readout.innerText(),
      /^published: 4 GB[^]*of the point\s+63\.7\s%\s+of the picture there\s+4\d\.\d+\s%/,
    );
    assert.match(await page.locator("[role=status]").innerText(), /of the point: 63\.7/);

    await first.locator("summary").click();
    const rows = first.locator("tbody tr");
    await rows.first().waitFor();
    assert.equal(await rows.count(), 7);
    assert.match(await rows.first().innerText(), /^8\s+0\s+0\s+0\s+0\s+[\d.]+\s+–$/);

    const broken = page.locator(".study-figure").nth(2);
    assert.match(await broken.innerText(), /Not drawn\. studies\[0\]\.figures\[2\]\.z has 1\srow/);
    const cells = "document.querySelector('.contour-cells').getAttribute('href')";
    const before = await page.evaluate(cells);
    await page.locator("#theme-choice").selectOption(scheme === "light" ? "dark" : "light");
    assert.notEqual(await page.evaluate(cells), before, "the picture follows the scheme");
    quiet(opened);
    await opened.close();
  });
}

test("a run says which figures of its part are recalled, and counters have their ids", async () => {
  const opened = await open(browser, "part", ssd());
  const part = opened.page.locator(".figure-part").first();
  assert.equal(await part.locator("h3").innerText(), "Part: 970-evo");
  assert.match(await part.locator("p").innerText(), /2 of its 34 figures are recalled/);
  const rows = await part.locator("tbody tr").allInnerTexts();
  assert.deepEqual(
    rows.map((row) => row.split(/\s*\t\s*/)),
    [
      ["ssd.timing.erase_us", "3500.0", "all of it"],
      ["ssd.pages", "1536", "the strings"],
    ],
  );
  assert.match(await opened.page.locator(".run-body").first().innerText(), /flash\.host_reads/);
  await opened.page.close();
});

test("values by path stand under the first part of their path", async () => {
  const opened = await open(browser, "sysfs", ssd());
  const groups = opened.page.locator(".figure-sysfs table");
  assert.deepEqual(await groups.locator("caption").allTextContents(), [
    "hpb_stats/",
    "hpb_params/",
    "of the device itself",
    "power_info/",
    "string_descriptors/",
  ]);
  assert.match(await groups.first().innerText(), /hit_cnt\s+123[^]*rb_inactive_cnt\s+17/);
  assert.equal(await groups.nth(3).locator("tr.branch").innerText(), "active/");
  assert.match(await readoutOver(opened.page, "phase-rate"), /rate\s+[\d.]+\sMB\/s\s+requests/);
  quiet(opened);
  await opened.close();

  const without = await open(browser, "no-phases", drives());
  await without.page.getByRole("tab").nth(2).click();
  assert.equal(await without.page.locator(".figure-sysfs, .figure-phase-rate").count(), 0);
  quiet(without);
  await without.close();
});

test("a span in which nothing completed parts the line of the longest latency", async () => {
  const opened = await open(browser, "ssd-gap", ssd());
  const path = opened.page.locator(".figure-longest g[aria-label=line] path");
  assert.equal(((await path.getAttribute("d")) ?? "").split("M").length - 1, 2);
  quiet(opened);
  await opened.close();
});

test("a drive that wore out says so above its figures", async () => {
  const worn = ssd();
  const [run] = worn["runs"] as Fixture[];
  run!["status"] = "worn-out";
  run!["end_of_life"] = { at_ns: 5e9, why: "no free block is left in a unit", host_bytes: 1e9 };
  run!["remarks"] = ["iodepth=8 has no effect"];
  const opened = await open(browser, "ssd-worn", worn);
  const notice = (await opened.page.locator(".run-body .notice").textContent()) ?? "";
  assert.match(notice, /wore out after 5[^:]*: no free block is left in a unit/);
  assert.match(notice, /954\sMiB in the run/);
  assert.match(notice, /iodepth=8 has no effect/);
  quiet(opened);
  await opened.close();
});

test("charts of a drive can be read with the keyboard", async () => {
  const opened = await open(browser, "ssd-keyboard", ssd());
  const { page } = opened;
  for (const [figure, key, expected] of [
    ["request-time", "End", /^flush[^]*1\.17\sms/],
    ["amplification", "Home", /^write amplification/],
    ["dies", "End", /^Die 3\s+at work\s+40\.00\s%/],
    ["longest", "End", /700\sµs/],
  ] as const) {
    const surface = page.locator(`.figure-${figure} .surface`);
    await surface.scrollIntoViewIfNeeded();
    await surface.focus();
    await settle(page);
    await page.keyboard.press(key);
    assert.match(await page.locator("#readout").innerText(), expected);
  }
  quiet(opened);
  await opened.close();
});

test("several drives are compared by write amplification, and gaps of one are named", async () => {
  const opened = await open(browser, "drives", drives());
  const { page } = opened;
  await picture(page, "drives");
  const compared = page.locator("#compared");
  assert.equal(await compared.locator(".figure-amplification").count(), 1);
  assert.match(await compared.innerText(), /Not recorded for 1 of 2 runs/);
  assert.equal(await compared.locator(".multiples .surface svg").count(), 1);
  await page.getByRole("tab").nth(1).click();
  const body = await page.locator(".run-body").innerText();
  assert.match(body, /The host wrote nothing in this run/);
  assert.ok((await page.locator(".run-body").getByText("Not recorded.").count()) >= 4);
  await page.getByRole("tab").nth(2).click();
  assert.match(await page.locator(".run-body").innerText(), /Free PEBs/);
  quiet(opened);
  await opened.close();
});

test("controls change the drawing", async () => {
  const opened = await open(browser, "controls", deviceA());
  const { page } = opened;
  const histogram = page.locator(".figure-histogram");
  await histogram.getByLabel("log", { exact: true }).click();
  assert.match(await histogram.innerText(), /side by side/);
  await histogram.getByLabel("first 64", { exact: true }).click();
  assert.match(await readoutOver(page, "histogram"), /first 64\s+\d+\sPEB/);
  await histogram.screenshot({ path: "shots/histogram-log.png" });

  const canvas = "document.querySelector('.heat-cells').toDataURL()";
  const before = await page.evaluate(canvas);
  await page.locator(".figure-heatmap").getByLabel("by rank", { exact: true }).click();
  assert.notEqual(await page.evaluate(canvas), before);
  await page.locator(".figure-heatmap").screenshot({ path: "shots/heatmap-rank.png" });

  await page.locator(".figure-latency").getByLabel("slower than (log)").click();
  await page.locator(".figure-latency").screenshot({ path: "shots/latency-tail.png" });

  const light = await page.evaluate(canvas);
  await page.locator("#theme-choice").selectOption("dark");
  assert.notEqual(await page.evaluate(canvas), light, "the map follows the scheme");
  const paper = await page.evaluate("getComputedStyle(document.body).backgroundColor");
  assert.equal(paper, "rgb(22, 24, 27)");
  await page.locator(".figure-heatmap").screenshot({ path: "shots/heatmap-rank-dark.png" });
  quiet(opened);
  await opened.close();
});

test("charts can be read with the keyboard", async () => {
  const opened = await open(browser, "keyboard", deviceA());
  const { page } = opened;
  const focus = async (surface: string) => {
    await page.locator(surface).scrollIntoViewIfNeeded();
    await page.locator(surface).focus();
    await settle(page);
  };
  await focus(".figure-wear-over-time .surface");
  await page.keyboard.press("End");
  assert.match(await page.locator("#readout").innerText(), /412\sdays[^]*117,900/);
  await focus(".heat-surface");
  for (const key of ["Home", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await page.locator("#readout").innerText(), /PEB 65\s/);
  assert.match(await page.locator("[role=status]").innerText(), /PEB 65, erase count: 29,/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#readout").isHidden(), true);
  quiet(opened);
  await opened.close();
});

test("every chart has its numbers as a table", async () => {
  for (const [name, fixture, charts] of [
    ["tables", deviceA(), CHARTS.length],
    ["tables-ssd", ssd(), DRIVE_CHARTS.length],
  ] as const) {
    const opened = await open(browser, name, fixture);
    const { page } = opened;
    const details = page.locator(".figure-table");
    assert.equal(await details.count(), charts + 1);
    for (let i = 0; i < (await details.count()); i++) {
      await details.nth(i).locator("summary").click();
      await details.nth(i).locator("tbody tr").first().waitFor();
    }
    await picture(page, name);
    quiet(opened);
    await opened.close();
  }
});

test("every chart and surface has a name", async () => {
  const opened = await open(browser, "names", deviceA());
  const { page } = opened;
  const nameless = await page.evaluate(
    `[...document.querySelectorAll(".surface, .table-scroll")]
       .filter((e) => !e.getAttribute("aria-label") || !e.getAttribute("role")).length`,
  );
  assert.equal(nameless, 0);
  await opened.close();
});

test("262,144 PEBs are drawn as one picture", async () => {
  const opened = await open(browser, "large", largeDevice());
  const { page } = opened;
  await picture(page, "large");
  await page.locator(".figure-heatmap input[value=rank]").click();
  const nodes = await page.evaluate<number>("document.querySelectorAll('*').length");
  assert.ok(nodes < 5_000, `${nodes} elements`);
  assert.match(await readoutOver(page, "heatmap", ".heat-cells"), /PEB 131,\d{3}/);
  quiet(opened);
  await opened.close();
});

test("what is absent is called not recorded", async () => {
  const opened = await open(browser, "sparse", sparse());
  const { page } = opened;
  await picture(page, "sparse");
  assert.ok((await page.getByText("Not recorded.").count()) >= 8);
  quiet(opened);
  await opened.close();

  const empty = await open(browser, "empty", {} as Fixture);
  assert.match(await empty.page.locator("main").innerText(), /The document holds no run/);
  quiet(empty);
  await empty.close();

  const template = await open(browser, "template", null);
  assert.match(await template.page.locator("h1").innerText(), /Empty report template/);
  quiet(template);
  await template.close();
});

test("texts of a document are never run, and odd values do no harm", async () => {
  const opened = await open(browser, "hostile", hostile());
  const { page } = opened;
  await picture(page, "hostile");
  assert.equal(await page.evaluate("window.broken"), undefined);
  assert.match(await page.locator("h1").innerText(), /<\/script>/);
  assert.match(await page.locator(".question").innerText(), /\$& \$1 \/\*NANDLAB_DATA\*\//);
  assert.match(
    await page.locator(".notice").innerText(),
    /nandlab-report\/9[^]*endurance is not a number/,
  );
  quiet(opened);
  await opened.close();
});

test("a narrow screen needs no sideways scrolling", async () => {
  for (const [name, fixture] of [
    ["narrow", study()],
    ["narrow-ssd", ssd()],
    ["narrow-grids", grids()],
  ] as const) {
    const opened = await open(browser, name, fixture, { viewport: { width: 390, height: 800 } });
    const { page } = opened;
    await picture(page, name);
    const over = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    assert.ok(over <= 0, `${over} px too wide`);
    quiet(opened);
    await opened.close();
  }
});
