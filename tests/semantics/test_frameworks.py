"""Who owns the loop, and what a framework runs, places and reports by itself."""

from __future__ import annotations

import pytest
from marked_programs import check, entry, plain, program, table

from trainlint.lint.analyze import analyze
from trainlint.semantics.duties import Duty
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import Framework, Known, Region

LIGHTNING = {
    "hooks after a step are handed what it returned": """
        import lightning as L
        import torch
        from torch.utils.data import DataLoader

        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                return {"loss": self.body(batch).mean()}

            def on_train_batch_end(self, outputs, batch, batch_idx):
                self.last = outputs["loss"].item()  # runs: per-step training, reads: device

        class Report(L.Callback):
            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                print(outputs["loss"].item())  # runs: per-step training, reads: device

            def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                print(outputs.item())  # runs: per-step evaluation, reads: device

        L.Trainer(callbacks=[Report()]).fit(Net(), DataLoader(torch.load("data.pt")))
        """,
    "hooks run as often as the trainer calls them": """
        import lightning as L
        import torch
        from torch import nn
        from torch.utils.data import DataLoader

        class Classifier(L.LightningModule):
            def __init__(self):
                super().__init__()
                print("made")  # runs: once setup
                self.body = nn.Linear(8, 10)

            def forward(self, x):
                return self.body(x)

            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = nn.functional.cross_entropy(self(x), y)
                print(loss.item())  # runs: per-step training, reads: device
                if batch_idx % 100 == 0:
                    print("sometimes")  # runs: per-n-steps training
                return loss

            def validation_step(self, batch, batch_idx):
                x, y = batch
                print(nn.functional.cross_entropy(self(x), y).item())  # runs: per-step evaluation, reads: device

            def on_train_epoch_end(self):
                print("epoch")  # runs: per-epoch setup

            def configure_optimizers(self):
                print("optimizers")  # runs: once setup
                return torch.optim.SGD(self.parameters(), lr=0.1)

        L.Trainer(max_epochs=3).fit(Classifier(), DataLoader(torch.load("data.pt")))
        """,
    "the older package, with its trainer elsewhere": {
        "module.py": """
            import pytorch_lightning as pl

            class Net(pl.LightningModule):
                def training_step(self, batch, batch_idx):
                    loss = self.loss(batch)
                    return loss

                def loss(self, batch):
                    loss = self.body(batch).mean()
                    print(loss.item())  # runs: per-step training, reads: device
                    return loss
            """,
        "train.py": """
            import pytorch_lightning as pl
            from module import Net

            if __name__ == "__main__":
                pl.Trainer().fit(Net())
            """,
    },
    "a module that no trainer of the project runs": """
        import lightning.pytorch as pl

        class Net(pl.LightningModule):
            def training_step(self, batch, batch_idx):
                loss = self.body(batch).mean()
                print(loss.item())  # runs: per-step training
                return loss
        """,
    "a base class of the project in between": """
        import lightning as L

        class Base(L.LightningModule):
            def training_step(self, batch, batch_idx):
                loss = self.loss(batch)
                print(loss.item())  # runs: per-step training, reads: device
                return loss

        class Net(Base):
            def loss(self, batch):
                print("loss")  # runs: per-step training
                return self.body(batch).mean()

        L.Trainer().fit(Net())
        """,
    "manual optimization": """
        import lightning as L

        class Gan(L.LightningModule):
            automatic_optimization = False

            def training_step(self, batch, batch_idx):
                first, second = self.optimizers()
                loss = self.body(batch).mean()
                self.manual_backward(loss)
                first.step()
                print(loss.item())  # runs: per-step training, reads: device

        L.Trainer().fit(Gan())
        """,
    "callbacks": """
        import lightning as L

        class Printer(L.Callback):
            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                print("step")  # runs: per-step training

            def on_train_epoch_end(self, trainer, module):
                print("epoch")  # runs: per-epoch setup

            def on_validation_batch_end(self, *arguments):
                print("validation")  # runs: per-step evaluation

        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                return self.body(batch).mean()

        L.Trainer(callbacks=[Printer()]).fit(Net())
        """,
    "a data module": """
        import lightning as L
        import torch
        from torch.utils.data import DataLoader

        class Data(L.LightningDataModule):
            def setup(self, stage):
                print("setup")  # runs: once setup

            def train_dataloader(self):
                return DataLoader(torch.load("train.pt"))

            def val_dataloader(self):
                return DataLoader(torch.load("val.pt"))

        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                return self.body(batch).mean()

        L.Trainer().fit(Net(), datamodule=Data())
        """,
}

