"""What a condition stands for: an interval, a rank, a device, a phase, an error, or nothing of the kind."""

from __future__ import annotations

import pytest
from marked_programs import check, entry, plain, table

from trainlint.lint.analyze import ROOT, analyze
from trainlint.semantics.link import LinkOptions
from trainlint.semantics.vocabulary import GradMode, GuardKind

HEAD = plain("""
    import argparse
    import os
    import time
    import torch.distributed as dist

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    world_size = dist.get_world_size()
    is_main = rank == 0
    """)

CONDITIONS = [
    ("step % 100 == 0", GuardKind.INTERVAL),
    ("0 == step % 100", GuardKind.INTERVAL),
    ("step % args.log_every == 0", GuardKind.INTERVAL),
    ("(step + 1) % 100 == 0", GuardKind.INTERVAL),
    ("step % 100 == 99", GuardKind.INTERVAL),
    ("not step % 100", GuardKind.INTERVAL),
    ("divmod(step, 100)[1] == 0", GuardKind.INTERVAL),
    ("math.fmod(step, 100) == 0", GuardKind.INTERVAL),
    ("divmod(step, accum_steps)[1] == 0", GuardKind.ACCUMULATION),
    ("not (step % 100 != 0)", GuardKind.INTERVAL),
    ("step > 0 and step % 100 == 0", GuardKind.INTERVAL),
    ("step % 100 == 0 or step == len(train_loader) - 1", GuardKind.INTERVAL),
    ("(epoch * len(train_loader) + step) % 100 == 0", GuardKind.INTERVAL),
    ("time.time() - last > 30", GuardKind.INTERVAL),
    ("not time.time() - last < 30", GuardKind.INTERVAL),
    ("not 30 >= time.time() - last", GuardKind.INTERVAL),
    ("not step < next_log", GuardKind.INTERVAL),
    ("accum_steps == 1", GuardKind.SINGLE),
    ("accum_steps <= 1", GuardKind.SINGLE),
    ("not accum_steps > 1", GuardKind.SINGLE),
    ("accum_steps > 1", GuardKind.ACCUMULATION),
    ("rank == 0", GuardKind.RANK),
    ("0 == rank", GuardKind.RANK),
    ("not rank", GuardKind.RANK),
    ("rank in (-1, 0)", GuardKind.RANK),
    ("rank in [-1, 0]", GuardKind.RANK),
    ("rank < 1", GuardKind.RANK),
    ("rank == -1 or rank == 0", GuardKind.RANK),
    ("0 < rank", GuardKind.OTHER_RANKS),
    ("args.local_rank == 0", GuardKind.RANK),
    ("args.local_rank in [-1, 0]", GuardKind.RANK),
    ("dist.get_rank() == 0", GuardKind.RANK),
    ("args.dist_rank == 0", GuardKind.RANK),
    ("not args.distributed or args.dist_rank == 0", GuardKind.RANK),
    ("torch.distributed.get_rank() == 0", GuardKind.RANK),
    ("not dist.is_initialized() or dist.get_rank() == 0", GuardKind.RANK),
    ("not args.distributed or rank == 0", GuardKind.RANK),
    ("is_main", GuardKind.RANK),
    ("is_main and args.verbose", GuardKind.RANK),
    ("rank == 0 and step % 100 == 0", GuardKind.RANK),
    ("rank == 0 and step % 100 == 0", GuardKind.INTERVAL),
    ("int(os.environ.get('RANK', 0)) == 0", GuardKind.RANK),
    ("rank == world_size - 1", GuardKind.RANK),
    ("rank % 8 == 0", GuardKind.RANK),
    ("step == 0", GuardKind.FIRST),
    ("epoch == 0 and step == 0", GuardKind.FIRST),
    ("step == len(train_loader) - 1", GuardKind.FIRST),
    ("step < 1", GuardKind.FIRST),
    ("not first_batch_done", GuardKind.FIRST),
    ("args.verbose and not state.first_train_batch_complete", GuardKind.FIRST),
    ("torch.cuda.is_available()", GuardKind.DEVICE),
    ("device.type == 'cuda'", GuardKind.DEVICE),
    ("'cuda' in str(device)", GuardKind.DEVICE),
    ("not torch.cuda.is_available()", GuardKind.NOT_DEVICE),
    ("device.type == 'cpu'", GuardKind.NOT_DEVICE),
    ("not (device is not None and device.type == 'cuda')", GuardKind.NOT_DEVICE),
    ("accelerator.distributed_type == DistributedType.XLA", GuardKind.NOT_DEVICE),
    ("args.accelerator == 'tpu'", GuardKind.NOT_DEVICE),
    ("'xla' in str(device)", GuardKind.NOT_DEVICE),
    ("args.tpu is not None", GuardKind.NOT_DEVICE),
    ("args.tpu_cores > 0", GuardKind.NOT_DEVICE),
    ("not args.kind != 'tpu'", GuardKind.NOT_DEVICE),
    ("is_torch_xla_available()", GuardKind.NOT_DEVICE),
    ("args.use_tpu", GuardKind.NOT_DEVICE),
    ("is_hpu_installed()", GuardKind.NOT_DEVICE),
    ("device.type == 'mps'", GuardKind.NOT_DEVICE),
    ("images.device.type == 'mps'", GuardKind.NOT_DEVICE),
    ("device.type == 'npu'", GuardKind.NOT_DEVICE),
    ("dist.is_initialized()", GuardKind.DISTRIBUTED),
    ("dist.is_available() and dist.is_initialized()", GuardKind.DISTRIBUTED),
    ("args.distributed", GuardKind.DISTRIBUTED),
    ("world_size > 1", GuardKind.DISTRIBUTED),
    ("rank != -1", GuardKind.DISTRIBUTED),
    ("-1 != rank", GuardKind.DISTRIBUTED),
    ("rank > -1", GuardKind.DISTRIBUTED),
    ("rank >= 0", GuardKind.DISTRIBUTED),
    ("0 <= rank", GuardKind.DISTRIBUTED),
    ("1 < world_size", GuardKind.DISTRIBUTED),
    ("rank == -1", GuardKind.NOT_DISTRIBUTED),
    ("args.local_rank == -1", GuardKind.NOT_DISTRIBUTED),
    ("rank < 0", GuardKind.NOT_DISTRIBUTED),
    ("not args.distributed", GuardKind.NOT_DISTRIBUTED),
    ("world_size == 1", GuardKind.NOT_DISTRIBUTED),
    ("args.debug", GuardKind.DEBUG),
    ("torch.jit.is_tracing()", GuardKind.EXCEPTIONAL),
    ("torch.jit.is_scripting() or torch.jit.is_tracing()", GuardKind.EXCEPTIONAL),
    ("is_fx_tracing() and step > 3", GuardKind.EXCEPTIONAL),
    ("torch.compiler.is_compiling()", GuardKind.EXCEPTIONAL),
    ("torch._dynamo.is_compiling()", GuardKind.EXCEPTIONAL),
    ("is_torchdynamo_compiling()", GuardKind.EXCEPTIONAL),
    ("torch.jit.is_tracing() or is_torchdynamo_compiling()", GuardKind.EXCEPTIONAL),
    ("torch._C._get_tracing_state()", GuardKind.EXCEPTIONAL),
    ("model.training", GuardKind.TRAINING),
    ("not model.training", GuardKind.EVALUATION),
]

