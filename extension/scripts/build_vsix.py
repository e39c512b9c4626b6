"""Build the extension's package for one platform and check it: `build_vsix.py [--out FOLDER] [TARGET...]`.

The default is `linux-x64`. Needs the Node packages of `npm ci` and the registry that pip uses.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from bundled_server import ROOT, TARGETS, BundleError, Target, build_bundle
from check_vsix import check_vsix

BUILD = ROOT / "build/vsix"
NODE_TOOLS = ROOT / "node_modules/.bin"
FOR_DEVELOPMENT = ("devDependencies", "scripts", "private")
"""Keys of the manifest that mean nothing to an editor."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["linux-x64"], metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the packages (default: dist)")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.targets if name not in TARGETS]:
        parser.error(f"unknown target {unknown[0]}; there are {', '.join(TARGETS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        for name in arguments.targets:
            package = build_vsix(TARGETS[name], arguments.out.resolve())
            check_vsix(package, TARGETS[name])
            print(f"{package} ({package.stat().st_size / 2**20:.1f} MiB)")
    except BundleError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def build_vsix(target: Target, out: Path) -> Path:
    """Stage what the package holds in a folder of its own, so that nothing else gets in, and package it."""
    stage = BUILD / target.name
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    build_bundle(target, stage / "bundled", wheels=ROOT / "build/wheels")
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in manifest.items() if key not in FOR_DEVELOPMENT}
    (stage / "package.json").write_text(json.dumps(kept, indent=2), encoding="utf-8")
    (stage / ".vscodeignore").touch()
    for name in ("LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, stage)
    shutil.copy(ROOT / "extension/README.md", stage)
    shutil.copytree(ROOT / "extension/media", stage / "extension/media")
    _run_tool("esbuild", "extension/src/extension.ts", *_BUNDLING, f"--outfile={stage / 'dist/extension.js'}")
    package = out / f"trainlint-{manifest['version']}-{target.name}.vsix"
    _run_tool("vsce", "package", *_PACKAGING, f"--target={target.name}", f"--out={package}", cwd=stage)
    return package


_BUNDLING = ("--bundle", "--platform=node", "--format=cjs", "--target=node20", "--external:vscode", "--minify")
_PACKAGING = (
    "--no-dependencies",
    "--allow-missing-repository",
    "--no-rewrite-relative-links",
    # The search for secrets would read all libraries, and takes longer than everything else together.
    "--allow-package-all-secrets",
)


def _run_tool(name: str, *arguments: str, cwd: Path = ROOT) -> None:
    tool = NODE_TOOLS / name
    if not tool.exists():
        raise BundleError(f"{tool} is missing; run: npm ci")
    done = subprocess.run([tool, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise BundleError(f"{name} failed:\n{done.stdout}")


if __name__ == "__main__":
    sys.exit(main())
