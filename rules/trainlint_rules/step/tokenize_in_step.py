from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, TokenizerWork


class TokenizeInStep(Rule):
    """Texts are tokenized in the training step itself.

    ## What it does
    Reports tokenizer calls in a step loop, in a framework's training step, or in a model's `forward` that training
    reaches.

    ## Why it is slow
    Tokenizing is CPU work on strings. In the step it runs in the thread that feeds the GPU: until the token ids are
    there, nothing can be launched, and no worker helps.

    ## When it is fine
    Texts that only come into being in the step, such as what a model has just generated; evaluation; results that are
    kept; every N steps, for a sample that is shown.

    ## Example
    ```python
    for texts, labels in loader:
        tokens = tokenizer(texts, padding=True, return_tensors="pt").to(device)
        loss = model(**tokens, labels=labels.to(device)).loss
    ```

    ## Use instead
    ```python
    dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
    loader = DataLoader(dataset, batch_size=32, collate_fn=DataCollatorWithPadding(tokenizer), num_workers=4)
    for batch in loader:
        loss = model(**batch.to(device)).loss
    ```

    ## Fix safety
    Advice without edits: where the token ids are to be stored is the author's choice.

    ## How the probe confirms it
    By stack samples under this line in the training thread.

    ## References
    - Tokenize offline, once, into Arrow, MDS or npy files of token ids (article 000).
    - Hugging Face, datasets, process: https://huggingface.co/docs/datasets/process#map
    """

    code, name, family = "TL222", "tokenize-in-step", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for rows in DataLoader(load_dataset("imdb", split="train"), batch_size=16, shuffle=True):
                tokens = tokenizer(rows["text"], padding=True, truncation=True, return_tensors="pt")  # expect: TL222
                loss = model(**tokens.to("cuda"), labels=rows["label"].cuda()).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in the loop, before the model can start",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from transformers import AutoModel, AutoTokenizer


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
                    self.encoder = AutoModel.from_pretrained("bert-base-uncased")
                    self.head = nn.Linear(768, 1)

                def forward(self, texts):
                    tokens = self.tokenizer(list(texts), padding=True, return_tensors="pt")  # expect: TL222
                    return self.head(self.encoder(**tokens.to("cuda")).last_hidden_state[:, 0])


            with open("texts.txt") as file:
                loader = DataLoader(file.readlines(), batch_size=16)
            model = Encoder().cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for texts in loader:
                loss = model(texts).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in the model's forward",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch.utils.data import DataLoader

            from texts import encode
            from transformers import AutoModelForCausalLM


            class Writer(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = AutoModelForCausalLM.from_pretrained("gpt2")

                def training_step(self, batch, batch_idx):
                    ids = encode(batch).to(self.device)
                    return self.model(ids, labels=ids).loss

                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters(), lr=2e-5)


            with open("texts.txt") as file:
                loader = DataLoader(file.readlines(), batch_size=16)
            L.Trainer(accelerator="gpu", max_epochs=1).fit(Writer(), loader)
            """,
            because="behind a helper, in another file",
            others={
                "texts.py": """
                from transformers import AutoTokenizer

                TOKENIZER = AutoTokenizer.from_pretrained("gpt2", pad_token="<|endoftext|>")


                def encode(texts):
                    return TOKENIZER.batch_encode_plus(texts, padding=True, return_tensors="pt")["input_ids"]  # expect: TL222
                """  # noqa: E501
            },
        ),
        valid(
            """
            import torch
            from audio import Codebook
            from torch import nn
            from torch.utils.data import DataLoader


            class Speech(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Conv1d(1, 64, 320, stride=160)
                    self.audio_tokenizer = Codebook(64)
                    self.head = nn.Linear(64, 1)

                def forward(self, waves):
                    features = self.encoder(waves)
                    codes = self.audio_tokenizer.encode(features)
                    first = self.audio_tokenizer.encode(waves[:, None, :1600])
                    return self.head(codes + first.mean()).square().mean()


            model = Speech().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for waves in DataLoader(torch.load("waves.pt"), batch_size=16, num_workers=4):
                loss = model(waves.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model of audio turns features into codes, on the GPU; there is no text in it",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch.utils.data import DataLoader
            from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            dataset = load_dataset("imdb", split="train")
            dataset = dataset.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
            collate = DataCollatorWithPadding(tokenizer)
            model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for batch in DataLoader(dataset.remove_columns("text"), batch_size=16, collate_fn=collate):
                loss = model(**batch.to("cuda")).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="tokenized ahead",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2", pad_token="<|endoftext|>")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for prompts in torch.load("prompts.pt").split(8):
                with torch.no_grad():
                    answers = model.generate(prompts.cuda(), max_new_tokens=32)
                texts = [text.strip() for text in tokenizer.batch_decode(answers, skip_special_tokens=True)]
                ids = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"].cuda()
                loss = model(ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the texts were generated in this very step",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            for step, ids in enumerate(torch.load("blocks.pt").split(8)):
                ids = ids.cuda()
                loss = model(ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 500 == 0:
                    prompt = tokenizer("Once upon a time", return_tensors="pt").to("cuda")
                    print(tokenizer.decode(model.generate(**prompt)[0]))
            """,
            because="a sample to look at, every five hundred steps",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda().eval()
            with open("texts.txt") as file, torch.no_grad():
                for text in file:
                    ids = tokenizer(text, return_tensors="pt")["input_ids"].cuda()
                    print(model(ids, labels=ids).loss.item())
            """,
            because="evaluation: nothing is trained here",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
            with open("texts.txt") as file:
                blocks = [tokenizer(line, return_tensors="pt")["input_ids"] for line in file]
            for ids in blocks:
                ids = ids.cuda()
                loss = model(ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="tokenized once, before the loop",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.tokenizations:
            on_the_hot_path = call.context.hot and call.context.routine and not call.part_of_another
            if on_the_hot_path and call.work is TokenizerWork.ENCODE and not call.cached and not call.generated:
                waiting = "GPU" if call.context.may_use_gpu else "step"
                yield self.finding(
                    call,
                    f"{quote(call.text)} tokenizes while the {waiting} waits, {call.context.frequency.phrase}",
                    help="Tokenize once, ahead of training, and let the loader deliver token ids",
                    confidence=call.certainty,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Tokenize once, in `datasets.map(…, batched=True)` or into Arrow or npy files, and iterate over token ids",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)
