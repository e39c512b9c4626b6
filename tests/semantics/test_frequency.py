"""How often code runs: loops, guards that thin out, early exits, calls, callbacks, generators."""

from __future__ import annotations

from marked_programs import check, plain, program, table

from trainlint.lint.analyze import analyze

LOOPS = {
    "the body of a step loop, of the epoch loop around it, and what stands outside": plain("""
        print("start")  # runs: once setup
        for epoch in range(90):
            print("epoch", epoch)  # runs: per-epoch setup
            for images, labels in train_loader:
                optimizer.zero_grad()
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                print("step")  # runs: per-step training
            print("epoch is over")  # runs: per-epoch setup
        print("end")  # runs: once setup
        """),
    "a single step loop without an epoch loop": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print("step")  # runs: per-step training
        print("end")  # runs: once setup
        """),
    "a range over steps that draws batches from an iterator": plain("""
        batches = iter(train_loader)
        for step in range(100_000):
            images, labels = next(batches)
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print(step)  # runs: per-step training
        """),
    "`while True` with a step in it, left by a break": plain("""
        step = 0
        batches = iter(train_loader)
        while True:
            images, labels = next(batches)
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            step += 1
            print(step)  # runs: per-step training
            if step > 1000:
                print("leaving")  # runs: once training
                break
        print("end")  # runs: once setup
        """),
    "`while step < max_steps` around a loop over the loader is the epoch loop": plain("""
        step = 0
        while step < 1000:
            print("one more pass over the data")  # runs: per-epoch setup
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                step += 1
                print(step)  # runs: per-step training
        """),
    "`while step < max_steps` as the step loop": plain("""
        step = 0
        batches = iter(train_loader)
        while step < 1000:
            images, labels = next(batches)
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            step += 1
            print(step)  # runs: per-step training
        """),
    "an endless loop whose iterator is renewed when it is exhausted": plain("""
        batches = iter(train_loader)
        for step in range(1000):
            try:
                images, labels = next(batches)
            except StopIteration:
                print("next epoch")  # runs: once training
                batches = iter(train_loader)
                images, labels = next(batches)
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print(step)  # runs: per-step training
        """),
    "loops over micro-batches inside the step are per step too": plain("""
        batches = iter(train_loader)
        for step in range(1000):
            for micro_step in range(4):
                images, labels = next(batches)
                loss = criterion(model(images.to(device)), labels.to(device)) / 4
                loss.backward()
                print("micro-batch")  # runs: per-step training
            optimizer.step()
            optimizer.zero_grad()
            print("step")  # runs: per-step training
        """),
    "a loop over parameters inside the step": plain("""
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            for parameter in model.parameters():
                print(parameter.grad.norm().item())  # runs: per-step training, reads: device
            optimizer.step()
        """),
    "progress bars and enumerations do not hide the loop": plain("""
        from tqdm import tqdm
        for epoch in tqdm(range(3)):
            print(epoch)  # runs: per-epoch setup
            bar = tqdm(enumerate(train_loader, 1), total=len(train_loader))
            for step, (images, labels) in bar:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print(step)  # runs: per-step training
        """),
    "the `else` of a loop runs once": plain("""
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        else:
            print("all batches seen")  # runs: once setup
        """),
    "a loop that only builds something at the start is neither training nor evaluation": plain("""
        names = []
        for name, parameter in model.named_parameters():
            print(name)  # runs: once setup
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """),
    "a loop that its first turn ends is none": plain("""
        model.eval()
        for images, labels in train_loader:
            print(model(images.to(device)).mean().item())  # runs: once setup
            break
        """),
    "a loop that `continue` may turn again is one": plain("""
        model.eval()
        with torch.no_grad():
            for images, labels in val_loader:
                if labels.numel() == 0:
                    continue
                print(model(images.to(device)).mean().item())  # runs: per-step evaluation
                break
        """),
    "after `model.eval()`, a loop that calls no model evaluates nothing": plain("""
        model.eval()
        elements = open("elements.txt").read().split()
        for element in elements:
            print(element)  # runs: once setup
        pictures = torch.load("pictures.pt")
        for picture in pictures:
            print(model(picture.to(device)).argmax())  # runs: per-step evaluation
        """),
    "epochs are no steps where one algorithm of several makes its only update there": plain("""
        def closure():
            optimizer.zero_grad()
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()

        def train_epoch():
            if isinstance(optimizer, torch.optim.LBFGS):
                optimizer.step(closure)
                return
            for images, labels in train_loader:
                optimizer.zero_grad()
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("step")  # runs: per-step training

        epoch = 0
        while epoch < 90:
            train_epoch()
            print("epoch", epoch)  # runs: per-epoch setup
            epoch += 1
        """),
    "an optimizer's step alone makes a step loop": plain("""
        def closure():
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            print("closure")  # runs: per-step training
            return loss
        batch = torch.randn(8, 3072, device=device)
        optimizer = torch.optim.LBFGS(model.parameters())
        for step in range(100):
            optimizer.step(closure)
            print(step)  # runs: per-step training
        """),
    "a loop over folds around the epochs is once per epoch or less": plain("""
        for fold in range(5):
            print(fold)  # runs: per-epoch setup
            for epoch in range(10):
                print(epoch)  # runs: per-epoch setup
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    print("step")  # runs: per-step training
        """),
    "a comprehension in the step is per step": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            norms = [
                parameter.grad.norm().item()  # runs: per-step training, reads: device
                for parameter in model.parameters()
            ]
        """),
}

