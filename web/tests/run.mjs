/**
 * Runs all tests: bundles every test file to plain JavaScript and hands them
 * to node's test runner. `--demo` writes the fixture reports to shots/ instead.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const made = join(root, ".test-build");

/** @param {string} folder */
function testsIn(folder) {
  return readdirSync(join(root, "tests", folder))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join("tests", folder, name));
}

const demo = process.argv.includes("--demo");
const entries = demo ? ["tests/demo.ts"] : [...testsIn("unit"), ...testsIn("browser")];

rmSync(made, { recursive: true, force: true });
mkdirSync(made, { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: entries,
  outdir: made,
  outbase: "tests",
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  packages: "external",
  external: ["*/build.mjs"],
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
const files = entries.map((name) =>
  join(made, name.replace(/^tests[/\\]/, "").replace(/\.ts$/, ".mjs")),
);
const { status } = spawnSync(process.execPath, [...(demo ? [] : ["--test"]), ...files], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