NO_SPECIAL_GUARD = [
    "args.verbose",
    "images.size(0) > 1",
    "step > 100",
    "100 < step",
    "time.time() - last < 30",
    "time.time() - last <= args.log_every",
    "step < next_log",
    "best is None",
    "step % 1 == 0",
    "epoch >= 1",
    "len(images) == 64",
    "args.verbose or step % 100 == 0",
    "not (args.verbose and device.type == 'cuda')",
    "not (best is not None and device.type == 'cuda')",
    "args.kind != 'tpu'",
    "args.tpu is None",
    "not is_torch_xla_available()",
    "first_batch_done",
    "not torch.compiler.is_compiling()",
    "not torch.jit.is_scripting()",
    "device.type != 'mps'",
]

_SPECIAL = {
    GuardKind.INTERVAL,
    GuardKind.RANK,
    GuardKind.FIRST,
    GuardKind.DEVICE,
    GuardKind.NOT_DEVICE,
    GuardKind.DISTRIBUTED,
    GuardKind.NOT_DISTRIBUTED,
    GuardKind.EXCEPTIONAL,
    GuardKind.DEBUG,
    GuardKind.EVALUATION,
    GuardKind.TRAINING,
}


def kinds(condition: str, shape: str) -> set[GuardKind]:
    """Kinds of the guards around a print that runs under `condition`, written in one of three shapes."""
    lines = {
        "if": [f"if {condition}:", "    print('guarded')"],
        "else": [f"if not ({condition}):", "    pass", "else:", "    print('guarded')"],
        "continue": [f"if not ({condition}):", "    continue", "print('guarded')"],
    }[shape]
    loop = [
        "best, last = None, time.time()",
        "for epoch in range(3):",
        "    for step, (images, labels) in enumerate(train_loader):",
        "        loss = criterion(model(images.to(device)), labels.to(device))",
        "        loss.backward()",
        "        optimizer.step()",
        *(f"        {line}" for line in lines),
    ]
    project = analyze({"train.py": HEAD + "\n".join(loop) + "\n"})
    (report,) = (report for report in project.reports if "guarded" in report.text)
    return {guard.kind for guard in report.context.guards}


