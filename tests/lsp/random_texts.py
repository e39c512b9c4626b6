"""Random edits with all that is hard about text."""

from __future__ import annotations

from random import Random

PIECES = (
    "x",
    "(",
    ")",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "    ",
    "\f",
    "\x0b",
    "\x1c",
    "\u2028",
    "\x85",
    "é",
    "e\u0301",
    "名前",
    "🙂",
    "👩\u200d👩\u200d👧",
    "\u202e",
    "\ufeff",
    "#",
    '"',
    "'''",
    "\\",
    "\\\n",
    "print(loss.item())\n",
    "    history.append(float(loss))  # 名前 🙂\n",
    '    größe = "🙂é"; history.append(float(loss))\n',
    "# trainlint: ignore[TL201] 🙂\n",
    "for step in range(3):\n    pass\n",
)
LONE = ("\ud83d", "\ude42")
"""Halves of a pair, which JSON can carry."""


def splice(random: Random, text: str, *, lone: bool = False) -> tuple[int, int, str]:
    """Any part of the text, mostly a short one, and what takes its place. A line end of two characters is one place:
    editors do not edit between them."""
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 0, 0, 0, 1, 2, 5, 40)))
    start, end = _outside(text, start), _outside(text, end)
    pieces = PIECES + LONE if lone else PIECES
    new = "".join(random.choice(pieces) for _ in range(random.choice((0, 1, 1, 1, 2, 3))))
    # Nor do they make one out of two that were apart.
    if (new or text[end : end + 1])[:1] == "\n" and text[:start].endswith("\r"):
        new = f" {new}"
    if new.endswith("\r") and text[end : end + 1] == "\n":
        new += " "
    # A byte order mark is the file's and not the text's: editors keep it to themselves.
    if start == 0 and (new + text[end:]).startswith("\ufeff"):
        new = f"x{new}"
    return start, end, new


def _outside(text: str, at: int) -> int:
    return at - 1 if 0 < at < len(text) and text[at - 1 : at + 1] == "\r\n" else at
