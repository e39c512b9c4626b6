from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import NormalizedConvolution, Project
from trainlint.semantics.vocabulary import Known


class ConvBiasBeforeNorm(Rule):
    """A convolution adds a bias that the batch normalization behind it takes away.

    ## What it does
    Reports convolutions with a bias in models that are trained, where all of the output goes to a batch normalization
    at once: beside each other in an `nn.Sequential`, or called as `self.norm(self.conv(x))`.

    ## Why it is slow
    Batch normalization subtracts the mean of each channel, and the bias with it. The bias is still added in the
    forward pass, its gradient is a sum over the whole output in the backward pass, and the optimizer keeps and updates
    it, all for nothing.

    ## When it is fine
    A normalization whose statistics are frozen while the convolution is trained; weights to be loaded that come with
    the bias.

    ## Example
    ```python
    block = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    ```

    ## Use instead
    ```python
    block = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    ```

    ## Fix safety
    Unsafe: checkpoints hold one entry less, other random numbers follow the initialization of the layer, and code that
    reads the layer's `bias` finds None. Where such code is seen in the model or the script, the fix is advice only.

    ## How the probe confirms it
    It does not: the finding follows from the code alone. What the bias costs, a run without it tells, compared with one
    with it.

    ## References
    - PyTorch performance tuning guide, "Disable bias for convolutions directly followed by a batch norm":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL416", "conv-bias-before-norm", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.UNSAFE
    default = False
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1),  # expect: TL416
                nn.BatchNorm2d(64),
                nn.ReLU(inplace=True),
                nn.Conv2d(64, 64, 3, padding=1),
                nn.Flatten(),
                nn.LazyLinear(10),
            ).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="layers in a row; no normalization follows the second convolution",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1, bias=False),
                nn.BatchNorm2d(64),
                nn.ReLU(inplace=True),
                nn.Conv2d(64, 64, 3, padding=1),
                nn.Flatten(),
                nn.LazyLinear(10),
            ).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            import torch.nn as nn
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            class BasicBlock(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    self.conv1 = nn.Conv2d(planes, planes, kernel_size=3, padding=1)  # expect: TL416
                    self.bn1 = nn.BatchNorm2d(planes)
                    self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=True)  # expect: TL416
                    self.bn2 = nn.BatchNorm2d(planes)
                    self.shortcut = nn.Conv2d(planes, planes, kernel_size=1)

                def forward(self, x):
                    out = F.relu(self.bn1(self.conv1(x)))
                    out = self.conv2(out)
                    out = self.bn2(out)
                    return F.relu(out + self.shortcut(x))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.blocks = nn.Sequential(*[BasicBlock(64) for _ in range(4)])
                    self.head = nn.Linear(64, 10)

                def forward(self, x):
                    return self.head(self.blocks(x).mean((2, 3)))


            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for images, labels in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = F.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a block of the model normalizes what two of its convolutions give",
            fixed="""
            import torch
            import torch.nn as nn
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            class BasicBlock(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    self.conv1 = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=False)
                    self.bn1 = nn.BatchNorm2d(planes)
                    self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=False)
                    self.bn2 = nn.BatchNorm2d(planes)
                    self.shortcut = nn.Conv2d(planes, planes, kernel_size=1)

                def forward(self, x):
                    out = F.relu(self.bn1(self.conv1(x)))
                    out = self.conv2(out)
                    out = self.bn2(out)
                    return F.relu(out + self.shortcut(x))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.blocks = nn.Sequential(*[BasicBlock(64) for _ in range(4)])
                    self.head = nn.Linear(64, 10)

                def forward(self, x):
                    return self.head(self.blocks(x).mean((2, 3)))


            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for images, labels in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = F.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            from torch import nn


            def make_layers(widths):
                layers, channels = [], 3
                for width in widths:
                    layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(True)]
                    channels = width
                return layers


            def make_features(widths):
                layers = []
                channels = 3
                for width in widths:
                    layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width)]  # expect: TL416
                    layers.append(nn.ReLU(inplace=True))
                    channels = width
                layers.append(nn.MaxPool2d(2))
                return nn.Sequential(*layers)


            class VGG(nn.Module):
                def __init__(self, widths):
                    super().__init__()
                    self.features = make_features(widths)
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.features(images).flatten(1))
            """,
            because="the model in another file, a list of layers that is made piece by piece",
            entry="models.py",
            others={
                "train.py": """
                import torch
                from torch.utils.data import DataLoader

                from models import VGG


                def main():
                    model = VGG([64, 128, 256]).cuda()
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    loader = DataLoader(torch.load("images.pt"), batch_size=64)
                    for epoch in range(90):
                        for images in loader:
                            loss = model(images.cuda()).square().mean()
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()


                if __name__ == "__main__":
                    main()
                """
            },
            fixed="""
            from torch import nn


            def make_layers(widths):
                layers, channels = [], 3
                for width in widths:
                    layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(True)]
                    channels = width
                return layers


            def make_features(widths):
                layers = []
                channels = 3
                for width in widths:
                    layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
                    layers.append(nn.ReLU(inplace=True))
                    channels = width
                layers.append(nn.MaxPool2d(2))
                return nn.Sequential(*layers)


            class VGG(nn.Module):
                def __init__(self, widths):
                    super().__init__()
                    self.features = make_features(widths)
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.features(images).flatten(1))
            """,
        ),
        invalid(
            """
            from collections import OrderedDict

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Generator(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.main = nn.Sequential(
                        OrderedDict(
                            [
                                ("up1", nn.ConvTranspose2d(100, size, 4, 1, 0)),  # expect: TL416
                                ("norm1", nn.BatchNorm2d(size)),
                                ("relu1", nn.ReLU(True)),
                                ("up2", nn.ConvTranspose2d(size, 3, 4, 2, 1)),
                                ("tanh", nn.Tanh()),
                            ]
                        )
                    )
                    self.apply(self.start)

                @staticmethod
                def start(module):
                    if isinstance(module, nn.ConvTranspose2d):
                        nn.init.normal_(module.weight, 0.0, 0.02)
                        nn.init.zeros_(module.bias)

                def forward(self, noise):
                    return self.main(noise)


            generator = Generator(64).cuda()
            optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
            for noise in DataLoader(torch.load("noise.pt"), batch_size=128):
                loss = generator(noise.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="layers with names; the start of the weights sets the bias, so the fix is advice only",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.Flatten(), nn.LazyLinear(10)
            ).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no bias",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Sequential(
                nn.Conv2d(3, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.Conv2d(64, 64, 3), nn.GroupNorm(8, 64)
            ).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an activation in between, and groups of channels that share a mean",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self, planes, normalize=True, bias=True):
                    super().__init__()
                    self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=bias)
                    self.norm1 = nn.BatchNorm2d(planes)
                    self.conv2 = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm2 = nn.BatchNorm2d(planes) if normalize else nn.Identity()
                    self.conv3 = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm3 = nn.BatchNorm2d(planes)
                    if not normalize:
                        self.norm3 = nn.Identity()

                def forward(self, x):
                    x = torch.relu(self.norm1(self.conv1(x)))
                    x = torch.relu(self.norm2(self.conv2(x)))
                    return torch.relu(self.norm3(self.conv3(x)))


            model = Block(64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="parameters of the block decide",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    self.conv = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm = nn.BatchNorm2d(planes)
                    self.shared = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm_shared = nn.BatchNorm2d(planes)

                def forward(self, x):
                    y = self.conv(x)
                    z = self.norm(y)
                    return self.norm_shared(self.shared(z)) + y

                def features(self, x):
                    return self.shared(x)


            model = Block(64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean() + model.features(images.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the outputs of the convolutions are used without the normalization as well",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision.ops import FrozenBatchNorm2d


            class Block(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    self.conv = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm = FrozenBatchNorm2d(planes)
                    self.project = nn.Conv2d(planes, planes, 1)
                    self.instance = nn.InstanceNorm2d(planes)

                def forward(self, x):
                    x = torch.relu(self.norm(self.conv(x)))
                    return self.instance(self.project(x))


            model = Block(64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="another normalization, or statistics that do not follow the batch",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Block(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    self.conv = nn.Conv2d(planes, planes, 3, padding=1)
                    self.norm = nn.BatchNorm2d(planes)

                def forward(self, x):
                    return torch.relu(self.norm(self.conv(x)))


            model = Block(64).eval()
            model.load_state_dict(torch.load("block.pt"))
            with torch.no_grad():
                print(model(torch.load("image.pt")).argmax())
            """,
            because="nothing is trained",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self, planes):
                    super().__init__()
                    layers = [nn.Conv2d(planes, planes, 3, padding=1), nn.BatchNorm2d(planes)]
                    self.layers = nn.ModuleList(layers)

                def forward(self, x):
                    return x + self.layers[0](x) * self.layers[1](x)


            model = Block(64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="layers in a list need not run one after the other",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for convolution in project.normalized_convolutions:
            if convolution.bias is Known.YES and convolution.context.entry.trains:
                yield self.finding(
                    convolution,
                    f"{quote(convolution.text)} adds a bias that the batch normalization behind it subtracts again",
                    help="Pass bias=False",
                    related=(RelatedSite(convolution.normalization, "the batch normalization that takes its output"),),
                )

    def fix(self, finding: Finding) -> Fix | None:
        subject = finding.subject
        if isinstance(subject, NormalizedConvolution) and subject.bias_needed:
            advice = "Pass bias=False, and leave the bias out where weights are initialized"
            return Fix(Applicability.DISPLAY, advice)
        return Fix(Applicability.UNSAFE, "Pass bias=False", (SetArgument(finding.site, "bias", "False"),))