@pytest.mark.parametrize("shape", ["if", "else", "continue"])
@pytest.mark.parametrize(("condition", "kind"), CONDITIONS, ids=[f"{test}-{kind}" for test, kind in CONDITIONS])
def test_conditions_are_understood_in_every_shape(condition: str, kind: GuardKind, shape: str) -> None:
    assert kind in kinds(condition, shape)


HELD = {
    "an interval": ("due = step % 100 == 0", "due", True),
    "an interval that may be off": ("skips = args.every < 1 or step % args.every != 0", "not skips", True),
    "an interval where there is one": ("due = False\nif args.every: due = step % args.every == 0", "due", True),
    "every step where there is none": ("due = True\nif args.every: due = step % args.every == 0", "due", False),
    "whatever all ranks agree on": ("due = strategy.broadcast(step % 100 == 0)", "due", True),
    "two intervals, either of which may be due": (
        "off = step % args.every != 0\n"
        "early = True\n"
        "if args.seconds is not None:\n"
        "    early = last is None or time.time() - last < args.seconds\n"
        "    early = strategy.broadcast(early)",
        "not (off and early)",
        True,
    ),
}


@pytest.mark.parametrize(("before", "condition", "thins_out"), HELD.values(), ids=HELD.keys())
def test_an_interval_that_a_variable_holds_is_one(before: str, condition: str, thins_out: bool) -> None:
    lines = [*before.split("\n"), f"if {condition}:", "    print('guarded')"]
    loop = [
        "last = None",
        "for step, (images, labels) in enumerate(train_loader):",
        "    criterion(model(images.to(device)), labels.to(device)).backward()",
        "    optimizer.step()",
        *(f"    {line}" for line in lines),
    ]
    (report,) = analyze({"train.py": HEAD + "\n".join(loop) + "\n"}).reports
    assert (GuardKind.INTERVAL in {guard.kind for guard in report.context.guards}) is thins_out


@pytest.mark.parametrize("shape", ["if", "else", "continue"])
@pytest.mark.parametrize("condition", NO_SPECIAL_GUARD)
def test_other_conditions_stand_for_nothing(condition: str, shape: str) -> None:
    assert not kinds(condition, shape) & _SPECIAL


ACCIDENTS = [
    "torch.isnan(loss)",
    "torch.isnan(loss).any()",
    "torch.any(torch.isinf(loss))",
    "not torch.isfinite(loss)",
    "not torch.isfinite(loss).all()",
    "torch.isnan(loss) or torch.isinf(loss)",
    "torch.isnan(loss) or loss > 100",
    "not (loss < 100 and not torch.isnan(loss))",
    "step > 0 and torch.isnan(loss)",
]


@pytest.mark.parametrize("shape", ["if", "else", "continue"])
@pytest.mark.parametrize("condition", ACCIDENTS)
def test_nobody_knows_how_often_a_value_is_not_finite(condition: str, shape: str) -> None:
    assert GuardKind.DATA in kinds(condition, shape)


