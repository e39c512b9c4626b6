"""Where values live: three-valued knowledge through assignments, containers, attributes, parameters and returns."""

from __future__ import annotations

import pytest
from marked_programs import check, entry, plain, program, table

from trainlint.lint.analyze import analyze
from trainlint.semantics.link import LinkOptions
from trainlint.semantics.values import Tensor
from trainlint.semantics.vocabulary import Known, Place


def step(body: str) -> str:
    """A script whose step loop, after the loss was computed, runs `body`."""
    loop = """
        for images, labels in train_loader:
            inputs, targets = images.to(device), labels.to(device)
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
        """
    return plain(loop) + "".join(f"    {line}\n" if line else "\n" for line in body.strip("\n").splitlines())


READS = {
    "what a condition says is a tensor": step("""
if isinstance(loss, torch.Tensor):
    x = float(loss)  # reads: device, syncs: read
x = loss.item() if torch.is_tensor(loss) else loss  # reads: device, syncs: read
"""),
    "a tensor whose type was asked before": step("""
if isinstance(loss, float):
    x = 1
print(loss)  # reads: device, syncs: format
"""),
    "a number that a library computes on the device": step("""
from dassl.metrics import compute_accuracy
x = compute_accuracy(outputs, targets)[0].item()  # reads: device, syncs: read
"""),
    "reading a number": step("print(loss.item())  # reads: device, syncs: read"),
    "reading a list": step("x = outputs.argmax(1).tolist()  # reads: device, syncs: read"),
    "conversions": step("x = float(loss) + int(loss) + bool(loss)  # reads: device, syncs: read"),
    "copies to the host": step("x = outputs.cpu()  # reads: device, syncs: copy"),
    "numpy by way of the host": step("x = outputs.detach().cpu().numpy()  # reads: device, syncs: copy"),
    "a legacy type of the host": step("""
x = outputs.type(torch.DoubleTensor)
print(x.mean())  # reads: host
y = outputs.type("torch.IntTensor").sum()
print(y)  # reads: host
"""),
    "a legacy type of the device": step("""
x = outputs.type(torch.cuda.DoubleTensor)
print(x.mean())  # reads: device, syncs: format
"""),
    "`.to('cpu')`": step("x = outputs.to('cpu')  # reads: device, syncs: copy"),
    "an f-string": step("x = f'{loss:.4f}'  # reads: device, syncs: format"),
    "%-formatting": step("x = 'loss %.3f' % loss  # reads: device, syncs: format"),
    "%-formatting of several values": step("x = '%d: %.3f' % (3, loss)  # reads: device, syncs: format"),
    "str.format": step("x = 'loss {:.3f}'.format(loss)  # reads: device, syncs: format"),
    "str()": step("x = str(loss)  # reads: device, syncs: format"),
    "print of a tensor": step("print('loss', loss)  # reads: device, syncs: format"),
    "a branch on a tensor": step("""
if torch.isnan(loss).any():  # reads: device, syncs: branch
    x = 1
"""),
    "a negated branch": step("""
if not torch.isfinite(loss):  # reads: device, syncs: branch
    x = 1
"""),
    "a comparison": step("""
if loss > 10:  # reads: device, syncs: branch
    x = 1
"""),
    "a condition of two": step("""
if loss > 10 and len(images) > 3:  # reads: device, syncs: branch
    x = 1
"""),
    "an assertion": step("assert (loss == loss).all()  # reads: device, syncs: branch"),
    "a while loop on a tensor": step("""
norm = outputs.norm()
while norm > 1:  # reads: device, syncs: branch
    norm = norm / 2
"""),
    "a conditional expression": step("x = 1 if loss < 0.5 else 0  # reads: device, syncs: branch"),
    "slice bounds": step("""
length = (targets != 0).sum(1).max()
x = outputs[:, :length]  # reads: device, syncs: index
"""),
    "an index of a list": step("""
names = ["cat", "dog"]
x = names[outputs.argmax()]  # reads: device, syncs: index
"""),
    "which of two": step("""
x = ["low", "high"][loss > 1]  # reads: device, syncs: index
"""),
    "a mask, which no list takes": step("""
parts = [outputs]
x = parts[outputs > 1]  # syncs: none
"""),
    "range over a device value": step("""
for i in range(targets.max()):  # reads: device, syncs: index
    x = i
"""),
    "max of Python over tensors": step("x = max(outputs[0, 0], outputs[0, 1])  # reads: device"),
    "`torch.tensor(...)` on the device read back": step(
        "x = torch.zeros(3, device=device).sum().item()  # reads: device"
    ),
    "the state of a buffer by int()": step("""
queue_ptr = torch.zeros(1, dtype=torch.long, device=device)
x = int(queue_ptr)  # reads: device, syncs: read
"""),
    "nonzero and masked selection keep the value on the device": step(
        "x = outputs[targets > 0].sum().item()  # reads: device"
    ),
}

