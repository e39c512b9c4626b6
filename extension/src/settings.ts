/** Where the server comes from: the extension, or the chosen Python environment. */
export type ImportStrategy = "useBundled" | "fromEnvironment";

/** The settings that the extension itself reads, section `trainlint`. */
export interface Settings {
  /** Whether any folder is to be linted; the server itself leaves out those that are not. */
  readonly enable: boolean;
  readonly importStrategy: ImportStrategy;
  /** Path of the interpreter that starts the server, with variables replaced; undefined where none is set. */
  readonly interpreter: string | undefined;
}

/** Folders that stand for variables in the settings of paths. */
export interface Places {
  readonly home: string;
  /** The first folder of the workspace; undefined where no folder is open. */
  readonly workspaceFolder: string | undefined;
}

/** Settings of how the server is started. */
export const STARTING = ["trainlint.importStrategy", "trainlint.interpreter"] as const;

/**
 * Read the settings; `get` gives the values of a key for each folder. A value of a wrong type counts as not set. In an untrusted workspace the server is the bundled one,
 * since an environment's may be the workspace's own.
 */
export function readSettings(get: (key: string) => readonly unknown[], places: Places, trusted: boolean): Settings {
  const [interpreter] = get("interpreter");
  return {
    enable: get("enable").some((value) => value !== false),
    importStrategy: trusted && get("importStrategy")[0] === "fromEnvironment" ? "fromEnvironment" : "useBundled",
    interpreter:
      typeof interpreter === "string" && interpreter.trim() !== "" ? expand(interpreter.trim(), places) : undefined,
  };
}

/** Replace `~`, `${userHome}` and `${workspaceFolder}` in a path. */
function expand(value: string, places: Places): string {
  return value
    .replace(/^~(?=$|[\\/])/, () => places.home)
    .replaceAll("${userHome}", () => places.home)
    .replaceAll("${workspaceFolder}", (variable) => places.workspaceFolder ?? variable);
}
