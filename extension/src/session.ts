import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  type ErrorHandler,
  ExecuteCommandRequest,
  LanguageClient,
  type LanguageClientOptions,
} from "vscode-languageclient/node";
import type { Bundle } from "./bundle";
import { messageOf } from "./errors";
import { type Choice, describeRejections } from "./interpreter";
import { type Launch, launchOf } from "./launch";
import { RestartPolicy } from "./restart";
import type { RunningServer, ServerState } from "./serverState";
import type { Settings } from "./settings";

/** What a session takes from its surroundings. */
export interface Surroundings {
  readonly extensionFolder: string;
  readonly bundle: Bundle | undefined;
  readonly output: vscode.LogOutputChannel;
  readonly settings: () => Settings;
  readonly choose: (settings: Settings) => Promise<Choice>;
  readonly clientOptions: (trusted: boolean) => LanguageClientOptions;
}

/** Keeps one server running: starts it, starts it again after a crash, and stops it. */
export class Session implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<ServerState>();
  readonly onDidChangeState = this.changed.event;
  private readonly policy = new RestartPolicy();
  private current: ServerState = { kind: "starting" };
  private client: LanguageClient | undefined;
  /** The interpreter that was chosen last. */
  private interpreter: string | undefined;
  private timer: NodeJS.Timeout | undefined;
  private last: Promise<void> = Promise.resolve();

  constructor(private readonly surroundings: Surroundings) {}

  get state(): ServerState {
    return this.current;
  }

  /** Start the server anew, with the settings, the interpreter and the trust of now. */
  restart(): Promise<void> {
    this.policy.reset();
    return this.inTurn(() => this.startAnew());
  }

  /** Start the server anew if another interpreter would be chosen now. */
  followInterpreter(): Promise<void> {
    return this.inTurn(async () => {
      const settings = this.surroundings.settings();
      if (!settings.enable) {
        return;
      }
      const { chosen } = await this.surroundings.choose(settings);
      if (chosen?.path !== this.interpreter) {
        this.policy.reset();
        await this.startAnew();
      }
    });
  }

  /** Ask the server to run one of its commands. Fails where no server runs. */
  async execute(command: string, ...args: readonly Readonly<Record<string, unknown>>[]): Promise<unknown> {
    if (!this.client || this.current.kind !== "ready") {
      throw new Error("the trainlint server is not running");
    }
    return this.client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [...args] });
  }

  async stop(): Promise<void> {
    await this.inTurn(() => this.stopClient());
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.changed.dispose();
  }

  /** Starts and stops never overlap. */
  private inTurn(action: () => Promise<void>): Promise<void> {
    this.last = this.last.then(action).catch((error: unknown) => {
      this.surroundings.output.error(error instanceof Error ? error : String(error));
      this.enter({ kind: "failed", message: messageOf(error) });
    });
    return this.last;
  }

  private async startAnew(): Promise<void> {
    await this.stopClient();
    const settings = this.surroundings.settings();
    if (!settings.enable) {
      this.enter({ kind: "disabled" });
      return;
    }
    this.enter({ kind: "starting" });
    const { chosen, rejected } = await this.surroundings.choose(settings);
    this.interpreter = chosen?.path;
    describeRejections(rejected).forEach((line) => this.surroundings.output.info(`not used: ${line}`));
    if (!chosen) {
      this.enter({ kind: "no-interpreter", strategy: settings.importStrategy, rejected });
      return;
    }
    const { bundle, extensionFolder } = this.surroundings;
    await this.startClient(launchOf(chosen.path, settings.importStrategy, bundle, extensionFolder), {
      interpreter: chosen.path,
      source: chosen.source,
      python: chosen.facts.version,
      strategy: settings.importStrategy,
      trusted: vscode.workspace.isTrusted,
      version: undefined,
    });
  }

  private async startClient(launch: Launch, server: RunningServer): Promise<void> {
    const { output } = this.surroundings;
    output.info(`starting ${[launch.command, ...launch.args].join(" ")} (interpreter from: ${server.source})`);
    const client = new LanguageClient(
      "trainlint",
      "trainlint",
      { command: launch.command, args: [...launch.args], options: { cwd: launch.cwd } },
      { ...this.surroundings.clientOptions(server.trusted), errorHandler: this.handler(() => this.crashed(client)) },
    );
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      output.error(`the server did not start: ${messageOf(error)}`);
      this.crashed(client);
      return;
    }
    if (this.client === client) {
      this.enter({ kind: "ready", server: { ...server, version: client.initializeResult?.serverInfo?.version } });
    }
  }

  private handler(crashed: () => void): ErrorHandler {
    return {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        crashed();
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    };
  }

  /** A server ended that nobody asked to. Its end may be noticed in two ways; the first counts. */
  private crashed(client: LanguageClient): void {
    if (this.client !== client) {
      return;
    }
    this.client = undefined;
    const delayMs = this.policy.crashed(Date.now());
    if (delayMs === undefined) {
      this.enter({ kind: "failed", message: "The server ended unexpectedly several times and is not started again." });
      return;
    }
    this.enter({ kind: "crashed", delayMs });
    this.timer = setTimeout(() => void this.inTurn(() => this.startAnew()), delayMs);
  }

  private async stopClient(): Promise<void> {
    clearTimeout(this.timer);
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch (error) {
      this.surroundings.output.warn(`stopping the server: ${messageOf(error)}`);
    }
  }

  private enter(state: ServerState): void {
    this.current = state;
    this.changed.fire(state);
  }
}
