"""Pipelines of transforms as values, and the loaders whose items go through them."""

from __future__ import annotations

import inspect

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import Project

HEAD = """
import albumentations as A
import kornia.augmentation as K
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split
from torchvision import datasets, transforms
from torchvision.transforms import v2

from elsewhere import anything


def invert(image):
    return 1 - image


class Images(Dataset):
    def __init__(self, paths, transform=None, split="train"):
        self.paths, self.transform, self.split, self.kept = paths, transform, split, {}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = self.load(index)
        BODY
        return image


class Own(Images):
    def __init__(self, paths, augment=True):
        self.paths = paths
        if augment:
            self.transform = transforms.Compose([transforms.RandomCrop(32), transforms.ColorJitter()])
        else:
            self.transform = transforms.Compose([transforms.CenterCrop(32)])


paths = open("paths.txt").read().split()
pipeline = transforms.Compose([transforms.RandomCrop(32), transforms.ToTensor()])
"""
APPLY = "if self.transform is not None: image = self.transform(image)"

MADE = {
    "transforms.Compose([transforms.Resize(32), transforms.ToTensor()])": ["Resize", "ToTensor"],
    "v2.Compose([v2.ToImage(), v2.RandomApply([v2.ColorJitter()], p=0.5), v2.RandAugment()])": [
        "ToImage",
        "ColorJitter",
        "RandAugment",
    ],
    "transforms.Compose(transforms=[transforms.ToTensor()])": ["ToTensor"],
    "transforms.Compose([transforms.Compose([transforms.ToTensor()]), transforms.Normalize(0, 1)])": [
        "ToTensor",
        "Normalize",
    ],
    "transforms.ToTensor()": ["ToTensor"],
    "A.Compose([A.OneOf([A.GaussianBlur(), A.MotionBlur()]), A.Normalize()])": [
        "GaussianBlur",
        "MotionBlur",
        "Normalize",
    ],
    "K.AugmentationSequential(K.ColorJitter(0.1), K.RandomAffine(10))": ["ColorJitter", "RandomAffine"],
    "transforms.Compose([invert, transforms.ToTensor()])": ["", "ToTensor"],
    "transforms.Compose([transforms.Lambda(invert), transforms.ToTensor()])": ["Lambda", "ToTensor"],
    "transforms.Compose(anything)": [""],
    "transforms.Compose([*anything, transforms.ToTensor()])": ["", "ToTensor"],
    "A.Compose([A.Affine()], bbox_params=anything)": [""],
}

THROUGH = {
    "a dataset of a library": "datasets.ImageFolder('images', transform=pipeline)",
    "by position": "datasets.ImageFolder('images', pipeline)",
    "a dataset of the project": "Images(paths, pipeline)",
    "a part of it": "Subset(datasets.CIFAR10('data', transform=pipeline), range(100))",
    "a part of one of the project": "Subset(Images(paths, pipeline), range(100))",
    "several joined": "ConcatDataset([datasets.CIFAR10('data', transform=pipeline), datasets.SVHN('data')])",
    "split": "random_split(datasets.CIFAR10('data', transform=pipeline), [0.9, 0.1])[0]",
}

NOT_THROUGH = {
    "none": "Images(paths)",
    "for targets": "datasets.CIFAR10('data', target_transform=pipeline)",
    "unknown": "Images(paths, anything())",
    "in memory": "[pipeline(path) for path in paths]",
    "perhaps unknown": "Images(paths, pipeline if anything() else anything())",
    "one of two": "Images(paths, pipeline if anything() else transforms.ToTensor())",
    "one of two that it makes itself": "Own(paths)",
    "one of two, for a library": "datasets.ImageFolder('a', pipeline if anything() else transforms.ToTensor())",
    "for a test": "datasets.CIFAR10('data', train=False, transform=pipeline)",
    "for another split": "datasets.SVHN('data', split='test', transform=pipeline)",
}

SELDOM = {
    "in evaluation": "if self.split == 'val': image = self.transform(image)",
    "kept": "if index not in self.kept: self.kept[index] = self.transform(image)",
    "on some condition": "if anything(): image = self.transform(image)",
    "while debugging": "if self.debug: image = self.transform(image)",
}


