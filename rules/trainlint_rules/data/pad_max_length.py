from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_padding
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Arguments, Call, Project, Tokenization, TokenizerWork
from trainlint.semantics.vocabulary import Confidence, GuardKind, Region

PADDING_COLLATORS = (
    "transformers.DataCollatorWithPadding",
    "transformers.DataCollatorForSeq2Seq",
    "transformers.DataCollatorForTokenClassification",
)


class PadMaxLength(Rule):
    """Training samples are padded to a fixed maximum instead of to the longest of their batch.

    ## What it does
    Reports `padding="max_length"` (or the old `pad_to_max_length=True`) in tokenizer calls and collators that make
    training samples.

    ## Why it is slow
    The model computes on padding as on real tokens. With texts of mixed length most positions are padding: a batch that
    is 70 % padding keeps the GPU fully busy while less than 30 % of its work is useful. Utilization looks perfect.

    ## When it is fine
    Where shapes have to stay fixed: `torch.compile` without dynamic shapes, CUDA graphs, TPUs. Where the model itself
    asks for a fixed length, as the text encoders of CLIP do. Where nearly all samples reach the maximum.

    ## Example
    ```python
    tokens = tokenizer(rows["text"], padding="max_length", max_length=512, truncation=True)
    ```

    ## Use instead
    ```python
    tokens = tokenizer(rows["text"], max_length=512, truncation=True)
    loader = DataLoader(dataset, batch_size=32, collate_fn=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8))
    # Batches of similar lengths (length bucketing) save most of what is left.
    ```

    ## Fix safety
    Advice without edits: samples of different lengths need a collate function that pads.

    ## How the probe confirms it
    By real tokens (attention mask, or ids other than the padding id) against all tokens of the measured batches:
    confirmed at 70 % or less, refuted above.

    ## References
    - Length bucketing instead of padding to a fixed maximum, unless torch.compile needs fixed shapes; a batch that is
      70 % padding can show 100 % utilization and under 30 % useful work (article 000).
    - Hugging Face, padding and truncation: https://huggingface.co/docs/transformers/pad_truncation
    """

    code, name, family = "TL113", "pad-max-length", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "effective against total tokens"
    examples = (
        invalid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def tokenize(rows):
                return tokenizer(rows["text"], padding="max_length", max_length=512, truncation=True)  # expect: TL113


            dataset = load_dataset("imdb", split="train").map(tokenize, batched=True)
            dataset.set_format("torch", columns=["input_ids", "attention_mask", "label"])
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for batch in DataLoader(dataset, batch_size=16, shuffle=True):
                ids, mask, labels = batch["input_ids"].cuda(), batch["attention_mask"].cuda(), batch["label"].cuda()
                loss = model(ids, attention_mask=mask, labels=labels).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="every review is padded to 512 tokens, however short it is",
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import T5ForConditionalGeneration, T5Tokenizer


            class Summaries(Dataset):
                def __init__(self, path, tokenizer):
                    with open(path) as file:
                        self.lines = [line.split("\\t") for line in file]
                    self.tokenizer = tokenizer

                def __len__(self):
                    return len(self.lines)

                def __getitem__(self, index):
                    text, summary = self.lines[index]
                    source = self.tokenizer(  # expect: TL113
                        text, padding="max_length", max_length=512, truncation=True, return_tensors="pt"
                    )
                    target = self.tokenizer(  # expect: TL113
                        summary, pad_to_max_length=True, max_length=150, truncation=True, return_tensors="pt"
                    )
                    return source["input_ids"][0], target["input_ids"][0]


            tokenizer = T5Tokenizer.from_pretrained("t5-base")
            model = T5ForConditionalGeneration.from_pretrained("t5-base").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            loader = DataLoader(Summaries("train.tsv", tokenizer), batch_size=8, num_workers=2)
            for source, target in loader:
                loss = model(input_ids=source.cuda(), labels=target.cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="per sample, with both spellings of the argument",
        ),
        invalid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def collate(rows):
                return tokenizer.pad(rows, padding="max_length", max_length=256, return_tensors="pt")  # expect: TL113


            dataset = load_dataset("imdb", split="train")
            dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=256), batched=True)
            loader = DataLoader(dataset.remove_columns("text"), batch_size=16, shuffle=True, collate_fn=collate)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for batch in loader:
                loss = model(**batch.to("cuda")).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the collate function pads to the maximum though it knows the batch",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            dataset = load_dataset("imdb", split="train")
            dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=512), batched=True)
            collate = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)
            loader = DataLoader(dataset.remove_columns("text"), batch_size=16, shuffle=True, collate_fn=collate)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for batch in loader:
                loss = model(**batch.to("cuda")).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="max_length only truncates; the collator pads to the longest of the batch",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def tokenize(rows):
                return tokenizer(rows["text"], padding="max_length", max_length=128, truncation=True)


            dataset = load_dataset("imdb", split="train").map(tokenize, batched=True)
            dataset.set_format("torch", columns=["input_ids", "label"])
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            model = torch.compile(model, mode="reduce-overhead")
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for batch in DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True):
                loss = model(batch["input_ids"].cuda(), labels=batch["label"].cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="torch.compile with CUDA graphs wants batches of one shape",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2", pad_token="<|endoftext|>")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            prompt = tokenizer("Once upon a time", padding="max_length", max_length=32, return_tensors="pt").to("cuda")
            blocks = torch.load("blocks.pt")
            for ids in blocks.cuda().split(8):
                loss = model(ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(tokenizer.decode(model.generate(**prompt)[0]))
            """,
            because="one prompt, tokenized once, is no training data",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import CLIPTextModel, CLIPTokenizer

            tokenizer = CLIPTokenizer.from_pretrained("openai/clip-vit-base-patch32")


            def tokenize(rows):
                length = tokenizer.model_max_length
                return tokenizer(rows["caption"], padding="max_length", max_length=length, truncation=True)


            dataset = load_dataset("captions", split="train").map(tokenize, batched=True)
            dataset.set_format("torch", columns=["input_ids"])
            model = CLIPTextModel.from_pretrained("openai/clip-vit-base-patch32").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
            for batch in DataLoader(dataset, batch_size=64, shuffle=True):
                loss = model(batch["input_ids"].cuda()).pooler_output.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="CLIP's text encoder takes 77 tokens, always",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from accelerate.utils import DistributedType
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            accelerator = Accelerator()
            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def collate(rows):
                if accelerator.distributed_type == DistributedType.XLA:
                    return tokenizer.pad(rows, padding="max_length", max_length=256, return_tensors="pt")
                return tokenizer.pad(rows, padding="longest", return_tensors="pt")


            dataset = load_dataset("imdb", split="train")
            dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=256), batched=True)
            loader = DataLoader(dataset.remove_columns("text"), batch_size=16, shuffle=True, collate_fn=collate)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for batch in loader:
                loss = model(**batch).loss
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
            """,
            because="on a TPU a new shape is a new compilation; on a GPU batches are padded to their longest sample",
        ),
        valid(
            """
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda().eval()
            with open("reviews.txt") as file:
                batch = tokenizer(file.readlines(), padding="max_length", truncation=True, return_tensors="pt")
            print(model(**batch.to("cuda")).logits.argmax(dim=1))
            """,
            because="nothing is trained here",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        calls: list[Tokenization | Call] = [*project.tokenizations, *project.calls_of(*PADDING_COLLATORS)]
        for call in calls:
            if _pads_to_maximum(call.arguments) and _makes_training_samples(call) and not _wants_one_length(call):
                yield self.finding(
                    call,
                    f"{quote(call.text)} pads every sample to the maximum length, and the GPU computes on the padding",
                    help="Pad each batch to its longest sample, and group samples of similar length",
                    confidence=_certainty(call),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Leave padding to a collate function such as DataCollatorWithPadding, and batch samples of similar length",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_padding(evidence, finding.site)


def _pads_to_maximum(arguments: Arguments) -> bool:
    return arguments.constant("padding") == "max_length" or arguments.constant("pad_to_max_length") is True


def _makes_training_samples(call: Tokenization | Call) -> bool:
    """Whether it works on data that a model is trained on, rather than on a prompt or in evaluation."""
    if not call.context.entry.trains or call.context.region is Region.EVALUATION:
        return False
    if isinstance(call, Call):
        return True
    if call.work is TokenizerWork.DECODE:
        return False
    return call.context.region is not Region.SETUP or not call.of_one_text


def _wants_one_length(call: Tokenization | Call) -> bool:
    """Whether the model, what compiles it, or what it runs on asks for samples of one length."""
    made_for_clip = isinstance(call, Tokenization) and "CLIP" in call.tokenizer
    on_tpu = call.context.under(GuardKind.NOT_DEVICE)
    return made_for_clip or on_tpu or call.context.entry.wants_fixed_shapes


def _certainty(call: Tokenization | Call) -> Confidence:
    """Samples that are made in bulk at start-up may also be evaluated only."""
    if call.context.region is Region.SETUP:
        return Confidence.MEDIUM
    return call.certainty if isinstance(call, Tokenization) else Confidence.HIGH
