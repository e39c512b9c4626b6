// Compiles the unit tests and runs them: node tests/editor/unit/run.mjs
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { buildSync } from "esbuild";

const here = import.meta.dirname;
const out = path.join(here, "../../../build/editor/unit");
const tests = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
rmSync(out, { recursive: true, force: true });
buildSync({
  entryPoints: tests.map((name) => path.join(here, name)),
  outdir: out,
  bundle: true,
  platform: "node",
  format: "cjs",
  sourcemap: "inline",
});
const compiled = tests.map((name) => path.join(out, name.replace(/\.ts$/, ".js")));
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...compiled], { stdio: "inherit" });
process.exit(status ?? 1);
