/** What the server is asked to probe: the argument of its command `trainlint.probe`. */
export interface ProbeRequest {
  readonly uri?: string;
  readonly module?: string;
  readonly pid?: number;
  readonly args?: readonly string[];
  readonly steps?: number;
  readonly python?: string;
  /** Arguments of the interpreter itself. */
  readonly pythonArgs?: readonly string[];
  readonly cwd?: string;
  /** Variables besides those of the editor; null for one that is not to be set. */
  readonly env?: Readonly<Record<string, string | null>>;
}

/** What a configuration of `launch.json` is read with. */
export interface Surroundings {
  /** The file in the active editor. */
  readonly file: string | undefined;
  /** The folder that the configuration belongs to. */
  readonly workspaceFolder: string;
  /** The folders of the workspace, by name. */
  readonly workspaceFolders: Readonly<Record<string, string>>;
  readonly home: string;
  readonly platform: NodeJS.Platform;
  /** The environment that the job is started in. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The value of a setting. */
  readonly setting: (name: string) => unknown;
  /** The text of a file; undefined where it cannot be read. */
  readonly read: (file: string) => string | undefined;
  /** A path in normal form, relative to a folder where it is not absolute. */
  readonly resolve: (folder: string, file: string) => string;
  readonly uriOf: (file: string) => string;
}

/** A configuration of `launch.json` as it is written there. */
export type Configuration = Readonly<Record<string, unknown>>;

const OWN_SECTIONS: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
  linux: "linux",
  darwin: "osx",
  win32: "windows",
};
/** What stands for the interpreter that the Python extension has chosen. */
const ACTIVE_PYTHON = ["${command:python.interpreterPath}", "${command:python.interpreter}"];
/** Names of what depends on the file in the active editor. */
const OF_FILE = /^(file|relativeFile)(?!:)/;
const SEARCH_PATHS = ["PATH", "PYTHONPATH"];

/** Whether a configuration starts a Python program, as the debugger for Python does. */
export function startsPython(configuration: Configuration): boolean {
  const { type, request, program, module } = configuration;
  const names = typeof program === "string" || typeof module === "string";
  return (type === "debugpy" || type === "python") && request === "launch" && names;
}

/**
 * What a configuration would start, as the debugger for Python would start it. Fails where it asks for what is not
 * known here, as an input that the person would be asked for.
 */
