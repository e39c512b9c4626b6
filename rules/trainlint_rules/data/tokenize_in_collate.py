from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Tokenization, TokenizerWork
from trainlint.semantics.vocabulary import Region


class TokenizeInCollate(Rule):
    """A collate function tokenizes the same texts again in every epoch.

    ## What it does
    Reports tokenizer calls that are reached from a loader's collate function: a function, a method, a lambda or an
    object with `__call__`, in this file or in others.

    ## Why it is slow
    Every batch of every epoch is tokenized anew, and the batch cannot leave the loader before that is done. Without
    workers it runs in the training thread, and the GPU waits for all of it.

    ## When it is fine
    Collators that only pad token ids (`tokenizer.pad`, `DataCollatorWithPadding`); texts that differ each time; one
    pass over the data; workers that keep up, as the probe can tell.

    ## Example
    ```python
    def collate(rows):
        return tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    ```

    ## Use instead
    ```python
    dataset = dataset.map(lambda rows: tokenizer(rows["text"]), batched=True, num_proc=8, remove_columns=["text"])
    loader = DataLoader(dataset, batch_size=32, collate_fn=DataCollatorWithPadding(tokenizer))
    ```

    ## Fix safety
    Advice without edits: where the token ids are to be stored is the author's choice.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data. Worker time that the step never waits for costs nothing.

    ## References
    - Tokenize offline, once, into Arrow, MDS or npy files of token ids (article 000).
    - Hugging Face, data collators: https://huggingface.co/docs/transformers/main_classes/data_collator
    """

    code, name, family = "TL102", "tokenize-in-collate", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples in the workers under this line; data wait share"
    examples = (
        invalid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def collate(rows):
                batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")  # expect: TL102
                batch["labels"] = torch.tensor([row["label"] for row in rows])
                return batch


            loader = DataLoader(load_dataset("imdb", split="train"), batch_size=32, shuffle=True, collate_fn=collate)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for epoch in range(3):
                for batch in loader:
                    loss = model(**batch.to("cuda")).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each batch is tokenized anew in each epoch",
        ),
        invalid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader

            from collators import TextCollator
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            collate = TextCollator(tokenizer, 512)
            loader = DataLoader(load_dataset("imdb", split="train"), batch_size=8, num_workers=4, collate_fn=collate)
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for epoch in range(3):
                for ids in loader:
                    ids = ids.cuda()
                    loss = model(ids, labels=ids).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a collator object, in another file",
            others={
                "collators.py": """
                class TextCollator:
                    def __init__(self, tokenizer, length):
                        self.tokenizer = tokenizer
                        self.length = length

                    def encode(self, texts):
                        return self.tokenizer(texts, padding=True, return_tensors="pt")  # expect: TL102

                    def __call__(self, rows):
                        return self.encode([row["text"] for row in rows])["input_ids"][:, : self.length]
                """
            },
        ),
        invalid(
            """
            from functools import partial

            import tiktoken
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(encoding, lines):
                ids = [torch.tensor(encoding.encode(line)[:128]) for line in lines]  # expect: TL102
                return nn.utils.rnn.pad_sequence(ids, batch_first=True)


            with open("corpus.txt") as file:
                lines = file.readlines()
            encoding = tiktoken.get_encoding("gpt2")
            loader = DataLoader(lines, batch_size=64, shuffle=True, collate_fn=partial(collate, encoding))
            model = nn.Sequential(nn.Embedding(50257, 64), nn.Linear(64, 50257)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for ids in loader:
                    ids = ids.cuda()
                    logits = model(ids[:, :-1])
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the tokenizer reaches the collate function through functools.partial",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            dataset = load_dataset("imdb", split="train")
            dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)


            def collate(rows):
                return tokenizer.pad(rows, padding="longest", return_tensors="pt")


            loader = DataLoader(dataset.remove_columns("text"), batch_size=32, shuffle=True, collate_fn=collate)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for epoch in range(3):
                for batch in loader:
                    loss = model(**batch.to("cuda")).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="tokenizer.pad pads token ids and tokenizes nothing",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.utils.rnn import pad_sequence
            from torch.utils.data import DataLoader
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            with open("corpus.txt") as file:
                samples = [torch.tensor(tokenizer.encode(line)) for line in file]


            def collate(ids):
                return pad_sequence(ids, batch_first=True, padding_value=tokenizer.eos_token_id)


            loader = DataLoader(samples, batch_size=64, shuffle=True, collate_fn=collate)
            model = nn.Sequential(nn.Embedding(50257, 64), nn.Linear(64, 50257)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for ids in loader:
                    ids = ids.cuda()
                    logits = model(ids[:, :-1])
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="tokenized once at start-up; the collator only pads",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.utils.rnn import pad_sequence
            from torch.utils.data import DataLoader
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            with open("corpus.txt") as file:
                samples = [torch.tensor(tokenizer.encode(line)) for line in file]
            PICTURE = "<image>"


            def collate(ids):
                stand_in = [{"role": "user", "content": PICTURE}]
                ids = [*ids, torch.tensor(tokenizer.encode(stand_in[0]["content"]))]
                return pad_sequence(ids, batch_first=True)


            loader = DataLoader(samples, batch_size=64, shuffle=True, collate_fn=collate)
            model = nn.Sequential(nn.Embedding(50257, 64), nn.Linear(64, 50257)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for ids in loader:
                    ids = ids.cuda()
                    logits = model(ids[:, :-1])
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a few fixed words that stand for a picture are no part of the data",
        ),
        valid(
            """
            from functools import lru_cache

            import torch
            from torch import nn
            from torch.nn.utils.rnn import pad_sequence
            from torch.utils.data import DataLoader
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")


            @lru_cache(maxsize=None)
            def encode(line):
                return torch.tensor(tokenizer.encode(line))


            def collate(lines):
                return pad_sequence([encode(line) for line in lines], batch_first=True)


            with open("labels.txt") as file:
                loader = DataLoader(file.readlines(), batch_size=64, shuffle=True, collate_fn=collate)
            model = nn.Sequential(nn.Embedding(50257, 64), nn.Linear(64, 50257)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for ids in loader:
                    ids = ids.cuda()
                    logits = model(ids[:, :-1])
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the result is kept for the next epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def collate(rows):
                images, labels = zip(*rows)
                return torch.stack(images), torch.tensor(labels)


            dataset = datasets.CIFAR10("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4, collate_fn=collate)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="no text is involved",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.tokenizations:
            if call.context.region is Region.COLLATE and _encodes(call):
                yield self.finding(
                    call,
                    f"{quote(call.text)} tokenizes every batch again in every epoch",
                    help="Tokenize once, ahead of training, and let the collate function only pad",
                    confidence=call.certainty,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Tokenize once, in `datasets.map(…, batched=True)` or into Arrow or npy files, and only pad here",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _encodes(call: Tokenization) -> bool:
    """Whether it makes token ids of the batch's texts, and is not a part of another call that does."""
    return call.work is TokenizerWork.ENCODE and not (call.cached or call.fixed or call.part_of_another)
