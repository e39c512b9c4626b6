"""Where the rows of an earlier text are by now, as far as that is certain.

What is known of a row holds for as long as the row stays as it is, wherever edits around it move it. Equal rows tell
nothing of which is which, so a row counts as found only where no other way to line the texts up is as good.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from trainlint.source.positions import LineIndex

_DIGEST_BYTES = 8


def row_digests(index: LineIndex) -> tuple[str, ...]:
    """A digest of each row of a text, spacing included, line ends not."""
    return tuple(row_digest(index.line(row)) for row in range(1, index.rows + 1))


def row_digest(line: str) -> str:
    """The digest of one row, given without its end."""
    return blake2b(line.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def rows_now(before: Sequence[str], now: Sequence[str]) -> dict[int, int]:
    """For each row of the text before, from 1, that is certainly still there: which row it is now.

    Args:
        before: the digests of its rows.
        now: those of the text as it is.
    """
    return {row + 1: row_now + 1 for row, row_now in _matched(before, now, 0, len(before), 0, len(now))}


def _matched(
    before: Sequence[str], now: Sequence[str], start: int, end: int, start_now: int, end_now: int
) -> Iterator[tuple[int, int]]:
    """Match two stretches from both ends, then around the rows that each has once."""
    if before[start:end] == now[start_now:end_now]:
        yield from zip(range(start, end), range(start_now, end_now), strict=True)
        return
    shorter = min(end - start, end_now - start_now)
    head = _equal(before[start + step] == now[start_now + step] for step in range(shorter))
    tail = _equal(before[end - 1 - step] == now[end_now - 1 - step] for step in range(shorter))
    # Where both reach for the same rows, as after one of two equal neighbours was removed, nobody knows which it was.
    disputed = max(0, head + tail - shorter)
    head, tail = head - disputed, tail - disputed
    yield from ((start + step, start_now + step) for step in range(head))
    yield from ((end - 1 - step, end_now - 1 - step) for step in range(tail))
    if head == tail == disputed == 0:
        yield from _around_anchors(before, now, start, end, start_now, end_now)
    elif not disputed:
        yield from _matched(before, now, start + head, end - tail, start_now + head, end_now - tail)


def _equal(rows: Iterator[bool]) -> int:
    """How many are equal before the first that is not."""
    count = 0
    for is_equal in rows:
        if not is_equal:
            break
        count += 1
    return count


def _around_anchors(
    before: Sequence[str], now: Sequence[str], start: int, end: int, start_now: int, end_now: int
) -> Iterator[tuple[int, int]]:
    """Match the rows that each stretch has once and that kept their order, then what lies between them."""
    places, counts = _once(before, start, end)
    places_now, counts_now = _once(now, start_now, end_now)
    both = [digest for digest in places if counts[digest] == 1 == counts_now[digest]]
    anchors = _in_order([(places[digest], places_now[digest]) for digest in both])
    if not anchors:
        return
    yield from anchors
    for (left, left_now), (right, right_now) in zip(
        [(start - 1, start_now - 1), *anchors], [*anchors, (end, end_now)], strict=True
    ):
        if right - left > 1 and right_now - left_now > 1:
            yield from _matched(before, now, left + 1, right, left_now + 1, right_now)


def _once(rows: Sequence[str], start: int, end: int) -> tuple[dict[str, int], Counter[str]]:
    return {rows[place]: place for place in range(start, end)}, Counter(rows[start:end])


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, which are ordered by their first items, in which the second ones rise, too."""
    ends: list[int] = []
    last: list[int] = []
    """For each length, the pair that such a run ends in at the lowest."""
    previous: list[int] = []
    for position, (_, place_now) in enumerate(pairs):
        length = bisect_left(ends, place_now)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place_now]
        last[length : length + 1] = [position]
    run: list[tuple[int, int]] = []
    position = last[-1] if last else -1
    while position >= 0:
        run.append(pairs[position])
        position = previous[position]
    return run[::-1]