TRAINS_PARSER = """

class Trainer:
    def __init__(self, parser: Parser):
        self.parser = parser

    def step(self, inputs, labels):
        loss = self.parser(**self.batch_of(inputs, labels))
        loss.backward()
        optimizer.step()
"""
EVALUATION = {
    "the branch of a forward that predicts where no labels are given": plain("""
        class Parser(nn.Module):
            def forward(self, inputs, labels=None):
                scores = self.layer(inputs)
                loss = None
                if labels is not None:
                    loss = criterion(scores, labels)
                    print(loss)  # runs: per-step training
                else:
                    print(scores)  # runs: per-step evaluation
                return loss
        """)
    + TRAINS_PARSER,
    "the branch of a forward that only lacks a mask": plain("""
        class Parser(nn.Module):
            def forward(self, inputs, mask=None):
                scores = self.layer(inputs)
                if mask is not None:
                    loss = criterion(scores, mask)
                else:
                    loss = 0
                    print(scores)  # runs: per-step training
                return loss
        """)
    + TRAINS_PARSER,
    "a function that runs a validation": plain("""
        def run_validation(pairs):
            for images, labels in pairs:
                with torch.no_grad():
                    print(criterion(model(images.to(device)), labels.to(device)).item())  # runs: per-step evaluation

        for epoch in range(3):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
            run_validation(pairs_of("val"))
        """),
    "an evaluation loop in each epoch is its own region": plain("""
        for epoch in range(3):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for images, labels in val_loader:
                    loss = criterion(model(images.to(device)), labels.to(device))
                    print(loss.item())  # runs: per-step evaluation, reads: device
            print("epoch is over")  # runs: per-epoch setup
        """),
    "an evaluation function called from the epoch loop": plain("""
        def evaluate(loader):
            total = 0.0
            print("evaluating")  # runs: per-epoch setup
            for images, labels in loader:
                total += criterion(model(images.to(device)), labels.to(device)).item()  # runs: per-step evaluation
            return total / len(loader)

        for epoch in range(3):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
            print(evaluate(val_loader))  # runs: per-epoch setup
        """),
    "an evaluation loop reached from the step under an interval": plain("""
        def validate():
            model.eval()
            with torch.no_grad():
                for images, labels in val_loader:
                    print(criterion(model(images.to(device)), labels.to(device)).item())  # runs: per-n-steps evaluation
            model.train()

        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % 500 == 0:
                validate()
        """),
    "a helper shared by training and evaluation has both contexts": plain("""
        def report(loss):
            print(loss.item())  # runs: per-step evaluation | per-step training, reads: device

        for epoch in range(3):
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                report(loss)
            with torch.no_grad():
                for images, labels in val_loader:
                    report(criterion(model(images.to(device)), labels.to(device)))
        """),
    "one function for both phases, chosen by a flag": plain("""
        def run_epoch(loader, train):
            for images, labels in loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    print("training")  # runs: per-step training
                else:
                    print("evaluation")  # runs: per-step evaluation

        for epoch in range(3):
            run_epoch(train_loader, True)
            run_epoch(val_loader, False)
        """),
    "`for phase in ['train', 'val']` with a guard on the phase": plain("""
        loaders = {"train": train_loader, "val": val_loader}
        for epoch in range(3):
            for phase in ["train", "val"]:
                for images, labels in loaders[phase]:
                    with torch.set_grad_enabled(phase == "train"):
                        loss = criterion(model(images.to(device)), labels.to(device))
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                            print("training")  # runs: per-step training
                        if phase == "val":
                            print("evaluation")  # runs: per-step evaluation
        """),
    "a decorator that disables gradients does not hide the function": plain("""
        @torch.no_grad()
        def test():
            for images, labels in val_loader:
                print(criterion(model(images.to(device)), labels.to(device)).item())  # runs: per-step evaluation

        for epoch in range(3):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
            test()
        """),
    "evaluation without any training, after a checkpoint was loaded": plain("""
        model.load_state_dict(torch.load("model.pt"))
        model.eval()
        with torch.no_grad():
            for images, labels in val_loader:
                print(model(images.to(device)).argmax(1).tolist())  # runs: per-step evaluation, reads: device
        print("done")  # runs: once setup
        """),
}

