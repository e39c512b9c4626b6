import { type Bundle, launcherOf } from "./bundle";
import type { ImportStrategy } from "./settings";

/** A process to start. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** Working directory: the extension's own folder, so that nothing of the workspace is imported. */
  readonly cwd: string;
}

/**
 * How to start the server. The bundled one runs isolated (`-I`) and without the interpreter's installed packages (`-S`);
 * the environment's one needs those, and is only kept from importing out of the working directory (`-P`).
 */
export function launchOf(
  interpreter: string,
  strategy: ImportStrategy,
  bundle: Bundle | undefined,
  extensionFolder: string,
): Launch {
  const args =
    strategy === "useBundled" && bundle
      ? ["-I", "-S", launcherOf(bundle), "server"]
      : ["-P", "-m", "trainlint", "server"];
  return { command: interpreter, args, cwd: extensionFolder };
}
