import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

const ROOT = path.join(__dirname, "../../..");

interface Property {
  readonly default: unknown;
  readonly enum?: readonly string[];
  readonly markdownDescription: string;
}

interface Manifest {
  readonly version: string;
  readonly contributes: {
    readonly commands: readonly { readonly command: string; readonly title: string }[];
    readonly configuration: { readonly properties: Readonly<Record<string, Property>> };
  };
}

const manifest = JSON.parse(read("package.json")) as Manifest;

function read(name: string): string {
  return fs.readFileSync(path.join(ROOT, name), "utf8");
}

test("the extension has the version of the program", () => {
  assert.match(read("server/trainlint/__init__.py"), new RegExp(`__version__ = "${manifest.version}"`));
});

test("the page of the editors tells each setting with its default", () => {
  const page = read("docs/editors.md");
  for (const [key, { default: value }] of Object.entries(manifest.contributes.configuration.properties)) {
    assert.ok(page.includes(`| \`${key}\` | \`${JSON.stringify(value)}\` |`), `${key} is not in the table`);
  }
});

test("the page of the editors tells each command of the palette", () => {
  const page = read("docs/editors.md");
  const titles = manifest.contributes.commands.filter(({ command }) => command !== "trainlint.showMenu");
  for (const { title } of titles) {
    assert.ok(page.includes(`*trainlint: ${title}*`), `${title} is not told`);
  }
});

test("each command of the manifest is registered, and no other", () => {
  const registered = [...read("extension/src/commands.ts").matchAll(/^ {2}"(trainlint\.\w+)": /gm)].map(([, id]) => id);
  assert.deepEqual(registered.sort(), manifest.contributes.commands.map(({ command }) => command).sort());
});
