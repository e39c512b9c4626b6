from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_data_wait
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, DatasetKind, Project, Trainer
from trainlint.semantics.values import Instance, Reference, options
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known
from trainlint_rules.data.worker_count import HALF_THE_CORES, raise_setting

ARGUMENT = "dataloader_num_workers"

SUPERVISED = frozenset({"TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig"})
"""Settings of trainers whose steps wait for a dataset; those of reinforcement learning wait for what they generate."""


class HfLoaderNoWorkers(Rule):
    """A Trainer of transformers prepares every batch in the training thread.

    ## What it does
    Reports `TrainingArguments`, `Seq2SeqTrainingArguments` and trl's `SFTConfig` without `dataloader_num_workers`, or
    with 0, where a Trainer trains with them on a dataset that computes or reads for each item.

    ## Why it is slow
    The Trainer makes its loader with `num_workers=dataloader_num_workers`, and the default is 0: the training thread
    itself reads and transforms each sample and collates them before it can launch the next step. The GPU idles
    meanwhile.

    ## When it is fine
    Data that lies in memory as tensors; evaluation and prediction; settings that come from the command line or a file;
    a Trainer that makes its loader its own way (`get_train_dataloader`). Short texts that are tokenized already cost
    little: let the probe decide.

    ## Example
    ```python
    args = TrainingArguments("out", per_device_train_batch_size=16)
    Trainer(model, args, train_dataset=images.with_transform(augment)).train()
    ```

    ## Use instead
    ```python
    args = TrainingArguments("out", per_device_train_batch_size=16, dataloader_num_workers=8)
    Trainer(model, args, train_dataset=images.with_transform(augment)).train()
    ```

    ## Fix safety
    Unsafe: workers draw their own random numbers, so augmentations differ from a run without them; they need memory
    and, on platforms that spawn processes, a `__main__` guard. The fix asks for half of the cores and at most 8. With
    several GPUs on one host, share the cores among them. For an iterable dataset of the project it is advice only,
    since each worker would yield all of the data unless the dataset splits it.

    ## How the probe confirms it
    By the share of the step that waits for data while the loader has no workers.

    ## References
    - num_workers: half to two thirds of the physical cores (article 000), 4 to 8 per GPU (article 003), never above
      the core count (article 001).
    - Hugging Face, transformers, TrainingArguments:
      https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments
    """

    code, name, family = "TL121", "hf-loader-no-workers", Family.DATA
    fix_class = Applicability.UNSAFE
    confirmed_by = "data wait share"
    examples = (
        invalid(
            """
            import os

            from datasets import load_dataset
            from torchvision.transforms import Compose, RandomResizedCrop, ToTensor
            from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

            augment = Compose([RandomResizedCrop(224), ToTensor()])


            def transform(rows):
                return {"pixel_values": [augment(image) for image in rows["image"]], "labels": rows["label"]}


            images = load_dataset(os.environ["DATA"], split="train").with_transform(transform)
            model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224-in21k")
            args = TrainingArguments("out", per_device_train_batch_size=32)  # expect: TL121
            Trainer(model, args, train_dataset=images).train()
            """,
            because="images are decoded and augmented in the training thread",
            fixed="""
            import os

            from datasets import load_dataset
            from torchvision.transforms import Compose, RandomResizedCrop, ToTensor
            from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

            augment = Compose([RandomResizedCrop(224), ToTensor()])


            def transform(rows):
                return {"pixel_values": [augment(image) for image in rows["image"]], "labels": rows["label"]}


            images = load_dataset(os.environ["DATA"], split="train").with_transform(transform)
            model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224-in21k")
            args = TrainingArguments(
                "out",
                per_device_train_batch_size=32,
                dataloader_num_workers=min(8, (os.cpu_count() or 2) // 2),
            )
            Trainer(model, args, train_dataset=images).train()
            """,
        ),
        invalid(
            """
            from transformers import Trainer, TrainingArguments, Wav2Vec2ForCTC

            from recordings import Recordings

            args = TrainingArguments(  # expect: TL121
                output_dir="out",
                per_device_train_batch_size=8,
                num_train_epochs=10,
                fp16=True,
            )
            trainer = Trainer(
                model=Wav2Vec2ForCTC.from_pretrained("facebook/wav2vec2-base"),
                args=args,
                train_dataset=Recordings("train.csv"),
            )
            trainer.train()
            """,
            because="the dataset reads and resamples a file for each item, in another file",
            fixed="""
            import os

            from transformers import Trainer, TrainingArguments, Wav2Vec2ForCTC

            from recordings import Recordings

            args = TrainingArguments(
                output_dir="out",
                per_device_train_batch_size=8,
                num_train_epochs=10,
                fp16=True,
                dataloader_num_workers=min(8, (os.cpu_count() or 2) // 2),
            )
            trainer = Trainer(
                model=Wav2Vec2ForCTC.from_pretrained("facebook/wav2vec2-base"),
                args=args,
                train_dataset=Recordings("train.csv"),
            )
            trainer.train()
            """,
            others={
                "recordings.py": """
                import csv

                import torchaudio
                from torch.utils.data import Dataset


                class Recordings(Dataset):
                    def __init__(self, path):
                        with open(path) as file:
                            self.rows = list(csv.DictReader(file))

                    def __len__(self):
                        return len(self.rows)

                    def __getitem__(self, index):
                        wave, rate = torchaudio.load(self.rows[index]["path"])
                        wave = torchaudio.functional.resample(wave, rate, 16000)
                        return {"input_values": wave[0], "labels": self.rows[index]["text"]}
                """
            },
        ),
        invalid(
            """
            from datasets import load_dataset
            from transformers import (
                AutoModelForSeq2SeqLM,
                AutoTokenizer,
                DataCollatorForSeq2Seq,
                Seq2SeqTrainer,
                Seq2SeqTrainingArguments,
            )


            class Summarizer(Seq2SeqTrainer):
                def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                    outputs = model(**inputs)
                    return (outputs.loss, outputs) if return_outputs else outputs.loss


            def main():
                tokenizer = AutoTokenizer.from_pretrained("t5-small")
                model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
                news = load_dataset("cnn_dailymail", "3.0.0").map(
                    lambda rows: tokenizer(rows["article"], text_target=rows["highlights"]), batched=True
                )
                settings = Seq2SeqTrainingArguments("out", dataloader_num_workers=0)  # expect: TL121
                trainer = Summarizer(
                    model=model,
                    args=settings,
                    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
                    train_dataset=news["train"],
                )
                trainer.train()


            if __name__ == "__main__":
                main()
            """,
            because="0 is written out; rows are read and padded in the training thread",
            fixed="""
            import os

            from datasets import load_dataset
            from transformers import (
                AutoModelForSeq2SeqLM,
                AutoTokenizer,
                DataCollatorForSeq2Seq,
                Seq2SeqTrainer,
                Seq2SeqTrainingArguments,
            )


            class Summarizer(Seq2SeqTrainer):
                def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                    outputs = model(**inputs)
                    return (outputs.loss, outputs) if return_outputs else outputs.loss


            def main():
                tokenizer = AutoTokenizer.from_pretrained("t5-small")
                model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
                news = load_dataset("cnn_dailymail", "3.0.0").map(
                    lambda rows: tokenizer(rows["article"], text_target=rows["highlights"]), batched=True
                )
                settings = Seq2SeqTrainingArguments("out", dataloader_num_workers=min(8, (os.cpu_count() or 2) // 2))
                trainer = Summarizer(
                    model=model,
                    args=settings,
                    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
                    train_dataset=news["train"],
                )
                trainer.train()


            if __name__ == "__main__":
                main()
            """,
        ),
        invalid(
            """
            from datasets import load_dataset
            from peft import LoraConfig
            from trl import SFTConfig, SFTTrainer

            dialogues = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")
            trainer = SFTTrainer(
                model="meta-llama/Llama-3.1-8B",
                train_dataset=dialogues,
                args=SFTConfig(output_dir="out", bf16=True, packing=True),  # expect: TL121
                peft_config=LoraConfig(r=16),
            )
            trainer.train()
            """,
            because="the settings of trl's trainer are TrainingArguments too",
            fixed="""
            import os

            from datasets import load_dataset
            from peft import LoraConfig
            from trl import SFTConfig, SFTTrainer

            dialogues = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")
            trainer = SFTTrainer(
                model="meta-llama/Llama-3.1-8B",
                train_dataset=dialogues,
                args=SFTConfig(output_dir="out", bf16=True, packing=True, dataloader_num_workers=min(8, (os.cpu_count() or 2) // 2)),
                peft_config=LoraConfig(r=16),
            )
            trainer.train()
            """,  # noqa: E501
        ),
        invalid(
            """
            from dataclasses import dataclass, field

            from torch.utils.data import Dataset
            from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments


            @dataclass
            class DataOptions:
                path: str = field(default="texts.txt", metadata={"help": "one text in a row"})


            class Texts(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.texts = file.read().splitlines()
                    self.tokenizer = AutoTokenizer.from_pretrained("gpt2")

                def __len__(self):
                    return len(self.texts)

                def __getitem__(self, index):
                    return self.tokenizer(self.texts[index], truncation=True, max_length=512)


            parser = HfArgumentParser((DataOptions, TrainingArguments))
            options, args = parser.parse_json_file("args.json")  # expect: TL121
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=Texts(options.path)).train()
            """,
            because="the file of arguments asks for no workers",
            others={
                "args.json": """
                {"path": "texts.txt", "output_dir": "out", "dataloader_num_workers": 0}
                """
            },
        ),
        valid(
            """
            from dataclasses import dataclass, field

            from torch.utils.data import Dataset
            from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments


            @dataclass
            class DataOptions:
                path: str = field(default="texts.txt", metadata={"help": "one text in a row"})


            class Texts(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.texts = file.read().splitlines()
                    self.tokenizer = AutoTokenizer.from_pretrained("gpt2")

                def __len__(self):
                    return len(self.texts)

                def __getitem__(self, index):
                    return self.tokenizer(self.texts[index], truncation=True, max_length=512)


            parser = HfArgumentParser((DataOptions, TrainingArguments))
            options, args = parser.parse_json_file("args.json")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=Texts(options.path)).train()
            """,
            because="the file of arguments asks for four workers",
            others={
                "args.json": """
                {"path": "texts.txt", "output_dir": "out", "dataloader_num_workers": 4}
                """
            },
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            args = TrainingArguments("out", per_device_train_batch_size=8, dataloader_num_workers=4)
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="four workers",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

            parser = HfArgumentParser(TrainingArguments)
            (args,) = parser.parse_args_into_dataclasses()
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="whoever starts the job decides",
        ),
        valid(
            """
            import yaml
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            with open("training.yaml") as file:
                settings = yaml.safe_load(file)
            args = TrainingArguments(output_dir="out", **settings)
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="the workers may stand in the file",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            args = TrainingArguments(output_dir="out", per_device_eval_batch_size=8)
            blocks = load_dataset("json", data_files="blocks.json")
            trainer = Trainer(
                AutoModelForCausalLM.from_pretrained("gpt2"),
                args,
                train_dataset=blocks["train"],
                eval_dataset=blocks["test"],
            )
            print(trainer.evaluate())
            """,
            because="nothing is trained: it only evaluates",
        ),
        valid(
            """
            import torch
            from torch.utils.data import Dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


            class Blocks(Dataset):
                def __init__(self, path):
                    self.tokens = torch.load(path)

                def __len__(self):
                    return len(self.tokens)

                def __getitem__(self, index):
                    return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


            args = TrainingArguments(output_dir="out", per_device_train_batch_size=8)
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=Blocks("tokens.pt")).train()
            """,
            because="the items lie in memory as tensors",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            args = TrainingArguments(output_dir="out", per_device_train_batch_size=8)
            if args.local_rank >= 0:
                args.dataloader_num_workers = 2
            else:
                args.dataloader_num_workers = 8
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="the workers are set afterwards",
        ),
        valid(
            """
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


            class OwnLoader(Trainer):
                def get_train_dataloader(self):
                    return DataLoader(self.train_dataset, batch_size=8, num_workers=6, pin_memory=True)


            args = TrainingArguments(output_dir="out")
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            OwnLoader(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="the trainer makes its loader its own way",
        ),
        valid(
            """
            from datasets import load_dataset
            from trl import GRPOConfig, GRPOTrainer


            def reward(completions, **kwargs):
                return [-abs(200 - len(completion)) for completion in completions]


            trainer = GRPOTrainer(
                model="Qwen/Qwen2-0.5B-Instruct",
                reward_funcs=reward,
                args=GRPOConfig(output_dir="out"),
                train_dataset=load_dataset("trl-lib/tldr", split="train"),
            )
            trainer.train()
            """,
            because="the step waits for the completions that it generates, not for a few prompts",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            args = TrainingArguments(output_dir="out", use_cpu=True)
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="the job trains on the CPU: workers would take its cores",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for settings in project.calls_of("transformers.TrainingArguments"):
            entry = settings.context.entry
            if not _asks_for_none(settings) or any(
                one.name == ARGUMENT and one.context.entry is entry for one in project.settings
            ):
                continue
            trainers = [one for one in project.trainers if one.context.entry is entry]
            trainings = [one for one in project.calls_of("transformers.Trainer.train") if one.context.entry is entry]
            if trainings and trainers and not any(one.makes_loader for one in trainers):
                yield self.finding(
                    settings,
                    f"{quote(settings.text)} has the Trainer make every batch in the training thread, and the step "
                    f"waits for it{settings.arguments.told_by(ARGUMENT)}",
                    help=f"Pass {ARGUMENT}: half to two thirds of the cores per GPU",
                    confidence=min(_certainty(trainers), settings.arguments.certainty(ARGUMENT)),
                    related=tuple(RelatedSite(one.site, "the training that waits for it") for one in trainings),
                )

    def fix(self, finding: Finding) -> Fix | None:
        settings = finding.subject
        if not isinstance(settings, Call):
            return None
        setting = settings.arguments.setting(ARGUMENT)
        if setting is not None:
            return raise_setting(setting)
        message = f"Pass {ARGUMENT}={HALF_THE_CORES}"
        if settings.arguments.spread:
            return Fix(Applicability.DISPLAY, message)
        recipes = (SetArgument(settings.site, ARGUMENT, HALF_THE_CORES), EnsureImport(settings.site, "os"))
        return Fix(Applicability.UNSAFE, message, recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_data_wait(evidence, (finding.site, *(related.site for related in finding.related)))


def _asks_for_none(settings: Call) -> bool:
    """Whether training by these settings certainly has no workers, and a GPU to wait for them."""
    made_by = settings.receiver
    if not isinstance(made_by, Reference) or made_by.name.rpartition(".")[2] not in SUPERVISED:
        return False
    given = settings.arguments
    on_cpu = given.constant("use_cpu") is True or given.constant("no_cuda") is True
    elsewhere = given.constant("do_train") is False or settings.context.under(GuardKind.DEBUG)
    none = given.absent(ARGUMENT) or given.holding(ARGUMENT) == 0
    return none and settings.context.may_use_gpu and not on_cpu and not elsewhere


def _certainty(trainers: Iterable[Trainer]) -> Confidence:
    """How sure it is that there is work for each item; rows that a library keeps may cost little."""
    if any(one.works_per_item is not Known.YES or one.dataset_kind is DatasetKind.ITERABLE for one in trainers):
        return Confidence.LOW
    return Confidence.HIGH if all(_of_the_project(one) for one in trainers) else Confidence.MEDIUM


def _of_the_project(trainer: Trainer) -> bool:
    dataset = trainer.arguments.value("train_dataset")
    return dataset is not None and all(isinstance(one, Instance) for one in options(dataset))
