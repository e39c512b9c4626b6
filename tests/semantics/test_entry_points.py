"""How programs start, choose their parts and drive their loops, in the ways that launchers and registries have."""

from __future__ import annotations

import pytest
from marked_programs import check, plain, table

from trainlint.lint.analyze import analyze

MAIN = """
def {name}({parameters}):
    print("main")  # runs: once setup
    for epoch in range(3):
        print(epoch)  # runs: per-epoch setup
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device

"""

STARTS = {
    "called in the main guard": ("", "main", "", 'if __name__ == "__main__":\n    main()\n'),
    "its status handed to sys.exit": ("import sys\n", "main", "", 'if __name__ == "__main__":\n    sys.exit(main())\n'),
    "hydra": (
        "import hydra\n@hydra.main(version_base=None, config_path='conf')",
        "main",
        "cfg",
        'if __name__ == "__main__":\n    main()\n',
    ),
    "fire": ("import fire\n", "main", "epochs=3", 'if __name__ == "__main__":\n    fire.Fire(main)\n'),
    "absl": (
        "from absl import app\n",
        "main",
        "argv",
        'if __name__ == "__main__":\n    app.run(main)\n',
    ),
    "typer": (
        "import typer\napp = typer.Typer()\n@app.command()",
        "main",
        "epochs: int = 3",
        'if __name__ == "__main__":\n    app()\n',
    ),
    "a process": (
        "import torch.multiprocessing as mp\n",
        "worker",
        "rank, world_size",
        "mp.Process(target=worker, args=(0, 2)).start()\n",
    ),
    "spawned": ("import torch.multiprocessing as mp\n", "worker", "rank, n", "mp.spawn(worker, args=(2,), nprocs=2)\n"),
    "submitted to a cluster": (
        "import submitit\n",
        "main",
        "args",
        "submitit.AutoExecutor('logs').submit(main, None)\n",
    ),
    "ray": (
        "from ray.train.torch import TorchTrainer\n",
        "worker",
        "config",
        "TorchTrainer(worker, train_loop_config={}).fit()\n",
    ),
    "a console script that nothing calls": ("", "main", "argv=None", ""),
    "a notebook's cells": ("", "main", "", "main()\n"),
}


@pytest.mark.parametrize(("head", "name", "parameters", "tail"), STARTS.values(), ids=STARTS.keys())
def test_ways_to_start(head: str, name: str, parameters: str, tail: str) -> None:
    check(plain("") + head + MAIN.format(name=name, parameters=parameters).replace("\n\n", "\n") + tail)


