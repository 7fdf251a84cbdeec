/** The page of a run that goes on: its events come from a server of this test, and from nandlab itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { fill, ssd, type Fixture } from "../fixture.js";
import { marks, openUrl, picture, readoutOver, settle, startBrowser } from "./open.js";

let browser: Browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

/** A server of a run; the test says what is sent. */
class Run {
  private readonly pages = new Set<ServerResponse>();
  private readonly server = createServer((request, response) => {
    if (request.url === "/") {
      const page = fill(readFileSync(join("dist", "report.html"), "utf8"), { events: "/events" });
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.end(page.replace("connect-src 'none'", "connect-src 'self'"));
    } else if (request.url === "/events" && this.open) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.flushHeaders();
      this.pages.add(response);
      this.came();
    } else {
      response.writeHead(404).end();
    }
  });
  private came: () => void = () => {};
  open = true;
  url = "";

  async start(): Promise<this> {
    await new Promise<void>((done) => this.server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
    return this;
  }

  /** Until a page follows. */
  followed(): Promise<void> {
    if (this.pages.size > 0) return Promise.resolve();
    return new Promise((done) => (this.came = done));
  }

  send(kind: string, document: Fixture): void {
    for (const page of this.pages)
      page.write(`event: ${kind}\ndata: ${JSON.stringify(document)}\n\n`);
  }

  /** Cuts the pages off. */
  cut(): void {
    for (const page of this.pages) page.destroy();
    this.pages.clear();
  }

  stop(): void {
    this.cut();
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** What a run has measured up to a share of it. */
function soFar(done: number): Fixture {
  const work = Math.round(1_000_000 * done);
  return {
    ...ssd(),
    fingerprint: "known at the end",
    live: { done, virtual_ns: 5e9 * done, work, unit: "requests", per_s: 123_456 },
  };
}

const status = (page: Page) => page.locator(".live-status");

async function says(page: Page, state: string, text: RegExp): Promise<void> {
  await page.waitForSelector(`.live-status[data-state="${state}"]`);
  await page.waitForFunction(
    ({ source }) =>
      new RegExp(source).test(document.querySelector(".live-status")?.textContent ?? ""),
    { source: text.source },
  );
}

test("a run appears, goes on and ends on its page", async (t) => {
  const run = await new Run().start();
  t.after(() => run.stop());
  const opened = await openUrl(browser, run.url);
  const { page } = opened;
  await says(page, "waiting", /Waiting for the run/);
  await run.followed();
  run.send("message", { ...soFar(0), runs: [], live: undefined });
  await says(page, "running", /Preparing/);
  assert.match(await page.locator("main").innerText(), /Nothing was measured yet/);

  run.send("message", soFar(0.25));
  await says(page, "running", /25\.0\s% done/);
  assert.match(
    await status(page).innerText(),
    /1\.25\s+s of virtual time, 250,000\s+requests, 123,000\s+requests a second on the wall/,
  );
  for (const chart of ["latency", "heatmap", "throughput"])
    assert.ok((await page.locator(`.figure-${chart}`).count()) > 0, `${chart} is there`);
  await page.waitForSelector(".figure-latency svg");
  assert.ok((await marks(page, "latency")) > 3);
  await picture(page, "live");

  run.send("end", { ...ssd(), fingerprint: "f1f1f1f1" });
  await says(page, "ended", /has ended/);
  assert.match(await page.locator("body").innerText(), /f1f1f1f1/);
  assert.deepEqual(opened.errors, []);
  assert.deepEqual(opened.requests, [`${run.url}events`], "nothing but the run was asked");
  await opened.close();
});

test("an event leaves the figure in hand, opened details, chosen views and the place on the page", async (t) => {
  const run = await new Run().start();
  t.after(() => run.stop());
  const opened = await openUrl(browser, run.url);
  const { page } = opened;
  await run.followed();
  run.send("message", soFar(0.25));
  await says(page, "running", /25\.0\s% done/);
  await page.waitForSelector(".figure-latency svg");
  const details = page.locator("main details").first();
  await details.evaluate((element) => ((element as HTMLDetailsElement).open = true));
  const text = await readoutOver(page, "latency");
  await page.evaluate("window.mark = document.querySelector('.figure-latency svg')");
  await page.evaluate("window.other = document.querySelector('.figure-heatmap')");
  const scrolled = await page.evaluate("window.scrollY");

  run.send("message", soFar(0.5));
  await says(page, "running", /50\.0\s% done/);
  await settle(page);
  assert.equal(
    await page.evaluate("window.mark === document.querySelector('.figure-latency svg')"),
    true,
    "the figure under the pointer is the one that was there",
  );
  assert.equal(
    await page.evaluate("window.other === document.querySelector('.figure-heatmap')"),
    false,
    "another figure is drawn anew",
  );
  assert.equal(await details.evaluate((element) => (element as HTMLDetailsElement).open), true);
  assert.equal(await page.evaluate("window.scrollY"), scrolled, "the page does not jump");
  assert.equal(await readoutOver(page, "latency"), text, "it can still be read");

  await page.mouse.move(2, 2);
  run.send("message", soFar(0.75));
  await says(page, "running", /75\.0\s% done/);
  await page.waitForFunction("window.mark !== document.querySelector('.figure-latency svg')");
  assert.deepEqual(opened.errors, []);
  await opened.close();
});

test("a run that goes away leaves what it had measured", async (t) => {
  const run = await new Run().start();
  t.after(() => run.stop());
  const opened = await openUrl(browser, run.url);
  await run.followed();
  run.send("message", soFar(0.25));
  await says(opened.page, "running", /25\.0\s% done/);
  run.open = false;
  run.cut();
  await says(opened.page, "lost", /This is what it had measured/);
  assert.ok((await opened.page.locator(".figure-latency").count()) > 0);
  await opened.close();
});

test("nandlab run --watch is followed from its first request to its results", async () => {
  const nandlab = process.env["NANDLAB"] ?? join("..", "target", "debug", "nandlab");
  assert.ok(existsSync(nandlab), `${nandlab} is missing: cargo build, or set NANDLAB`);
  const experiment = join("..", "experiments", "ssd-2008-random-write.toml");
  const args = ["run", experiment, "--set", "workload.requests=600000", "--watch", "--json"];
  const process_ = spawn(nandlab, args, { stdio: ["ignore", "pipe", "pipe"] });
  let result = "";
  process_.stdout.setEncoding("utf8").on("data", (text: string) => (result += text));
  const closed = new Promise<number | null>((done) => process_.on("close", done));
  try {
    let url = "";
    for await (const line of createInterface({ input: process_.stderr })) {
      const found = /^watch the run at (http:\S+)$/.exec(line);
      if (found !== null) {
        url = found[1]!;
        break;
      }
    }
    const opened = await openUrl(browser, url);
    const { page } = opened;
    await says(page, "running", /requests a second on the wall, \d/);
    await page.waitForSelector(".figure-latency svg");
    await page.waitForSelector(".figure-heatmap");
    await picture(page, "live-nandlab");
    await page.waitForSelector('.live-status[data-state="ended"]', { timeout: 120_000 });
    assert.equal(await closed, 0);
    const { fingerprint } = JSON.parse(result) as { fingerprint: string };
    assert.match(await page.locator("body").innerText(), new RegExp(fingerprint.slice(0, 8)));
    assert.deepEqual(opened.errors, []);
    await opened.close();
  } finally {
    process_.kill("SIGKILL");
  }
});
