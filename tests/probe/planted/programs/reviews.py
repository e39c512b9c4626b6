"""Short reviews, and a tokenizer that splits them into learned pieces."""

import itertools
import random
import re
from collections import Counter

PAD, UNKNOWN = 0, 1
WORD = re.compile(r"\w+|[^\w\s]")
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]


def make_reviews(count, words=40, seed=0):
    """Pairs of a text of up to `words` words and a label."""
    chance = random.Random(seed)
    lexicon = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 5))) for _ in range(400)]
    return [(" ".join(chance.choices(lexicon, k=chance.randint(words // 2, words))), n % 2) for n in range(count)]


class Tokenizer:
    """Splits text into words and words into learned pieces; called as the tokenizers of Hugging Face are."""

    def __init__(self, texts, merges=100):
        words = Counter(word for text in texts for word in WORD.findall(text))
        pieces = {word: list(word) for word in words}
        self.ranks = {}
        for rank in range(merges):
            pairs = Counter()
            for word, count in words.items():
                for pair in itertools.pairwise(pieces[word]):
                    pairs[pair] += count
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.ranks[best] = rank
            pieces = {word: merge(parts, best) for word, parts in pieces.items()}
        known = {character for word in words for character in word} | {left + right for left, right in self.ranks}
        self.vocabulary = {piece: number for number, piece in enumerate(sorted(known), start=UNKNOWN + 1)}

    def __len__(self):
        return len(self.vocabulary) + UNKNOWN + 1

    def encode(self, text):
        ids = []
        for word in WORD.findall(text):
            parts = list(word)
            while len(parts) > 1:
                pair = min(itertools.pairwise(parts), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if pair not in self.ranks:
                    break
                parts = merge(parts, pair)
            ids.extend(self.vocabulary.get(part, UNKNOWN) for part in parts)
        return ids

    def __call__(self, texts, padding=False, truncation=False, max_length=None):
        rows = [self.row(text, padding, truncation, max_length) for text in texts]
        return {"input_ids": [ids for ids, _ in rows], "attention_mask": [mask for _, mask in rows]}

    def row(self, text, padding, truncation, max_length):
        ids = self.encode(text)
        if truncation and max_length is not None:
            ids = ids[:max_length]
        mask = [1] * len(ids)
        if padding == "max_length" and max_length is not None:
            missing = max_length - len(ids)
            ids, mask = ids + [PAD] * missing, mask + [0] * missing
        return ids, mask


def merge(parts, pair):
    merged = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged
