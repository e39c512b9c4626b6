from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.library import OBJECT_MAKERS
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Region


class ObjectBuiltPerItem(Rule):
    """A dataset builds the same costly object again for every item.

    ## What it does
    Reports tokenizers, models, spaCy pipelines, and transforms of torchaudio that compute a kernel or a filter bank,
    where code that runs for each item or batch of a dataset makes them, of the same arguments each time.

    ## Why it is slow
    Such an object is expensive to make and cheap to use: making it reads vocabularies and weights from disk, compiles
    rules or computes tables. Built per item, the loader's workers spend their time on it, and the GPU waits.

    ## When it is fine
    Objects that are made at the first item and kept, which is how a worker gets one that cannot be pickled. Objects
    whose arguments differ from item to item. Regular expressions: `re` keeps the patterns that it has compiled.
    Transforms of torchvision, which only keep their arguments.

    ## Example
    ```python
    def __getitem__(self, index):
        resample = torchaudio.transforms.Resample(44_100, 16_000)
        return resample(self.waveforms[index])
    ```

    ## Use instead
    ```python
    def __init__(self, waveforms):
        self.waveforms = waveforms
        self.resample = torchaudio.transforms.Resample(44_100, 16_000)

    def __getitem__(self, index):
        return self.resample(self.waveforms[index])
    ```

    ## Fix safety
    Advice without edits: where the object is kept, in the dataset, its module or a cache, is the author's choice, and
    each worker gets a copy.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data.

    ## References
    - torchaudio, resample: `transforms.Resample` precomputes and reuses its kernel, which pays for several waveforms
      of the same rates: https://docs.pytorch.org/audio/stable/generated/torchaudio.functional.resample.html
    - Python, re.compile: compiled patterns are cached: https://docs.python.org/3/library/re.html#re.compile
    - Work that is the same for all samples belongs ahead of training, not into `__getitem__` (article 000, for
      tokenizing).
    """

    code, name, family = "TL112", "object-built-per-item", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line; data wait share"
    examples = (
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from transformers import AutoModelForSequenceClassification, AutoTokenizer


            class Reviews(Dataset):
                def __init__(self, texts, labels):
                    self.texts, self.labels = texts, labels

                def __len__(self):
                    return len(self.texts)

                def __getitem__(self, index):
                    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")  # expect: TL112
                    ids = tokenizer(self.texts[index], return_tensors="pt")["input_ids"][0]
                    return ids, self.labels[index]


            rows = torch.load("rows.pt")
            loader = DataLoader(Reviews(rows["texts"], rows["labels"]), shuffle=True, num_workers=4)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for ids, labels in loader:
                loss = model(ids.cuda(), labels=labels.cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the tokenizer's vocabulary is read for each review",
        ),
        invalid(
            """
            import torch
            from text import lemmas
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Documents(Dataset):
                def __init__(self, documents, vocabulary):
                    self.documents, self.vocabulary = documents, vocabulary

                def __len__(self):
                    return len(self.documents)

                def __getitem__(self, index):
                    return torch.tensor([self.vocabulary[word] for word in lemmas(self.documents[index])])


            loader = DataLoader(Documents(*torch.load("documents.pt")), batch_size=None, num_workers=4)
            model = nn.Sequential(nn.Embedding(32000, 64), nn.Linear(64, 2)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for ids in loader:
                loss = model(ids.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a helper of another file, which loads its pipeline each time",
            others={
                "text.py": """
                import spacy


                def lemmas(text, pipeline="en_core_web_sm"):
                    language = spacy.load(pipeline, disable=["ner"])  # expect: TL112
                    return [token.lemma_ for token in language(text)]
                """
            },
        ),
        invalid(
            """
            import torch
            import torchaudio
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Speech(Dataset):
                def __init__(self, paths, rate=16_000):
                    self.paths = paths
                    self.rate = rate

                def __len__(self):
                    return len(self.paths)

                def features(self, waveform):
                    mel = torchaudio.transforms.MelSpectrogram(sample_rate=self.rate, n_mels=80)  # expect: TL112
                    return mel(waveform)

                def __getitem__(self, index):
                    waveform, _ = torchaudio.load(self.paths[index])
                    return self.features(waveform)


            loader = DataLoader(Speech(open("paths.txt").read().split()), batch_size=16, num_workers=8)
            model = nn.LazyLinear(32).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for features in loader:
                loss = model(features.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the filter bank is computed for each waveform",
        ),
        invalid(
            """
            import sentencepiece as spm
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            MODEL = "corpus.model"


            def collate(lines):
                processor = spm.SentencePieceProcessor(model_file=MODEL)  # expect: TL112
                return nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in processor.encode(lines)])


            loader = DataLoader(open("corpus.txt").readlines(), batch_size=64, num_workers=4, collate_fn=collate)
            model = nn.Sequential(nn.Embedding(32000, 64), nn.Linear(64, 32000)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for ids in loader:
                ids = ids.cuda()
                loss = nn.functional.cross_entropy(model(ids[:-1]).flatten(0, 1), ids[1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="for each batch, in the collate function",
        ),
        valid(
            """
            import torch
            import torchaudio
            from torch.utils.data import DataLoader, Dataset


            class Speech(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.mel = torchaudio.transforms.MelSpectrogram(sample_rate=16_000, n_mels=80)

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    waveform, _ = torchaudio.load(self.paths[index])
                    return self.mel(waveform)


            loader = DataLoader(Speech(open("paths.txt").read().split()), batch_size=16, num_workers=8)
            """,
            because="made once, in the constructor",
        ),
        valid(
            """
            import sentencepiece as spm
            import torch
            from torch.utils.data import Dataset


            class Lines(Dataset):
                def __init__(self, lines, model_file):
                    self.lines, self.model_file = lines, model_file
                    self.processor = None

                def __len__(self):
                    return len(self.lines)

                def __getitem__(self, index):
                    if self.processor is None:
                        self.processor = spm.SentencePieceProcessor(model_file=self.model_file)
                    return torch.tensor(self.processor.encode(self.lines[index]))
            """,
            because="made at the first item, once in each worker",
        ),
        valid(
            """
            from functools import cache

            import spacy
            import torch
            from torch.utils.data import Dataset


            @cache
            def pipeline():
                return spacy.load("en_core_web_sm")


            class Documents(Dataset):
                def __init__(self, documents, vocabulary):
                    self.documents, self.vocabulary = documents, vocabulary

                def __len__(self):
                    return len(self.documents)

                def __getitem__(self, index):
                    return torch.tensor([self.vocabulary[token.text] for token in pipeline()(self.documents[index])])
            """,
            because="kept by a cache",
        ),
        valid(
            """
            import torch
            import torchaudio
            from torch.utils.data import Dataset


            class Mixed(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    waveform, rate = torchaudio.load(self.paths[index])
                    return torchaudio.transforms.Resample(rate, 16_000)(waveform)
            """,
            because="each file has a rate of its own",
        ),
        valid(
            """
            import re

            import torch
            from PIL import Image
            from torch.utils.data import Dataset
            from torchvision import transforms


            class Captions(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    number = re.compile(r"(\\d+)\\.jpg$").search(self.paths[index])
                    transform = transforms.Compose([transforms.Resize(224), transforms.ToTensor()])
                    return transform(Image.open(self.paths[index])), torch.tensor(int(number[1]))
            """,
            because="patterns are kept by `re`, and these transforms only keep their arguments",
        ),
        valid(
            """
            import torch
            from torch.utils.data import Dataset
            from transformers import AutoTokenizer


            class Translations(Dataset):
                def __init__(self, rows):
                    self.rows = rows

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    tokenizer = AutoTokenizer.from_pretrained(f"Helsinki-NLP/opus-mt-{row['from']}-{row['to']}")
                    return torch.tensor(tokenizer.encode(row["text"]))
            """,
            because="another tokenizer for each pair of languages",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls:
            if OBJECT_MAKERS.match(call.name) and call.same_each_time and call.context.for_each_item:
                per = "batch" if call.context.region is Region.COLLATE else "sample"
                yield self.finding(
                    call,
                    f"{quote(call.text)} builds the same object again for every {per}",
                    help="Build it once, in the constructor, or at the first item in each worker",
                    confidence=call.context.served,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY, "Build it in the constructor and keep it, or at the first item in each worker"
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)
