/** The resolved experiment, as text that can be run again. */
import { counted } from "../format.js";
import { html } from "../ui/dom.js";

/** The text of the experiment, folded away until it is asked for. */
export function experimentSection(toml: string, id: string): HTMLElement {
  const lines = counted(toml.trimEnd().split("\n").length, "line");
  return html(
    "section",
    { id, class: "page-section" },
    html("h2", {}, "Experiment"),
    html(
      "details",
      { class: "experiment" },
      html("summary", {}, `Resolved experiment, every default filled in (${lines})`),
      html("pre", { tabindex: 0 }, html("code", {}, toml)),
    ),
  );
}
