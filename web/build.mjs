/**
 * Builds dist/report.html from src/: one file with script, style and fonts
 * inside. `--check` builds without writing and fails if the committed file
 * differs. The result depends on the sources and the locked packages alone.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const target = join(root, "dist", "report.html");

/** Where the Rust side puts the document. It may stand in the file only once. */
const PLACEHOLDER = "/*NANDLAB_DATA*/";

/** @returns {Promise<string>} the whole page */
export async function buildPage() {
  const result = await build({
    absWorkingDir: root,
    entryPoints: { script: "src/main.ts", style: "src/styles/page.css" },
    outdir: "dist",
    write: false,
    bundle: true,
    minify: true,
    metafile: true,
    format: "iife",
    target: ["es2022", "chrome109", "firefox115", "safari16"],
    charset: "utf8",
    legalComments: "none",
    loader: { ".woff2": "dataurl" },
    logLevel: "warning",
  });
  /** @param {string} ending */
  const output = (ending) => {
    const file = result.outputFiles.find(({ path }) => path.endsWith(ending));
    if (file === undefined) throw new Error(`esbuild made no ${ending}`);
    return file.text.trim();
  };
  const script = output("script.js");
  const style = output("style.css");
  if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
  const parts = {
    SCRIPT_HASH: `sha256-${createHash("sha256").update(script).digest("base64")}`,
    STYLE: style,
    DATA: PLACEHOLDER,
    SCRIPT: script,
    LICENCES: licences(Object.keys(result.metafile.inputs)),
  };
  const template = readFileSync(join(root, "src", "template.html"), "utf8");
  for (const name of Object.keys(parts)) {
    if (!template.includes(`{{${name}}}`)) throw new Error(`the template has no place for ${name}`);
  }
  const page = template.replace(/\{\{(\w+)\}\}/g, (_, name) => {
    if (!(name in parts)) throw new Error(`the template asks for an unknown part: ${name}`);
    return parts[/** @type {keyof typeof parts} */ (name)];
  });
  if (page.split(PLACEHOLDER).length !== 2)
    throw new Error("the placeholder must stand in the page once");
  return page;
}

/**
 * The licence texts of all packages that became part of the page, equal texts
 * once.
 * @param {string[]} inputs
 */
function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) packages.add(match[1]);
  }
  /** @type {Map<string, string[]>} */
  const byText = new Map();
  for (const name of [...packages].sort()) {
    const folder = join(root, "node_modules", name);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
    if (file === undefined) throw new Error(`${name} has no licence file`);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text = readFileSync(join(folder, file), "utf8").replace(/\r\n/g, "\n").trim();
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`]);
  }
  const blocks = [...byText].map(([text, names]) => `${names.join(", ")}\n\n${text}\n`);
  const all = `This file contains the following software and fonts.\n\n${blocks.join("\n----\n\n")}`;
  if (/<\/script|<!--/i.test(all)) throw new Error("a licence text would end its element");
  return all;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = await buildPage();
  if (process.argv.includes("--check")) {
    if (readFileSync(target, "utf8") !== page) {
      console.error("dist/report.html is not what the sources build; run npm run build");
      process.exit(1);
    }
  } else {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, page);
    console.log(`dist/report.html: ${page.length.toLocaleString("en-US")} characters`);
  }
}
