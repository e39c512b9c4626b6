/** What the server is asked to probe: the argument of its command `trainlint.probe`. */
export interface ProbeRequest {
  readonly uri?: string;
  readonly module?: string;
  readonly pid?: number;
  readonly args?: readonly string[];
  readonly steps?: number;
  readonly python?: string;
  readonly cwd?: string;
  /** Variables besides those of the editor; null for one that is not to be set. */
  readonly env?: Readonly<Record<string, string | null>>;
}

/** What variables of `launch.json` stand for. */
export interface Variables {
  readonly file: string | undefined;
  readonly workspaceFolder: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A configuration of `launch.json` as it is written there. */
export type Configuration = Readonly<Record<string, unknown>>;

/** Whether a configuration starts a Python program, as the debugger for Python does. */
export function startsPython(configuration: Configuration): boolean {
  const { type, request, program, module } = configuration;
  const names = typeof program === "string" || typeof module === "string";
  return (type === "debugpy" || type === "python") && request === "launch" && names;
}

/**
 * What a configuration would start. `uriOf` gives the address of a path. Fails where it asks for what is not known
 * here, as an input that the person would be asked for.
 */
export function probeOf(configuration: Configuration, known: Variables, uriOf: (path: string) => string): ProbeRequest {
  const text = (value: unknown) => (typeof value === "string" ? expanded(value, known) : undefined);
  const { program, module, args, env, cwd, python } = configuration;
  const interpreter = text(Array.isArray(python) ? python[0] : python);
  const folder = text(cwd) ?? known.workspaceFolder;
  const script = text(program);
  return {
    ...(script !== undefined && { uri: uriOf(script) }),
    ...(script === undefined && typeof module === "string" && { module: expanded(module, known) }),
    args: argumentsOf(args).map((word) => expanded(word, known)),
    ...(folder !== undefined && { cwd: folder }),
    ...(interpreter !== undefined && { python: interpreter }),
    env: environmentOf(env, known),
  };
}

/** Words of a command line; quotes join them, and a backslash takes what follows literally outside of single quotes. */
export function splitArguments(line: string): string[] {
  const words = line.matchAll(/(?:"(?:\\[\s\S]|[^"\\])*"|'[^']*'|\\[\s\S]|[^\s"'\\])+/g);
  return [...words].map(([word]) =>
    word.replace(
      /"((?:\\[\s\S]|[^"\\])*)"|'([^']*)'|\\([\s\S])/g,
      (_, double?: string, single?: string, one?: string) =>
        double !== undefined ? double.replace(/\\(["\\])/g, "$1") : (single ?? one ?? ""),
    ),
  );
}

function argumentsOf(args: unknown): string[] {
  return typeof args === "string" ? splitArguments(args) : Array.isArray(args) ? args.map(String) : [];
}

function environmentOf(env: unknown, known: Variables): Record<string, string | null> {
  const entries = typeof env === "object" && env !== null ? Object.entries(env) : [];
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value === null ? null : expanded(String(value), known)]),
  );
}

function expanded(value: string, known: Variables): string {
  return value.replace(/\$\{([^}]*)\}/g, (variable, name: string) => {
    const found = valueOf(name, known);
    if (found === undefined) {
      throw new Error(`the configuration uses ${variable}, which is not known outside of the debugger`);
    }
    return found;
  });
}

function valueOf(name: string, { file, workspaceFolder, env }: Variables): string | undefined {
  if (name.startsWith("env:")) {
    return env[name.slice(4)] ?? "";
  }
  switch (name) {
    case "file":
      return file;
    case "fileDirname":
      return file?.replace(/[\\/][^\\/]*$/, "");
    case "fileBasename":
      return file?.replace(/^.*[\\/]/, "");
    case "workspaceFolder":
    case "workspaceRoot":
      return workspaceFolder;
    case "pathSeparator":
    case "/":
      return workspaceFolder?.includes("\\") ? "\\" : "/";
    default:
      return undefined;
  }
}