def test_nobody_knows_how_often_all_values_of_a_tensor_are_alike() -> None:
    assert GuardKind.DATA in kinds("(images == 0).all()", "if")


@pytest.mark.parametrize("shape", ["if", "else", "continue"])
@pytest.mark.parametrize("condition", ["torch.isfinite(loss)", "not torch.isnan(loss).any()", "not math.isinf(total)"])
def test_values_are_finite_as_a_rule(condition: str, shape: str) -> None:
    assert not kinds(condition, shape) & {GuardKind.DATA, GuardKind.EXCEPTIONAL, *_SPECIAL}


@pytest.mark.parametrize("condition", ["step % 100 == 0 and not torch.isnan(loss)", "args.verbose or isnan(loss)"])
def test_what_another_condition_keeps_out_is_no_accident(condition: str) -> None:
    assert GuardKind.DATA not in kinds(condition, "else") | kinds(f"not ({condition})", "if")


PAUSES = {
    "for an evaluation": plain("""
        def evaluate(loader):
            print("evaluation")  # under: pause+interval, runs: per-n-steps training
            with torch.no_grad():
                return sum(criterion(model(images.to(device)), labels.to(device)) for images, labels in loader)

        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % 1000 == 0:
                evaluate(val_loader)
                print("evaluated")  # under: pause+interval
        """),
    "for a checkpoint": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % 1000 == 0:
                torch.save(model.state_dict(), "model.pt")
                print("saved")  # under: pause+interval
        """),
    "by the name of the interval": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % config.eval_steps == 0:
                print("evaluation")  # under: pause+interval
        """),
}


@table(PAUSES)
def test_training_pauses_every_so_many_steps(files: str | dict[str, str]) -> None:
    check(files)


@pytest.mark.parametrize("condition", ["step % 100 == 0", "step % args.log_every == 0", "args.save", "step == 0"])
def test_an_interval_that_only_reports_is_no_pause(condition: str) -> None:
    assert GuardKind.PAUSE not in kinds(condition, "if")


DUE = {
    "a variable holds the answer of a function that asks whether it is time": plain("""
        class Validation:
            def should_perform_validation(self, step, prompts, kind):
                if prompts is None:
                    return False
                due = False
                if self.interval is not None:
                    due = step % self.interval == 0
                return due

            def run_validations(self, step, force_evaluation=False):
                due = self.should_perform_validation(step, self.prompts, "intermediary")
                will_execute = bool_of(self.prompts) and (due or step == 0)
                if not will_execute and not force_evaluation:
                    return self
                print("validates")  # runs: per-n-steps training
                return self

        validation = Validation()
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            validation.run_validations(step, force_evaluation=asked())
        """),
    "a method that asks, by its name alone": plain("""
        import somewhere
        checker = somewhere.Checker()
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            now = checker.should_save(step)
            if now:
                print("saves")  # runs: per-n-steps training
        """),
    "a question about something else": plain("""
        import somewhere
        checker = somewhere.Checker()
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            now = checker.should_scale(step)
            if now:
                print("scales")  # runs: per-step training
        """),
}


@table(DUE)
def test_questions_whether_something_is_due_are_intervals(files: str) -> None:
    check(files)


def test_conditions_inside_of_an_evaluation_decide_at_each_of_its_steps() -> None:
    project = analyze(
        {
            "train.py": plain("""
        import logging

        def evaluate(loader):
            for images, labels in loader:
                if len(images) < 64:
                    logging.getLogger(__name__).warning("a small batch")

        for epoch in range(3):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
            evaluate(val_loader)
        """)
        }
    )
    (report,) = project.reports
    assert report.warns