OTHERS = {
    "Fabric": """
        import lightning as L
        import torch
        from torch.utils.data import DataLoader

        fabric = L.Fabric(accelerator="cuda", devices=8)
        fabric.launch()
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = fabric.setup(model, optimizer)
        loader = fabric.setup_dataloaders(DataLoader(torch.load("data.pt")))
        for epoch in range(3):
            for step, batch in enumerate(loader):
                loss = model(batch).mean()
                fabric.backward(loss)
                optimizer.step()
                print(loss.item())  # runs: per-step training, reads: device
                if fabric.global_rank == 0:
                    print("main")  # under: rank
                if fabric.is_global_zero:
                    print("main")  # under: rank
            print("epoch")  # runs: per-epoch setup
        """,
    "Accelerate": """
        import torch
        from accelerate import Accelerator
        from torch.utils.data import DataLoader

        accelerator = Accelerator(gradient_accumulation_steps=4)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train, val = DataLoader(torch.load("a.pt")), DataLoader(torch.load("b.pt"))
        model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
        for epoch in range(3):
            for step, batch in enumerate(train):
                with accelerator.accumulate(model):
                    loss = model(batch).mean()
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                print(loss.item())  # runs: per-step training, reads: device
                if accelerator.is_main_process:
                    print("main")  # under: rank
                if accelerator.is_local_main_process:
                    print("main")  # under: rank
                if accelerator.is_last_process:
                    print("last")  # under: rank
                if accelerator.sync_gradients:
                    print("update")  # runs: per-step training
                if accelerator.sync_gradients:
                    averaged.update()
                    print("moving average")  # runs: per-step training
            with torch.no_grad():
                for batch in val:
                    print(accelerator.gather(model(batch)).mean().item())  # runs: per-step evaluation, reads: device
        """,
    "DeepSpeed": """
        import deepspeed
        import torch
        from torch.utils.data import DataLoader

        net = torch.nn.Linear(8, 1)
        engine, optimizer, loader, _ = deepspeed.initialize(
            model=net, model_parameters=net.parameters(), training_data=torch.load("data.pt"), config="ds.json"
        )
        for epoch in range(3):
            for batch in loader:
                loss = engine(batch.to(engine.device)).mean()
                engine.backward(loss)
                engine.step()
                print(loss.item())  # runs: per-step training, reads: device
                if engine.local_rank == 0:
                    print("main")  # under: rank
            print("epoch")  # runs: per-epoch setup
        """,
    "a subclass of the Hugging Face Trainer": """
        from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

        class Printer(TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                print(state.global_step)  # runs: per-step training

        class Mine(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                outputs = model(**inputs)
                loss = outputs.loss
                print(loss.item())  # runs: per-step training, reads: device
                return (loss, outputs) if return_outputs else loss

            def prediction_step(self, model, inputs, *rest, **named):
                print("prediction")  # runs: per-step evaluation

        def main():
            print("main")  # runs: once setup
            model = AutoModelForCausalLM.from_pretrained("gpt2")
            trainer = Mine(model=model, args=TrainingArguments("out"), train_dataset=[], callbacks=[Printer()])
            trainer.train()
            print("end")  # runs: once setup

        if __name__ == "__main__":
            main()
        """,
    "a dataset and a collator of the Hugging Face Trainer": """
        import torch
        from torch.utils.data import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

        class Texts(Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                print(index)  # runs: per-sample data
                return {"input_ids": torch.zeros(3)}

        def collate(samples):
            print(len(samples))  # runs: per-step collate
            return samples

        model = AutoModelForCausalLM.from_pretrained("gpt2")
        Trainer(model, TrainingArguments("out"), train_dataset=Texts(), data_collator=collate).train()
        """,
    "Ignite": """
        import torch
        from ignite.engine import Engine, Events
        from torch.utils.data import DataLoader

        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def update(engine, batch):
            loss = model(batch.cuda()).mean()
            loss.backward()
            optimizer.step()
            return loss.item()  # runs: per-step training, reads: device

        trainer = Engine(update)
        trainer.run(DataLoader(torch.load("data.pt")), max_epochs=3)
        """,
    "handlers of an Ignite engine": """
        import torch
        from ignite.engine import Engine, Events
        from torch.utils.data import DataLoader

        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def create_trainer():
            def update(engine, batch):
                loss = model(batch.cuda()).mean()
                loss.backward()
                optimizer.step()
                return loss

            trainer = Engine(update)

            @trainer.on(Events.ITERATION_COMPLETED)
            def after_each(engine):
                print(engine.state.output.item())  # runs: per-step training, reads: device

            @trainer.on(Events.ITERATION_COMPLETED(every=100) | Events.EPOCH_STARTED)
            def sometimes():
                print("sometimes")  # runs: per-n-steps training | per-epoch setup

            @trainer.on(Events.ITERATION_STARTED(once=1))
            def first(engine):
                print("first")  # runs: per-epoch training

            return trainer

        def evaluate(engine, batch):
            with torch.no_grad():
                return model(batch.cuda()).mean().item()  # runs: per-step evaluation

        evaluator = Engine(evaluate)
        trainer = create_trainer()

        def after_epoch(engine, name):
            print(name, engine.state.epoch)  # runs: per-epoch setup
            evaluator.run(DataLoader(torch.load("val.pt")))

        def after_batch(engine):
            print(engine.state.output)  # runs: per-step evaluation

        trainer.add_event_handler(Events.EPOCH_COMPLETED, after_epoch, "epoch")
        evaluator.add_event_handler(Events.ITERATION_COMPLETED, after_batch)
        trainer.run(DataLoader(torch.load("data.pt")), max_epochs=3)
        """,
    "what the Hugging Face Trainer logs": """
        from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

        class Report(TrainerCallback):
            def on_log(self, args, state, control, logs=None, **kwargs):
                print(logs)  # runs: per-n-steps training

            def on_step_end(self, args, state, control, **kwargs):
                print(kwargs["model"](state.batch).loss.item())  # runs: per-step training, reads: device

            def on_evaluate(self, args, state, control, **kwargs):
                print("evaluated")  # runs: per-epoch setup

        class Mine(Trainer):
            def log(self, logs, start_time=None):
                print(logs)  # runs: per-n-steps training
                super().log(logs, start_time)

        model = AutoModelForCausalLM.from_pretrained("gpt2")
        trainer = Mine(model=model, args=TrainingArguments("out"), train_dataset=[])
        trainer.add_callback(Report)
        trainer.train()
        """,
    "Ray Train": """
        import ray.train
        import torch
        from ray.train import ScalingConfig
        from ray.train.torch import TorchTrainer
        from torch.utils.data import DataLoader

        def loop(config):
            model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
            loader = ray.train.torch.prepare_data_loader(DataLoader(torch.load("data.pt")))
            optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
            for epoch in range(3):
                for batch in loader:
                    loss = model(batch).mean()
                    loss.backward()
                    optimizer.step()
                    print(loss.item())  # runs: per-step training, reads: device
                    if ray.train.get_context().get_world_rank() == 0:
                        print("first")  # under: rank
                print("epoch")  # runs: per-epoch setup

        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2, use_gpu=True)).fit()
        """,
    "the configuration of a plain loop's own trainer class is no framework": """
        import torch

        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def training_step(self, batch):
                loss = self.model(batch.cuda()).mean()
                loss.backward()
                self.optimizer.step()
                print(loss.item())  # runs: per-step training, reads: device

            def fit(self, loader):
                for batch in loader:
                    self.training_step(batch)

        Trainer(torch.nn.Linear(8, 1).cuda()).fit(torch.utils.data.DataLoader(torch.load("data.pt")))
        """,
}

