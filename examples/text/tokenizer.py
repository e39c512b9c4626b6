"""A small byte-pair tokenizer, learned from the texts themselves."""

import itertools
import re
from collections import Counter

PAD, UNKNOWN = 0, 1
WORD = re.compile(r"\w+|[^\w\s]")


class Tokenizer:
    """Splits text into words and words into learned pieces; called as the tokenizers of Hugging Face are."""

    def __init__(self, merges: list[tuple[str, str]], vocabulary: dict[str, int]):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.vocabulary = vocabulary

    @classmethod
    def learn(cls, texts: list[str], merges: int = 120) -> "Tokenizer":
        """Learn the `merges` most frequent pairs of neighbouring pieces."""
        words = Counter(word for text in texts for word in WORD.findall(text.lower()))
        pieces = {word: list(word) for word in words}
        learned = []
        for _ in range(merges):
            pairs = Counter()
            for word, count in words.items():
                for pair in itertools.pairwise(pieces[word]):
                    pairs[pair] += count
            if not pairs:
                break
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            learned.append(best)
            pieces = {word: merge(parts, best) for word, parts in pieces.items()}
        known = {character for word in words for character in word} | {left + right for left, right in learned}
        return cls(learned, {piece: number for number, piece in enumerate(sorted(known), start=UNKNOWN + 1)})

    def __len__(self) -> int:
        return len(self.vocabulary) + UNKNOWN + 1

    def tokenize(self, text: str) -> list[str]:
        tokens = []
        for word in WORD.findall(text.lower()):
            parts = list(word)
            while len(parts) > 1:
                pair = min(itertools.pairwise(parts), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if pair not in self.ranks:
                    break
                parts = merge(parts, pair)
            tokens.extend(parts)
        return tokens

    def encode(self, text: str) -> list[int]:
        return [self.vocabulary.get(token, UNKNOWN) for token in self.tokenize(text)]

    def __call__(self, text: str, padding=False, max_length=None) -> dict[str, list[int]]:
        """Encode `text`; with padding="max_length", fill up to `max_length` with the pad token."""
        ids = self.encode(text)
        mask = [1] * len(ids)
        if padding == "max_length" and max_length is not None:
            missing = max_length - len(ids)
            ids, mask = ids + [PAD] * missing, mask + [0] * missing
        return {"input_ids": ids, "attention_mask": mask}


def merge(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """Join each occurrence of `pair` in `parts`."""
    joined = []
    index = 0
    while index < len(parts):
        if index + 1 < len(parts) and (parts[index], parts[index + 1]) == pair:
            joined.append(parts[index] + parts[index + 1])
            index += 2
        else:
            joined.append(parts[index])
            index += 1
    return joined