NAMES = {
    "a predicate of the project": plain("""
        import torch.distributed as dist

        def is_dist_avail_and_initialized():
            if not dist.is_available():
                return False
            if not dist.is_initialized():
                return False
            return True

        def get_rank():
            if not is_dist_avail_and_initialized():
                return 0
            return dist.get_rank()

        def leads():
            return get_rank() == 0

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if leads():
                print("main")  # under: rank
            if get_rank() == 0:
                print("main")  # under: rank
        """),
    "an attribute that keeps the answer": plain("""
        import torch.distributed as dist

        class Trainer:
            def __init__(self, rank):
                self.rank = rank
                self.quiet = rank != 0

            def train(self):
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    if self.rank == 0:
                        print("main")  # under: rank
                    if not self.quiet:
                        print("main")  # under: rank
                    if self.quiet:
                        print("others")

        dist.init_process_group("nccl")
        Trainer(dist.get_rank()).train()
        """),
    "a rank that is a worker's parameter": plain("""
        import torch.multiprocessing as mp

        def worker(gpu, count):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                if gpu == 0:
                    print("main")  # under: rank

        mp.spawn(worker, args=(4,), nprocs=4)
        """),
    "a decorator that leaves one rank": plain("""
        import functools
        import torch.distributed as dist

        def rank_zero_only(function):
            @functools.wraps(function)
            def wrapped(*args, **kwargs):
                if dist.get_rank() == 0:
                    return function(*args, **kwargs)
            return wrapped

        @rank_zero_only
        def log(text):
            print(text)  # under: rank, runs: per-step training

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            log("step")
        """),
    "an early return on other ranks": plain("""
        import torch.distributed as dist

        def log(text):
            if dist.get_rank() != 0:
                return
            print(text)  # under: rank

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            log("step")
        """),
    "a guard around the call holds inside": plain("""
        import torch.distributed as dist

        def log(text):
            print(text)  # under: rank+interval

        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if dist.get_rank() == 0:
                if step % 10 == 0:
                    log("step")
        """),
}

ERRORS = {
    "what follows a `try` that returns": plain("""
        import logging

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(3072, 10)

            def forward(self, x):
                try:
                    return self.body(x)
                except RuntimeError as error:
                    if "out of memory" not in str(error):
                        raise
                return self.body(x.cpu())  # runs: once training, under: exceptional

        model = Net().cuda()
        for images, labels in train_loader:
            criterion(model(images.cuda()), labels.cuda()).backward()
            optimizer.step()
        """),
    "what follows a `try` that may return": plain("""
        def shown(loss, quiet):
            try:
                if quiet:
                    return
            except ValueError:
                pass
            print(loss)  # runs: per-step training

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            shown(loss, len(images) > 3)
        """),
    "an except block": plain("""
        for images, labels in train_loader:
            try:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                print("tried")  # runs: per-step training, under: none
            except RuntimeError as error:
                print(error)  # runs: once training, under: exceptional
                raise
            finally:
                print("finally")  # runs: per-step training, under: none
        """),
    "a branch that ends the process": plain("""
        import sys
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if loss > 1000:
                print(loss.item())  # runs: once training, under: exceptional
                sys.exit(1)
            print("alive")  # runs: per-step training
        """),
    "a branch that raises": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if images.size(0) == 0:
                raise ValueError(f"no images, loss {loss.item()}")  # runs: once training, under: exceptional
            print("alive")  # runs: per-step training
        """),
    "a branch that leaves the loop": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if len(images) < 64:
                print(loss.item())  # runs: once training, under: exceptional
                break
            print("alive")  # runs: per-step training
        """),
    "code after an endless branch is not reached": plain("""
        import sys
        if not torch.cuda.is_available():
            print("no GPU")  # under: not-device
            sys.exit(1)
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """),
    "a return in a try does not thin out the code behind it": plain("""
        def train_step(images, labels):
            try:
                loss = criterion(model(images), labels)
            except RuntimeError:
                return None
            loss.backward()
            optimizer.step()
            print("step")  # runs: per-step training, under: none

        for images, labels in train_loader:
            train_step(images.to(device), labels.to(device))
        """),
}

PRINTERS = {
    "`setup_for_distributed` replaces print": """
        def setup_for_distributed(is_master):
            import builtins as __builtin__
            builtin_print = __builtin__.print

            def print(*args, **kwargs):
                force = kwargs.pop("force", False)
                if is_master or force:
                    builtin_print(*args, **kwargs)

            __builtin__.print = print

        import torch.distributed as dist
        dist.init_process_group("nccl")
        setup_for_distributed(dist.get_rank() == 0)
        """,
    "print is replaced by nothing on other ranks": """
        import builtins
        import torch.distributed as dist
        dist.init_process_group("nccl")
        if dist.get_rank() != 0:
            def print_pass(*args):
                pass
            builtins.print = print_pass
        """,
    "a module's print is shadowed": """
        import torch.distributed as dist
        dist.init_process_group("nccl")
        if dist.get_rank() != 0:
            print = lambda *args, **kwargs: None
        """,
}


