"""Generated reviews of books and films, each friendly (1) or not (0)."""

import random

SUBJECTS = ("the film", "this book", "the second act", "its ending", "the dialogue", "every chapter", "the camera work")
PRAISE = ("a delight", "wonderfully paced", "moving and precise", "full of surprises", "worth every minute")
BLAME = ("a chore", "hopelessly slow", "confused and loud", "without a single idea", "a waste of an evening")
FILLERS = (
    "I had not expected that",
    "my neighbour said the same",
    "nobody left before the end",
    "we talked about it on the way home",
)


def make_reviews(count: int, seed: int) -> list[tuple[str, int]]:
    chooser = random.Random(seed)
    reviews = []
    for _ in range(count):
        label = chooser.randrange(2)
        sentences = []
        for _ in range(chooser.randint(2, 6)):
            opinion = chooser.choice(PRAISE if label else BLAME)
            sentences.append(f"{chooser.choice(SUBJECTS)} was {opinion}; {chooser.choice(FILLERS)}.")
        reviews.append((" ".join(sentences), label))
    return reviews
