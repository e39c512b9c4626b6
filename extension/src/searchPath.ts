import * as fs from "node:fs/promises";
import * as path from "node:path";

const NAMES = ["python3", "python"] as const;

/**
 * Interpreters on the search path: all of name `python3` before those of name `python`. Relative entries are passed
 * over, since what they mean depends on a working directory.
 */
export async function interpretersOnPath(searchPath: string, platform: NodeJS.Platform): Promise<string[]> {
  const folders = searchPath.split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  const found: string[] = [];
  for (const name of NAMES) {
    for (const folder of folders) {
      const file = path.join(folder, platform === "win32" ? `${name}.exe` : name);
      if (await isExecutable(file)) {
        found.push(file);
      }
    }
  }
  return [...new Set(found)];
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await fs.access(file, fs.constants.X_OK);
    return (await fs.stat(file)).isFile();
  } catch {
    return false;
  }
}
