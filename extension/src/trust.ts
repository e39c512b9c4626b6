import * as fs from "node:fs/promises";
import * as path from "node:path";

/**
 * Why an interpreter may not be run in an untrusted workspace: it, the folder of a link to it, or what it is a link to
 * lies in the workspace. A virtual environment of the workspace is a link to an interpreter outside, and would run
 * code of the workspace all the same.
 */
export async function inWorkspace(interpreter: string, folders: readonly string[]): Promise<string | undefined> {
  const places = [
    path.resolve(interpreter),
    path.join(await real(path.dirname(interpreter)), path.basename(interpreter)),
    await real(interpreter),
  ];
  for (const folder of folders) {
    for (const root of [path.resolve(folder), await real(folder)]) {
      if (places.some((place) => isInside(place, root))) {
        return "it belongs to the workspace, which is not trusted";
      }
    }
  }
  return undefined;
}

function isInside(file: string, folder: string): boolean {
  const relative = path.relative(folder, file);
  return relative === "" || (!path.isAbsolute(relative) && relative.split(path.sep)[0] !== "..");
}

async function real(file: string): Promise<string> {
  try {
    return await fs.realpath(file);
  } catch {
    return path.resolve(file);
  }
}