HOST = {
    "a configuration that a model hands out beside something else": step("""
config, schedule = model.noise_schedule()
if config.steps > 3:  # syncs: none
    x = int(getattr(config, "interval", 0))  # syncs: none
"""),
    "what setting up a model returns": step("""
ready, others = model.setup_schedule(3)
if ready:  # syncs: none
    x = int(others)  # syncs: none
"""),
    "strings by annotation": step("""
from typing import List, Optional
def shown(words: Optional[List[str]], name: str):
    print(words, name)  # syncs: none
    for word in words:
        print(word)  # syncs: none
shown(model(inputs), outputs)
"""),
    "a count beside a loss": step("""
loss, num_tokens = compute_loss_of(outputs)
if num_tokens > 0:  # syncs: none
    x = f"{num_tokens}"  # syncs: none
"""),
    "a number of steps in a loss": plain("""
        class Trainer:
            def __init__(self, accumulate_every):
                self.accumulate_every = accumulate_every

            def step(self, images, labels):
                for _ in range(self.accumulate_every):  # syncs: none
                    loss = criterion(model(images), labels) / self.accumulate_every
                    loss.backward()

        def main(trainer: Trainer):
            for images, labels in train_loader:
                trainer.step(images.to(device), labels.to(device))
                optimizer.step()
        """),
    "a tensor that becomes a number unless it is None or one": step("""
chosen = outputs.get("chosen")
if chosen is not None and not isinstance(chosen, int):
    chosen = chosen.item()  # reads: device, syncs: read
for index in range(2):
    if chosen is not None and index != chosen:  # syncs: none
        continue
"""),
    "what a condition says is a number": step("""
value = loss if len(images) > 3 else 0.0
if isinstance(value, float):
    x = f"{value:.3f}"  # syncs: none
if not torch.is_tensor(value):
    x = float(value)  # syncs: none
if not isinstance(value, torch.Tensor) and len(images) > 3:
    x = float(value)  # syncs: none
x = value.detach() if hasattr(value, "item") else float(value)  # syncs: none
"""),
    "a list, or a tensor that is made one": step("""
def longest(lengths):
    if not isinstance(lengths, list):
        lengths = lengths.tolist()  # syncs: read
    return int(max(lengths))  # syncs: none
x = longest(outputs.argmax(1))
"""),
    "what is left after tensors went": step("""
def shown(value):
    if isinstance(value, torch.Tensor):
        return ""
    return f"{value:.3f}"  # syncs: none
x = shown(loss if len(images) > 3 else 0.0)
"""),
    "sizes and shapes": step("""
print(outputs.size(0), outputs.shape[1], len(outputs), outputs.numel())  # syncs: none
if outputs.size(0) > 3 and outputs.dim() == 2:  # syncs: none
    x = range(outputs.shape[0])  # syncs: none
"""),
    "a Python number": step("""
rate = optimizer.param_groups[0]['lr']
print(rate, f'{rate:.3f}')  # syncs: none
"""),
    "a number that was read before": step("""
value = loss.item()  # syncs: read
print(f'{value:.3f}', value * 2)  # syncs: none
if value > 3:  # syncs: none
    x = float(value)  # syncs: none
"""),
    "a copy on the host": step("""
host = outputs.cpu()  # syncs: copy
print(host.sum().item())  # reads: host, syncs: none
x = host.numpy().mean()  # syncs: none
"""),
    "a detached copy on the host": step("""
host = outputs.detach().to('cpu')  # syncs: copy
print(host.tolist())  # reads: host, syncs: none
"""),
    "the batch before it is moved": step("print(labels.sum().item())  # reads: host, syncs: none"),
    "a host tensor made in the loop": step("x = torch.zeros(3).sum().item()  # reads: host, syncs: none"),
    "numpy": step("""
import numpy as np
array = np.zeros(3)
print(array.mean(), float(array.sum()), array.sum().item())  # reads: host, syncs: none
if array.any():  # syncs: none
    x = 1
"""),
    "from_numpy stays on the host": step("""
import numpy as np
x = torch.from_numpy(np.zeros(3)).sum().item()  # reads: host, syncs: none
"""),
    "`is None`, `isinstance`, `in`": step("""
if loss is not None and isinstance(loss, torch.Tensor):  # syncs: none
    x = 1
"""),
    "attributes of a tensor": step("""
if outputs.requires_grad and outputs.is_cuda and outputs.dtype == torch.float32:  # syncs: none
    x = outputs.device.type  # syncs: none
"""),
    "a random number of Python": step("""
import random
if random.random() > 0.5:  # syncs: none
    x = 1
"""),
    "a number from the learning-rate schedule": step("""
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
print(scheduler.get_last_lr()[0])  # syncs: none
"""),
    "a memory figure of the device": step("print(torch.cuda.max_memory_allocated() / 2**20)  # syncs: none"),
    "a step counter": step("""
count = 0
count += 1
if count > 3:  # syncs: none
    x = f'{count}'  # syncs: none
"""),
    "a test that short-circuits on None": step("""
mask = None
if mask is not None and mask.any():  # reads: host
    x = 1
if not mask:  # syncs: none
    x = 2
"""),
    "shapes compared and asserted": step("""
assert outputs.shape[0] == targets.shape[0], f'{outputs.shape} {targets.size()}'  # syncs: none
if outputs.size() == targets.size() or outputs.ndim > 1:  # syncs: none
    x = outputs.shape[0] * 2
"""),
    "a number of a moving average": step("""
average = 0.0
average = 0.9 * average + 0.1 * loss.item()  # syncs: read
print(f'{average:.3f}', round(average, 3), min(average, 1.0))  # syncs: none
"""),
    "a list of numbers": step("""
history = []
history.append(loss.item())  # syncs: read
print(sum(history) / len(history), max(history), f'{history[-1]:.2f}')  # syncs: none
"""),
    "a dict of numbers": step("""
metrics = {'loss': loss.item(), 'size': len(images)}  # syncs: read
print({name: f'{value:.3f}' for name, value in metrics.items()}, metrics['loss'])  # syncs: none
"""),
    "times and memory": step("""
import time
start = time.time()
elapsed = time.time() - start
print(f'{elapsed:.2f}', int(elapsed), torch.cuda.memory_allocated() // 2**20)  # syncs: none
"""),
    "the metadata of parameters": step("""
count = sum(p.numel() for p in model.parameters() if p.requires_grad)
print(count, f'{count / 1e6:.1f}M')  # syncs: none
for name, p in model.named_parameters():
    print(name, p.shape, p.requires_grad)  # syncs: none
"""),
    "a number from the loader": step("""
print(len(train_loader), len(train_loader.dataset), train_loader.batch_size)  # syncs: none
x = int(len(train_loader) * 0.1)  # syncs: none
"""),
    "a file name and a path": step("""
import os
path = os.path.join('out', f'{len(images)}.pt')
if os.path.exists(path) and not os.listdir('out'):  # syncs: none
    print(path, 'exists %s' % path)  # syncs: none
"""),
    "building a format that no one fills with a tensor": step(
        "x = '{}: {}'.format(len(images), 'name')  # syncs: none"
    ),
}