OWNERS = {
    "hooks run as often as the trainer calls them": Framework.LIGHTNING,
    "Fabric": Framework.FABRIC,
    "Accelerate": Framework.ACCELERATE,
    "DeepSpeed": Framework.DEEPSPEED,
    "a subclass of the Hugging Face Trainer": Framework.HF_TRAINER,
    "a dataset and a collator of the Hugging Face Trainer": Framework.HF_TRAINER,
    "Ignite": Framework.IGNITE,
    "handlers of an Ignite engine": Framework.IGNITE,
    "what the Hugging Face Trainer logs": Framework.HF_TRAINER,
    "Ray Train": Framework.RAY_TRAIN,
    "the configuration of a plain loop's own trainer class is no framework": Framework.PYTORCH,
}


def files_of(source: str | dict[str, str]) -> dict[str, str]:
    return program({"train.py": source} if isinstance(source, str) else source)


@table(LIGHTNING)
def test_lightning(files: str | dict[str, str]) -> None:
    check(files_of(files))


@table(OTHERS)
def test_other_frameworks(files: str) -> None:
    check(files_of(files))


@pytest.mark.parametrize(("name", "owner"), OWNERS.items(), ids=OWNERS.keys())
def test_the_owner_of_the_loop_is_named(name: str, owner: Framework) -> None:
    project = analyze(files_of({**LIGHTNING, **OTHERS}[name]))
    assert entry(project, "train.py").framework is owner
    assert entry(project, "train.py").trains
    assert entry(project, "train.py").cuda is Known.YES