def project(dataset: str, body: str = APPLY, before: str = "") -> Project:
    source = HEAD.replace("BODY", body) + f"{before}\nloader = DataLoader({dataset}, batch_size=8)\n"
    return analyze({"train.py": source})


@pytest.mark.parametrize(("made", "steps"), MADE.items(), ids=MADE.keys())
def test_a_pipeline_knows_its_steps(made: str, steps: list[str]) -> None:
    ((found,),) = [loader.transformations for loader in project(f"Images(paths, {made})").loaders]
    assert [step.rpartition(".")[2] for step in found.pipeline.steps] == steps


def test_the_steps_of_a_list_that_is_filled_are_known_in_order() -> None:
    filled = "steps = [transforms.RandomCrop(32)]\nsteps.append(v2.ColorJitter())\nsteps += [transforms.ToTensor()]"
    ((found,),) = [
        one.transformations for one in project("Images(paths, transforms.Compose(steps))", before=filled).loaders
    ]
    assert [step.rpartition(".")[2] for step in found.pipeline.steps] == ["RandomCrop", "ColorJitter", "ToTensor"]


@pytest.mark.parametrize("dataset", THROUGH.values(), ids=THROUGH.keys())
def test_the_items_of_a_loader_go_through_the_pipeline_of_its_dataset(dataset: str) -> None:
    ((found,),) = [loader.transformations for loader in project(dataset).loaders]
    assert found.pipeline.text.startswith("transforms.Compose(")


@pytest.mark.parametrize("dataset", NOT_THROUGH.values(), ids=NOT_THROUGH.keys())
def test_they_go_through_none_that_is_not_known(dataset: str) -> None:
    assert [loader.transformations for loader in project(dataset).loaders] == [()]


@pytest.mark.parametrize("body", SELDOM.values(), ids=SELDOM.keys())
def test_a_pipeline_that_few_items_go_through_does_not_count(body: str) -> None:
    assert [loader.transformations for loader in project("Images(paths, pipeline)", body).loaders] == [()]


def test_the_call_in_the_project_is_named_and_the_dataset_of_a_library() -> None:
    ((own,),) = [loader.transformations for loader in project("Images(paths, pipeline)").loaders]
    ((library,),) = [loader.transformations for loader in project("datasets.ImageFolder('a', pipeline)").loaders]
    assert (own.text, own.dataset) == ("self.transform(image)", "")
    assert own.site is not None
    assert own.site.symbol == "Images.__getitem__"
    assert (library.site, library.dataset) == (None, "torchvision.datasets.ImageFolder")


def test_each_loader_has_the_pipeline_of_its_own_dataset() -> None:
    made = inspect.cleandoc("""
        other = transforms.Compose([transforms.CenterCrop(32)])
        first = DataLoader(Images(paths, pipeline))
        second = DataLoader(Images(paths, other))
        """)
    found = project("Images(paths, other) if paths else Images(paths, pipeline)", before=made).loaders
    assert [[one.pipeline.steps[0].rpartition(".")[2] for one in loader.transformations] for loader in found] == [
        ["RandomCrop"],
        ["CenterCrop"],
        ["CenterCrop", "RandomCrop"],
    ]


def test_what_is_made_for_evaluation_is_not_what_a_model_trains_on() -> None:
    made = inspect.cleandoc("""
        def transform_for(train):
            if train:
                return anything()
            return transforms.Compose([transforms.CenterCrop(32)])


        def images_for(train):
            if train:
                return datasets.ImageFolder("train", pipeline)
            return datasets.ImageFolder("val", transforms.Compose([transforms.CenterCrop(32)]))


        first = DataLoader(Images(paths, transform_for(True)))
        """)
    first, second = (loader.transformations for loader in project("images_for(True)", before=made).loaders)
    assert first == ()
    assert [one.pipeline.steps[0].rpartition(".")[2] for one in second] == ["RandomCrop"]


def test_two_loaders_of_one_dataset_share_its_pipeline() -> None:
    made = "images = Images(paths, pipeline)\nfirst = DataLoader(images)"
    assert [len(loader.transformations) for loader in project("images", before=made).loaders] == [1, 1]