FLOW = {
    "through tuples and unpacking": step("""
pair = (loss, labels)
first, second = pair
print(first.item())  # reads: device
print(second.sum().item())  # reads: host
"""),
    "through starred unpacking and swaps": step("""
a, b = loss, labels
a, b = b, a
x = b.item()  # reads: device
y = a.sum().item()  # reads: host
"""),
    "through a dict": step("""
losses = {'total': loss, 'labels': labels}
x = losses['total'].item()  # reads: device
y = losses['labels'].sum().item()  # reads: host
"""),
    "through a dict that grows": step("""
losses = {}
losses['total'] = loss
x = losses['total'].item()  # reads: device
"""),
    "through the items of a dict": step("""
losses = dict(total=loss, part=loss * 0.5)
for name, value in losses.items():
    print(name, value.item())  # reads: device
x = {name: value.item() for name, value in losses.items()}  # reads: device
"""),
    "through a list": step("""
losses = [loss, loss * 2]
x = losses[0].item()  # reads: device
y = sum(losses).item()  # reads: device
z = [value.item() for value in losses]  # reads: device
"""),
    "through a list that grows": step("""
losses = []
losses.append(loss)
x = losses[-1].item()  # reads: device
y = torch.stack(losses).mean().item()  # reads: device
"""),
    "through zip and enumerate": step("""
for index, (output, target) in enumerate(zip(outputs, labels)):
    x = output.sum().item()  # reads: device
    y = target.item()  # reads: host
"""),
    "through arithmetic": step("x = (0.5 * loss + 1).sqrt().item()  # reads: device"),
    "through arithmetic in place": step("""
total = 0
total += loss
x = total.item()  # reads: device
"""),
    "through functions of torch": step("""
x = torch.cat([outputs, outputs]).softmax(-1).max(1)[1].eq(targets).sum().item()  # reads: device
values, indices = torch.topk(outputs, 5)
y = indices.tolist()  # reads: device
"""),
    "through a comparison of a part of the batch": step("""
x = (targets != 0).sum().item()  # reads: device
y = (targets == outputs.argmax(1)).float().mean().item()  # reads: device
z = (labels > 0).sum().item()  # reads: host
"""),
    "through `*_like` and `new_*`": step("""
drawn = torch.normal(outputs, 0.1).sum().item()  # reads: device
copied = torch.tensor(torch.normal(outputs, 0.1)).sum().item()  # reads: device
alone = torch.normal(0.0, 0.1, (2, 3)).sum().item()  # reads: host
x = torch.zeros_like(outputs).sum().item()  # reads: device
y = outputs.new_zeros(3).sum().item()  # reads: device
z = torch.ones_like(labels).sum().item()  # reads: host
"""),
    "through a chained comparison into a branch": step("""
correct = outputs.argmax(1).eq(targets).sum()
accuracy = correct / len(targets)
if accuracy > 0.9:  # reads: device, syncs: branch
    x = 1
"""),
    "through a branch that moves it": step("""
noise = torch.randn(3)
if torch.cuda.is_available():
    noise = noise.cuda()
x = noise.sum().item()  # reads: device
"""),
    "through a walrus": step("x = (norm := outputs.norm()).item()  # reads: device"),
    "through detach, clone and data": step("x = loss.detach().clone().data.item()  # reads: device"),
    "of gradients": step("x = model[1].weight.grad.norm().item()  # reads: device"),
    "of parameters": step("x = next(model.parameters()).norm().item()  # reads: device"),
    "of a clipped norm": step("x = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()  # reads: device"),
    "overwritten by a host value": step("""
value = loss
value = 3.0
x = float(value)  # syncs: none
"""),
    "by the device of another tensor": step("""
x = images.to(outputs.device).sum().item()  # reads: device
y = torch.arange(3, device=outputs.device).sum().item()  # reads: device
z = torch.arange(3).to(outputs).sum().item()  # reads: device
w = torch.tensor(3.0, device=inputs.device).item()  # reads: device
"""),
    "by another tensor that was made on the host": step("""
x = outputs.to(torch.zeros(3))  # reads: device, syncs: copy
"""),
    "by a tensor that may have moved": step("""
x = outputs.to(model[0].weight)  # syncs: none
"""),
    "by the device of the model's parameters": step("""
where = next(model.parameters()).device
x = labels.to(where).sum().item()  # reads: device
"""),
    "through a reduction over ranks": step("""
import torch.distributed as dist
total = loss.detach().clone()
dist.all_reduce(total)
x = total.item()  # reads: device
"""),
    "through a sum over a dict of losses": step("""
losses = {'a': loss, 'b': loss * 2}
total = sum(losses.values())
x = total.item()  # reads: device
y = sum(value for value in losses.values()).item()  # reads: device
"""),
    "through a sorted or filtered list": step("""
values = sorted([loss, loss * 2], key=lambda value: value)
x = values[0].item()  # reads: device
y = [value for value in (loss, None) if value is not None][0].item()  # reads: device
"""),
    "through a ternary and an or": step("""
value = loss if len(images) > 3 else loss * 2
x = value.item()  # reads: device
y = (None or loss).item()  # reads: device
"""),
    "through getattr and setattr of an instance": step("""
class State:
    pass
state = State()
setattr(state, 'loss', loss)
x = getattr(state, 'loss').item()  # reads: device
"""),
    "through a try": step("""
try:
    value = loss * 2
except RuntimeError:
    value = None
x = value.item()  # reads: device
"""),
    "through a tensor's new device by copy": step("""
host = torch.zeros(3)
host.copy_(outputs[0, :3])
x = host.sum().item()  # reads: host
"""),
    "into numpy and back": step("""
array = outputs.detach().cpu().numpy()  # reads: device
x = array.argmax(1).tolist()  # syncs: none
y = torch.from_numpy(array).to(device).sum().item()  # reads: device
"""),
    "deleted and made again": step("""
value = loss
del value
value = labels.sum()
x = value.item()  # reads: host
"""),
}

