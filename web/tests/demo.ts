/** Writes the fixture reports to shots/, to look at while working on the page. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import {
  deviceA,
  fill,
  hostile,
  largeDevice,
  sparse,
  ssd,
  study,
  trace,
  wornOut,
} from "./fixture.js";
import { grids, requests } from "./studyFixture.js";
import { sweep } from "./sweepFixture.js";

const template = readFileSync("dist/report.html", "utf8");
mkdirSync("shots", { recursive: true });
const fixtures = {
  "device-a": deviceA(),
  study: study(),
  sweep: sweep(),
  large: largeDevice(),
  sparse: sparse(),
  hostile: hostile(),
  trace: trace(),
  ssd: ssd(),
  grids: grids(),
  requests: requests(),
  "worn-out": wornOut(),
};
for (const [name, fixture] of Object.entries(fixtures)) {
  writeFileSync(`shots/${name}.html`, fill(template, fixture));
  console.log(`shots/${name}.html`);
}
