from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Checkpoint, Project
from trainlint.semantics.vocabulary import Confidence, Known

RECIPE = """\
Save what training needs to go on, and load all of it when resuming:
  torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
              "scaler": scaler.state_dict(), "epoch": epoch, "step": step, "rng": torch.get_rng_state()}, path)"""


class IncompleteCheckpoint(Rule):
    """A checkpoint that training is resumed from lacks the state of its optimizer or scheduler.

    ## What it does
    Reports `torch.save` of a model during training, where neither that file nor one beside it holds the state of the
    optimizer (or of the scheduler or scaler that the program uses), in a script that resumes from such files, or that
    may, as far as its code tells (medium confidence then). A missing scaler alone has low confidence.

    ## Why it is slow
    A resumed run starts with empty moments, the first learning rate and a fresh scale. The loss jumps, and steps that
    were paid for are trained a second time.

    ## When it is fine
    Exports at the end of training; the best weights kept for a final test, in a script that resumes from nothing;
    frameworks that write full checkpoints; state that is saved by a neighbouring call or passed in by the caller; plain
    SGD without momentum, which has no state.

    ## Example
    ```python
    torch.save({"model": model.state_dict(), "epoch": epoch}, "checkpoint.pt")
    ```

    ## Use instead
    ```python
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "epoch": epoch,
            "rng": torch.get_rng_state(),
        },
        "checkpoint.pt",
    )
    ```

    ## Fix safety
    Advice only: the code that loads the file has to change with it, and old files lack the new keys.

    ## How the probe confirms it
    It does not: what goes into the file is known from the code.

    ## References
    - A checkpoint holds model, optimizer, lr_scheduler, epoch, global_step, scaler and the random states (article 003).
    - PyTorch, "Saving and loading a general checkpoint":
      https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code, name, family = "TL601", "incomplete-checkpoint", Family.CHECKPOINT
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--resume", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
            start_epoch = 0
            if args.resume:
                checkpoint = torch.load("checkpoint.pt")
                model.load_state_dict(checkpoint["net"])
                start_epoch = checkpoint["epoch"] + 1
            for epoch in range(start_epoch, 10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                scheduler.step()
                torch.save({"net": model.state_dict(), "epoch": epoch}, "checkpoint.pt")  # expect: TL601
            """,
            because="resumes with empty momentum and the first learning rate",
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn


            class Trainer:
                def __init__(self, model, path):
                    self.model = model
                    self.optimizer = torch.optim.AdamW(model.parameters())
                    self.path = path
                    self.epochs_run = 0
                    if os.path.exists(path):
                        self.load()

                def load(self):
                    snapshot = torch.load(self.path)
                    self.model.load_state_dict(snapshot["MODEL_STATE"])
                    self.epochs_run = snapshot["EPOCHS_RUN"]

                def save(self, epoch):
                    snapshot = {"MODEL_STATE": self.model.state_dict(), "EPOCHS_RUN": epoch}
                    torch.save(snapshot, self.path)  # expect: TL601

                def train(self, epochs):
                    for epoch in range(self.epochs_run, epochs):
                        for inputs in torch.randn(64, 8, 8):
                            loss = self.model(inputs).mean()
                            self.optimizer.zero_grad()
                            loss.backward()
                            self.optimizer.step()
                        if epoch % 2 == 0:
                            self.save(epoch)


            Trainer(nn.Linear(8, 1), "snapshot.pt").train(10)
            """,
            because="a snapshot to resume from, without AdamW's moments",
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--weights", default="", help="path to weights, to continue training")
            args = parser.parse_args()
            model = nn.Linear(8, 1)
            if args.weights != "":
                model.load_state_dict(torch.load(args.weights))
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.save(model.state_dict(), f"model_{epoch}.pt")  # expect: TL601
            """,
            because="training goes on from the weights of an epoch",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.Adam(model.parameters())
            if os.path.exists("checkpoint.pt"):
                checkpoint = torch.load("checkpoint.pt")
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, "checkpoint.pt")
            """,
            because="the optimizer is in the file",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            torch.save(model.state_dict(), "model.pt")
            """,
            because="a final export, with nothing to resume",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.Adam(model.parameters())
            if os.path.exists("model.pt"):
                model.load_state_dict(torch.load("model.pt"))
                optimizer.load_state_dict(torch.load("optimizer.pt"))
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.save(model.state_dict(), "model.pt")
                torch.save(optimizer.state_dict(), "optimizer.pt")
            """,
            because="a file of its own for the optimizer",
        ),
        valid(
            """
            import torch
            from torch import nn

            from checkpoint import save

            model = nn.Linear(8, 1)
            optimizer = torch.optim.Adam(model.parameters())
            start = 0
            for epoch in range(start, 10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})
            """,
            because="a helper of another file writes what the caller put together",
            others={
                "checkpoint.py": """
                import torch


                def save(state, path="checkpoint.pt"):
                    torch.save(state, path)
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            best = float("inf")
            for epoch in range(10):
                total = 0.0
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.item()
                if total < best:
                    best = total
                    torch.save(model.state_dict(), "best.pt")
            model.load_state_dict(torch.load("best.pt"))
            model.eval()
            with torch.no_grad():
                print(model(torch.randn(8, 8)))
            """,
            because="the best weights, kept for the test at the end",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for checkpoint in project.checkpoints:
            missing = _missing(checkpoint)
            if checkpoint.holds_model and missing and _continues_training(checkpoint):
                yield self.finding(
                    checkpoint,
                    f"{quote(checkpoint.text)} saves the model without the state of the {' and the '.join(missing)}, "
                    "so a resumed run starts cold",
                    help="Save the optimizer, scheduler and scaler with the model, and load them when resuming",
                    confidence=_confidence(checkpoint, missing),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, RECIPE)


def _missing(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The state that training uses and that no file of this save holds."""
    lacks_optimizer = not checkpoint.holds_optimizer and not checkpoint.optimizer_saved_elsewhere
    others = tuple(name for name in checkpoint.missing if name != "optimizer")
    return ("optimizer", *others) if lacks_optimizer else others


def _continues_training(checkpoint: Checkpoint) -> bool:
    """Whether such a file is, or may be, what a later run starts from."""
    # where a framework writes full checkpoints, a further save is an export
    exports = checkpoint.context.entry.spared(Duty.SAVE_WHOLE_STATE)
    return checkpoint.periodic and checkpoint.resumed is not Known.NO and not exports


def _confidence(checkpoint: Checkpoint, missing: tuple[str, ...]) -> Confidence:
    if missing == ("scaler",):
        return Confidence.LOW
    return Confidence.HIGH if checkpoint.resumed is Known.YES else Confidence.MEDIUM
