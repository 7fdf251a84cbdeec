/** Builds elements. Text always goes in as text, never as markup. */

/** What may stand inside an element; `null` and `false` leave nothing. */
export type Child = Node | string | number | null | false | undefined;

/** Attributes by name; `null`, `undefined` and `false` leave one out. */
export type Attributes = Record<string, string | number | boolean | null | undefined>;

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** An HTML element with attributes and children. */
export function html<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** An SVG element with attributes and children. */
export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** The value of a custom property of the style sheet, as it is in force now. */
export function styleValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The colour of a series slot, as a reference that follows the colour scheme. */
export function seriesColour(slot: number): string {
  return `var(--series-${(slot % 8) + 1})`;
}

let lastId = 0;

/** An id that no other element of the page has. */
export function freshId(stem: string): string {
  lastId += 1;
  return `${stem}-${lastId}`;
}

/**
 * Calls `draw` with the width of `host` now and at each change of it, as long
 * as the host is part of the page.
 */
export function onWidth(host: HTMLElement, draw: (width: number) => void): void {
  let drawn = -1;
  const observer = new ResizeObserver((entries) => {
    const width = Math.floor(entries[entries.length - 1]!.contentRect.width);
    if (width <= 0 || width === drawn) return;
    drawn = width;
    draw(width);
  });
  observer.observe(host);
}
