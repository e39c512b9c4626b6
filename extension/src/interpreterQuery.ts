import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { InterpreterFacts } from "./bundle";
import type { ImportStrategy } from "./settings";

const TIMEOUT_MS = 15_000;
const SCRIPT = `
import importlib.machinery, importlib.util, json, platform, sys
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "implementation": sys.implementation.name,
    "machine": platform.machine(),
    "suffixes": importlib.machinery.EXTENSION_SUFFIXES,
    "hasTrainlint": importlib.util.find_spec("trainlint") is not None,
}))
`;

/**
 * Ask an interpreter about itself, with `cwd` as working directory, which should be no folder of the workspace. Where the
 * bundled server is to run, it is asked isolated and without its installed packages, so that only the standard library
 * takes part.
 */
export async function queryInterpreter(path: string, strategy: ImportStrategy, cwd: string): Promise<InterpreterFacts> {
  const flags = strategy === "useBundled" ? ["-I", "-S"] : [];
  const { stdout } = await promisify(execFile)(path, [...flags, "-c", SCRIPT], {
    cwd,
    timeout: TIMEOUT_MS,
    windowsHide: true,
  });
  return JSON.parse(stdout) as InterpreterFacts;
}
