/** The resolved experiment, as text that can be run again. */
import { html } from "../ui/dom.js";

/** The text of the experiment, folded away until it is asked for. */
export function experimentSection(toml: string, id: string): HTMLElement {
  const lines = toml.trimEnd().split("\n").length;
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Experiment"),
    html(
      "details",
      { class: "experiment" },
      html("summary", {}, `Resolved experiment, every default filled in (${lines} lines)`),
      html("pre", { tabindex: 0 }, html("code", {}, toml)),
    ),
  );
}
