"""What a submission does, as a small picture: how its requests arrive, epochs of a training, bricks of models, spans.

An open loop's requests stand at the moments that its own arrival process draws (seed 1): Poisson arrivals look like
Poisson arrivals. Data in, lines out; what is wrong with a submission is the editor's to say, and is drawn as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inferbench_tasks.arrivals.base import ARRIVALS, ArrivalProcess
from inferbench_tasks.errors import InferBenchError

WIDTH, HEIGHT = 62, 44
#: Moments of a steady process; bins of one that changes; lanes of users or models; epochs at most.
_MOMENTS, _BINS, _LANES, _EPOCHS = 22, 24, 5, 8
#: Moments further apart than in so long a time have no picture.
_LONGEST_S = 1e6
#: An arrival process that changes with time is drawn with so many requests at most.
_MOST_REQUESTS = 200_000


@dataclass(frozen=True)
class Drawing:
    """``strong`` and ``pale``: SVG paths to be filled, in ``WIDTH`` x ``HEIGHT``; ``words``: what they show."""

    words: str
    strong: str = ""
    pale: str = ""


def drawing(submission: Mapping[str, Any]) -> Drawing:
    """Of a submission as plain values."""
    kind = str(submission.get("kind", "serving"))
    if draw := _KINDS.get(kind):
        return draw(submission)
    if submission.get("trace") is not None:
        return _spans("requests followed down to their layers")
    if submission.get("evaluate") is not None:
        return _marks()
    load = submission.get("load")
    return _arrivals(load) if isinstance(load, dict) else Drawing("no load")


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"


def _arrivals(load: Mapping[str, Any]) -> Drawing:
    given = load.get("arrivals")
    arrivals = given if isinstance(given, dict) else {}
    kind = str(arrivals.get("kind", ""))
    if draw := _ARRIVALS.get(kind):
        return draw(arrivals)
    try:
        process = TypeAdapter(ARRIVALS.load(kind)).validate_python(arrivals)
        duration_s = float(load.get("duration_s", 10.0))
        if process.loop == "closed":
            return _users(arrivals)
        return _moments(kind, process) if process.stationary else _rate(kind, process, duration_s)
    except (InferBenchError, ValidationError, ValueError, TypeError, ArithmeticError, OSError):
        return Drawing(f"{kind or 'unknown'} arrivals")


def _moments(kind: str, process: ArrivalProcess) -> Drawing:
    """A stroke for each of the first requests of a steady process, over the time that so many take on average."""
    import numpy as np

    rate_rps = process.mean_rate_rps(1.0)
    if not rate_rps or _MOMENTS / rate_rps > _LONGEST_S:
        return Drawing(f"{kind} arrivals")
    span_s = _MOMENTS / rate_rps
    offsets_s = process.offsets_ns(span_s, np.random.default_rng(1)) / 1e9
    strokes = [_box(2 + 56 * at / span_s, 8, 1.4, 28) for at in offsets_s.tolist() if at < span_s]
    return Drawing(f"{kind} arrivals", "".join(strokes), _box(0, 36, WIDTH, 1))


def _rate(kind: str, process: ArrivalProcess, duration_s: float) -> Drawing:
    """How many requests leave in each part of a load that changes with time."""
    import numpy as np

    rate_rps = process.mean_rate_rps(duration_s)
    if not rate_rps or rate_rps * duration_s > _MOST_REQUESTS:
        return Drawing(f"{kind} arrivals")
    offsets_s = process.offsets_ns(duration_s, np.random.default_rng(1)) / 1e9
    counts, _ = np.histogram(offsets_s, _BINS, (0.0, duration_s))
    return Drawing(f"{kind} arrivals", _columns(counts.tolist()))


def _columns(values: Sequence[float]) -> str:
    most, wide = max(values, default=0) or 1, WIDTH / max(1, len(values))
    return "".join(
        _box(index * wide, 42 - 38 * value / most, wide - 0.4, 38 * value / most)
        for index, value in enumerate(values)
        if value
    )


def _users(arrivals: Mapping[str, Any]) -> Drawing:
    """A lane for each user: the next request leaves when the last one is answered."""
    asked = arrivals.get("concurrency", 1)
    count = asked if isinstance(asked, int) and asked > 0 else 1
    lanes = min(count, _LANES)
    high = min(9.0, 40 / lanes - 2)
    strong: list[str] = []
    pale: list[str] = []
    for lane in range(lanes):
        y, x = 22 - lanes * (high + 2) / 2 + lane * (high + 2) + 1, float(-(lane * 7 % 11))
        for index in range(9):
            wide = 8 + (lane * 5 + index * 3) % 7
            left, right = max(0.0, x), min(float(WIDTH), x + wide)
            if right - left > 1:
                (strong if index % 2 else pale).append(_box(left, y, right - left - 0.8, high))
            x += wide
    words = f"closed loop of {count} {'user' if count == 1 else 'users'}"
    return Drawing(words, "".join(strong), "".join(pale))


def _search(arrivals: Mapping[str, Any]) -> Drawing:
    """Rates that are tried: doubled until one breaks the objective, then between the last two."""
    kept: list[str] = []
    broken: list[str] = []
    for index, rate in enumerate((1, 2, 4, 8, 6, 7, 6.5)):
        (kept if rate <= 6.5 else broken).append(_box(index * 9, 42 - 4.6 * rate, 7.6, 4.6 * rate))
    return Drawing("search for the highest rate", "".join(kept), "".join(broken))


def _at_once(arrivals: Mapping[str, Any]) -> Drawing:
    return Drawing("all requests at once", _box(2, 4, 7, 38), _box(0, 42, WIDTH, 1))


def _recorded(arrivals: Mapping[str, Any]) -> Drawing:
    """No recording is read for a picture: bursts, as recordings have them."""
    counts = [2, 3, 9, 6, 2, 1, 1, 4, 12, 14, 8, 3, 2, 2, 5, 3, 1, 7, 11, 5, 2, 1, 3, 2]
    return Drawing("arrivals of a recorded trace", _columns(counts))


def _training(submission: Mapping[str, Any]) -> Drawing:
    """A group of bars for each epoch, one for each rank, lower from epoch to epoch."""
    given = submission.get("train")
    train = given if isinstance(given, dict) else {}
    numbers = [train.get(name) for name in ("epochs", "rounds")]
    epochs = next((min(n, _EPOCHS) for n in numbers if isinstance(n, int) and n > 1), 5)
    ranks = min(4, max((n for n in _found(submission, "processes") if n > 0), default=1))
    wide = WIDTH / epochs
    strong: list[str] = []
    pale: list[str] = []
    for epoch in range(epochs):
        high = 8 + 30 * 0.62**epoch
        for rank in range(ranks):
            bar = _box(epoch * wide + rank * (wide - 2) / ranks, 42 - high, (wide - 2) / ranks - 0.5, high)
            (pale if rank % 2 else strong).append(bar)
    words = f"epochs of a training, {ranks} {'rank' if ranks == 1 else 'ranks'}"
    return Drawing(words, "".join(strong), "".join(pale))


def _found(value: Any, name: str) -> Iterator[int]:
    """The whole numbers below the key, or the path that ends with it, wherever they stand."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key).rpartition(".")[2] == name:
                yield from (n for n in (inner if isinstance(inner, list) else [inner]) if isinstance(n, int))
            else:
                yield from _found(inner, name)


