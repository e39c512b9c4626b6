"""Generated cooking recipes and a word-level tokenizer for them."""

import random
import re

PAD, UNKNOWN, END = 0, 1, 2

VERBS = ("chop", "fry", "boil", "bake", "stir", "peel", "rinse", "season")
THINGS = ("the onions", "two carrots", "a handful of rice", "the dough", "three eggs", "the mushrooms", "some butter")
MANNERS = ("slowly", "for ten minutes", "until golden", "over low heat", "with a little salt", "and set aside")


def make_recipes(count: int, seed: int) -> list[str]:
    chooser = random.Random(seed)
    return [
        " then ".join(
            f"{chooser.choice(VERBS)} {chooser.choice(THINGS)} {chooser.choice(MANNERS)}"
            for _ in range(chooser.randint(3, 8))
        )
        + "."
        for _ in range(count)
    ]


class Tokenizer:
    """Words and punctuation marks, numbered in alphabetical order."""

    def __init__(self, texts: list[str]):
        words = sorted({word for text in texts for word in self.tokenize(text)})
        self.vocabulary = {word: number for number, word in enumerate(words, start=END + 1)}

    def __len__(self) -> int:
        return len(self.vocabulary) + END + 1

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", text.lower())

    def encode(self, text: str) -> list[int]:
        return [self.vocabulary.get(word, UNKNOWN) for word in self.tokenize(text)] + [END]
