"""The first answers of a fresh server, compared with the source model's own in value and byte length."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.backends.probes.base import Probe, Refused
from inferbench_tasks.contracts.handles import ModelArtifact, RequestSet
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.protocols.rows_of_one import as_taken
from inferbench_tasks.requests.ragged import is_ragged, sample_shape, unpacked

Arrays = dict[str, NDArray[Any]]


def load_samples(path: str) -> Arrays:
    """All arrays of an ``.npz``; pickled objects are refused. InputError where it can't be read."""
    try:
        # Opened here: on a damaged archive numpy would leave its own file open.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return unpacked(archive)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"The requests in {path} can't be read: {error}. Delete {Path(path).parent}; the next run makes it again"
        ) from error


def check_requests(samples: Arrays, model: ModelArtifact) -> None:
    """InputError unless the requests fit the model's inputs in name, dtype and shape."""
    specs = {spec.name: spec for spec in model.inputs}
    problems = [f"input {name} is missing" for name in specs.keys() - samples.keys()]
    problems += [f"the model has no input {name}" for name in samples.keys() - specs.keys()]
    for name in specs.keys() & samples.keys():
        spec, array = specs[name], samples[name]
        if array.dtype.name != spec.dtype and array.dtype.kind not in "OSU":
            problems.append(f"input {name} is {array.dtype.name}, the model takes {spec.dtype}")
        shape = sample_shape(array)
        fits = len(shape) == len(spec.shape) and all(
            want in (-1, size) for want, size in zip(spec.shape, shape, strict=True)
        )
        if not fits:
            problems.append(f"input {name} has shape {list(shape)}, the model takes {list(spec.shape)}")
    if problems:
        known = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in model.inputs)
        raise InputError(
            f"The requests don't fit the model {model.name}: {'; '.join(sorted(problems))}. "
            f"It takes: {known}."
        )


def first_rows(samples: Arrays, rows: int) -> Arrays:
    """``rows`` samples from the first on, cyclically; of samples of different shapes the first one so often."""
    return {
        name: np.stack([array[0]] * rows)
        if is_ragged(array)
        else np.take(array, np.arange(rows), axis=0, mode="wrap")
        for name, array in samples.items()
    }


def check_answer(
    answer: Arrays,
    reference: Arrays,
    model: ModelArtifact,
    rows: int,
    tolerance_ratio: float,
    exact: bool = True,
) -> float:
    """The largest max|answer - reference| / max|reference| over all outputs.

    ServerError beyond the tolerance. Integer, boolean and string outputs must be equal where ``exact``: the
    server computes in what the source model does. At another precision a decision on the edge may fall otherwise, so
    there only their shape is checked.
    """
    names = [spec.name for spec in model.outputs]
    by_name = set(names) <= reference.keys()
    if not by_name and len(names) != len(reference):
        raise ServerError(f"The model gives {names}, its reference has {list(reference)}")
    worst = 0.0
    for spec, key in zip(model.outputs, names if by_name else reference, strict=True):
        expected = first_rows({key: reference[key]}, rows)[key]
        if spec.name not in answer:
            raise ServerError(f"The server's first answer lacks output {spec.name}; it has {list(answer)}")
        actual = as_taken(answer[spec.name], expected.shape)
        if (
            actual.dtype.kind not in "OSU"
            and actual.nbytes != expected.nbytes * actual.itemsize // expected.itemsize
        ):
            raise ServerError(
                f"Output {spec.name} of the server's first answer has {actual.nbytes} bytes, "
                f"{expected.size * actual.itemsize} are expected"
            )
        if actual.shape != expected.shape:
            raise ServerError(
                f"Output {spec.name} of the server's first answer has shape {list(actual.shape)}, "
                f"the source model's has {list(expected.shape)}"
            )
        if expected.dtype.kind not in "fc":
            if exact and not _equal(actual, expected):
                raise ServerError(
                    f"Output {spec.name} of the server's first answer differs from the source model's: "
                    f"{_show(actual)} against {_show(expected)}"
                )
            continue
        worst = max(worst, _difference(spec.name, actual, expected, tolerance_ratio))
    return worst


def _difference(name: str, actual: NDArray[Any], expected: NDArray[Any], tolerance_ratio: float) -> float:
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(actual), np.isfinite(expected)):
        count, allowed = np.count_nonzero(~np.isfinite(actual)), np.count_nonzero(~np.isfinite(expected))
        raise ServerError(
            f"Output {name} of the server's first answer has {count} values that are NaN or infinite, "
            f"the source model's has {allowed}, or elsewhere"
        )
    finite = np.isfinite(expected)
    if not expected.size:
        return 0.0  # nothing to answer: the shapes are compared
    if not finite.any():
        raise ServerError(f"Output {name}: the source model itself answers nothing but NaN or infinity")
    actual, expected = actual[finite], expected[finite]
    scale = float(np.abs(expected).max()) or 1.0
    ratio = float(np.abs(actual - expected).max()) / scale
    if ratio > tolerance_ratio:
        at = int(np.abs(actual - expected).argmax())
        raise ServerError(
            f"Output {name} of the server's first answer differs from the source model's by {ratio:.3g} of "
            f"its largest value, {tolerance_ratio:.3g} is allowed: {actual[at]:.6g} against {expected[at]:.6g}"
        )
    return ratio


def _equal(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    if actual.dtype.kind in "OSU" or expected.dtype.kind in "OSU":
        text = [
            [v.decode() if isinstance(v, bytes) else str(v) for v in a.reshape(-1)]
            for a in (actual, expected)
        ]
        return text[0] == text[1]
    return bool(np.array_equal(actual, expected))


def _show(array: NDArray[Any]) -> str:
    return f"{array.reshape(-1)[:8].tolist()}"


def ask_and_check(
    probe: Probe,
    samples: Arrays,
    reference: Arrays,
    model: ModelArtifact,
    rows: int,
    tolerance_ratio: float,
    *,
    exact: bool,
) -> float:
    """Send the first ``rows`` samples as one request and check the answer; returns the difference."""
    try:
        answer = probe.infer(first_rows(samples, rows))
    except Refused as error:
        raise ServerError(f"The server refused a request of {rows} sample(s): {error}") from error
    except OSError as error:
        raise ServerError(f"The server did not answer a request of {rows} sample(s): {error}") from error
    return check_answer(answer, reference, model, rows, tolerance_ratio, exact)


def load_reference(requests: RequestSet) -> tuple[Arrays, Arrays]:
    """Samples and the source model's answers to them, as tensors of the model."""
    return load_samples(requests.path), load_samples(requests.reference_path)


def load_sent(requests: RequestSet) -> tuple[Arrays, Arrays]:
    """What the requests carry over the wire, and the answers that are expected."""
    return load_samples(requests.sent_path), load_samples(requests.answered_path)
