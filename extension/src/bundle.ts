import * as fs from "node:fs/promises";
import * as path from "node:path";

/** What an interpreter says about itself. */
export interface InterpreterFacts {
  /** Major and minor version, as in "3.12". */
  readonly version: string;
  /** Name of the implementation, as in "cpython". */
  readonly implementation: string;
  /** Name of the processor that the interpreter runs on, as in "arm64". */
  readonly machine: string;
  /** Ends of the names of compiled modules that the interpreter imports, as in ".cpython-312-x86_64-linux-gnu.so". */
  readonly suffixes: readonly string[];
  /** Whether trainlint is installed in its environment. */
  readonly hasTrainlint: boolean;
}

/** What the extension carries, as the build wrote it down. */
export interface Bundle {
  /** Folder that holds the launcher. */
  readonly folder: string;
  /** Platform of the extension's package, as in "linux-x64". */
  readonly target: string;
  /** Version of trainlint. */
  readonly trainlint: string;
  /** End of the names of the compiled modules, by version of Python. */
  readonly suffixes: Readonly<Record<string, string>>;
  /** Processor, where the ends of the names do not tell it (macOS); else null. */
  readonly machine: string | null;
}

/** Read what the extension in a folder carries; undefined where it carries no server. */
export async function readBundle(extensionFolder: string): Promise<Bundle | undefined> {
  const folder = path.join(extensionFolder, "bundled");
  let text: string;
  try {
    text = await fs.readFile(path.join(folder, "bundle.json"), "utf8");
  } catch {
    return undefined;
  }
  return { ...(JSON.parse(text) as Omit<Bundle, "folder">), folder };
}

/** The script that starts the bundled server. */
export function launcherOf(bundle: Bundle): string {
  return path.join(bundle.folder, "launch.py");
}

/** Why an interpreter cannot run the bundled server; undefined where it can. */
export function misfit(bundle: Bundle, facts: InterpreterFacts): string | undefined {
  const suffix = bundle.suffixes[facts.version];
  if (facts.implementation !== "cpython") {
    return `it is ${facts.implementation}, and the bundled libraries are compiled for CPython`;
  }
  if (suffix === undefined) {
    return `it is Python ${facts.version}, and the bundled libraries are compiled for ${listOf(Object.keys(bundle.suffixes))}`;
  }
  if (!facts.suffixes.includes(suffix) || (bundle.machine !== null && bundle.machine !== facts.machine)) {
    return `it is not built as the bundled libraries are (${bundle.target}, files that end in ${suffix})`;
  }
  return undefined;
}

function listOf(versions: readonly string[]): string {
  return `${versions.slice(0, -1).join(", ")} and ${versions.at(-1)}`;
}