CHOICES = {
    "a registry of classes": plain("""
        class Net(nn.Module):
            def forward(self, x):
                print(x.mean().item())  # runs: per-step training, reads: device
                return model(x)

        MODELS = {"net": Net}
        net = MODELS["net"]().to(device)
        for images, labels in train_loader:
            criterion(net(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "a registry that is asked by an option": plain("""
        import argparse

        class Net(nn.Module):
            def forward(self, x):
                print(x.mean().item())  # runs: per-step training, reads: device
                return model(x)

        MODELS = {"net": Net}
        args = argparse.ArgumentParser().parse_args()
        net = MODELS[args.model]().to(device)
        for images, labels in train_loader:
            criterion(net(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "a factory with branches": plain("""
        class Small(nn.Module):
            def forward(self, x):
                print(x.mean().item())  # runs: per-step training, reads: device
                return model(x)

        class Large(nn.Module):
            def forward(self, x):
                print(x.max().item())  # runs: per-step training, reads: device
                return model(x)

        def build(name):
            if name == "small":
                return Small()
            elif name == "large":
                return Large()
            raise ValueError(name)

        import sys
        net = build(sys.argv[1]).to(device)
        for images, labels in train_loader:
            criterion(net(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "a decorator that registers a function and keeps it": plain("""
        STEPS = {}

        def register(name):
            def keep(function):
                STEPS[name] = function
                return function
            return keep

        @register("plain")
        def plain_step(images, labels):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device

        for images, labels in train_loader:
            plain_step(images.to(device), labels.to(device))
        """),
    "a method chosen in the constructor": plain("""
        class Trainer:
            def __init__(self, amp):
                self.step = self.amp_step if amp else self.plain_step

            def amp_step(self, images, labels):
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
                print(loss.item())  # runs: per-step training, reads: device

            def plain_step(self, images, labels):
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
                print(loss.item())  # runs: per-step training, reads: device

            def fit(self):
                for images, labels in train_loader:
                    self.step(images.to(device), labels.to(device))

        import sys
        Trainer("--amp" in sys.argv).fit()
        """),
    "a model inside wrappers": plain("""
        class Net(nn.Module):
            def forward(self, x):
                print(x.mean().item())  # runs: per-step training, reads: device
                return model(x)

        net = torch.compile(nn.parallel.DistributedDataParallel(Net().cuda()))
        for images, labels in train_loader:
            criterion(net(images.cuda()), labels.cuda()).backward()
            optimizer.step()
        """),
    "a loss that is a module of the project": plain("""
        class Dice(nn.Module):
            def forward(self, outputs, targets):
                print(outputs.sum().item())  # runs: per-step training, reads: device
                return (outputs * targets).mean()

        dice = Dice()
        for images, labels in train_loader:
            dice(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "an optimizer of the project": plain("""
        class Sam(torch.optim.Optimizer):
            def __init__(self, parameters, lr):
                super().__init__(parameters, dict(lr=lr))

            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        print(p.grad.norm().item())  # runs: per-step training, reads: device

        sam = Sam(model.parameters(), lr=0.1)
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            sam.step()
        """),
}

LOOPS = {
    "a walrus around a progress bar": plain("""
        from tqdm.auto import tqdm
        for images, labels in (bar := tqdm(train_loader)):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            bar.set_postfix(loss=loss.item())  # runs: per-step training, reads: device
        """),
    "zip of a range and a loader": plain("""
        for step, (images, labels) in zip(range(1000), train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print(step)  # runs: per-step training
        """),
    "two loaders in step": plain("""
        for (images, labels), (others, _) in zip(train_loader, val_loader):
            loss = criterion(model(images.to(device)), labels.to(device)) + model(others.to(device)).mean()
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device
        """),
    "inside a profiler": plain("""
        with torch.profiler.profile() as prof:
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                prof.step()
                print("step")  # runs: per-step training
        """),
    "inside try and finally": plain("""
        try:
            for epoch in range(3):
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    print("step")  # runs: per-step training
        except KeyboardInterrupt:
            print("stopped")  # runs: once setup, under: exceptional
        finally:
            print("done")  # runs: once setup
        """),
    "a match on the phase": plain("""
        import sys
        match sys.argv[1]:
            case "train":
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    print("step")  # runs: per-step training
            case _:
                print("help")  # runs: once setup
        """),
    "until a flag is set": plain("""
        done = False
        step = 0
        while not done:
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                step += 1
                print(step)  # runs: per-step training
                if step >= 1000:
                    done = True
                    break
            print("epoch")  # runs: per-epoch setup
        """),
    "`len(loader)` turns with a batch each": plain("""
        for epoch in range(3):
            batches = iter(train_loader)
            for i in range(len(train_loader)):
                images, labels = next(batches)
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print(i)  # runs: per-step training
            print(epoch)  # runs: per-epoch setup
        """),
    "several models trained in turn": plain("""
        for lr in (0.1, 0.01):
            net = nn.Linear(3072, 10).to(device)
            sgd = torch.optim.SGD(net.parameters(), lr=lr)
            for epoch in range(3):
                for images, labels in train_loader:
                    loss = criterion(net(images.to(device)), labels.to(device))
                    loss.backward()
                    sgd.step()
                    print(loss.item())  # runs: per-step training, reads: device
                print(epoch)  # runs: per-epoch setup
        """),
    "an average of weights in the step": plain("""
        import copy
        average = copy.deepcopy(model)

        @torch.no_grad()
        def update(decay=0.999):
            for mine, theirs in zip(average.parameters(), model.parameters()):
                mine.mul_(decay).add_(theirs, alpha=1 - decay)
            print("average")  # runs: per-step training

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            update()
        """),
}

INTERVALS = [
    "i % max(1, len(train_loader) // 10) == 0",
    "i % (len(train_loader) // 10) == 0",
    "i % args.log_interval == 0 or i == len(train_loader) - 1",
    "(i + 1) % args.log_interval == 0 and args.verbose",
    "args.log_interval > 0 and i % args.log_interval == 0",
    "args.log_interval and i % args.log_interval == 0",
    "i and i % 100 == 0",
    "i % 100 == 0 and i > 0 and is_main",
    "i % 2 ** 8 == 0",
    "i & 127 == 0",
    "i % args.train.print_freq == args.train.print_freq - 1",
    "(i + 1) in (10, 100, 1000)",
    "i in milestones",
    "should_log(i)",
    "log_now",
    "checkpoint_requested or scheduled_checkpoint_due",
    "not validation_pending and i % 100 == 0",
]


@table(CHOICES)
def test_ways_to_choose_what_runs(files: str) -> None:
    check(files)


@table(LOOPS)
def test_ways_to_loop(files: str) -> None:
    check(files)


@pytest.mark.parametrize("condition", INTERVALS)
def test_conditions_that_thin_out(condition: str) -> None:
    text = plain(f"""
        import argparse
        import torch.distributed as dist
        args = argparse.ArgumentParser().parse_args()
        is_main = dist.get_rank() == 0
        milestones = [10, 100, 1000]

        def should_log(step):
            if step < 10:
                return True
            return step % 100 == 0

        for i, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            log_now = i % args.log_interval == 0 and is_main
            if {condition}:
                print(loss.item())
        """)
    (report,) = analyze({"train.py": text}).reports
    assert report.context.frequency.label in ("per-n-steps", "per-epoch")
