// Compiles the tests in a real editor and runs them on the package for a platform: node tests/editor/run.mjs TARGET PYTHON
// PYTHON is an interpreter with trainlint and torch installed in its environment.
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { buildSync } from "esbuild";

const here = import.meta.dirname;
const out = path.join(here, "../../build/editor/compiled");
const host = readdirSync(path.join(here, "host")).filter((name) => name.endsWith(".ts"));
rmSync(out, { recursive: true, force: true });
buildSync({
  entryPoints: [path.join(here, "run.ts"), ...host.map((name) => path.join(here, "host", name))],
  outdir: out,
  outbase: here,
  bundle: true,
  platform: "node",
  format: "cjs",
  sourcemap: "inline",
  external: ["vscode", "mocha", "playwright-core"],
});
cpSync(path.join(here, "host/package.json"), path.join(out, "host/package.json"));
const { version } = JSON.parse(readFileSync(path.join(here, "../../package.json"), "utf8"));
const vsix = path.join(here, `../../dist/trainlint-${version}-${process.argv[2]}.vsix`);
const { status } = spawnSync(
  process.execPath,
  ["--enable-source-maps", path.join(out, "run.js"), vsix, process.argv[3]],
  {
    stdio: "inherit",
  },
);
process.exit(status ?? 1);
