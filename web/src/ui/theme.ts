/** Light and dark: follows the system until the reader chooses. */
import { html } from "./dom.js";

type Theme = "auto" | "light" | "dark";

const KEY = "nandlab-theme";
const DARK = matchMedia("(prefers-color-scheme: dark)");
const CHANGED = "nandlab-theme-changed";
const NAMES: Record<Theme, string> = { auto: "Auto", light: "Light", dark: "Dark" };

/** Storage may be refused to a page opened from a file; the choice then lasts as long as the page. */
function remembered(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

function apply(theme: Theme): void {
  const root = document.documentElement;
  if (theme === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Not remembered; nothing else depends on it.
  }
}

/** The control with which the reader chooses the colour scheme. */
export function themeControl(): HTMLElement {
  const theme = remembered();
  apply(theme);
  const select = html("select", { id: "theme-choice" });
  for (const [value, name] of Object.entries(NAMES)) {
    select.append(html("option", { value, selected: value === theme }, name));
  }
  select.addEventListener("change", () => {
    apply(select.value as Theme);
    window.dispatchEvent(new Event(CHANGED));
  });
  return html("label", { class: "theme-control" }, html("span", {}, "Colours"), select);
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  const chosen = document.documentElement.getAttribute("data-theme");
  if (chosen !== null) return chosen === "dark";
  return DARK.matches;
}

/** What is drawn anew when the scheme changes, and whether it was part of the page yet. */
const drawn = new Set<{ host: Element; redraw: () => void; seen: boolean }>();

/** Drops what has left the page. */
function prune(): void {
  for (const entry of drawn) {
    if (entry.host.isConnected) entry.seen = true;
    else if (entry.seen) drawn.delete(entry);
  }
}

function redrawAll(): void {
  prune();
  for (const { redraw } of drawn) redraw();
}

/** Calls `redraw` when the colour scheme changes, as long as the host is part of the page. */
export function onTheme(host: Element, redraw: () => void): void {
  if (drawn.size === 0) {
    window.addEventListener(CHANGED, redrawAll);
    DARK.addEventListener("change", redrawAll);
  }
  prune();
  drawn.add({ host, redraw, seen: false });
}
