from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, TokenizerWork
from trainlint.semantics.vocabulary import Frequency, Region


class TokenizeInGetitem(Rule):
    """A dataset tokenizes the same texts again in every epoch.

    ## What it does
    Reports tokenizer calls that are reached from a dataset's `__getitem__`, or from the `__iter__` of an iterable
    dataset, in this file or through methods and helpers in others.

    ## Why it is slow
    Tokenizing is CPU work on strings. Done per item, it is paid again for every sample of every epoch, one text at a
    time, which also forgoes the batched paths of fast tokenizers. Workers hide it only as long as they keep up; after
    that the GPU waits for token ids that have not changed since the first epoch.

    ## When it is fine
    One pass over the data; texts that are augmented at random, so that their tokens differ each time; results that are
    kept; streams too large to store twice. Tokenizing in the constructor or in `datasets.map` happens once.

    ## Example
    ```python
    def __getitem__(self, index):
        return self.tokenizer(self.texts[index], truncation=True)
    ```

    ## Use instead
    ```python
    # Once, ahead of training. `datasets` keeps the result on disk as Arrow and reuses it in later runs.
    dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True, num_proc=8)

    # In the dataset: token ids only, read through a memory map.
    def __getitem__(self, index):
        return self.tokens[self.starts[index] : self.starts[index + 1]]
    ```

    ## Fix safety
    Advice without edits: where the token ids are to be stored is the author's choice.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data. Worker time that the step never waits for costs nothing.

    ## References
    - Tokenize offline, once, into Arrow, MDS or npy files of token ids; never per sample in `__getitem__`
      (article 000, where `py-spy dump` showed the tokenizer on top of `dataset.__getitem__`).
    - Hugging Face, datasets, process: https://huggingface.co/docs/datasets/process#map
    """

    code, name, family = "TL101", "tokenize-in-getitem", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples in the workers under this line; data wait share"
    examples = (
        invalid(
            """
            import json

            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForSequenceClassification, AutoTokenizer


            class Reviews(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.rows = json.load(file)
                    self.tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    tokens = self.tokenizer(row["text"], truncation=True, return_tensors="pt")  # expect: TL101
                    return tokens["input_ids"][0], row["label"]


            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            loader = DataLoader(Reviews("reviews.json"), shuffle=True, num_workers=4, pin_memory=True)
            for epoch in range(3):
                for ids, labels in loader:
                    loss = model(ids.cuda(non_blocking=True), labels=labels.cuda(non_blocking=True)).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each review is tokenized anew in each of the three epochs",
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader

            from summaries import Summaries
            from transformers import T5ForConditionalGeneration, T5Tokenizer

            tokenizer = T5Tokenizer.from_pretrained("t5-base")
            model = T5ForConditionalGeneration.from_pretrained("t5-base").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            loader = DataLoader(Summaries("train.tsv", tokenizer), batch_size=8, shuffle=True, num_workers=2)
            for epoch in range(5):
                for source, target in loader:
                    loss = model(input_ids=source.cuda(), labels=target.cuda()).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="behind a helper method, in another file",
            others={
                "summaries.py": """
                from torch.utils.data import Dataset


                class Summaries(Dataset):
                    def __init__(self, path, tokenizer):
                        with open(path) as file:
                            self.lines = [line.split("\\t") for line in file]
                        self.tokenizer = tokenizer

                    def __len__(self):
                        return len(self.lines)

                    def encode(self, text, length):
                        encoded = self.tokenizer.batch_encode_plus(  # expect: TL101
                            [text], max_length=length, padding="max_length", truncation=True, return_tensors="pt"
                        )
                        return encoded["input_ids"].squeeze()

                    def __getitem__(self, index):
                        text, summary = self.lines[index]
                        return self.encode(text, 512), self.encode(summary, 150)
                """
            },
        ),
        invalid(
            """
            import sentencepiece as spm
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset, get_worker_info


            class Lines(IterableDataset):
                def __init__(self, path, model_file):
                    self.path = path
                    self.processor = spm.SentencePieceProcessor(model_file=model_file)

                def __iter__(self):
                    worker = get_worker_info()
                    with open(self.path) as file:
                        for number, line in enumerate(file):
                            if worker is None or number % worker.num_workers == worker.id:
                                yield torch.tensor(self.processor.encode(line)[:128])  # expect: TL101


            model = nn.Sequential(nn.Embedding(32000, 64), nn.Linear(64, 32000)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            loader = DataLoader(Lines("corpus.txt", "corpus.model"), batch_size=None, num_workers=4)
            for epoch in range(10):
                for ids in loader:
                    ids = ids.cuda()
                    loss = nn.functional.cross_entropy(model(ids[:-1]), ids[1:])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the iterable dataset starts over in each epoch",
        ),
        invalid(
            """
            from torch.utils.data import Dataset


            class Lines(Dataset):
                def __init__(self, path, tokenizer):
                    self.tokenizer = tokenizer
                    with open(path) as file:
                        self.lines = file.readlines()

                def __len__(self):
                    return len(self.lines)

                def __getitem__(self, index):
                    return self.tokenizer.encode(self.lines[index])  # expect: TL101
            """,
            because="a dataset by itself is there for some training",
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModel, AutoTokenizer


            class CaptionTokenizer:
                def __init__(self, name):
                    self.tokenizer = AutoTokenizer.from_pretrained(name)

                def __call__(self, texts):
                    return self.encode([text.lower() for text in texts])

                def encode(self, texts):
                    return self.tokenizer(texts, padding=True, return_tensors="pt").input_ids


            class Captions(Dataset):
                def __init__(self, path, tokenizer):
                    with open(path) as file:
                        self.captions = file.read().splitlines()
                    self.tokenizer = tokenizer

                def __len__(self):
                    return len(self.captions)

                def __getitem__(self, index):
                    return self.tokenizer([self.captions[index]])[0]  # expect: TL101


            model = AutoModel.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
            for ids in DataLoader(Captions("captions.txt", CaptionTokenizer("gpt2")), num_workers=4):
                loss = model(ids.cuda()).last_hidden_state.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="told once, where the dataset asks for it, and not again in the tokenizer that does it",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForTokenClassification, AutoTokenizer


            class Words(Dataset):
                def __init__(self, path, tokenizer):
                    self.tokenizer = tokenizer
                    with open(path) as file:
                        self.pieces = [[tokenizer.tokenize(word) for word in line.split()] for line in file]

                def __len__(self):
                    return len(self.pieces)

                def __getitem__(self, index):
                    tokens = []
                    for pieces in self.pieces[index]:
                        tokens.extend(pieces or self.tokenizer.tokenize(self.tokenizer.unk_token))
                    return torch.tensor(self.tokenizer.convert_tokens_to_ids(tokens))


            tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
            model = AutoModelForTokenClassification.from_pretrained("bert-base-cased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
            for ids in DataLoader(Words("words.txt", tokenizer), num_workers=4):
                loss = model(ids.cuda(), labels=ids.cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a token of the tokenizer's own, where a word has no pieces",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForCausalLM, AutoTokenizer


            class Stories(Dataset):
                def __init__(self, path, tokenizer):
                    self.ids = np.load(path, mmap_mode="r")
                    self.tokenizer = tokenizer

                def __len__(self):
                    return len(self.ids)

                def __getitem__(self, index):
                    style = self.tokenizer.convert_tokens_to_ids(["<story>", "<calm>" if index % 2 else "<wild>"])
                    return torch.tensor([*style, *self.ids[index]])


            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
            for ids in DataLoader(Stories("stories.npy", tokenizer), batch_size=16, num_workers=4):
                loss = model(ids.cuda(), labels=ids.cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the ids of special tokens are looked up; the stories were tokenized before",
        ),
        valid(
            """
            import json

            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForSequenceClassification, AutoTokenizer


            class Reviews(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        rows = json.load(file)
                    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
                    self.ids = [tokenizer(row["text"], return_tensors="pt")["input_ids"][0] for row in rows]
                    self.labels = [row["label"] for row in rows]

                def __len__(self):
                    return len(self.labels)

                def __getitem__(self, index):
                    return self.ids[index], self.labels[index]


            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for epoch in range(3):
                for ids, labels in DataLoader(Reviews("reviews.json"), shuffle=True):
                    loss = model(ids.cuda(), labels=labels.cuda()).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="tokenized once, in the dataset's constructor",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


            def tokenize(rows):
                return tokenizer(rows["sentence1"], rows["sentence2"], truncation=True)


            dataset = load_dataset("glue", "mrpc", split="train").map(tokenize, batched=True)
            dataset = dataset.remove_columns(["idx", "sentence1", "sentence2"]).rename_column("label", "labels")
            loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=DataCollatorWithPadding(tokenizer))
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for epoch in range(3):
                for batch in loader:
                    loss = model(**batch.to("cuda")).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="datasets.map tokenizes ahead and keeps the result",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForCausalLM, AutoTokenizer


            class Poems(Dataset):
                def __init__(self, poems):
                    self.poems = poems
                    self.tokenizer = AutoTokenizer.from_pretrained("gpt2")
                    self.kept = {}

                def __len__(self):
                    return len(self.poems)

                def __getitem__(self, index):
                    if index not in self.kept:
                        self.kept[index] = self.tokenizer(self.poems[index], return_tensors="pt")["input_ids"][0]
                    return self.kept[index]


            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            with open("poems.txt") as file:
                loader = DataLoader(Poems(file.read().split("---")), shuffle=True)
            for epoch in range(3):
                for ids in loader:
                    ids = ids.cuda()
                    loss = model(ids, labels=ids).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the result is kept for the next epoch",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForCausalLM, AutoTokenizer


            class Blocks(Dataset):
                def __init__(self, path, tokenizer, show=False):
                    self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
                    self.tokenizer = tokenizer
                    self.show = show

                def __len__(self):
                    return len(self.tokens) // 1024

                def __getitem__(self, index):
                    block = self.tokens[index * 1024 : (index + 1) * 1024].astype(np.int64)
                    if self.show:
                        print(self.tokenizer.decode(block))
                    return torch.from_numpy(block)


            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            loader = DataLoader(Blocks("tokens.bin", tokenizer), batch_size=8, shuffle=True, num_workers=2)
            for epoch in range(3):
                for ids in loader:
                    ids = ids.cuda()
                    loss = model(ids, labels=ids).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="token ids are read from disk; decoding is not tokenizing",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.tokenizations:
            per_item = call.context.region is Region.DATA and call.context.frequency is Frequency.PER_SAMPLE
            of_sample = call.work is TokenizerWork.ENCODE and not call.fixed and not call.part_of_another
            if per_item and of_sample and not call.cached:
                yield self.finding(
                    call,
                    f"{quote(call.text)} tokenizes every sample again in every epoch",
                    help="Tokenize once, ahead of training, and let the dataset read token ids",
                    confidence=call.certainty,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Tokenize once, in `datasets.map(…, batched=True)` or into Arrow or npy files, and read token ids here",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)
