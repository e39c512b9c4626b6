import * as path from "node:path";
import Mocha from "mocha";

/** Run the tests of a file in this extension host; the report goes to the artefacts, under the name. */
export function runTests(name: string): Promise<void> {
  const output = path.join(process.env["TRAINLINT_TEST_ARTEFACTS"] ?? "", `${name}.json`);
  const mocha = new Mocha({ ui: "tdd", timeout: 300_000, bail: true, reporter: "json", reporterOptions: { output } });
  mocha.addFile(path.join(__dirname, `${name}.test.js`));
  return new Promise((resolve, reject) => {
    mocha.run((failures) => (failures > 0 ? reject(new Error(`${failures} failed`)) : resolve()));
  });
}
