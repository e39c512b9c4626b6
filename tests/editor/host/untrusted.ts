import { runTests } from "./mochaRun";

/** Called by VS Code. */
export function run(): Promise<void> {
  return runTests("untrusted");
}
