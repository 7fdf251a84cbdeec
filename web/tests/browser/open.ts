/** Opens a filled report in a headless browser and watches what it does. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { fill, type Fixture } from "../fixture.js";

const SHOTS = "shots";

/** A report on screen and everything that went wrong so far. */
export interface Opened {
  page: Page;
  /** Errors of the page and of its console. */
  errors: string[];
  /** Requests other than for the file itself. */
  requests: string[];
  close(): Promise<void>;
}

/** Starts the browser named by CHROMIUM, or the system's. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** Fills the built template with a document and opens it from a file. */
export async function open(
  browser: Browser,
  name: string,
  fixture: Fixture | null,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  mkdirSync(SHOTS, { recursive: true });
  const template = readFileSync(join("dist", "report.html"), "utf8");
  const file = join(SHOTS, `${name}.html`);
  writeFileSync(file, fixture === null ? template : fill(template, fixture));
  return openUrl(browser, pathToFileURL(file).href, options);
}

/** Opens a page that is there. */
export async function openUrl(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const errors: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) requests.push(request.url());
  });
  await page.goto(url);
  await page.waitForSelector("h1");
  await page.evaluate("document.fonts.ready");
  await settle(page);
  return { page, errors, requests, close: () => context.close() };
}

/** Waits, by frames and not by the clock, until scrolling has come to rest and its events were heard. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(`new Promise((done) => {
    let last = NaN;
    let still = 0;
    const look = () => {
      still = window.scrollY === last ? still + 1 : 0;
      last = window.scrollY;
      if (still < 3) requestAnimationFrame(look);
      else done(null);
    };
    requestAnimationFrame(look);
  })`);
}

/** Saves a picture of the whole page. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
}

/** Nothing went wrong, and nothing was asked of a network. */
export function quiet({ errors, requests }: Opened): void {
  assert.deepEqual(errors, []);
  assert.deepEqual(requests, []);
}

/** How many marks the drawing of a figure has. */
export async function marks(page: Page, figure: string): Promise<number> {
  return page
    .locator(`.figure-${figure} svg`)
    .first()
    .locator("rect, path, circle, line, text")
    .count();
}

/** Points at the middle of a figure's drawing and gives the text of the readout. */
export async function readoutOver(page: Page, figure: string, part = "svg.plot"): Promise<string> {
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
