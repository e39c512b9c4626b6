from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import Const, Reference, Tensor
from trainlint.semantics.vocabulary import Confidence, GuardKind

CAST = "torch.Tensor.type"
DTYPES = {
    "torch.Tensor": "torch.float32",
    "torch.FloatTensor": "torch.float32",
    "torch.DoubleTensor": "torch.float64",
    "torch.HalfTensor": "torch.float16",
    "torch.BFloat16Tensor": "torch.bfloat16",
    "torch.ByteTensor": "torch.uint8",
    "torch.CharTensor": "torch.int8",
    "torch.ShortTensor": "torch.int16",
    "torch.IntTensor": "torch.int32",
    "torch.LongTensor": "torch.int64",
    "torch.BoolTensor": "torch.bool",
}
"""The dtype of each legacy type of tensors on the host."""


class LegacyTensorType(Rule):
    """A legacy tensor type takes GPU values to the host at every training step.

    ## What it does
    Reports `.type(torch.LongTensor)` and kin on a tensor that lives on the device, and `torch.FloatTensor([…])` of such
    tensors, per training step.

    ## Why it is slow
    `torch.LongTensor` is not only a data type: it is the type of tensors on the CPU. Casting to it copies the tensor to
    the host, for which the host waits until the GPU has computed it; as a rule it is copied back a line later. A list
    of GPU tensors is read one by one.

    ## When it is fine
    Tensors that are on the host, as before `.to(device)`; evaluation, every N steps; `torch.cuda.LongTensor`, which
    stays on the device.

    ## Example
    ```python
    labels = labels.to(device)
    labels = labels.type(torch.LongTensor)
    loss = criterion(outputs, labels.to(device))
    ```

    ## Use instead
    ```python
    labels = labels.to(device)
    loss = criterion(outputs, labels.long())
    ```
    `torch.stack([…])` makes one tensor of several without reading them.

    ## Fix safety
    Unsafe: the result lives on the device, so that code which expects it on the host (`.numpy()`) fails. Lists get
    advice only.

    ## How the probe confirms it
    By the copies that this line issues, from a GPU trace.

    ## References
    - Copies between host and device are a bottleneck from 20 % of the step on (article 001).
    - PyTorch, data types and their tensor types on CPU and GPU: https://docs.pytorch.org/docs/stable/tensor_attributes.html
    - PyTorch, avoid unnecessary CPU-GPU synchronization:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code, name, family = "TL417", "legacy-tensor-type", Family.COMPUTE
    fix_class = Applicability.UNSAFE
    confirmed_by = "copies from this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                inputs, labels = inputs.cuda(), labels.cuda()
                labels = labels.type(torch.LongTensor)  # expect: TL417
                loss = nn.functional.cross_entropy(model(inputs), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="to the host and back, for another type",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                inputs, labels = inputs.cuda(), labels.cuda()
                labels = labels.type(torch.int64)
                loss = nn.functional.cross_entropy(model(inputs), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Masked(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 10)

                def forward(self, inputs):
                    mask = (inputs > 0).type("torch.FloatTensor")  # expect: TL417
                    return self.layer(inputs * mask.to(inputs.device))


            model = Masked().to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.to("cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="in forward, the type given as text",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Masked(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 10)

                def forward(self, inputs):
                    mask = (inputs > 0).type(torch.float32)
                    return self.layer(inputs * mask.to(inputs.device))


            model = Masked().to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.to("cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
        ),
        invalid(
            """
            import torch


            def accuracy(outputs, labels):
                correct = outputs.argmax(1).eq(labels)
                return correct.type(torch.FloatTensor).mean()  # expect: TL417            """,
            because="in a helper of another file",
            entry="metrics.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from metrics import accuracy

                model = nn.Linear(32, 10).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                    labels = labels.cuda()
                    outputs = model(inputs.cuda())
                    loss = nn.functional.cross_entropy(outputs, labels)
                    score = accuracy(outputs, labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()                """
            },
            fixed="""
            import torch


            def accuracy(outputs, labels):
                correct = outputs.argmax(1).eq(labels)
                return correct.type(torch.float32).mean()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                outputs = model(inputs.cuda())
                fit = nn.functional.cross_entropy(outputs, labels.cuda())
                size = outputs.square().mean()
                parts = torch.FloatTensor([fit, size])  # expect: TL417
                optimizer.zero_grad()
                (fit + size).backward()
                optimizer.step()            """,
            because="each tensor of the list is read",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                labels = labels.type(torch.LongTensor)
                loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="the labels are on the host still",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                inputs, labels = inputs.cuda(), labels.cuda()
                labels = labels.type(torch.int64)
                weights = inputs.mean(1).type(torch.cuda.FloatTensor)
                loss = (nn.functional.cross_entropy(model(inputs), labels.long(), reduction="none") * weights).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="types that leave the tensor on the device",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            use_cuda = torch.cuda.is_available()
            Tensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
            model = nn.Linear(32, 1)
            if use_cuda:
                model.cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.type(Tensor)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="the type of the device in use",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                weights = model.weight.detach().type(torch.FloatTensor)
                torch.save(weights, "weights.pt")            """,
            because="once per epoch, to write it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            model.eval()
            with torch.no_grad():
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    print(model(inputs.cuda()).type(torch.FloatTensor).argmax(1))            """,
            because="inference, whose results are wanted on the host",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                loss = nn.functional.cross_entropy(model(inputs), labels.type(torch.LongTensor))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="training on a CPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, (inputs, labels) in enumerate(DataLoader(torch.load("pairs.pt"), batch_size=64)):
                outputs = model(inputs.cuda())
                loss = nn.functional.cross_entropy(outputs, labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print(outputs.type(torch.FloatTensor).argmax(1))            """,
            because="every hundred steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                lengths = torch.LongTensor([len(row) for row in inputs])
                loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()            """,
            because="made of Python numbers",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(CAST, *DTYPES):
            on_the_hot_path = call.context.hot and call.context.routine
            if on_the_hot_path and not call.context.under(GuardKind.NOT_DEVICE):
                yield self.finding(
                    call,
                    f"{quote(call.text)} copies GPU values to the host {call.context.frequency.phrase}",
                    help="Name a dtype, which leaves the tensor where it is"
                    if call.name == CAST
                    else "Use torch.stack, which stays on the device",
                    confidence=_confidence(call),
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        assert isinstance(call, Call)
        if call.name != CAST:
            return Fix(Applicability.DISPLAY, "Make one tensor of them on the device: `torch.stack([…])`")
        dtype = DTYPES[_type_named(call)]
        recipes = (SetArgument(call.site, "dtype", dtype, position=0), EnsureImport(call.site, "torch"))
        return Fix(Applicability.UNSAFE, f"Cast to {dtype}", recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_copies(evidence, finding.site)


def _type_named(call: Call) -> str:
    target = call.arguments.positional[0]
    if isinstance(target, Reference):
        return target.name
    assert isinstance(target, Const)
    return str(target.value)


def _confidence(call: Call) -> Confidence:
    proved = call.receiver.proved if isinstance(call.receiver, Tensor) else True
    return Confidence.HIGH if proved else Confidence.MEDIUM
