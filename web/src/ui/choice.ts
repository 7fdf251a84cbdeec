/** Small controls: a row of choices of which exactly one holds, and tabs. */
import { freshId, html } from "./dom.js";

/** One choice: what it stands for and how it is named. */
export interface Option<T extends string> {
  value: T;
  name: string;
}

/** A row of choices; `changed` is told the new one. */
export function choice<T extends string>(
  label: string,
  options: readonly Option<T>[],
  chosen: T,
  changed: (value: T) => void,
): HTMLElement {
  const group = freshId("choice");
  const entries = options.map((option) => {
    const input = html("input", {
      type: "radio",
      name: group,
      value: option.value,
      checked: option.value === chosen,
    });
    input.addEventListener("change", () => changed(option.value));
    return html("label", {}, input, html("span", {}, option.name));
  });
  return html(
    "fieldset",
    { class: "choice" },
    html("legend", {}, label),
    html("div", { class: "choice-row" }, ...entries),
  );
}

/** Tabs over one panel; `fill` gives the panel's content for a tab. */
export function tabs(
  label: string,
  names: readonly string[],
  fill: (place: number) => HTMLElement,
): HTMLElement {
  const panelId = freshId("panel");
  const panel = html("div", { class: "tab-panel", role: "tabpanel", id: panelId });
  const buttons = names.map((name) =>
    html(
      "button",
      { type: "button", role: "tab", id: freshId("tab"), "aria-controls": panelId },
      name,
    ),
  );
  const select = (place: number, focus: boolean) => {
    buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === place));
      button.tabIndex = index === place ? 0 : -1;
    });
    const button = buttons[place]!;
    panel.setAttribute("aria-labelledby", button.id);
    panel.replaceChildren(fill(place));
    if (focus) button.focus();
  };
  buttons.forEach((button, place) => {
    button.addEventListener("click", () => select(place, false));
    button.addEventListener("keydown", (event) => {
      const target = tabTarget(event.key, place, names.length);
      if (target === null) return;
      event.preventDefault();
      select(target, true);
    });
  });
  select(0, false);
  return html(
    "div",
    { class: "tabs" },
    html("div", { class: "tab-row", role: "tablist", "aria-label": label }, ...buttons),
    panel,
  );
}

/** A list to choose from above one panel, for more names than fit in a row of tabs. */
export function picker(
  label: string,
  names: readonly string[],
  fill: (place: number) => HTMLElement,
): HTMLElement {
  const panel = html("div", { class: "tab-panel" }, fill(0));
  const select = html("select", {}, ...names.map((name) => html("option", {}, name)));
  select.addEventListener("change", () => panel.replaceChildren(fill(select.selectedIndex)));
  return html(
    "div",
    { class: "tabs" },
    html("label", { class: "picker" }, html("span", {}, label), select),
    panel,
  );
}

/** The tab to which a key leads, around the ends; `null` if it leads nowhere. */
export function tabTarget(key: string, place: number, count: number): number | null {
  switch (key) {
    case "ArrowRight":
      return (place + 1) % count;
    case "ArrowLeft":
      return (place + count - 1) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
