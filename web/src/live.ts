/**
 * The page of a run that goes on. A document arrives with each event; its page
 * takes the place of the one before, figure by figure, and leaves alone the
 * figure that the reader has in hand.
 */
import { duration, percent, plain, whole } from "./format.js";
import { pageOf } from "./page.js";
import { readReport } from "./read.js";
import { firstViews } from "./sections/runs.js";
import { html } from "./ui/dom.js";

/** How far a run is. */
interface Live {
  done: number;
  virtual_ns: number;
  work: number;
  /** What `work` counts. */
  unit: string;
  /** Work in a second of real time since the event before. */
  per_s: number;
}

/** Elements whose children are compared one by one; all others are replaced whole. */
const CONTAINERS =
  ".page, main, .page-section, .page-section > div, .run-body, .figure-pair, .block";

/** Where a document says that the events of a run come from; `null` for a document with results. */
export function eventsOf(value: unknown): string | null {
  const events = (value as { events?: unknown } | null)?.events;
  return typeof events === "string" ? events : null;
}

/** Shows what the events bring. */
export function follow(url: string): void {
  const views = firstViews();
  const status = html(
    "p",
    { class: "live-status", "data-state": "waiting" },
    "Waiting for the run.",
  );
  let page: HTMLElement = html("div", { class: "page" }, html("h1", {}, "nandlab"));
  document.body.prepend(html("div", { class: "live-bar" }, status), page);

  const say = (state: string, text: string) => {
    status.dataset["state"] = state;
    status.textContent = text;
  };
  const draw = (text: string) => {
    const value = JSON.parse(text) as { live?: Live | null };
    const reading = readReport(value);
    document.title = `${reading.report.title ?? "a run"} – nandlab live`;
    const fresh = pageOf(reading, views, "Nothing was measured yet.");
    page = refresh(page, fresh) as HTMLElement;
    return value.live ?? null;
  };

  const source = new EventSource(url);
  source.addEventListener("message", (event: MessageEvent<string>) => {
    const live = draw(event.data);
    say("running", live === null ? "Preparing: no request has completed yet." : sayLive(live));
  });
  source.addEventListener("end", (event: MessageEvent<string>) => {
    source.close();
    draw(event.data);
    say("ended", "The run has ended. These are its results.");
  });
  source.addEventListener("error", () => {
    // It connects again by itself, unless it was refused.
    const gone = source.readyState === EventSource.CLOSED;
    say(
      "lost",
      `No connection to the run${gone ? "" : "; trying again"}. This is what it had measured.`,
    );
  });
}

function sayLive({ done, virtual_ns, work, unit, per_s }: Live): string {
  const parts = [
    `${duration(virtual_ns)} of virtual time`,
    `${whole(work)} ${unit}`,
    `${plain(Number(per_s.toPrecision(3)))} ${unit} a second on the wall`,
  ];
  if (done > 0) parts.push(`${percent(Math.min(done, 1))} done`);
  return `Live: ${parts.join(", ")}.`;
}

/** What tells a child from its neighbours. */
function keyOf(element: Element): string {
  return `${element.tagName} ${element.id} ${element.className}`;
}

/** Whether the reader points at a figure, or has the focus in something that would be replaced. */
function isInHand(element: Element): boolean {
  return (
    (element.matches("figure") && element.matches(":hover")) || element.matches(":focus-within")
  );
}

/** Puts a new element in the place of an old one. Returns the one that is then there. */
function refresh(old: Element, fresh: Element): Element {
  const [before, after] = [[...old.children], [...fresh.children]];
  const same =
    old.matches(CONTAINERS) &&
    before.length === after.length &&
    before.every((child, at) => keyOf(child) === keyOf(after[at]!));
  if (same) {
    before.forEach((child, at) => refresh(child, after[at]!));
    return old;
  }
  if (isInHand(old) && keyOf(old) === keyOf(fresh) && !old.matches(CONTAINERS)) return old;
  const opened = [...fresh.querySelectorAll("details")];
  [...old.querySelectorAll("details")].forEach((details, at) => {
    if (details.open && opened[at] !== undefined) opened[at].open = true;
  });
  // A figure draws itself once it is laid out; the page must not jump meanwhile.
  const surfaces = [...fresh.querySelectorAll<HTMLElement>(".surface")];
  [...old.querySelectorAll<HTMLElement>(".surface")].forEach((surface, at) => {
    const next = surfaces[at];
    if (next !== undefined && surface.offsetHeight > 0)
      next.style.minHeight = `${surface.offsetHeight}px`;
  });
  old.replaceWith(fresh);
  return fresh;
}