@table(NAMES)
def test_rank_guards_behind_names_and_calls(files: str) -> None:
    check(files)


HELD_BY_ONE_RANK = {
    "an attribute of an object": plain("""
        import torch.distributed as dist
        import somewhere

        class Trainer:
            def __init__(self):
                self.tracker = somewhere.get() if dist.get_rank() == 0 and not debug else None
                self.steps = 0

            def step(self, images, labels):
                criterion(model(images), labels).backward()
                optimizer.step()
                if self.tracker:
                    print("tracked")  # under: rank
                if self.tracker is None:
                    return
                print("tracked as well")  # under: rank

        trainer = Trainer()
        for images, labels in train_loader:
            trainer.step(images.to(device), labels.to(device))
        """),
    "a variable that is passed on": plain("""
        import torch.distributed as dist
        import somewhere

        def train(loader, writer):
            for step, (images, labels) in enumerate(loader):
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                if writer is not None and step > 3:
                    print("written")  # under: rank

        def main():
            if is_main_process():
                writer = somewhere.Writer()
            else:
                writer = None
            train(train_loader, writer)

        main()
        """),
    "one that every rank may have": plain("""
        import torch.distributed as dist
        import somewhere

        def train(loader, writer, other):
            for images, labels in loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                if writer is not None:
                    print("written")  # under: flag
                if other:
                    print("on each")  # under: flag

        def main(args):
            writer = somewhere.Writer() if args.write else None
            other = somewhere.Writer() if dist.get_rank() == 0 else somewhere.Silent()
            train(train_loader, writer, other)

        main(parse())
        """),
    "one that another method gives to all ranks": plain("""
        import torch.distributed as dist
        import somewhere

        class Trainer:
            def __init__(self):
                self.tracker = somewhere.get() if dist.get_rank() == 0 else None

            def track(self):
                self.tracker = somewhere.get()

            def step(self, images, labels):
                criterion(model(images), labels).backward()
                optimizer.step()
                if self.tracker:
                    print("tracked")  # under: flag

        trainer = Trainer()
        for images, labels in train_loader:
            trainer.step(images.to(device), labels.to(device))
        """),
}


@table(HELD_BY_ONE_RANK)
def test_what_exists_on_one_rank_keeps_the_others_out(files: str) -> None:
    check(files)


@pytest.mark.parametrize("one", ["writer is not None", "writer"])
def test_a_guard_by_what_one_rank_has_is_no_guard_of_all(one: str) -> None:
    project = analyze(
        {
            "train.py": plain(f"""
        import torch.distributed as dist
        import somewhere

        def main(quiet):
            writer = somewhere.Writer() if dist.get_rank() == 0 else None
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                if {one} or not quiet:
                    print("on several")

        main(False)
        """)
        }
    )
    (report,) = project.reports
    assert GuardKind.RANK not in {guard.kind for guard in report.context.guards}


@table(ERRORS)
def test_error_paths_are_no_steps(files: str) -> None:
    check(files)


@table(PRINTERS)
def test_a_replaced_print_is_rank_aware(files: str) -> None:
    loop = plain("""
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")
        """)
    text = plain(files) + loop
    reports = [report for report in analyze({"train.py": text}).reports if report.text == 'print("step")']
    assert all(report.rank_aware or report.context.entry.rank_aware_print for report in reports)


def test_a_plain_print_is_not_rank_aware() -> None:
    text = plain("""
        import torch.distributed as dist
        dist.init_process_group("nccl")
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")
        """)
    (report,) = analyze({"train.py": text}).reports
    assert not report.rank_aware and not report.context.entry.rank_aware_print


