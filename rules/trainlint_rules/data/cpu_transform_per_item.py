from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import CONFIRMED_SHARE, judge_share, judge_stacks
from trainlint.probe.verdict import Source, Status, Verdict
from trainlint.semantics.project import Loader, Project, Transformation
from trainlint.semantics.vocabulary import GuardKind, Known, Place

ON_THE_GPU = (
    "Do it to whole batches on the GPU: `torchvision.transforms.v2`, or `kornia.augmentation` to draw per image"
)

KEEPS_SIZE = frozenset(
    {
        *("Normalize", "ColorJitter", "GaussianBlur", "GaussianNoise", "ElasticTransform", "RandomErasing"),
        *("RandomRotation", "RandomAffine", "RandomPerspective", "RandomInvert", "RandomPosterize", "RandomSolarize"),
        *("RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize", "RandomPhotometricDistort"),
        *("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "RandomSharpness", "RandomMotionBlur"),
        *("Rotate", "Affine", "ShiftScaleRotate", "Perspective", "MotionBlur", "RandomBrightnessContrast"),
        *("HueSaturationValue", "Equalize", "Posterize", "Solarize", "Sharpen"),
    }
)
"""Transforms that leave an image as large as it is, and that torchvision or kornia computes for a batch on the GPU."""
FLIPS = frozenset(
    {
        *("RandomHorizontalFlip", "RandomVerticalFlip", "HorizontalFlip", "VerticalFlip"),
        *("Grayscale", "RandomGrayscale", "ToGray"),
    }
)
"""Of the same kind, and too cheap on the CPU to be worth a change by themselves."""
RESIZES = frozenset({"Resize", "RandomResizedCrop", "RandomCrop", "CenterCrop", "Pad"})
"""Transforms that can be computed for a batch if all images come in one size."""
GIVES_SIZE = frozenset({"RandomResizedCrop", "RandomCrop", "CenterCrop"})
"""Transforms after which all images have one size."""
CONVERTS = frozenset(
    {"ToTensor", "PILToTensor", "ToImage", "ToPILImage", "ConvertImageDtype", "ToDtype", "ToPureTensor", "ToTensorV2"}
)
"""What turns an image into another type, at either side of the others."""
ONE_SIZE = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "SVHN", "STL10", "USPS")
)
"""Datasets whose images all have one size."""


