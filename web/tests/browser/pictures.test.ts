import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { requests } from "../studyFixture.js";
import { open, picture, quiet, startBrowser } from "./open.js";

let browser: Browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

test("requests of a study's runs have two pictures each, or the reason why there are none", async () => {
  const opened = await open(browser, "requests", requests());
  const { page } = opened;
  const fold = page.locator("details", { hasText: "Requests: postmark" });
  await fold.locator("summary").click();
  await picture(page, "requests");
  assert.equal(await page.locator(".io-run").count(), 3);
  const drawings = page.locator(".io-run").first().locator("svg.io-drawing");
  assert.equal(await drawings.count(), 2);
  for (const [at, words] of [
    [0, /ext4, SS, offset over time: 1,000\sreads, 4\.00\sKiB on average$/],
    [1, /1,000\swrites, 128\sKiB on average, segmented sequentiality 12\.5\s?%$/],
  ] as const) {
    assert.match((await drawings.nth(at).getAttribute("aria-label")) ?? "", words);
  }
  // Writes keep to the lowest fifth of the drive, reads do not.
  const top = (at: number) =>
    drawings
      .nth(at)
      .locator("path")
      .evaluate((it) => (it as SVGPathElement).getBBox().y);
  assert.ok((await top(0)) < 5 && (await top(1)) >= 119);
  assert.match(
    await page.locator(".io-run").nth(1).innerText(),
    /No picture: no log of xfs; make it with/,
  );
  assert.match(await page.locator(".io-run").nth(2).innerText(), /neither read nor wrote/);
  quiet(opened);
  await opened.close();
});