CALLS = {
    "through parameters and returns": plain("""
        def double(value):
            return value * 2

        def read(value):
            return value.item()  # reads: device

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            x = read(double(loss))
            print(double(loss).item())  # reads: device
            print(double(labels).sum().item())  # reads: host
            print(double(3))  # syncs: none
        """),
    "through defaults and keywords": plain("""
        def log(step, *, loss=None, name="loss"):
            if loss is not None:
                print(name, loss.item())  # reads: device

        for step, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            log(step, loss=loss)
        """),
    "through *args and **kwargs": plain("""
        def log(*values, **named):
            print(values[0].item())  # reads: device
            for name, value in named.items():
                print(name, value.item())  # reads: device

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            log(loss, total=loss)
        """),
    "through a returned tuple and a returned dict": plain("""
        def compute(images, labels):
            outputs = model(images)
            loss = criterion(outputs, labels)
            return loss, {"accuracy": (outputs.argmax(1) == labels).float().mean(), "size": len(images)}

        for images, labels in train_loader:
            loss, metrics = compute(images.to(device), labels.to(device))
            loss.backward()
            optimizer.step()
            print(metrics["accuracy"].item())  # reads: device
            print(metrics["size"])  # syncs: none
        """),
    "through attributes of self": plain("""
        class Trainer:
            def __init__(self, model, device):
                self.model = model
                self.device = device
                self.loss = None
                self.count = 0

            def train(self):
                for images, labels in train_loader:
                    self.images = images.to(self.device)
                    self.labels = labels
                    self.step()
                    self.count += 1
                    self.report()

            def step(self):
                self.loss = criterion(self.model(self.images), self.labels.to(self.device))
                self.loss.backward()
                optimizer.step()

            def report(self):
                print(self.loss.item())  # reads: device
                print(self.labels.sum().item())  # reads: host
                print(self.count, f"{self.count}")  # syncs: none

        Trainer(model, device).train()
        """),
    "through a meter that keeps what it is given": plain("""
        class AverageMeter:
            def __init__(self):
                self.sum = 0.0
                self.count = 0

            def update(self, value, n=1):
                self.sum += value * n
                self.count += n

        meter = AverageMeter()
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            meter.update(loss.item(), images.size(0))  # syncs: read
            print(meter.sum / meter.count)  # syncs: none
        """),
    "a meter that is given tensors": plain("""
        class AverageMeter:
            def __init__(self):
                self.sum = 0.0

            def update(self, value):
                self.sum += value.detach()

        meter = AverageMeter()
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            meter.update(loss)  # syncs: none
        print(meter.sum.item())  # runs: once setup
        """),
    "a meter that reads what it is given": plain("""
        class SmoothedValue:
            def update(self, value):
                if isinstance(value, torch.Tensor):
                    value = value.item()  # runs: per-step training, reads: device
                self.last = value

        class MetricLogger:
            def __init__(self):
                self.meters = {}

            def update(self, **values):
                for name, value in values.items():
                    if isinstance(value, torch.Tensor):
                        value = value.item()  # runs: per-step training, reads: device
                    self.meters[name] = value

        value, logger = SmoothedValue(), MetricLogger()
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            value.update(loss)
            logger.update(loss=loss, lr=0.1)
        """),
    "a meter that reads tensors, given a number only": plain("""
        class SmoothedValue:
            def update(self, value):
                if isinstance(value, torch.Tensor):
                    value = value.item()  # reads: host
                self.last = value

        value = SmoothedValue()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            value.update(0.1)
        """),
    "gradient clipping by hand reads every parameter": plain("""
        def clip(parameters, limit):
            for parameter in parameters:
                norm = parameter.grad.data.norm(2)
                ratio = limit / (norm.item() + 1e-6)  # runs: per-step training, reads: device
                if ratio < 1:
                    parameter.grad.data.mul_(ratio)

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            clip(model.parameters(), 1.0)
            optimizer.step()
        """),
    "a helper that moves a whole batch": plain("""
        def to_device(batch, device):
            if isinstance(batch, (list, tuple)):
                return [to_device(item, device) for item in batch]
            if isinstance(batch, dict):
                return {name: to_device(item, device) for name, item in batch.items()}
            return batch.to(device, non_blocking=True)

        for batch in train_loader:
            images, labels = to_device(batch, device)
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(labels.sum().item())  # reads: device
        """),
    "a batch that is a dict": plain("""
        for batch in train_loader:
            batch = {name: value.to(device) for name, value in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            print(loss.item(), batch["labels"].sum().item())  # reads: device
        """),
    "a closure": plain("""
        def main():
            loss = None

            def report():
                print(loss.item())  # reads: device

            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                report()

        main()
        """),
    "a global": plain("""
        last = None

        def train_step(images, labels):
            global last
            last = criterion(model(images), labels)
            last.backward()
            optimizer.step()

        def report():
            print(last.item())  # reads: device

        for images, labels in train_loader:
            train_step(images.to(device), labels.to(device))
            report()
        """),
    "a named tuple and a dataclass": plain("""
        from dataclasses import dataclass
        from typing import NamedTuple

        class Output(NamedTuple):
            loss: torch.Tensor
            size: int

        @dataclass
        class State:
            loss: torch.Tensor
            count: int = 0

        for images, labels in train_loader:
            output = Output(criterion(model(images.to(device)), labels.to(device)), len(images))
            output.loss.backward()
            optimizer.step()
            state = State(output.loss)
            print(output.loss.item())  # reads: device
            print(state.loss.item())  # reads: device
            print(output.size, state.count)  # syncs: none
        """),
}