@pytest.mark.parametrize(
    ("name", "framework"),
    [("Fabric", Framework.FABRIC), ("Accelerate", Framework.ACCELERATE)],
    ids=["Fabric", "Accelerate"],
)
def test_loaders_that_a_framework_prepares_are_its_own(name: str, framework: Framework) -> None:
    project = analyze(files_of(OTHERS[name]))
    assert project.loaders
    assert {loader.prepared_by for loader in project.loaders} == {framework}
    assert any(loader.trains for loader in project.loaders)


def test_loaders_of_a_data_module_are_lightnings() -> None:
    project = analyze(files_of(LIGHTNING["a data module"]))
    regions = [{use.region for use in loader.uses} for loader in project.loaders]
    assert {loader.prepared_by for loader in project.loaders} == {Framework.LIGHTNING}
    assert regions == [{Region.TRAINING}, {Region.EVALUATION}]


def test_loaders_that_are_passed_to_fit_train() -> None:
    project = analyze(files_of(LIGHTNING["hooks run as often as the trainer calls them"]))
    (loader,) = project.loaders
    assert loader.prepared_by is Framework.LIGHTNING
    assert loader.trains


REPORTS = {
    "Lightning's log": (
        """
        import lightning as L
        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                loss = self.body(batch).mean()
                self.log("loss", loss)
                return loss
        L.Trainer().fit(Net())
        """,
        "pytorch_lightning.LightningModule.log",
    ),
    "Lightning's print": (
        """
        import lightning as L
        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                self.print("step")
                return self.body(batch).mean()
        L.Trainer().fit(Net())
        """,
        "pytorch_lightning.LightningModule.print",
    ),
    "Accelerate's print": (
        OTHERS["Accelerate"].replace('print("main")', 'accelerator.print("main")', 1),
        "accelerate.Accelerator.print",
    ),
    "Accelerate's log": (
        OTHERS["Accelerate"].replace('print("main")', 'accelerator.log({"a": 1})', 1),
        "accelerate.Accelerator.log",
    ),
    "Fabric's print": (OTHERS["Fabric"].replace('print("main")', 'fabric.print("main")', 1), "lightning.Fabric.print"),
}


