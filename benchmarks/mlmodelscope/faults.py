"""Servers that answer Fashion-MNIST as a model does but for one fault, and what an evaluation says of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.formats.base import FORMATS, TOLERANCE_RATIO
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.zoo import zoo_source
from inferbench_tasks.quality.noise import noise_ratio
from inferbench_tasks.requests import prepare
from inferbench_tasks.stages.answers_apart import passes_apart
from inferbench_tasks.stages.answers_judged import judge
from inferbench_tasks.stages.asked import Asked, ask, one_by_one
from inferbench_tasks.submission.model import ZooModel
from inferbench_tasks.submission.schema import LoadSpec
from tests.faulty_answers import Answer, Repeats, Right, Swaps, WrongInBatches, served
from tests.load_servers import endpoint

#: Name -> the server, the load that it is found under, and what tells of it. Fewer than 50 samples are wrong: a result
#: lists so many.
FAULTS: dict[str, tuple[Callable[[Answer], Right], dict[str, Any], str]] = {
    "errs only in batches": (
        lambda scores: WrongInBatches(scores, one_in=50),
        {"arrivals": {"kind": "multi_stream", "samples_per_query": 8}},
        "differing",
    ),
    "swaps two answers": (Swaps, {"arrivals": {"kind": "closed_loop", "concurrency": 4}}, "differing"),
    # It errs one by one too: that the answers are another sample's the source model tells.
    "repeats its last answer": (
        lambda scores: Repeats(scores, one_in=400),
        {"arrivals": {"kind": "single_stream"}},
        "from_source",
    ),
}


def found_out(model: str, fault: str, data_dir: Path) -> dict[str, Any]:
    """``said``: answers under load that the server itself says are wrong; ``wrong``: samples whose answer, as it came,
    is not the model's; ``found``: those that the evaluation names; ``against``: why it says that the run does not
    count.
    """
    make, load, told_by = FAULTS[fault]
    images, labels, scores = model_of(model, data_dir)
    source = {"scores": scores}
    place = {image.tobytes(): at for at, image in enumerate(images)}

    def answer(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        given: NDArray[np.float32] = scores[[place[row.tobytes()] for row in rows]]
        return given

    spec = LoadSpec.model_validate({"duration_s": 120.0, "timeout_ms": 10_000.0, **load})
    server = make(answer)
    with served(server) as port, tempfile.TemporaryDirectory(prefix="faults-") as name:

        def asked(load: LoadSpec) -> Asked:
            where, folder = endpoint("http", port), Path(name)
            return ask(load, {"input": images}, source, where, folder=folder / "evaluate", base_dir=folder)

        under_load, said = asked(spec), server.wrong
        alone = asked(one_by_one(spec))
    ids = np.arange(len(images))
    apart = passes_apart(under_load, alone, source, "classes", noise_ratio("fp32", "cpu"))
    document, reasons = judge(
        under_load, alone, source, labels, ids, TOLERANCE_RATIO["fp32"], exact=True, apart=apart
    )
    wrong = np.flatnonzero((under_load.outputs["scores"] != scores).any(axis=1))
    return {
        "samples": len(images),
        "said": said,
        "wrong": wrong.tolist(),
        "found": document[told_by]["samples"],
        "unanswered": document["under_load"]["unanswered"],
        "against": "; ".join(reason.text for reason in reasons),
        "verdict": "; ".join(reason.text for reason in reasons) or "valid",
    }


def model_of(name: str, data_dir: Path) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """The images that it is evaluated on, their labels, and its scores; made where the data directory lacks it."""
    source = zoo_source(ZooModel(kind="zoo", name=name))
    model = build_model(source, data_dir, Watch())
    dataset = source.dataset()
    assert dataset is not None
    images = dataset.inputs(np.arange(len(dataset)))
    labels = dataset.labels()
    assert labels is not None
    answers = prepare.answers(FORMATS.load(model.format)().open(model), images, Watch(), model.batch_size)
    return images["input"], labels, answers["scores"]