def _bricks(submission: Mapping[str, Any]) -> Drawing:
    """A row for each model, of blocks of which those that recur are alike."""
    models = submission.get("models")
    rows = min(_LANES, len(models) if isinstance(models, list) and models else 1)
    high = min(10.0, 42 / rows - 2)
    strong: list[str] = []
    pale: list[str] = []
    for row in range(rows):
        y = 22 - rows * (high + 2) / 2 + row * (high + 2) + 1
        x, index = 0.0, row
        while x < 56:
            wide = (14, 7, 10)[index % 3]
            (pale if index % 3 == 1 else strong).append(_box(x, y, min(wide, WIDTH - x) - 1.2, high))
            x, index = x + wide, index + 1
    words = f"bricks of {rows if rows > 1 else 'a'} model{'s' if rows > 1 else ''}"
    return Drawing(words, "".join(strong), "".join(pale))


def _spans(words: str) -> Drawing:
    """Spans within spans, from the client down."""
    levels = [[(0, 62)], [(5, 52)], [(10, 30), (43, 10)], [(11, 8), (20, 6), (27, 12), (44, 8)]]
    boxes = [[_box(x, 3 + level * 10, wide, 8.6) for x, wide in row] for level, row in enumerate(levels)]
    return Drawing(words, "".join(boxes[1] + boxes[3]), "".join(boxes[0] + boxes[2]))


def _marks() -> Drawing:
    """Answers that were right, and a few that were not."""
    strong: list[str] = []
    pale: list[str] = []
    for index in range(15):
        x, y = 3 + index % 5 * 12, 3 + index // 5 * 14
        if index in (7, 13):
            pale.append(f"M{x} {y + 2}l2-2 3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z")
        else:
            strong.append(f"M{x} {y + 5}l2-2 3 3 5-6 2 2-7 8z")
    return Drawing("answers that are right or wrong", "".join(strong), "".join(pale))


_KINDS: dict[str, Callable[[Mapping[str, Any]], Drawing]] = {"training": _training, "bricks": _bricks}
#: Arrivals that are no draw of moments: of a search, of all at once, of a file.
_ARRIVALS: dict[str, Callable[[Mapping[str, Any]], Drawing]] = {
    "max_rate": _search,
    "offline": _at_once,
    "trace": _recorded,
}