@pytest.mark.parametrize(("source", "name"), REPORTS.values(), ids=REPORTS.keys())
def test_what_a_framework_prints_comes_from_one_rank(source: str, name: str) -> None:
    project = analyze(files_of(source))
    (report,) = (report for report in project.reports if report.name == name)
    assert report.rank_aware
    assert report.context.hot


def test_accelerate_and_fabric_take_care_of_accumulation() -> None:
    project = analyze(files_of(OTHERS["Accelerate"]))
    (loop,) = project.step_loops
    assert loop.disables_sync


def test_deepspeed_is_distributed_and_data_parallel() -> None:
    found = entry(analyze(files_of(OTHERS["DeepSpeed"])), "train.py")
    assert found.distributed is Known.YES
    assert found.data_parallel is Known.YES


def test_distributed_code_that_an_entry_point_does_not_call_says_nothing_of_it() -> None:
    files = {
        "engine.py": """
            import torch
            import torch.distributed as dist

            class Engine:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def train(self, batches):
                    for batch in torch.utils.data.DataLoader(batches):
                        self.model(batch).sum().backward()
                        self.optimizer.step()

            class DistributedEngine(Engine):
                def __init__(self, model):
                    dist.init_process_group("nccl")
                    super().__init__(torch.nn.parallel.DistributedDataParallel(model))
            """,
        "single.py": """
            import torch
            from engine import Engine

            if __name__ == "__main__":
                Engine(torch.nn.Linear(8, 2)).train(torch.load("data.pt"))
            """,
        "several.py": """
            import torch
            from engine import DistributedEngine

            if __name__ == "__main__":
                DistributedEngine(torch.nn.Linear(8, 2)).train(torch.load("data.pt"))
            """,
    }
    alone = analyze(program({name: files[name] for name in ("engine.py", "single.py")}))
    together = analyze(program(files))
    assert entry(alone, "single.py").distributed is not Known.YES
    assert entry(together, "single.py").distributed is not Known.YES
    assert entry(together, "several.py").distributed is Known.YES


TRAINER_PROCESSES = {
    "devices=4": Known.YES,
    "devices=-1": Known.YES,
    "devices='-1'": Known.YES,
    "devices=[0, 1]": Known.YES,
    "devices=1, num_nodes=2": Known.YES,
    "strategy='ddp_spawn'": Known.YES,
    "strategy=DDPStrategy(process_group_backend='nccl')": Known.YES,
    "strategy=FSDPStrategy()": Known.YES,
    "devices=1": Known.NO,
    "devices=1, strategy='ddp'": Known.NO,
    "devices=[3]": Known.NO,
    "devices='auto'": Known.UNKNOWN,
    "devices=args.devices": Known.UNKNOWN,
    "devices=1, num_nodes=args.nodes": Known.UNKNOWN,
    "gpus=2, strategy='dp'": Known.UNKNOWN,
}


@pytest.mark.parametrize("owner", ["Trainer", "Fabric"])
@pytest.mark.parametrize(("arguments", "expected"), TRAINER_PROCESSES.items(), ids=TRAINER_PROCESSES.keys())
def test_a_trainer_says_whether_it_starts_several_processes(owner: str, arguments: str, expected: Known) -> None:
    text = (
        "import argparse\nfrom lightning import Fabric, Trainer\n"
        "from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy\n"
        f"args = argparse.ArgumentParser().parse_args()\n{owner}({arguments})\n"
    )
    assert entry(analyze({"train.py": text}), "train.py").distributed is expected


def test_a_command_line_says_what_its_trainer_is_given() -> None:
    text = (
        "from lightning import LightningModule\nfrom lightning.pytorch.cli import LightningCLI\n"
        "class Net(LightningModule):\n    def training_step(self, batch, batch_idx):\n        return batch.mean()\n"
        "LightningCLI(Net, trainer_defaults={'devices': 4})\n"
    )
    found = entry(analyze({"train.py": text}), "train.py")
    assert (found.framework, found.distributed, found.trains) == (Framework.LIGHTNING, Known.YES, True)


