import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";

const SCRIPT = `import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    device = torch.device("cuda")
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    loader = DataLoader(dataset, batch_size=32)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        print(f"step {step}")
    print(total)


main()
`;

/** A script that trains without a GPU, prints at every step, and makes its batches slowly. */
const JOB = `import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.randn(8)


model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(DataLoader(Slow(), batch_size=8)):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(f"step {step}: {loss:.3f}")
`;

/** What the launched job writes: how it was started. */
export const LAUNCHED_REPORT = "launched.json";

/** A job that tells how it was started. */
const LAUNCHED = `import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

report = {
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "module": __spec__.name,
    "variables": [os.environ[name] for name in ("FROM_FILE", "FROM_BOTH", "OF_CONFIGURATION")],
    "utf8": sys.flags.utf8_mode,
}
Path(os.environ["REPORT"]).write_text(json.dumps(report))
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    optimizer.zero_grad()
    model(torch.randn(64, 8)).square().mean().backward()
    optimizer.step()
`;
const LAUNCH = {
  version: "0.2.0",
  configurations: [
    {
      name: "Launched module",
      type: "debugpy",
      request: "launch",
      module: "jobs.launched",
      args: ["--data", "${workspaceFolder}/data", "two words", "${fileBasename}"],
      cwd: "${workspaceFolder}/jobs",
      envFile: "${workspaceFolder}/job.env",
      env: {
        FROM_BOTH: "of the configuration",
        OF_CONFIGURATION: "${env:TRAINLINT_TEST_VARIABLE}",
        PYTHONPATH: "${workspaceFolder}",
        REPORT: `\${workspaceFolder}/${LAUNCHED_REPORT}`,
      },
      pythonArgs: ["-X", "utf8"],
    },
    { name: "Asks for something", type: "debugpy", request: "launch", program: "${file}", args: ["${input:epochs}"] },
    { name: "Attaches", type: "debugpy", request: "attach", processId: 1 },
  ],
  inputs: [{ id: "epochs", type: "promptString", description: "Epochs" }],
  compounds: [{ name: "Both", configurations: ["Launched module", "Attaches"] }],
};

/** The script as cells of a notebook: what it needs, and its loop. */
const CELLS = [
  `import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(256, 8)), batch_size=32, pin_memory=True)`,
  `for step, (x,) in enumerate(loader):
    loss = model(x.to(device, non_blocking=True)).mean()
    loss.backward()
    optimizer.step()
    print(f"step {step}")`,
];

/** Write files below a folder that holds nothing else afterwards. */
export function writeFolder(folder: string, files: Readonly<Record<string, string>>): string {
  fs.rmSync(folder, { recursive: true, force: true });
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
  return folder;
}

/** A workspace of two folders: one without configuration, one that leaves out a rule. Returns its file. */
export function writeTwoFolders(folder: string): string {
  writeFolder(folder, {
    "plain/pyproject.toml": "",
    "plain/train.py": SCRIPT,
    "plain/other.py": SCRIPT,
    "plain/job.py": SCRIPT,
    "plain/train.ipynb": notebook(CELLS),
    "quiet/pyproject.toml": '[tool.trainlint]\nignore = ["print-in-step"]\n',
    "quiet/train.py": SCRIPT,
    "quiet/job.py": SCRIPT,
    "two.code-workspace": JSON.stringify({ folders: [{ path: "plain" }, { path: "quiet" }] }),
  });
  return path.join(folder, "two.code-workspace");
}

/** A folder with one script. */
export function writeOneFolder(folder: string): string {
  return writeFolder(folder, { "pyproject.toml": "", "train.py": SCRIPT });
}

/** A folder with a script that can be probed anywhere. */
export function writeJobFolder(folder: string): string {
  return writeFolder(folder, {
    "pyproject.toml": "",
    "train.py": JOB,
    "jobs/__init__.py": "",
    "jobs/launched.py": LAUNCHED,
    "job.env": "# of the job\nFROM_FILE='from the file'\nFROM_BOTH=of the file\n",
    ".vscode/launch.json": JSON.stringify(LAUNCH),
  });
}

/**
 * A folder that tries to have something of its own run, by its settings and by its virtual environment; what runs leaves
 * the file `ran`.
 */
export function writeHostileFolder(folder: string, python: string): string {
  const ran = path.join(folder, "ran");
  writeFolder(folder, {
    "pyproject.toml": "",
    "train.py": SCRIPT,
    "trainlint/__init__.py": `open(${JSON.stringify(ran)}, "w")\n`,
    python3: `#!/bin/sh\ntouch '${ran}'\n`,
    ".vscode/settings.json": JSON.stringify({
      "trainlint.interpreter": path.join(folder, "python3"),
      "trainlint.importStrategy": "fromEnvironment",
    }),
  });
  fs.chmodSync(path.join(folder, "python3"), 0o755);
  const environment = writeEnvironment(path.join(folder, ".venv"), python);
  const packages = execFileSync(environment, ["-c", "import site; print(site.getsitepackages()[0])"], {
    encoding: "utf8",
  });
  fs.writeFileSync(
    path.join(packages.trim(), "ran.pth"),
    `import pathlib; pathlib.Path(${JSON.stringify(ran)}).touch()\n`,
  );
  return folder;
}

/** A virtual environment without packages; returns its interpreter. */
export function writeEnvironment(folder: string, python: string): string {
  fs.rmSync(folder, { recursive: true, force: true });
  execFileSync(python, ["-m", "venv", "--without-pip", folder]);
  return path.join(folder, "bin/python");
}

function notebook(cells: readonly string[]): string {
  return JSON.stringify({
    cells: cells.map((source) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source })),
    metadata: { language_info: { name: "python" } },
    nbformat: 4,
    nbformat_minor: 4,
  });
}