INTERVALS = {
    "an attribute that is asked for by getattr": plain("""
        class Wrapper:
            def forward(self, x):
                if not getattr(self, "compiled", False):
                    print("compiling")  # runs: per-epoch training
                    self.compiled = True
                return model(x)

        wrapper = Wrapper()
        for images, labels in train_loader:
            loss = criterion(wrapper.forward(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        """),
    "a function that keeps its results": plain("""
        from functools import lru_cache

        @lru_cache(None)
        def log_once(message):
            print(message)  # runs: per-epoch training

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            log_once("stepping")
        """),
    "a global that the guarded call fills": plain("""
        kernel = None

        def load():
            global kernel
            kernel = torch.rand(1, 1).to("cuda")  # runs: per-epoch training

        def smoothed(x):
            if kernel is None:
                load()
            return x * kernel

        for images, labels in train_loader:
            loss = criterion(model(smoothed(images.to(device))), labels.to(device))
            loss.backward()
            optimizer.step()
        """),
    "an attribute that the guarded method fills": plain("""
        class Timer:
            def __init__(self):
                self.started = None

            def start(self):
                self.started = torch.zeros(1).to("cuda")  # runs: per-epoch training

            def tick(self):
                if self.started is None:
                    self.start()

        timer = Timer()
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            timer.tick()
        """),
    "a global that the guarded call leaves alone": plain("""
        kernel = None

        def load():
            print("loading")  # runs: per-step training

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if kernel is None:
                load()
        """),
    "`if step % n == 0`": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % 100 == 0:
                print(step)  # runs: per-n-steps training, under: interval
            else:
                print("not thinned out")  # runs: per-step training
        """),
    "`if not step % n`": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if not step % 100:
                print(step)  # runs: per-n-steps training
        """),
    "`if step % n: continue` thins out what follows": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("before")  # runs: per-step training
            if step % 100 != 0:
                continue
            print("after")  # runs: per-n-steps training
        """),
    "`if step % n: return` in a helper thins out the rest of the helper only": plain("""
        def log(step, loss):
            if step % 100:
                return
            print(loss.item())  # runs: per-n-steps training, reads: device

        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            log(step, loss)
            print("not thinned out")  # runs: per-step training
        """),
    "an interval whose length is an option": plain("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--log-interval", type=int, default=50)
        args = parser.parse_args()
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % args.log_interval == 0:
                print(step)  # runs: per-n-steps training
        """),
    "an interval kept in a variable": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            is_time = (step + 1) % 100 == 0
            if is_time:
                print(step)  # runs: per-n-steps training
        """),
    "an interval in a predicate": plain("""
        def due(step):
            return step % 100 == 0

        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if due(step):
                print(step)  # runs: per-n-steps training
        """),
    "an interval joined with another condition": plain("""
        verbose = True
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if verbose and step > 0 and step % 100 == 0:
                print(step)  # runs: per-n-steps training
        """),
    "an interval around a call": plain("""
        def log(loss):
            print(loss.item())  # runs: per-n-steps training

        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                log(loss)
        """),
    "an interval in a conditional expression and in a short circuit": plain("""
        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            shown = loss.item() if step % 100 == 0 else None  # runs: per-n-steps training
            step % 100 == 0 and print(step)  # runs: per-n-steps training
        """),
    "a clock": plain("""
        import time
        last_log = time.time()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if time.time() - last_log > 10:
                print("ten seconds")  # runs: per-n-steps training
                last_log = time.time()
        """),
    "a counter on the instance": plain("""
        class Trainer:
            def __init__(self):
                self.step = 0

            def train(self):
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    self.step += 1
                    self.log()

            def log(self):
                if self.step % 100 == 0:
                    print(self.step)  # runs: per-n-steps training

        Trainer().train()
        """),
    "the last step of an epoch": plain("""
        for epoch in range(3):
            for step, (images, labels) in enumerate(train_loader):
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                if step == len(train_loader) - 1:
                    print("last")  # runs: per-epoch training
                if step == 0:
                    print("first")  # runs: per-epoch training
        """),
    "an epoch interval around the step loop does not thin out steps": plain("""
        for epoch in range(100):
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("step")  # runs: per-step training
            if epoch % 10 == 0:
                print("ten epochs")  # runs: per-epoch setup
        """),
    "an early `continue` under an exception's branch does not thin out the rest": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            if not torch.isfinite(loss):
                print("skipped")  # runs: per-step training
                continue
            loss.backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """),
}