ON_CPU = {
    "lightning.Trainer(accelerator='cpu')": True,
    "lightning.Trainer(accelerator='auto')": False,
    "lightning.Fabric(accelerator='cpu')": True,
    "accelerate.Accelerator(cpu=True)": True,
    "accelerate.Accelerator()": False,
    "transformers.Trainer(model, transformers.TrainingArguments('out', use_cpu=True))": True,
    "transformers.Trainer(model, transformers.TrainingArguments('out'))": False,
    "TorchTrainer(loop)": True,
    "TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=2))": True,
    "TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=True))": False,
}


@pytest.mark.parametrize(("making", "stays"), ON_CPU.items(), ids=ON_CPU.keys())
def test_a_framework_may_be_told_to_stay_on_the_cpu(making: str, stays: bool) -> None:
    text = (
        "import accelerate\nimport lightning\nimport ray.train\nimport transformers\n"
        "from ray.train.torch import TorchTrainer\n"
        "model = transformers.AutoModel.from_pretrained('gpt2')\ndef loop():\n    pass\n" + making + "\n"
    )
    found = entry(analyze({"train.py": text}), "train.py")
    assert (found.never_on_gpu, found.cuda) == (stays, Known.NO if stays else Known.YES)


def test_a_trainer_that_is_told_to_leave_samplers_alone_splits_no_data() -> None:
    head = "import lightning\nlightning.Trainer(devices=4"
    told = entry(analyze({"train.py": f"{head}, use_distributed_sampler=False)\n"}), "train.py")
    untold = entry(analyze({"train.py": f"{head})\n"}), "train.py")
    assert untold.spared(Duty.SPLIT_DATA) and untold.spared(Duty.SET_EPOCH)
    assert not told.spared(Duty.SPLIT_DATA) and told.spared(Duty.SET_EPOCH)


def test_an_optimizer_step_returns_what_its_closure_does() -> None:
    check(
        plain(
            """
            for images, labels in train_loader:
                def closure():
                    optimizer.zero_grad()
                    loss = criterion(model(images.to(device)), labels.to(device))
                    loss.backward()
                    return loss

                print(optimizer.step(closure).item())  # runs: per-step training, reads: device
            """
        )
    )


DISTRIBUTION = {
    "init_process_group": ("import torch.distributed as dist\ndist.init_process_group('nccl')\n", Known.YES),
    "DistributedDataParallel": (
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "import torch.distributed as dist\ndist.init_process_group()\nmodel = DDP(torch.nn.Linear(8, 1).cuda())\n",
        Known.YES,
    ),
    "under a flag": (
        "import argparse\nimport torch.distributed as dist\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--distributed', action='store_true')\nargs = parser.parse_args()\n"
        "if args.distributed:\n    dist.init_process_group('nccl')\n",
        Known.YES,
    ),
    "nothing of the kind": ("import torch\n", Known.NO),
    "a mention in a string": ("import torch\nprint('init_process_group')\n", Known.NO),
}


@pytest.mark.parametrize(("head", "expected"), DISTRIBUTION.values(), ids=DISTRIBUTION.keys())
def test_distribution_is_known_by_what_the_entry_point_runs(head: str, expected: Known) -> None:
    tail = """
import torch
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    model(batch.cuda()).mean().backward()
    optimizer.step()
"""
    assert entry(analyze({"train.py": head + tail}), "train.py").distributed is expected


SAVES = {
    "accelerate.Accelerator.save_state": "accelerate.Accelerator().save_state('out')",
    "accelerate.Accelerator.save_model": "accelerate.Accelerator().save_model(model, 'out')",
    "accelerate.Accelerator.save": "accelerate.Accelerator().save(model.state_dict(), 'out.pt')",
    "lightning.Fabric.save": "lightning.Fabric().save('out.ckpt', {'model': model})",
    "pytorch_lightning.Trainer.save_checkpoint": "lightning.Trainer().save_checkpoint('out.ckpt')",
    "deepspeed.Engine.save_checkpoint": "deepspeed.initialize(model=model)[0].save_checkpoint('out')",
    "transformers.PreTrainedModel.save_pretrained": "model.save_pretrained('out')",
    "safetensors.torch.save_file": "safetensors.torch.save_file(model.state_dict(), 'out.safetensors')",
    "torch.distributed.checkpoint.save": "torch.distributed.checkpoint.save({'model': model}, checkpoint_id='out')",
}