UNKNOWNS = {
    "a parameter of a function that nothing calls": """
        def show(value):
            return value.item()  # reads: unknown
        """,
    "what an unknown library returns": plain("""
        import elsewhere

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print(elsewhere.measure().item())  # reads: unknown
        """),
    "a script for the CPU": """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader

        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(torch.load("data.pt")):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            print(loss.item())  # syncs: none
        """,
    "a script that names the CPU": """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader

        device = torch.device("cpu")
        model = nn.Linear(8, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(torch.load("data.pt")):
            loss = model(batch.to(device)).sum()
            loss.backward()
            optimizer.step()
            print(loss.item())  # syncs: none
        """,
}

PLACEMENTS = {
    "a model and batches moved by .cuda()": "device = 0\nmodel = nn.Linear(8, 1).cuda()\nmove = lambda x: x.cuda()\n",
    "a device with a fallback": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(device)
move = lambda x: x.to(device)
""",
    "a device string with an index": """
device = "cuda:1"
model = nn.Linear(8, 1).to(device)
move = lambda x: x.to(device)
""",
    "a fallback by an if": """
if torch.cuda.is_available():
    device = torch.device("cuda", 0)
else:
    device = torch.device("cpu")
model = nn.Linear(8, 1).to(device)
move = lambda x: x.to(device)
""",
    "an attribute on the options": """
import argparse
args = argparse.ArgumentParser().parse_args()
args.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(args.device)
move = lambda x: x.to(args.device)
""",
    "the local rank": """
import os
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = nn.Linear(8, 1).to(local_rank)
move = lambda x: x.to(local_rank)
""",
    "a tensor type of the device": """
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
model = nn.Linear(8, 1).cuda()
move = lambda x: x.type(Tensor)
""",
    "a default device": """
torch.set_default_device("cuda")
model = nn.Linear(8, 1)
move = lambda x: x.to("cuda")
""",
    "a helper that chooses the device": """
def get_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")
device = get_device()
model = nn.Linear(8, 1).to(device)
move = lambda x: x.to(device)
""",
    "the device of the parameters": """
model = nn.Linear(8, 1).to("cuda")
device = next(model.parameters()).device
move = lambda x: x.to(device)
""",
    "a model wrapped for several devices": """
model = nn.DataParallel(nn.Linear(8, 1)).cuda()
move = lambda x: x.cuda()
""",
    "a compiled model": """
model = torch.compile(nn.Linear(8, 1).to("cuda"))
move = lambda x: x.to("cuda")
""",
}


@table(READS)
def test_what_waits_for_the_device(files: str) -> None:
    check(files)


@table(HOST)
def test_host_values_cost_nothing(files: str) -> None:
    check(files)


@table(FLOW)
def test_places_follow_values(files: str) -> None:
    check(files)


@table(CALLS)
def test_places_follow_calls_and_attributes(files: str) -> None:
    check(files)


@table(UNKNOWNS)
def test_no_device_value_without_proof(files: str) -> None:
    check(program({"train.py": files}))


@table(PLACEMENTS)
def test_ways_to_choose_the_device(files: str) -> None:
    project = check(placed(files))
    assert entry(project, "train.py").cuda is Known.YES


def test_a_device_option_with_a_default_of_cuda_leaves_the_device_open_at_most() -> None:
    choice = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
model = nn.Linear(8, 1).to(args.device)
move = lambda x: x.to(args.device)
"""
    assert entry(check(placed(choice)), "train.py").cuda is not Known.NO


def placed(choice: str) -> str:
    """A training script whose model and batches go where `choice` says."""
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    loop = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.load("data.pt")):
    loss = model(move(batch)).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())  # reads: device