NOT_INTERVALS = {
    "an accumulation test is no interval: its default may be 1": plain("""
        accumulation_steps = 4
        for step, (images, labels) in enumerate(train_loader):
            (criterion(model(images.to(device)), labels.to(device)) / accumulation_steps).backward()
            if (step + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
                print("update")  # runs: per-step training, under: accumulation
        """),
    "an accumulation count from the options": plain("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--gradient-accumulation-steps", type=int, default=1)
        args = parser.parse_args()
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            if step % args.gradient_accumulation_steps != 0:
                continue
            optimizer.step()
            print("update")  # runs: per-step training
        """),
    "a modulo around the optimizer's step is accumulation, whatever its name": plain("""
        n = 4
        for i, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            if (i + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()
                print("update")  # runs: per-step training
        """),
    "`% 1 == 0` lets every step pass": plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            if step % 1 == 0:
                print(step)  # runs: per-step training
        """),
    "a feature flag": plain("""
        import argparse
        import wandb
        parser = argparse.ArgumentParser()
        parser.add_argument("--use-wandb", action="store_true")
        args = parser.parse_args()
        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if args.use_wandb:
                wandb.log({"loss": loss.item()})  # runs: per-step training, reads: device
        """),
    "a rank guard leaves every step": plain("""
        import torch.distributed as dist
        dist.init_process_group("nccl")
        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if dist.get_rank() == 0:
                print(loss.item())  # runs: per-step training, under: rank
        """),
    "a test on the data": plain("""
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if images.size(0) > 1:
                print(loss.item())  # runs: per-step training
        """),
}

