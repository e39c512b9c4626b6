import * as path from "node:path";

/** Root of the repository; compiled tests lie in `build/editor/compiled`. */
export const ROOT = path.join(__dirname, "../../..");
export const BUILD = path.join(ROOT, "build/editor");
/** What a run leaves for people: screenshots, logs, reports. */
export const ARTEFACTS = path.join(BUILD, "artefacts");
