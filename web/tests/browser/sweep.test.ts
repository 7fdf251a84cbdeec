import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import type { Fixture } from "../fixture.js";
import { sweep } from "../sweepFixture.js";
import { marks, open, picture, quiet, readoutOver, settle, startBrowser } from "./open.js";

let browser: Browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

for (const scheme of ["light", "dark"] as const) {
  test(`a sweep: its answer, contours, lines and the table of its points, ${scheme}`, async () => {
    const opened = await open(browser, `sweep-${scheme}`, sweep(), { colorScheme: scheme });
    const { page } = opened;
    await picture(page, `sweep-${scheme}`);
    assert.match(await page.locator(".page-head .answer").innerText(), /^waf: least 2\.08 at /);
    assert.deepEqual(await page.locator("nav a").allInnerTexts(), ["Sweep", "Experiment"]);
    assert.doesNotMatch(await page.locator(".provenance").innerText(), /fingerprint/);
    const section = page.locator("#sweep");
    assert.match(
      await section.locator(".lead").innerText(),
      /^12\spoints over ssd\.ftl\.gc \(greedy, fifo, cost-benefit\) and [^.]+\.[^.]+\.5, 28, 50\)\. 11 of them have a result/,
    );
    assert.deepEqual(await section.locator("h3").allInnerTexts(), [
      "99th percentile of latency",
      "Write amplification",
      "Requests per second (read.iops)",
      "Requests per second (write.iops)",
      "Lines of another length",
    ]);
    assert.equal(
      await section.locator(".absent").innerText(),
      "Nothing to show: A metric of no run; A metric of one value (3 at every point).",
    );
    assert.match(await section.locator(".not-drawn").innerText(), /2\svalues, x has 4\svalues/);
    assert.doesNotMatch(await page.locator("main").innerText(), /holds no run/);

    const lines = section.locator(".figure-lines");
    assert.ok((await marks(page, "contour")) > 3);
    assert.match(await readoutOver(page, "contour"), /µs/);
    const waf = lines.nth(0);
    assert.deepEqual(await waf.locator(".legend-entry").allInnerTexts(), [
      "ssd.ftl.gc greedy",
      "ssd.ftl.gc fifo",
      "ssd.ftl.gc cost-benefit",
    ]);
    // Eleven results have a marker; the one that is missing parts its line.
    assert.equal(await waf.locator("g[aria-label=dot] path").count(), 11);
    const parts = await page.evaluate<number[]>(
      `[...document.querySelector(".figure-lines").querySelectorAll("g[aria-label=line] path")]
         .map((path) => path.getAttribute("d").split("M").length - 1)`,
    );
    assert.deepEqual(parts, [1, 2, 1]);
    await waf.scrollIntoViewIfNeeded();
    await waf.locator(".surface").focus();
    await settle(page);
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    assert.match(
      await page.locator("#readout").innerText(),
      /^ssd\.over_provisioning_percent 28\s+ssd\.ftl\.gc greedy\s+2\.929\s+ssd\.ftl\.gc cost-benefit\s+3\.893$/,
    );
    assert.equal(await lines.nth(1).locator(".legend").count(), 0, "one line needs no legend");
    assert.match(await lines.nth(1).innerText(), /\(log\)[^]*does not begin at zero/);
    assert.equal(await lines.nth(2).locator(".legend-entry").count(), 12);
    assert.match(await lines.nth(2).innerText(), /first 12 of 14 lines/);
    assert.deepEqual(
      await lines.nth(2).locator("g[aria-label='x-axis tick label'] text").allTextContents(),
      ["greedy", "fifo", "cost-benefit"],
    );
    await lines.nth(2).locator("summary").click();
    const rows = lines.nth(2).locator("tbody tr");
    await rows.first().waitFor();
    assert.equal(await rows.first().locator("td").count(), 15, "the table has all lines");

    const fold = section.locator(".fold");
    assert.equal(await fold.locator("table").isVisible(), false);
    await fold.locator("summary").focus();
    await page.keyboard.press("Enter");
    assert.equal(await fold.locator("tbody tr").count(), 11);
    assert.match(
      await fold.locator("tbody tr").nth(3).innerText(),
      /^greedy\s+50\s+2\.08\s+220,000\s+–\s+f0500/,
    );
    assert.match(
      await fold.locator("thead").innerText(),
      /Requests per second \(read\.iops\), 1\/s/,
    );
    await picture(page, `sweep-open-${scheme}`);
    quiet(opened);
    await opened.close();
  });
}

test("a sweep without charts shows its table at once, every row of it", async () => {
  const { sweep: whole, ...head } = sweep() as { sweep: Fixture } & Fixture;
  const rows = Array.from({ length: 500 }, (_, seed) => ({
    values: [String(seed)],
    metrics: [seed / 7],
    fingerprint: `${seed}`,
  }));
  const axes = [{ key: "experiment.seed", values: rows.map(({ values }) => values[0]) }];
  const bare = { ...whole, points: 500, axes, rows, lines: [], figures: [], answer: [] };
  const opened = await open(browser, "sweep-bare", { ...head, sweep: bare });
  const { page } = opened;
  assert.equal(await page.locator(".answer, .figure").count(), 0);
  assert.equal(await page.locator("#sweep tbody tr").count(), 500);
  assert.equal(await page.locator("#sweep table").isVisible(), true);
  quiet(opened);
  await opened.close();
});
