"""``words``: words drawn with a font, so that what stands in each picture is known exactly. Generated, and says so."""

from __future__ import annotations

import io
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import LABELLED, Described

#: What may stand in a picture; a class each, in this order.
WORDS = (
    "server", "model", "batch", "queue", "token", "layer", "kernel", "memory", "thread", "latency", "request",
    "answer", "sample", "device", "figure", "weight", "tensor", "packet", "socket", "energy",
)  # fmt: skip
COUNT = 1_000
WIDTH, HEIGHT = 320, 48
_SEED = 20_261_125


class Words(DataSource):
    """Black or grey on white or light grey, in sizes from 22 to 34, shifted and turned a little; seeded."""

    title = "Words drawn by Pillow's own font, 320 x 48 pixels, 20 words; for models of that shape"
    origin = "generated here, by a fixed seed"
    licence = "made here; font Aileron (CC0)"
    form = "pictures"
    generated = True
    described = Described(
        version="1.1.0",
        samples_sha256="c1c32473f8ea5d3bf8008526d19706c0964d3ceb302a39f05b5959770aeff26d",
        splits={"test": COUNT},
        labels=WORDS,
        # A classifier of the words is judged by their classes, a model that reads text by what it reads.
        metrics=(
            *LABELLED,
            "character_error_ratio",
            "word_error_ratio",
            "exact_match_ratio",
            "answer_f1",
        ),
        made_with={"pillow": "13.0.0", "numpy": "2.4.6"},
    )

    def open(self, path: Path | None) -> Collection:
        return Collection(
            "words", "pictures", COUNT, lambda rows: [picture(int(at)) for at in rows], labels(), WORDS,
            generated=True, whole=(WIDTH, HEIGHT), written=True,
        )  # fmt: skip

    def version(self) -> str:
        return f"seed {_SEED}, Pillow {version('pillow')}"


def labels() -> NDArray[np.int64]:
    """The class of every sample: each word equally often."""
    return np.arange(COUNT, dtype=np.int64) % len(WORDS)


def picture(index: int) -> bytes:
    """The PNG file of one sample."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng([_SEED, index])
    paper, ink = int(rng.integers(200, 256)), int(rng.integers(0, 90))
    image = Image.new("L", (WIDTH, HEIGHT), paper)
    font = ImageFont.load_default(size=int(rng.integers(22, 35)))
    text = WORDS[index % len(WORDS)]
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    place = (
        float(rng.uniform(4, max(5, WIDTH - (right - left) - 4))) - left,
        float(rng.uniform(2, max(3, HEIGHT - (bottom - top) - 2))) - top,
    )
    draw.text(place, text, fill=ink, font=font)
    image = image.rotate(float(rng.uniform(-2, 2)), fillcolor=paper, resample=Image.Resampling.BILINEAR)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