"""
    return head + choice + loop


@pytest.mark.parametrize(
    ("device", "answers"),
    [("cuda", {Known.YES}), ("cpu", {Known.NO}), ("auto", {Known.UNKNOWN, Known.NO})],
    ids=["cuda", "cpu", "auto"],
)
def test_the_configuration_decides_what_the_text_leaves_open(device: str, answers: set[Known]) -> None:
    text = """import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    model(batch).sum().backward()
    optimizer.step()
"""
    project = analyze({"train.py": text}, LinkOptions(device=device))
    assert entry(project, "train.py").cuda in answers


def test_nothing_lives_on_a_device_where_the_configuration_says_cpu() -> None:
    choice = """
import sys
device = torch.device(sys.argv[1])
model = nn.Linear(8, 1).to(device)
move = lambda batch: batch.to(device)
"""
    reads = {
        device: {sync.value.place for sync in analyze({"train.py": placed(choice)}, LinkOptions(device=device)).syncs}
        for device in ("auto", "cpu")
    }
    assert reads == {"auto": {Place.DEVICE}, "cpu": {Place.HOST}}


SURROUNDINGS = {
    "moved to the device": ("model = nn.Linear(8, 1).cuda()\nbatches = [torch.zeros(8).cuda()]", True, False),
    "moved to a device that an option names": (
        "import sys\nmodel = nn.Linear(8, 1).to(sys.argv[1])\nbatches = [torch.zeros(8)]", True, False,
    ),
    "a default device": (
        "torch.set_default_device('cuda')\nmodel = nn.Linear(8, 1)\nbatches = [torch.zeros(8)]", True, False,
    ),
    "a model of unknown origin": ("from zoo import model\nbatches = [torch.zeros(8)]", True, False),
    "nothing moved": ("model = nn.Linear(8, 1)\nbatches = [torch.zeros(8)]", False, False),
}  # fmt: skip


@pytest.mark.parametrize(("surroundings", "auto", "cpu"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_call_may_wait_for_a_gpu_unless_none_is_used_for_certain(surroundings: str, auto: bool, cpu: bool) -> None:
    text = f"""import torch
from torch import nn
{surroundings}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(batches):
    model(batch).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
"""
    for device, expected in {"auto": auto, "cpu": cpu, "cuda": True}.items():
        (call,) = analyze({"train.py": text}, LinkOptions(device=device)).calls_of("torch.cuda.synchronize")
        assert call.context.may_use_gpu == expected, device


def test_a_read_through_a_project_helper_names_the_call_path() -> None:
    text = plain("""
        def read(value):
            return value.item()

        def train():
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                read(loss)

        train()
        """)
    (sync,) = (sync for sync in analyze({"train.py": text}).syncs if sync.value.place is Place.DEVICE)
    assert [name.rpartition(".")[2] for name in sync.context.path] == ["train", "train", "read"]
    assert sync.context.loop is not None and sync.context.loop.symbol == "train"


def test_functions_that_the_configuration_names_are_sync_points() -> None:
    text = plain("""
        from metrics import fetch

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            fetch(loss)  # runs: per-step training, reads: device
        """)
    check({"train.py": text}, LinkOptions(sync_functions=("fetch",)))


def test_a_sync_point_names_its_text_and_its_operand_as_written() -> None:
    text = step("""
length = outputs.argmax()
x = outputs[:, :length]
y = (loss + 1).item()
""")
    syncs = analyze({"train.py": text}).syncs
    assert [(sync.text, sync.operand) for sync in syncs] == [
        ("outputs[:, :length]", "length"),
        ("(loss + 1).item()", "loss + 1"),
    ]


def test_a_model_that_is_moved_after_it_was_wrapped_takes_its_parameters_along() -> None:
    text = """
import torch
from torch import nn

model = nn.DataParallel(nn.Linear(4, 4)).cuda()
for batch in loader:
    model(batch.cuda()).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if norm > 100:  # runs: per-step training, reads: device
        pass