CALLS = {
    "a function called in the loop": plain("""
        def train_step(images, labels):
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("step")  # runs: per-step training
            return loss

        for images, labels in train_loader:
            loss = train_step(images.to(device), labels.to(device))
            print(loss.item())  # runs: per-step training, reads: device
        """),
    "a function for one epoch": plain("""
        def train_one_epoch(epoch):
            print("begin")  # runs: per-epoch setup
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("step")  # runs: per-step training

        def main():
            print("main")  # runs: once setup
            for epoch in range(3):
                train_one_epoch(epoch)
                print("epoch")  # runs: per-epoch setup

        if __name__ == "__main__":
            main()
        """),
    "a method of the project's trainer": plain("""
        class Trainer:
            def __init__(self, model):
                self.model = model
                print("made")  # runs: once setup

            def fit(self, epochs):
                for epoch in range(epochs):
                    self.one_epoch()
                    print("epoch")  # runs: per-epoch setup

            def one_epoch(self):
                for images, labels in train_loader:
                    self.one_step(images.to(device), labels.to(device))

            def one_step(self, images, labels):
                loss = criterion(self.model(images), labels)
                loss.backward()
                optimizer.step()
                print(loss.item())  # runs: per-step training, reads: device

        Trainer(model).fit(3)
        """),
    "an inherited method that calls an overridden one": plain("""
        class Base:
            def fit(self):
                for images, labels in train_loader:
                    loss = self.loss(images.to(device), labels.to(device))
                    loss.backward()
                    optimizer.step()
                    self.report(loss)

            def loss(self, images, labels):
                raise NotImplementedError

            def report(self, loss):
                print("unused")  # runs: never

        class Classifier(Base):
            def loss(self, images, labels):
                print("loss")  # runs: per-step training
                return criterion(model(images), labels)

            def report(self, loss):
                print(loss.item())  # runs: per-step training, reads: device

        Classifier().fit()
        """),
    "a method reached through super()": plain("""
        class Base:
            def step(self, loss):
                loss.backward()
                optimizer.step()
                print("base")  # runs: per-step training

        class Child(Base):
            def step(self, loss):
                super().step(loss)
                print("child")  # runs: per-step training

        child = Child()
        for images, labels in train_loader:
            child.step(criterion(model(images.to(device)), labels.to(device)))
        """),
    "a method bound to a name": plain("""
        class Meter:
            def update(self, value):
                print("update")  # runs: per-step training

        update = Meter().update
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            update(1)
        """),
    "static and class methods": plain("""
        class Report:
            @staticmethod
            def static(loss):
                print(loss.item())  # runs: per-step training, reads: device

            @classmethod
            def of_class(cls, loss):
                print(loss.item())  # runs: per-step training, reads: device

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            Report.static(loss)
            Report.of_class(loss)
        """),
    "functools.partial": plain("""
        import functools

        def report(prefix, loss):
            print(prefix, loss.item())  # runs: per-step training, reads: device

        show = functools.partial(report, "loss")
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            show(loss)
        """),
    "a callback passed by name": plain("""
        def on_step(loss):
            print(loss.item())  # runs: per-step training, reads: device

        def on_epoch(epoch):
            print(epoch)  # runs: per-epoch setup

        def fit(step_callback, epoch_callback=None):
            for epoch in range(3):
                for images, labels in train_loader:
                    loss = criterion(model(images.to(device)), labels.to(device))
                    loss.backward()
                    optimizer.step()
                    step_callback(loss)
                if epoch_callback is not None:
                    epoch_callback(epoch)

        fit(on_step, epoch_callback=on_epoch)
        """),
    "callbacks in a list": plain("""
        class Printer:
            def after_step(self, loss):
                print(loss.item())  # runs: per-step training, reads: device

            def after_epoch(self):
                print("epoch")  # runs: per-epoch setup

        class Trainer:
            def __init__(self, callbacks):
                self.callbacks = callbacks

            def fit(self):
                for epoch in range(3):
                    for images, labels in train_loader:
                        loss = criterion(model(images.to(device)), labels.to(device))
                        loss.backward()
                        optimizer.step()
                        for callback in self.callbacks:
                            callback.after_step(loss)
                    for callback in self.callbacks:
                        callback.after_epoch()

        Trainer([Printer()]).fit()
        """),
    "a function in a table": plain("""
        def hinge(outputs, labels):
            print("hinge")  # runs: per-step training
            return F.relu(1 - outputs * labels).mean()

        losses = {"hinge": hinge}
        loss_function = losses["hinge"]
        for images, labels in train_loader:
            loss_function(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "a lambda": plain("""
        show = lambda loss: print(loss.item())  # runs: per-step training, reads: device
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            show(loss)
        """),
    "a nested function": plain("""
        def main():
            def report(loss):
                print(loss.item())  # runs: per-step training, reads: device

            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                report(loss)

        main()
        """),
    "decorators of libraries that keep the function": plain("""
        import functools
        from typing import no_type_check

        @torch.compile
        def loss_of(images, labels):
            print("loss")  # runs: per-step training
            return criterion(model(images), labels)

        @no_type_check
        def report(loss):
            print(loss.item())  # runs: per-step training, reads: device

        for images, labels in train_loader:
            loss = loss_of(images.to(device), labels.to(device))
            loss.backward()
            optimizer.step()
            report(loss)
        """),
    "a decorator of the project that wraps the function": plain("""
        import functools
        import time

        def timed(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                start = time.time()
                result = function(*args, **kwargs)
                print(time.time() - start)  # runs: per-step training
                return result

            return wrapper

        @timed
        def train_step(images, labels):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            return loss.item()  # runs: per-step training, reads: device

        for images, labels in train_loader:
            train_step(images.to(device), labels.to(device))
        """),
    "a decorator of the project with arguments": plain("""
        def repeat(times):
            def decorate(function):
                def wrapper(*args):
                    for _ in range(times):
                        result = function(*args)
                    return result
                return wrapper
            return decorate

        @repeat(2)
        def train_step(images, labels):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device

        for images, labels in train_loader:
            train_step(images.to(device), labels.to(device))
        """),
    "a module of the project: forward runs where the model is called": plain("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                print("made")  # runs: once setup
                self.body = nn.Linear(3072, 10)

            def forward(self, x):
                x = self.body(x.flatten(1))
                print(x.mean().item())  # runs: per-step training, reads: device
                return x

        net = Net().cuda()
        for images, labels in train_loader:
            criterion(net(images.cuda()), labels.cuda()).backward()
            optimizer.step()
        """),
    "submodules in a Sequential and a ModuleList": plain("""
        class Block(nn.Module):
            def forward(self, x):
                print(x.max().item())  # runs: per-step training, reads: device
                return x

        class Layer(nn.Module):
            def forward(self, x):
                print(x.min().item())  # runs: per-step training, reads: device
                return x

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = nn.Sequential(nn.Linear(3072, 10), Block())
                self.layers = nn.ModuleList([Layer() for _ in range(4)])

            def forward(self, x):
                x = self.stem(x)
                for layer in self.layers:
                    x = layer(x)
                return x

        net = Net().cuda()
        for images, labels in train_loader:
            criterion(net(images.cuda()), labels.cuda()).backward()
            optimizer.step()
        """),
    "an object with __call__": plain("""
        class Step:
            def __call__(self, images, labels):
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
                print("step")  # runs: per-step training
                return loss

        step = Step()
        for images, labels in train_loader:
            step(images.to(device), labels.to(device))
        """),
    "a property": plain("""
        class State:
            loss = None

            @property
            def value(self):
                return self.loss.item()  # runs: per-step training, reads: device

        state = State()
        for images, labels in train_loader:
            state.loss = criterion(model(images.to(device)), labels.to(device))
            state.loss.backward()
            optimizer.step()
            state.value
        """),
    "a context manager of the project": plain("""
        import contextlib

        @contextlib.contextmanager
        def timer():
            print("enter")  # runs: per-step training
            yield
            print("leave")  # runs: per-step training

        class Scope:
            def __enter__(self):
                print("enter")  # runs: per-step training
                return self

            def __exit__(self, *error):
                print("leave")  # runs: per-step training

        for images, labels in train_loader:
            with timer(), Scope():
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("inside")  # runs: per-step training
        """),
    "a worker started by multiprocessing": plain("""
        import torch.multiprocessing as mp

        def worker(rank):
            print("worker")  # runs: once setup
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("step")  # runs: per-step training

        if __name__ == "__main__":
            mp.spawn(worker, nprocs=4)
        """),
    "a command of click or hydra that nothing calls by its arguments": plain("""
        import click

        @click.command()
        @click.option("--epochs", default=3)
        def main(epochs):
            for epoch in range(epochs):
                print(epoch)  # runs: per-epoch setup
                for images, labels in train_loader:
                    criterion(model(images.to(device)), labels.to(device)).backward()
                    optimizer.step()
                    print("step")  # runs: per-step training

        if __name__ == "__main__":
            main()
        """),
    "a training function that no file of the project calls": """
        def train(model, loader, optimizer, criterion, device):
            model.train()
            print("begin")  # runs: once setup
            for images, labels in loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(loss.item())  # runs: per-step training
        """,
    "a function that is never called and trains nothing": plain("""
        def unused(loss):
            print(loss.item())  # runs: never

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """),
}

CACHES = {
    "what a layer makes where it has none, or none that is long enough": plain("""
        import torch
        from torch import nn

        class Positions(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = None

            def extend(self, x):
                if self.table is not None:
                    if self.table.size(0) >= x.size(0):
                        print("enough")  # runs: per-step training
                        return
                print("new table")  # runs: per-epoch training
                self.table = torch.zeros(x.size(0)).to(x.device)

            def forward(self, x):
                self.extend(x)
                return x + self.table

        layer = Positions()
        for images, labels in train_loader:
            criterion(layer(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "what a method returns where it has it": plain("""
        class Trainer:
            weights = None

            def weight(self):
                if self.weights is not None:
                    return self.weights
                print("made")  # runs: per-epoch training
                self.weights = make_weights()
                return self.weights

            def step(self, batch):
                if self.paused is not None:
                    return
                print("step", self.weight())  # runs: per-step training
                self.seen = batch

        trainer = Trainer()
        for images, labels in train_loader:
            trainer.step(images)
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
}
GENERATORS = {
    "a generator's body runs as often as it is iterated": plain("""
        def forever(loader):
            while True:
                for batch in loader:
                    print("batch")  # runs: per-step training
                    yield batch

        batches = forever(train_loader)
        for step in range(1000):
            images, labels = next(batches)
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "what a generator does outside of the loop that yields, where it is advanced item by item": plain("""
        def parts(files):
            print("start")  # runs: per-epoch training
            for file in files:
                print("open", file)  # runs: per-epoch training
                for batch in read(file):
                    print("batch")  # runs: per-step training
                    yield batch
                print("close", file)  # runs: per-epoch training

        def timed(items):
            iterator = iter(items)
            while True:
                item = next(iterator)
                print("got one")  # runs: per-step training
                yield item

        for images, labels in timed(parts(["a", "b"])):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "what a generator does around `yield from`, where it is advanced item by item": plain("""
        def parts(makers):
            for make in makers:
                print("make")  # runs: per-epoch training
                yield from make()

        batches = parts(makers)
        for step in range(1000):
            images, labels = next(batches)
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        """),
    "a loop over a generator": plain("""
        def on_device(loader):
            for images, labels in loader:
                print("batch")  # runs: per-step training
                yield images.to(device), labels.to(device)

        for images, labels in on_device(train_loader):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device
        """),
    "a generator of epochs": plain("""
        def epochs():
            for epoch in range(3):
                print("epoch")  # runs: per-epoch setup
                yield epoch

        for epoch in epochs():
            for images, labels in train_loader:
                criterion(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                print("step")  # runs: per-step training
        """),
    "`yield from`": plain("""
        def inner(loader):
            for images, labels in loader:
                print("batch")  # runs: per-step training
                yield images.cuda(), labels.cuda()

        def outer(loader):
            yield from inner(loader)

        for images, labels in outer(train_loader):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # reads: device
        """),
    "a project class that wraps a loader": plain("""
        class Prefetcher:
            def __init__(self, loader):
                self.loader = loader

            def __len__(self):
                return len(self.loader)

            def __iter__(self):
                for images, labels in self.loader:
                    print("batch")  # runs: per-step training
                    yield images.cuda(), labels.cuda()

        for images, labels in Prefetcher(train_loader):
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device
        """),
    "a training loop that is itself a generator": plain("""
        def train():
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                yield loss

        for loss in train():
            print(loss.item())  # runs: per-step training, reads: device
        """),
    "a generator expression": plain("""
        batches = ((images.cuda(), labels.cuda()) for images, labels in train_loader)
        for images, labels in batches:
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())  # runs: per-step training, reads: device
        """),
}

SAMPLES = {
    "a map dataset's `__getitem__` runs for every sample": """
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Texts(Dataset):
            def __init__(self, rows):
                print("made")  # runs: once setup
                self.rows = rows

            def __len__(self):
                return len(self.rows)

            def __getitem__(self, index):
                print(index)  # runs: per-sample data
                return self.clean(self.rows[index])

            def clean(self, row):
                print(row)  # runs: per-sample data
                return torch.tensor(row)

        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(Texts([]), batch_size=8):
            model(batch.cuda()).sum().backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "an iterable dataset's `__iter__`": """
        import torch
        from torch.utils.data import DataLoader, IterableDataset

        class Stream(IterableDataset):
            def __iter__(self):
                for line in open("data.txt"):
                    print(line)  # runs: per-sample data
                    yield torch.tensor([float(line)])

        model = torch.nn.Linear(1, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(Stream(), batch_size=8):
            model(batch.cuda()).sum().backward()
            optimizer.step()
        """,
    "a collate function, by name, by partial and as an object": """
        from functools import partial
        import torch
        from torch.utils.data import DataLoader

        def collate(samples):
            print("batch")  # runs: per-step collate
            return torch.stack(samples)

        def collate_with(width, samples):
            print("batch")  # runs: per-step collate
            return torch.stack(samples)

        class Collator:
            def __call__(self, samples):
                print("batch")  # runs: per-step collate
                return torch.stack(samples)

        data = torch.load("data.pt")
        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for loader in (
            DataLoader(data, collate_fn=collate),
            DataLoader(data, collate_fn=partial(collate_with, 8)),
            DataLoader(data, collate_fn=Collator()),
        ):
            for batch in loader:
                model(batch.cuda()).sum().backward()
                optimizer.step()
        """,
    "a transform handed to a dataset": """
        import torch
        from torch.utils.data import DataLoader
        from torchvision import datasets, transforms

        class Jitter:
            def __call__(self, image):
                print("jitter")  # runs: per-sample data
                return image

        transform = transforms.Compose([Jitter(), transforms.ToTensor()])
        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for images, labels in DataLoader(datasets.CIFAR10("data", transform=transform)):
            model(images.cuda()).sum().backward()
            optimizer.step()
        """,
    "a dataset that no loader of the project uses": """
        from torch.utils.data import Dataset

        class Texts(Dataset):
            def __getitem__(self, index):
                print(index)  # runs: per-sample data
                return self.rows[index]
        """,
}

ALL = [LOOPS, EVALUATION, INTERVALS, NOT_INTERVALS, CALLS, GENERATORS, SAMPLES]


@table(LOOPS)
def test_loops(files: str) -> None:
    check(files)


@table(EVALUATION)
def test_evaluation(files: str) -> None:
    check(files)


@table(INTERVALS)
def test_intervals_thin_out(files: str) -> None:
    check(files)


@table(NOT_INTERVALS)
def test_other_conditions_do_not_thin_out(files: str) -> None:
    check(files)


@table(CALLS)
def test_calls(files: str) -> None:
    check(program({"train.py": files}))


@table(CACHES)
def test_what_is_kept_is_made_once(files: str) -> None:
    check(files)


@table(GENERATORS)
def test_generators(files: str) -> None:
    check(files)


@table(SAMPLES)
def test_samples_and_batches(files: str) -> None:
    check(program({"train.py": files}))


def test_a_message_tells_evaluation_from_training() -> None:
    text = plain("""
        model.eval()
        with torch.no_grad():
            for images, labels in val_loader:
                print(model(images.to(device)).sum())
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print("trained")
        """)
    phrases = [report.context.phrase for report in analyze({"train.py": text}).reports]
    assert phrases == ["at every step of evaluation", "at every training step"]
