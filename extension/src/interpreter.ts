import { type Bundle, type InterpreterFacts, misfit } from "./bundle";
import { messageOf } from "./errors";
import type { ImportStrategy } from "./settings";

/** Who named an interpreter. */
export type Source = "setting" | "Python extension" | "PATH";

/** An interpreter that may start the server. */
export interface Candidate {
  readonly path: string;
  readonly source: Source;
}

/** A candidate that cannot start the server, and why. */
export interface Rejection extends Candidate {
  readonly reason: string;
}

/** The interpreter that starts the server, or none; with those that were looked at before. */
export interface Choice {
  readonly chosen: (Candidate & { readonly facts: InterpreterFacts }) | undefined;
  readonly rejected: readonly Rejection[];
}

/** What a choice depends on. */
export interface Question {
  /** In the order of preference. */
  readonly candidates: AsyncIterable<Candidate>;
  readonly strategy: ImportStrategy;
  readonly bundle: Bundle | undefined;
  /** Why a path may not be run at all; undefined where it may. */
  readonly forbidden: (path: string) => Promise<string | undefined>;
  /** Ask an interpreter about itself; fails where it does not run. */
  readonly query: (path: string) => Promise<InterpreterFacts>;
}

const OLDEST_MINOR = 11;

/**
 * Choose the first candidate that can start the server. An interpreter that the user named in the settings is not
 * passed over: where it does not fit, there is no choice, so that the user learns of it.
 */
export async function chooseInterpreter(question: Question): Promise<Choice> {
  const rejected: Rejection[] = [];
  for await (const candidate of question.candidates) {
    const outcome = await examine(candidate.path, question);
    if (typeof outcome !== "string") {
      return { chosen: { ...candidate, facts: outcome }, rejected };
    }
    rejected.push({ ...candidate, reason: outcome });
    if (candidate.source === "setting") {
      break;
    }
  }
  return { chosen: undefined, rejected };
}

/** The facts of an interpreter that can start the server, or the reason why it cannot. */
async function examine(path: string, question: Question): Promise<InterpreterFacts | string> {
  const forbidden = await question.forbidden(path);
  if (forbidden !== undefined) {
    return forbidden;
  }
  let facts: InterpreterFacts;
  try {
    facts = await question.query(path);
  } catch (error) {
    return `it does not run: ${messageOf(error)}`;
  }
  return unfit(facts, question) ?? facts;
}

function unfit(facts: InterpreterFacts, question: Question): string | undefined {
  if (question.strategy === "fromEnvironment") {
    return unfitEnvironment(facts);
  }
  return question.bundle ? misfit(question.bundle, facts) : "this build of the extension carries no server";
}

function unfitEnvironment(facts: InterpreterFacts): string | undefined {
  const [major, minor] = facts.version.split(".").map(Number);
  if (major !== 3 || minor === undefined || minor < OLDEST_MINOR) {
    return `it is Python ${facts.version}, and trainlint needs 3.${OLDEST_MINOR} or newer`;
  }
  return facts.hasTrainlint ? undefined : "trainlint is not installed there";
}

/** What was looked at in vain, one line each. */
export function describeRejections(rejected: readonly Rejection[]): string[] {
  return rejected.map(({ path, source, reason }) => `${path} (${source}): ${reason}`);
}