"""
    check({"train.py": text})


def test_pinning_is_a_call_on_the_tensor() -> None:
    (call,) = analyze({"train.py": step("x = images.pin_memory()")}).calls_of("torch.Tensor.pin_memory")
    assert isinstance(call.receiver, Tensor)
    assert (call.receiver.place, call.context.hot) == (Place.HOST, True)


EARLY_READS = {
    "read at once": ("x = loss.to('cpu', non_blocking=True); y = x.item()", 1),
    "reduced on the host at once": ("x = outputs.to('cpu', non_blocking=True).mean()", 1),
    "seen through a view": ("x = outputs.to('cpu', non_blocking=True).detach().numpy()", 1),
    "formatted": ("x = loss.to('cpu', non_blocking=True); print(f'{x}')", 1),
    "a copy that blocks": ("x = loss.to('cpu').item()", 0),
    "only kept": ("kept = [loss.to('cpu', non_blocking=True)]", 0),
    "after a synchronization": ("x = loss.to('cpu', non_blocking=True); torch.cuda.synchronize(); y = x.item()", 0),
    "after an event": ("x = loss.to('cpu', non_blocking=True); event.synchronize(); y = x.item()", 0),
    "after a read that stands in line behind it": (
        "x = loss.to('cpu', non_blocking=True); z = loss.item(); x.item()",
        0,
    ),
    "after a call that may wait": ("x = loss.to('cpu', non_blocking=True); drain(); y = x.item()", 0),
    "a tensor that may be on the host": ("x = given.to('cpu', non_blocking=True).item()", 0),
}


@pytest.mark.parametrize(("body", "count"), EARLY_READS.values(), ids=EARLY_READS)
def test_what_is_read_before_its_copy_has_arrived(body: str, count: int) -> None:
    assert len(analyze({"train.py": step(body)}).early_reads) == count


@pytest.mark.parametrize(
    ("device", "may_be_mps"),
    [
        ("'cuda'", False),
        ("torch.device('mps')", True),
        ("'cuda' if torch.cuda.is_available() else 'mps'", True),
        ("torch.device('mps' if torch.backends.mps.is_available() else 'cpu')", True),
        ("torch.device('xpu')", False),
    ],
)
def test_a_transfer_tells_whether_it_may_go_to_an_apple_gpu(device: str, may_be_mps: bool) -> None:
    text = plain(f"""
    for images, labels in train_loader:
        x = images.to({device})
    """)
    (move,) = analyze({"train.py": text}).transfers
    assert move.may_be_mps is may_be_mps


MOVES = {
    ".cuda()": (True, True),
    '.to("cuda")': (True, True),
    ".to(device)": (True, True),
    '.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))': (True, True),
    '.to("cuda:0")': (True, False),
    '.to(torch.device("cuda", 1))': (True, False),
    ".cuda(rank)": (True, False),
    ".to(rank)": (True, False),
    '.to(torch.device(f"cuda:{rank}"))': (True, False),
    '.to("cpu")': (False, False),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_model_that_is_moved_is_recorded_with_its_device(move: str) -> None:
    script = plain(f"rank = int(os.environ['RANK'])\nteacher = nn.Linear(8, 1){move}\nloss = nn.MSELoss().cuda()")
    placements = analyze({"train.py": "import os\n" + script}).placements
    told = [(one.device.cuda, one.device.bare) for one in placements if one.text.startswith("nn.Linear")]
    assert told == [MOVES[move]]
    assert not any("MSELoss" in one.text for one in placements)


DEVICE_CHOICES = {
    "torch.cuda.set_device(rank)": True,
    "with torch.cuda.device(rank): model.cuda()": True,
    "torch.accelerator.set_device_index(rank)": True,
    "torch.distributed.init_process_group(device_id=torch.device(device, rank))": True,
    "torch.distributed.device_mesh.init_device_mesh('cuda', (8,))": True,
    'os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)': True,
    'task = os.environ["SLURM_LOCALID"]': True,
    'task = os.environ.get("OMPI_COMM_WORLD_RANK")': True,
    "def unused(): torch.cuda.set_device(rank)": True,
    "torch.distributed.init_process_group('nccl')": False,
    'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"': False,
    'task = os.environ["LOCAL_RANK"]': False,
}


@pytest.mark.parametrize("statement", DEVICE_CHOICES)
def test_what_tells_a_process_which_gpu_is_its_own(statement: str) -> None:
    script = "import os\nimport torch.distributed\nrank = int(os.environ['RANK'])\n" + plain(statement)
    assert entry(analyze({"train.py": script}), "train.py").chooses_device is DEVICE_CHOICES[statement]


UPLOADS = {
    "torch.tensor(0.5, device=device)": ("torch.tensor", True),
    "torch.tensor([1, 2], device=outputs.device)": ("torch.tensor", True),
    "torch.as_tensor(len(images), torch.float, device)": ("torch.as_tensor", True),
    "torch.asarray(2.0, device='cuda')": ("torch.asarray", True),
    "outputs.new_tensor(3.0)": ("torch.Tensor.new_tensor", True),
    "torch.tensor(0.5, device=elsewhere.device)": ("torch.tensor", False),
    "torch.tensor(0.5, device='cpu')": None,
    "torch.tensor(0.5)": None,
    "torch.tensor(outputs, device=device)": None,
    "torch.full((), 0.5, device=device)": None,
    "images.new_tensor(3.0)": None,
}


@pytest.mark.parametrize("expression", UPLOADS)
def test_values_that_a_factory_copies_to_the_device_are_recorded(expression: str) -> None:
    uploads = analyze({"train.py": step(f"x = {expression}")}).uploads
    expected = UPLOADS[expression]
    assert [(one.name, one.device_proved) for one in uploads] == ([] if expected is None else [expected])
    assert all(one.context.hot for one in uploads)


NUMPY_CALLS = {
    "of what was on the device": ("x = np.percentile(outputs.detach().cpu().numpy(), 90)", True),
    "of parts and products of it": (
        "a = outputs.to('cpu').numpy()\nx = np.percentile(2 * a[0].astype(float), 90)",
        True,
    ),
    "of what numpy made of it": ("x = np.sort(np.abs(loss.cpu().numpy()))", True),
    "of a batch that is on the host": ("x = np.percentile(images.numpy(), 90)", False),
    "of shapes": ("x = np.prod(outputs.shape)", False),
    "of what may be on the host": ("x = np.percentile(fetch(loss).cpu().numpy(), 90)", False),
}


@pytest.mark.parametrize(("body", "expected"), NUMPY_CALLS.values(), ids=NUMPY_CALLS.keys())
def test_calls_of_numpy_are_recorded_where_the_device_computed_what_they_are_given(body: str, expected: bool) -> None:
    project = analyze({"train.py": "import numpy as np\n" + step(body)})
    assert any(call.name.startswith("numpy.") for call in project.calls) is expected


ENVIRONMENT = {
    'os.environ["MASTER_PORT"] = "29500"': False,
    'os.environ.update({"MASTER_PORT": "29500"})': False,
    'os.putenv("MASTER_PORT", "29500")': False,
    'os.environ.setdefault("MASTER_PORT", "29500")': True,
}


@pytest.mark.parametrize("statement", ENVIRONMENT)
def test_a_setting_of_the_environment_tells_whether_it_is_a_fallback(statement: str) -> None:
    (setting,) = analyze({"train.py": "import os\n" + plain(statement)}).environment
    assert (setting.name, setting.fallback) == ("MASTER_PORT", ENVIRONMENT[statement])


ON_CUDA = {
    "nothing": "",
    "a question": "torch.cuda.is_available()",
    "a loss": "criterion = nn.MSELoss().cuda()",
    "a device of the user's choice": "nn.Linear(8, 8).to(args.device)",
    "a model": "nn.Linear(8, 8).cuda()",
    "a model, with a fallback": 'nn.Linear(8, 8).to("cuda" if torch.cuda.is_available() else "cpu")',
    "a tensor": "torch.ones(8).cuda()",
    "a tensor that is made there": 'torch.ones(8, device="cuda")',
    "in a function": "def place():\n    return torch.ones(8).cuda()\n\n\nplace()",
    "in a branch": "if args.fast:\n    torch.ones(8).cuda()",
    "in a function that nothing calls": "def place():\n    return torch.ones(8).cuda()",
    "in a callback": "def place():\n    return torch.ones(8).cuda()\n\n\natexit.register(place)",
    "in another process": "def place(rank):\n    return torch.ones(8).cuda()\n\n\ntorch.multiprocessing.spawn(place)",
}
HOLDS_MEMORY = {
    *("a model", "a model, with a fallback", "a tensor", "a tensor that is made there", "in a function"),
}


@pytest.mark.parametrize("before", ON_CUDA)
def test_a_setting_of_the_environment_tells_whether_the_gpu_holds_something_already(before: str) -> None:
    head = "import atexit\nimport os\n\nimport torch\nfrom torch import nn\n\nfrom options import args\n\n"
    text = f'{head}{ON_CUDA[before]}\nos.environ["NAME"] = "1"\n'
    (setting,) = analyze({"train.py": text}).environment
    assert setting.after_cuda is (before in HOLDS_MEMORY)


ORDERS = {
    "the same branch": ("if args.fast:\n    model.cuda()\n    {setting}", True),
    "the other branch": ("if args.fast:\n    model.cuda()\nelse:\n    {setting}", False),
    "the other way round": ("{setting}\nmodel.cuda()", False),
    "a loop": ("for _ in range(3):\n    {setting}\n    model.cuda()", False),
    "a function that is called later": ("def tune():\n    {setting}\n\n\nmodel.cuda()\ntune()", True),
    "a function that is called before": ("def tune():\n    {setting}\n\n\ntune()\nmodel.cuda()", False),
    "a handler": ("try:\n    model.cuda()\nexcept RuntimeError:\n    {setting}", True),
}


@pytest.mark.parametrize(("order", "expected"), ORDERS.values(), ids=ORDERS.keys())
def test_what_runs_before_a_setting_under_the_same_conditions_counts(order: str, expected: bool) -> None:
    head = "import os\n\nimport torch\n\nfrom options import args\n\nmodel = torch.nn.Linear(8, 8)\n"
    text = head + order.format(setting='os.environ["NAME"] = "1"') + "\n"
    assert [one.after_cuda for one in analyze({"train.py": text}).environment] == [expected]


def test_a_setting_that_an_imported_module_makes_comes_with_the_import() -> None:
    train = "import torch\n\nmodel = torch.nn.Linear(8, 8).cuda()\nimport settings\n"
    settings = 'import os\n\nos.environ["NAME"] = "1"\n'
    assert [one.after_cuda for one in analyze({"train.py": train, "settings.py": settings}).environment] == [False]


def test_a_gradient_that_is_detached_in_place_is_a_call() -> None:
    body = "for parameter in model.parameters():\n    parameter.grad.detach_()\n    parameter.detach_()"
    calls = analyze({"train.py": step(body)}).calls_of("torch.Tensor.detach_")
    assert [call.text for call in calls] == ["parameter.grad.detach_()"]


CHOSEN = {
    "by where the tensor lives": "on_gpu if loss.is_cuda else on_host",
    "by whether there is a GPU": "on_gpu if torch.cuda.is_available() else on_host",
    "the other way round": "on_host if not torch.cuda.is_available() else on_gpu",
}


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN.keys())
def test_the_function_for_the_host_is_not_called_with_what_lives_on_the_gpu(chosen: str) -> None:
    head = (
        "import torch\n\ndef on_gpu(value):\n    return value.square()\n\n"
        "def on_host(value):\n    if value > 0:\n        return value.item()\n\n"
    )
    project = analyze({"train.py": head + step(f"reduce = {chosen}\nreduce(loss.detach())")})
    assert project.syncs == []


def test_of_two_functions_for_the_gpu_either_may_be_called() -> None:
    head = (
        "import torch\n\ndef exactly(value):\n    return value.square()\n\n"
        "def plainly(value):\n    return value.item()\n\n"
    )
    project = analyze({"train.py": head + step("reduce = exactly if args.exact else plainly\nreduce(loss.detach())")})
    assert [sync.text for sync in project.syncs] == ["value.item()"]
