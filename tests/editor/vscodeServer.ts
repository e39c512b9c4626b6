import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { BUILD } from "./places";

/** The newest release that runs with Node 20; it contains the server of VS Code 1.100.3. */
const CODE_SERVER = "4.100.3";
const HOME = path.join(BUILD, `code-server-${CODE_SERVER}`);
const VSCODE = path.join(HOME, "node_modules/code-server/lib/vscode");
const NPM_FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
const START_LIMIT_MS = 180_000;

/** Download the server of VS Code, unless it is there. */
export function ensureVsCodeServer(): void {
  const stamp = path.join(HOME, ".complete");
  if (fs.existsSync(stamp)) {
    return;
  }
  fs.rmSync(HOME, { recursive: true, force: true });
  fs.mkdirSync(HOME, { recursive: true });
  fs.writeFileSync(path.join(HOME, "package.json"), '{"private": true}');
  // Its scripts would build what only code-server's own front end needs, and refuse other versions of Node.
  npm(HOME, "install", "--save-exact", `code-server@${CODE_SERVER}`);
  // Not `npm ci`: the lock file that it ships lacks a package.
  npm(VSCODE, "install", "--omit=dev");
  linkRipgrep();
  fs.writeFileSync(stamp, "");
}

/** VS Code looks for files with its own copy of ripgrep, which its install script would download. */
function linkRipgrep(): void {
  const found = execFileSync("which", ["rg"], { encoding: "utf8" }).trim();
  const folder = path.join(VSCODE, "node_modules/@vscode/ripgrep/bin");
  fs.mkdirSync(folder, { recursive: true });
  fs.symlinkSync(found, path.join(folder, "rg"));
}

function npm(cwd: string, ...args: readonly string[]): void {
  execFileSync("npm", [...args, ...NPM_FLAGS], { cwd, stdio: ["ignore", "ignore", "inherit"] });
}

/** Where a server keeps its data, and which port it listens on. */
export interface Instance {
  /** Folder for its data and log. */
  readonly data: string;
  readonly extensions: string;
  readonly port: number;
}

export function installExtensions(extensions: string, packages: readonly string[]): void {
  const data = path.join(path.dirname(extensions), "install");
  const args = packages.flatMap((file) => ["--install-extension", file]);
  execFileSync(process.execPath, [...serverArgs(data, extensions), ...args], {
    env: environment({}),
    stdio: ["ignore", "ignore", "pipe"],
  });
}

/** A running server of VS Code, with its extension hosts and language servers. */
export class VsCodeServer {
  private constructor(
    private readonly process: ChildProcess,
    readonly address: string,
  ) {}

  /** Start a server; with `trust`, it asks whether a workspace is trusted, else all are. */
  static async start(
    { data, extensions, port }: Instance,
    settings: Readonly<Record<string, unknown>>,
    trust: boolean,
    variables: Readonly<Record<string, string>>,
  ): Promise<VsCodeServer> {
    const machine = path.join(data, "data/Machine");
    fs.mkdirSync(machine, { recursive: true });
    fs.writeFileSync(path.join(machine, "settings.json"), JSON.stringify(settings));
    const log = fs.openSync(path.join(data, "server.log"), "w");
    const args = [
      ...serverArgs(data, extensions),
      ...["--host", "127.0.0.1", "--port", String(port), "--without-connection-token", "--accept-server-license-terms"],
      // Else the variables of a login shell would be used, and the PATH that a test sets be lost.
      "--force-disable-user-env",
      ...["--telemetry-level", "off", ...(trust ? [] : ["--disable-workspace-trust"])],
    ];
    const child = spawn(process.execPath, args, {
      env: environment(variables),
      stdio: ["ignore", log, log],
      detached: true,
    });
    const server = new VsCodeServer(child, `127.0.0.1:${port}`);
    await server.answers();
    return server;
  }

  /** Address of a file for the editor in the browser. */
  uri(file: string): string {
    return `vscode-remote://${this.address}${file}`;
  }

  /** End the server and all processes that it started; a new one on its port would else be answered by the old. */
  async stop(): Promise<void> {
    const { pid } = this.process;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    if (pid !== undefined && this.process.exitCode === null) {
      process.kill(-pid, "SIGTERM");
      await ended;
      try {
        process.kill(-pid, "SIGKILL");
      } catch {
        // All have ended.
      }
    }
  }

  private async answers(): Promise<void> {
    const limit = Date.now() + START_LIMIT_MS;
    let cause: unknown;
    while (Date.now() < limit) {
      try {
        if ((await fetch(`http://${this.address}/version`)).ok) {
          return;
        }
      } catch (error) {
        cause = error;
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error("the server of VS Code does not answer", { cause });
  }
}

function serverArgs(data: string, extensions: string): string[] {
  const program = path.join(VSCODE, "out/server-main.js");
  return [program, "--server-data-dir", data, "--extensions-dir", extensions];
}

/** The variables of this process, without a gallery of extensions to look things up in. */
function environment(variables: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { ...process.env, EXTENSIONS_GALLERY: "{}", ...variables };
}