export function probeOf(written: Configuration, known: Surroundings): ProbeRequest {
  const configuration = { ...written, ...sectionOf(written, known.platform) };
  const { program, module, args, cwd } = configuration;
  const folder = known.resolve(known.workspaceFolder, textOf(cwd, known) ?? ".");
  const script = textOf(program, known);
  const name = textOf(module, known);
  const [interpreter, ...interpreterArguments] = pythonOf(configuration, known);
  return {
    ...(script !== undefined && { uri: known.uriOf(known.resolve(folder, script)) }),
    ...(script === undefined && name !== undefined && { module: name }),
    args: argumentsOf(args).map((word) => expanded(word, known)),
    cwd: folder,
    ...(interpreter !== undefined && { python: interpreter }),
    ...(interpreterArguments.length > 0 && { pythonArgs: interpreterArguments.filter((word) => word !== undefined) }),
    env: environmentOf(configuration, known),
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

/** The variables that a file of them sets, in which `${NAME}` stands for one that is known by then. */
export function variablesOf(text: string, known: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const [, name, written] = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name !== undefined && written !== undefined) {
      const value = /^(["'])(.*)\1$/.exec(written)?.[2]?.replace(/\\n/g, "\n") ?? written;
      found[name] = value.replace(/\$\{([A-Za-z_]\w*)\}/g, (_, other: string) => found[other] ?? known[other] ?? "");
    }
  }
  return found;
}

/** What a configuration says for one system alone. */
function sectionOf(configuration: Configuration, platform: NodeJS.Platform): Configuration {
  const section = configuration[OWN_SECTIONS[platform] ?? ""];
  return typeof section === "object" && section !== null ? (section as Configuration) : {};
}

/** The interpreter, undefined for the one that the Python extension has chosen, and the arguments of it. */
function pythonOf({ python, pythonPath, pythonArgs }: Configuration, known: Surroundings): (string | undefined)[] {
  const words = [python ?? pythonPath].flat().map((word) => (typeof word === "string" ? word : ""));
  const [interpreter = "", ...others] = words;
  const named = interpreter !== "" && !ACTIVE_PYTHON.includes(interpreter);
  const more = [...others, ...argumentsOf(pythonArgs)].map((word) => expanded(word, known));
  return [named ? expanded(interpreter, known) : undefined, ...more];
}

function argumentsOf(args: unknown): string[] {
  return typeof args === "string" ? splitArguments(args) : Array.isArray(args) ? args.map(String) : [];
}

/** The variables of a configuration, over those of its file of variables; search paths go before those that are there. */
function environmentOf({ env, envFile }: Configuration, known: Surroundings): Record<string, string | null> {
  const entries = typeof env === "object" && env !== null ? Object.entries(env) : [];
  const own = Object.fromEntries(
    entries.map(([name, value]) => [name, value === null ? null : expanded(String(value), known)]),
  );
  const setting = known.setting("python.envFile");
  const file = textOf(envFile, known) ?? textOf(setting, known) ?? ".env";
  const text = known.read(known.resolve(known.workspaceFolder, file)) ?? "";
  const merged: Record<string, string | null> = { ...variablesOf(text, known.env), ...own };
  const separator = known.platform === "win32" ? ";" : ":";
  for (const name of SEARCH_PATHS) {
    const [value, before] = [merged[name], known.env[name]];
    if (value && before) {
      merged[name] = `${value}${separator}${before}`;
    }
  }
  return merged;
}

function textOf(value: unknown, known: Surroundings): string | undefined {
  return typeof value === "string" ? expanded(value, known) : undefined;
}

function expanded(value: string, known: Surroundings): string {
  return value.replace(/\$\{([^}]*)\}/g, (variable, name: string) => {
    const found = valueOf(name, known);
    if (found === undefined) {
      const why =
        known.file === undefined && OF_FILE.test(name)
          ? "and the active editor shows no file"
          : "which is not known outside of the debugger";
      throw new Error(`the configuration uses ${variable}, ${why}`);
    }
    return found;
  });
}

function valueOf(name: string, known: Surroundings): string | undefined {
  const { file, workspaceFolder } = known;
  const [kind = "", argument = ""] = name.split(/:(.*)/s);
  switch (kind) {
    case "env":
      return known.env[argument] ?? "";
    case "config":
      return settingOf(argument, known);
    case "userHome":
      return known.home;
    case "workspaceFolder":
    case "workspaceRoot":
      return argument === "" ? workspaceFolder : known.workspaceFolders[argument];
    case "workspaceFolderBasename":
      return nameOf(workspaceFolder);
    case "file":
      return file;
    case "fileWorkspaceFolder":
      return folderOf(file, known);
    case "fileDirname":
      return file && parentOf(file);
    case "fileDirnameBasename":
      return file && nameOf(parentOf(file));
    case "fileBasename":
      return file && nameOf(file);
    case "fileBasenameNoExtension":
      return file && nameOf(file).replace(/(?<=.)\.[^.]*$/, "");
    case "fileExtname":
      return file && (/(?<=.)\.[^.]*$/.exec(nameOf(file))?.[0] ?? "");
    case "relativeFile":
      return file && relative(file, workspaceFolder);
    case "relativeFileDirname":
      return file && relative(parentOf(file), workspaceFolder);
    case "pathSeparator":
    case "/":
      return known.platform === "win32" ? "\\" : "/";
    default:
      return undefined;
  }
}

function settingOf(name: string, known: Surroundings): string | undefined {
  const value = known.setting(name);
  return ["string", "number", "boolean"].includes(typeof value) ? String(value) : undefined;
}

/** The folder of the workspace that a file lies in. */
function folderOf(file: string | undefined, known: Surroundings): string | undefined {
  const folders = Object.values(known.workspaceFolders).filter((folder) => file && isWithin(file, folder));
  return folders.sort((left, right) => right.length - left.length)[0];
}

function nameOf(file: string): string {
  return file.replace(/^.*[\\/]/, "");
}

function parentOf(file: string): string {
  return file.replace(/[\\/][^\\/]*$/, "");
}

function relative(file: string, folder: string): string {
  return file === folder ? "." : isWithin(file, folder) ? file.slice(folder.length + 1) : file;
}

function isWithin(file: string, folder: string): boolean {
  return file.startsWith(folder) && /^[\\/]/.test(file.slice(folder.length));
}
