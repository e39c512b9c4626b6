import type { Rejection, Source } from "./interpreter";
import type { ImportStrategy } from "./settings";

/** What runs, for those who want to know. */
export interface RunningServer {
  readonly interpreter: string;
  readonly source: Source;
  readonly python: string;
  readonly strategy: ImportStrategy;
  readonly trusted: boolean;
  /** Version that the server gave of itself. */
  readonly version: string | undefined;
}

/** What the server is doing. */
export type ServerState =
  | { readonly kind: "disabled" }
  | { readonly kind: "starting" }
  | { readonly kind: "ready"; readonly server: RunningServer }
  | { readonly kind: "crashed"; readonly delayMs: number }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "no-interpreter"; readonly strategy: ImportStrategy; readonly rejected: readonly Rejection[] };

/** A state in words: the short text of the status bar and a sentence. */
export interface StateText {
  readonly label: string;
  readonly detail: string;
}

export function describeState(state: ServerState): StateText {
  switch (state.kind) {
    case "disabled":
      return { label: "disabled", detail: "Switched off by the setting trainlint.enable." };
    case "starting":
      return { label: "starting", detail: "The server is starting." };
    case "ready":
      return describeRunning(state.server);
    case "crashed":
      return {
        label: "restarting",
        detail: `The server ended unexpectedly; it starts again in ${state.delayMs / 1000} s.`,
      };
    case "failed":
      return { label: "error", detail: state.message };
    case "no-interpreter":
      return { label: "no interpreter", detail: describeMissing(state.strategy) };
  }
}

function describeRunning(server: RunningServer): StateText {
  const origin = server.strategy === "useBundled" ? "bundled" : "from the environment";
  const what = `trainlint ${server.version ?? ""} (${origin}), Python ${server.python} at ${server.interpreter}`;
  return server.trusted
    ? { label: "ready", detail: `${what}.` }
    : { label: "restricted", detail: `${what}. The workspace is not trusted: it is linted, and nothing of it is run.` };
}

function describeMissing(strategy: ImportStrategy): string {
  return strategy === "useBundled"
    ? "No Python was found that can run the bundled server."
    : "No Python was found that can run trainlint from its environment.";
}