@pytest.mark.parametrize(("name", "statement"), SAVES.items(), ids=SAVES.keys())
def test_what_libraries_save_with_is_recorded_by_its_name(name: str, statement: str) -> None:
    head = (
        "import accelerate\nimport deepspeed\nimport lightning\nimport safetensors.torch\nimport torch\n"
        "import torch.distributed.checkpoint\nfrom transformers import AutoModel\n"
        "model = AutoModel.from_pretrained('gpt2')\n"
    )
    (call,) = analyze({"train.py": head + statement + "\n"}).calls_of(name)
    assert call.site.row == 9


TRAINER_HEAD = """
import torch
from datasets import load_dataset
from torch.utils.data import Dataset
from transformers import AutoModel, Trainer, TrainingArguments


class InMemory(Dataset):
    def __init__(self):
        self.items = torch.zeros(8, 4)

    def __getitem__(self, index):
        return {"input_ids": self.items[index]}


class Reading(Dataset):
    def __getitem__(self, index):
        return {"input_ids": torch.load(f"{index}.pt")}


class OwnLoader(Trainer):
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset)


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss


model = AutoModel.from_pretrained("gpt2")
args = TrainingArguments("out")
"""
TRAINERS = {
    "rows of a library": ("Trainer(model, args, train_dataset=load_dataset('x')['train'])", Known.YES, False),
    "by position": ("Trainer(model, args, None, Reading())", Known.YES, False),
    "items in memory": ("Trainer(model, args, train_dataset=InMemory())", Known.NO, False),
    "nothing known": ("Trainer(model, args, train_dataset=elsewhere())", Known.UNKNOWN, False),
    "a loader of its own": ("OwnLoader(model, args, train_dataset=Reading())", Known.YES, True),
    "a loss of its own": ("OwnLoss(model, args, train_dataset=Reading())", Known.YES, False),
}


@pytest.mark.parametrize(("making", "works", "makes_loader"), TRAINERS.values(), ids=TRAINERS.keys())
def test_a_trainer_is_known_with_the_work_of_its_dataset(making: str, works: Known, makes_loader: bool) -> None:
    project = analyze({"train.py": f"{TRAINER_HEAD}trainer = {making}\ntrainer.train()\n"})
    (trainer,) = project.trainers
    (training,) = project.calls_of("transformers.Trainer.train")
    assert (trainer.works_per_item, trainer.makes_loader) == (works, makes_loader)
    assert training.context.entry is trainer.context.entry
    assert training.site.row == trainer.site.row + 1


def test_fields_of_a_configuration_that_are_set_are_known() -> None:
    (setting,) = analyze({"train.py": f"{TRAINER_HEAD}args.dataloader_num_workers = 4\n"}).settings
    assert (setting.name, setting.value) == ("dataloader_num_workers", Const(4))


@pytest.mark.parametrize(
    ("arguments", "fixed"), [("", True), ("mode='reduce-overhead'", True), ("dynamic=True", False)]
)
def test_a_model_that_compiles_itself_wants_batches_of_one_shape(arguments: str, fixed: bool) -> None:
    head = "import torch\nclass Net(torch.nn.Module):\n    pass\n"
    for model in ("torch.nn.Linear(8, 1)", "Net()"):
        project = analyze({"train.py": f"{head}model = {model}\nmodel.compile({arguments})\n"})
        (call,) = project.calls_of("torch.nn.Module.compile")
        assert call.site.row == 5
        assert entry(project, "train.py").wants_fixed_shapes is fixed