SILENT_LOGGERS = {
    "by level": """
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")
        logger = logging.getLogger(__name__)
        logging.basicConfig(level=logging.INFO if dist.get_rank() in [-1, 0] else logging.WARN)
        """,
    "by an added filter or handler": """
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")
        logger = logging.getLogger(__name__)
        if dist.get_rank() == 0:
            logger.addHandler(logging.StreamHandler())
        """,
    "by setLevel on other ranks": """
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")
        logger = logging.getLogger(__name__)
        if dist.get_rank() != 0:
            logger.setLevel(logging.ERROR)
        """,
    "by the level of the other ranks": """
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")
        logger = logging.getLogger(__name__)
        if not options.distributed or options.dist_rank == 0:
            logging.basicConfig(level=options.log_level)
        else:
            logging.basicConfig(level="ERROR")
        """,
    "by a factory that returns early": """
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")

        def create_logger(rank):
            logger = logging.getLogger("train")
            logger.setLevel(logging.DEBUG)
            if rank > 0:
                return logger
            logger.addHandler(logging.StreamHandler())
            return logger

        logger = create_logger(dist.get_rank())
        """,
}


@table(SILENT_LOGGERS)
def test_loggers_that_are_silent_on_other_ranks(files: str) -> None:
    loop = """
for images, labels in train_loader:
    criterion(model(images.to(device)), labels.to(device)).backward()
    optimizer.step()
    logger.info("step")
"""
    project = analyze({"train.py": plain(files) + loop})
    (report,) = (report for report in project.reports if report.text == 'logger.info("step")')
    assert report.rank_aware or report.context.entry.silent_loggers


def test_a_plain_logger_is_not_silent() -> None:
    text = plain("""
        import logging
        import torch.distributed as dist
        dist.init_process_group("nccl")
        logger = logging.getLogger(__name__)
        logging.basicConfig(level=logging.INFO)
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            logger.info("step")
        """)
    project = analyze({"train.py": text})
    (report,) = project.reports
    assert not report.rank_aware and not entry(project, "train.py").silent_loggers


@pytest.mark.parametrize("condition", ["leads()", "speaks", "is_chief()"], ids=["call", "variable", "function"])
def test_names_that_the_configuration_gives_are_rank_guards(condition: str) -> None:
    text = plain(f"""
        from cluster import leads

        def is_chief():
            return leads()

        speaks = leads() and args.verbose
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if {condition}:
                print("step")  # under: rank
        """)
    check({"train.py": text}, LinkOptions(rank_guards=("leads",)))


GRADIENTS = {
    "under no_grad": ("with torch.no_grad():", GradMode.DISABLED),
    "under inference_mode": ("with torch.inference_mode():", GradMode.DISABLED),
    "under set_grad_enabled(False)": ("with torch.set_grad_enabled(False):", GradMode.DISABLED),
    "under enable_grad": ("with torch.enable_grad():", GradMode.ENABLED),
    "under a lock": ("with open('log.txt') as log:", GradMode.ENABLED),
}


@pytest.mark.parametrize(("statement", "mode"), GRADIENTS.values(), ids=GRADIENTS.keys())
def test_gradient_modes(statement: str, mode: GradMode) -> None:
    text = plain(f"""
        def show():
            print("shown")

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            {statement}
                show()
        """)
    (report,) = analyze({"train.py": text}).reports
    assert report.context.grad is mode


def test_a_global_switch_disables_gradients_from_there_on() -> None:
    text = plain("""
        torch.set_grad_enabled(False)
        for images, labels in val_loader:
            print(model(images.to(device)).argmax(1).tolist())
        """)
    report = analyze({"train.py": text}).reports[0]
    assert report.context.grad is GradMode.DISABLED
    assert report.site.path == ROOT / "train.py"


def test_autograd_is_off_in_the_forward_of_a_function_of_its_own() -> None:
    text = plain("""
        class Shift(torch.autograd.Function):
            @staticmethod
            def forward(ctx, inputs):
                print("shift")
                return inputs + 1

            @staticmethod
            def backward(ctx, grad):
                return grad


        kept = []
        for i, (x, y) in enumerate(train_loader):
            shifted = Shift.apply(model(x))
            kept.append(shifted)
            update()
    """)
    project = analyze({"train.py": text})
    (report,) = project.reports
    assert report.context.grad is GradMode.DISABLED
    (kept,) = project.kept_graphs
    assert kept.context.grad is GradMode.ENABLED