class CpuTransformPerItem(Rule):
    """Images are normalized, resized or augmented one by one on the CPU, which the GPU could do to whole batches.

    ## What it does
    Reports pipelines of torchvision, albumentations or kornia through which a dataset puts its images one by one, for
    a loader that feeds training on the GPU, and names the transforms in them that could be computed for a batch: those
    that come once all images have one size, such as `ColorJitter` and `Normalize` after a crop. `Resize` is among them
    where the dataset's images have one size to begin with.

    ## Why it is slow
    The loader's workers have a few cores, and each image takes its time on one of them. The GPU does the same to a
    batch in a few kernels, which costs next to nothing where it would otherwise wait. An image that is normalized on
    the GPU can also travel there in bytes, a quarter of what its floats take, and one that is enlarged there travels in
    its own size.

    ## When it is fine
    Where the workers keep up anyway, which is why the rule is not in the default set. Decoding, and crops and resizes
    that first give images of different sizes one size: without it there is no batch. Flips alone, which cost little.
    Boxes and points that have to follow the image. Evaluation.

    ## Example
    ```python
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.ColorJitter(0.4, 0.4, 0.4),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ])
    loader = DataLoader(ImageFolder("train", transform=transform), batch_size=256, num_workers=8)
    ```

    ## Use instead
    ```python
    to_size = v2.Compose([v2.RandomResizedCrop(224), v2.PILToTensor()])
    on_gpu = nn.Sequential(K.ColorJitter(0.4, 0.4, 0.4), K.Normalize(MEAN, STD))
    loader = DataLoader(ImageFolder("train", transform=to_size), batch_size=256, num_workers=8, pin_memory=True)
    for images, labels in loader:
        images = on_gpu(images.cuda(non_blocking=True).float() / 255)
    ```

    ## Fix safety
    Advice without edits. Other random numbers are drawn; torchvision draws once for all images of a batch, kornia once
    for each. Evaluation needs its own normalization on the GPU as well, and pixels that are interpolated as floats
    differ a little from those of PIL.

    ## How the probe confirms it
    By stack samples under the line that calls the pipeline, in the loader's workers or in the training thread, together
    with the share of the step that waits for data. Of a dataset of torchvision no line of the job does so: then a step
    that does not wait for data clears it, and one that does leaves it open.

    ## References
    - CPU preprocessing (resize, normalize): move to the GPU what can be moved (article 003).
    - torchvision, transforms, which take batches of tensors and draw alike for all images of one:
      https://docs.pytorch.org/vision/stable/transforms.html
    - Lightning, GPU and batched data augmentation with Kornia:
      https://lightning.ai/docs/pytorch/stable/notebooks/lightning_examples/augmentation_kornia.html
    """

    code, name, family = "TL119", "cpu-transform-per-item", Family.DATA
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "stack samples in the workers under this line; data wait share"
    examples = (
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms
            from torchvision.models import resnet50

            transform = transforms.Compose([  # expect: TL119
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ColorJitter(0.4, 0.4, 0.4),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ])
            loader = DataLoader(
                datasets.ImageFolder("train", transform=transform), batch_size=256, num_workers=8, pin_memory=True
            )
            model = resnet50().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="what comes after the crop, in a dataset of torchvision",
        ),
        invalid(
            """
            import albumentations as A
            import cv2
            import torch
            from albumentations.pytorch import ToTensorV2
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Scans(Dataset):
                def __init__(self, paths, transform=None):
                    self.paths = paths
                    self.transform = transform

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    image = cv2.imread(self.paths[index])
                    if self.transform is not None:
                        image = self.transform(image=image)["image"]  # expect: TL119
                    return image


            training = A.Compose([A.Resize(512, 512), A.Rotate(30), A.GaussianBlur(), A.Normalize(), ToTensorV2()])
            loader = DataLoader(Scans(open("paths.txt").read().split(), training), batch_size=16, num_workers=8)
            model = nn.Sequential(nn.Conv2d(3, 64, 7), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="where the dataset's own code calls the pipeline",
        ),
        invalid(
            """
            import torch
            import torchvision
            from torch.utils.data import DataLoader, Subset
            from torchvision.transforms import v2

            transform = v2.Compose([v2.Resize(224), v2.ToImage(), v2.ToDtype(torch.float32)])  # expect: TL119
            dataset = torchvision.datasets.CIFAR10("data", train=True, transform=transform)
            loader = DataLoader(Subset(dataset, range(10_000)), batch_size=128, shuffle=True, num_workers=4)
            model = torchvision.models.vit_b_16(num_classes=10).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="images that all have one size are enlarged before they travel",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from photos import Photos
            from pipelines import training_transform

            loader = DataLoader(Photos(torch.load("paths.pt"), training_transform(128)), batch_size=64, num_workers=8)
            model = nn.Sequential(nn.Conv2d(3, 64, 7), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="pipeline and dataset are in other files",
            others={
                "pipelines.py": """
                from torchvision import transforms as T


                def training_transform(size):
                    steps = [T.RandomCrop(size)]
                    steps.append(T.RandomApply([T.GaussianBlur(5)], p=0.5))
                    steps.append(T.RandAugment())
                    steps.append(T.ToTensor())
                    return T.Compose(steps)
                """,
                "photos.py": """
                from PIL import Image
                from torch.utils.data import Dataset


                class Photos(Dataset):
                    def __init__(self, paths, transform):
                        self.paths, self.transform = paths, transform

                    def __len__(self):
                        return len(self.paths)

                    def load(self, path):
                        return self.transform(Image.open(path).convert("RGB"))  # expect: TL119

                    def __getitem__(self, index):
                        return self.load(self.paths[index])
                """,
            },
        ),
        valid(
            """
            import kornia.augmentation as K
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets
            from torchvision.models import resnet50
            from torchvision.transforms import v2

            to_size = v2.Compose([v2.RandomResizedCrop(224), v2.PILToTensor()])
            on_gpu = nn.Sequential(K.ColorJitter(0.4, 0.4, 0.4), K.Normalize(0.5, 0.25))
            loader = DataLoader(datasets.ImageFolder("train", transform=to_size), batch_size=256, num_workers=8)
            model = resnet50().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = on_gpu(images.cuda().float() / 255)
                loss = torch.nn.functional.cross_entropy(model(images), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the workers only decode and crop",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms
            from torchvision.models import resnet50


            @torch.no_grad()
            def evaluate(model, loader):
                model.eval()
                hits = 0
                for images, labels in loader:
                    hits += (model(images.cuda()).argmax(1) == labels.cuda()).sum()
                return hits


            transform = transforms.Compose([
                transforms.Resize(256),
                transforms.CenterCrop(224),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ])
            loader = DataLoader(datasets.ImageFolder("val", transform=transform), batch_size=256, num_workers=8)
            print(evaluate(resnet50().cuda(), loader))
            """,
            because="an evaluation",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms
            from torchvision.models import resnet18

            transform = transforms.Compose([
                transforms.Resize(256),
                transforms.RandomCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
            ])
            loader = DataLoader(datasets.ImageFolder("train", transform=transform), batch_size=256, num_workers=8)
            model = resnet18().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="images of different sizes have to be cropped before they make a batch; flips cost little",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset
            from torchvision import transforms

            transform = transforms.Compose([
                transforms.Resize((64, 64)),
                transforms.ToTensor(),
                transforms.Normalize((0.5,), (0.5,)),
            ])
            images = torch.stack([transform(Image.open(path)) for path in open("paths.txt").read().split()])
            loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for (inputs,) in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each image once, ahead of training",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.13,), (0.31,))])
            loader = DataLoader(datasets.MNIST("data", transform=transform), batch_size=64, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
            optimizer = torch.optim.AdamW(model.parameters())
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no GPU is there to do it",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(784, 10)

                def training_step(self, batch, batch_idx):
                    images, labels = batch
                    return nn.functional.cross_entropy(self.body(images.flatten(1)), labels)

                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters())


            transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.13,), (0.31,))])
            loader = DataLoader(datasets.MNIST("data", transform=transform), batch_size=64, num_workers=2)
            L.Trainer(max_epochs=3, accelerator="cpu").fit(Net(), loader)
            """,
            because="the Trainer is told to stay on the CPU",
        ),
        valid(
            """
            import albumentations as A
            import cv2
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Boxes(Dataset):
                def __init__(self, paths, boxes):
                    self.paths, self.boxes = paths, boxes
                    self.transform = A.Compose(
                        [A.RandomCrop(512, 512), A.Affine(), A.ColorJitter()],
                        bbox_params=A.BboxParams(format="coco"),
                    )

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    image = cv2.imread(self.paths[index])
                    return self.transform(image=image, bboxes=self.boxes[index])


            loader = DataLoader(Boxes(*torch.load("boxes.pt")), batch_size=8, num_workers=8, collate_fn=list)
            model = nn.Sequential(nn.Conv2d(3, 64, 7), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for samples in loader:
                images = torch.stack([torch.from_numpy(sample["image"]) for sample in samples]).cuda()
                loss = model(images.permute(0, 3, 1, 2).float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="boxes follow the image",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision import transforms


            class Faces(Dataset):
                def __init__(self, paths, split):
                    self.paths, self.split = paths, split
                    self.training = transforms.Compose([transforms.RandomResizedCrop(112), transforms.ToTensor()])
                    self.evaluation = transforms.Compose(
                        [transforms.CenterCrop(112), transforms.ColorJitter(), transforms.ToTensor()]
                    )

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    image = Image.open(self.paths[index])
                    if self.split == "val":
                        return self.evaluation(image)
                    return self.training(image)


            loader = DataLoader(Faces(open("faces.txt").read().split(), "train"), batch_size=64, num_workers=4)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 112 * 112, 128)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the pipeline of the other split is for evaluation",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if loader.trains and _feeds_gpu(loader):
                for transformation in loader.transformations:
                    found = _could_move(loader, transformation)
                    if found:
                        yield self._at(loader, transformation, found)

    def _at(self, loader: Loader, transformation: Transformation, movable: list[str]) -> Finding:
        pipeline = transformation.pipeline
        *others, last = (f"`{name}`" for name in dict.fromkeys(movable))
        names = f"{', '.join(others)} and {last}" if others else last
        return self.finding(
            loader,
            f"{quote(transformation.text or pipeline.text)} computes {names} on the CPU, image by image",
            help=ON_THE_GPU,
            site=transformation.site or pipeline.site,
            related=(
                RelatedSite(pipeline.site, "the pipeline is made here"),
                RelatedSite(loader.site, "this loader feeds the training"),
            ),
        )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, ON_THE_GPU)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        if any(line in evidence.stacks for line in evidence.lines(finding.site)):
            return judge_stacks(evidence, finding.site)
        note = "no stack sample holds this line; what a dataset of torchvision calls shows under none of the job's"
        loader = evidence.loader_at(related.site for related in finding.related)
        if loader is None or loader.data_wait_share >= CONFIRMED_SHARE:
            return Verdict(Status.INCONCLUSIVE, note=note)
        # whatever the transforms take, the step does not wait for it
        wait = loader.data_wait_share
        return judge_share(evidence, None, wait, metric="data wait", source=Source.AGENT, unmeasured=note)


def _feeds_gpu(loader: Loader) -> bool:
    meant = not loader.context.under(GuardKind.DEBUG, GuardKind.NOT_DEVICE)
    moved = any(one.target is Place.DEVICE and one.may_be_cuda and one.device_is_known for one in loader.transfers)
    by_framework = loader.prepared_by is not None and loader.feeds_cuda is Known.YES
    return meant and (moved or by_framework) and loader.item_place is not Place.DEVICE


def _could_move(loader: Loader, transformation: Transformation) -> list[str]:
    """The transforms of a pipeline, by name, that the images of a batch could go through together."""
    one_size = transformation.dataset in ONE_SIZE
    has_size = one_size or loader.arguments.absent("collate_fn")
    found: list[str] = []
    for step in transformation.pipeline.steps:
        name = step.rpartition(".")[2]
        if name in KEEPS_SIZE or name in FLIPS or (one_size and name in RESIZES):
            found.append(name)
        elif name not in CONVERTS:
            # images may come out of it in another size than that of the batch
            found, has_size = [], has_size or name in GIVES_SIZE
    return [name for name in found if name not in FLIPS] if has_size else []
