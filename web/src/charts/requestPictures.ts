/** Requests of several runs by time and place: reads and writes apart, two small pictures for each run. */
import { ticks } from "d3";
import type { PicturedOp, PicturedRequests, PicturedRun, StudyPictures } from "../schema.js";
import { bytes, counted, percent, plain, timeUnitFor } from "../format.js";
import { requestBars, type Pictured } from "../layout/requestBars.js";
import { html, seriesColour, svg, type Child } from "../ui/dom.js";

/** The whole drawing and the field within it. */
const SIZE = { width: 476, height: 200 };
const FIELD = { left: 76, top: 8, width: 392, height: 150 };
const SLOT: Record<Pictured, number> = { reads: 1, writes: 0 };

/** Pictures of all runs, one below the other. */
export function requestPictures(pictures: StudyPictures): HTMLElement {
  return html("div", { class: "io-pictures" }, ...pictures.runs.map(runPictures));
}

function runPictures(run: PicturedRun): HTMLElement {
  const { requests } = run;
  return html(
    "figure",
    { class: "io-run" },
    html("h4", {}, run.title),
    requests === null || requests.picture === null
      ? html("p", { class: "absent" }, absence(run))
      : html(
          "div",
          { class: "io-pair" },
          ...(["reads", "writes"] as const).map((op) => opPicture(run, requests, op)),
        ),
  );
}

/** Why a run has no picture. */
function absence({ requests, missing }: PicturedRun): string {
  if (missing !== null) return `No picture: ${missing}.`;
  return requests === null
    ? "No picture: the document has no requests of this run."
    : "The job neither read nor wrote.";
}

/** What stands above a picture. */
export function opCaption(
  op: Pictured,
  { requests, meanBytes }: PicturedOp,
  segSeq: number | null,
) {
  const parts = [counted(requests, op.slice(0, -1))];
  if (meanBytes !== null) parts.push(`${bytes(meanBytes)} on average`);
  if (op === "writes" && segSeq !== null) parts.push(`segmented sequentiality ${percent(segSeq)}`);
  return parts.join(", ");
}

function opPicture(run: PicturedRun, requests: PicturedRequests, op: Pictured): HTMLElement {
  const caption = opCaption(op, requests[op], requests.segSeq);
  return html(
    "div",
    { class: "io-picture" },
    html("p", { class: "io-caption" }, caption),
    drawing(requests, op, `${run.title}, offset over time: ${caption}`),
  );
}

function drawing({ picture }: PicturedRequests, op: Pictured, spoken: string): Child {
  if (picture === null) return null;
  const { left, top, width, height } = FIELD;
  const time = { from: picture.fromNs, to: picture.fromNs + picture.columns * picture.columnNs };
  const place = {
    from: picture.fromBytes,
    to: picture.fromBytes + picture.rows * picture.rowBytes,
  };
  const unit = timeUnitFor(time.to);
  const scale = 2 ** (10 * Math.floor(Math.log2(Math.max(place.to, 1)) / 10));
  const text = (attributes: Record<string, string | number>, words: string) =>
    svg("text", attributes, words);
  return svg(
    "svg",
    {
      class: "io-drawing",
      viewBox: `0 0 ${SIZE.width} ${SIZE.height}`,
      role: "img",
      "aria-label": spoken,
    },
    svg(
      "g",
      { transform: `translate(${left} ${top})` },
      svg("path", {
        d: requestBars(picture, op, width, height),
        style: `fill:${seriesColour(SLOT[op])}`,
      }),
      svg("rect", { class: "io-frame", width, height }),
      ...ticks(time.from / unit.ns, time.to / unit.ns, 5).map((at) =>
        text(
          {
            x: ((at * unit.ns - time.from) / (time.to - time.from)) * width,
            y: height + 16,
            "text-anchor": "middle",
          },
          plain(at),
        ),
      ),
      text(
        { x: width / 2, y: height + 33, "text-anchor": "middle" },
        `time since the job began (${unit.name})`,
      ),
      text(
        { transform: `translate(-56 ${height / 2}) rotate(-90)`, "text-anchor": "middle" },
        "offset",
      ),
      ...ticks(place.from / scale, place.to / scale, 4).map((at) =>
        text(
          {
            x: -6,
            y: height - ((at * scale - place.from) / (place.to - place.from)) * height + 4,
            "text-anchor": "end",
          },
          at === 0 ? "0" : bytes(at * scale),
        ),
      ),
    ),
  );
}
