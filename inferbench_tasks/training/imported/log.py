"""The logs of BenchmarkJade's jobs."""

from __future__ import annotations

import re
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.imported.rows import Benchmark, Log

_RESULT = "Average Data Loading Time"
_WARNING = re.compile(
    r"This DataLoader will create (?P<made>\d{1,6}) worker processes in total\. Our suggested max number of worker in "
    r"current system is (?P<usual>\d{1,6})"
)
#: What a job says before its results: its ranks meet, or its steps go by.
_BEGUN = re.compile(
    r"^(Initializing distributed: GLOBAL_RANK: \d|Batch \d{1,9}: Data Loading Time: )", re.MULTILINE
)
_DEVICES = re.compile(r"(?P<count>\d{1,6}) x (?P<name>\S.{0,98}\S)")
#: Of lines to which ``srun --label`` gave the number of the task that wrote them.
_LABELLED = re.compile(rf"^[ \t]*\d{{1,6}}: .*{_RESULT}", re.MULTILINE)
#: What a log says of the job and of its machine -> our fields.
_FACTS = {
    "dataset": "data", "batch_size": "batch_size", "num_workers": "workers", "precision": "precision",
    "architecture": "model", "strategy": "strategy", "physical cpu cores": "cores_physical",
    "virtual cpu cores": "cores_logical", "torch version": "torch", "cuda version": "cuda", "driver version": "driver",
    "average data loading time": "loading_s", "average data preprocessing time": "processing_s",
    "average forward pass time": "forward_s", "average backward pass time": "backward_s",
    "total script time": "epoch_s",
}  # fmt: skip
_NEEDED = ("data", "batch_size", "workers", "loading_s", "forward_s")
_CORES = frozenset({"cores_physical", "cores_logical"})
_WHOLE = _CORES | {"batch_size", "workers"}
#: Of which there is one at least.
_POSITIVE = _CORES | {"batch_size"}


def is_log(text: str) -> bool:
    """Whether the text is such a log."""
    return _RESULT in text


def is_unfinished(text: str) -> bool:
    """Whether it is the log of a job that ended before its results: cancelled, or failed."""
    return _RESULT not in text and _BEGUN.search(text) is not None


def read(text: str, name: str) -> Log:
    """The job of a log, which came from the file ``name``; InputError where what it needs is missing or no number, and
    for results of several jobs, of which nobody could tell what belongs to which.

    Which benchmark it was stands nowhere in it: only training has a backward pass, only smooth inference is processed.

    Refused are runs over several nodes, too. BenchmarkJade's scripts start on one; its printing tells of others all the
    same: the machine's block is written once for each node, with the node's devices, while those used are all ranks'.
    Loader processes and cores are set beside each other by a node's.
    """
    if _LABELLED.search(text):
        raise InputError(
            f"{name} has the numbers of tasks before its lines (srun --label): give the output of one node's job "
            "without them"
        )
    fields: dict[str, Any] = {}
    of_node, second_node, used_at = None, None, ""
    for number, line in enumerate(text.splitlines(), 1):
        key, _, value = line.partition(":")
        key, value = key.strip().lower(), value.strip()
        if key in _FACTS:
            said = _value(_FACTS[key], value, f"{name}:{number}")
            _require_first(_FACTS[key], fields, f"{name}:{number}")
            fields[_FACTS[key]] = said
        elif key == "devices used":
            devices = _DEVICES.fullmatch(value)
            if devices is None:
                raise InputError(
                    f"{name}:{number}: 'Devices used' must be 'COUNT x NAME'; got {value[:80]!r}"
                )
            if not int(devices["count"]):
                raise InputError(f"{name}:{number}: 'Devices used' must be 1 at least; got {value[:80]!r}")
            fields |= {"devices": int(devices["count"]), "device": devices["name"]}
            used_at = f"{name}:{number}"
        elif key == "devices" and (devices := _DEVICES.fullmatch(value)):
            if of_node is not None:  # unless results of a second job follow
                second_node = second_node or f"{name}:{number}"
            of_node = int(devices["count"])
        elif warning := _WARNING.search(line):
            fields |= {"loader_workers": int(warning["made"]), "usual_workers": int(warning["usual"])}
    if second_node is not None:
        raise _over_nodes(second_node, "a second node tells of its devices here")
    if of_node is not None and fields.get("devices", 0) > of_node:
        raise _over_nodes(used_at, f"{fields['devices']} devices, of which a node has {of_node}")
    if missing := [what for what in (*_NEEDED, "devices") if what not in fields]:
        raise InputError(f"{name} is no whole log of BenchmarkJade: it does not say {', '.join(missing)}")
    fields = {"processing_s": 0.0, "backward_s": 0.0, **fields}
    if fields["processing_s"] and fields["processing_s"] == fields["loading_s"]:
        raise InputError(
            f"{name} has one figure for loading and for preprocessing, {fields['loading_s']:.4f} s: an early "
            "smooth_inference.py printed loading twice, and what preprocessing took is not in it"
        )
    return Log(source=name, benchmark=_benchmark(fields), **fields)


def _over_nodes(where: str, why: str) -> InputError:
    return InputError(
        f"{where}: a run over several nodes: {why}; import takes logs of runs on one node, as BenchmarkJade's own "
        "scripts make them"
    )


def _benchmark(fields: dict[str, Any]) -> Benchmark:
    if fields["backward_s"]:
        return "train"
    return "smooth_inference" if fields["processing_s"] else "inference"


def _require_first(field: str, fields: dict[str, Any], where: str) -> None:
    """Results stand in a log once."""
    if field.endswith("_s") and field in fields:
        raise InputError(
            f"{where}: the results of a second job begin here; give each job's log as a file of its own"
        )


def _value(field: str, text: str, where: str) -> Any:
    if field.endswith("_s"):
        if not re.fullmatch(r"\d{1,9}(\.\d{1,12})? seconds", text):
            raise InputError(f"{where}: 'SECONDS seconds' is expected; got {text[:80]!r}")
        return float(text.removesuffix(" seconds"))
    if field in _CORES and text == "None":
        return None  # psutil does not know it everywhere
    if field in _WHOLE:
        if not re.fullmatch(r"\d{1,6}", text):
            raise InputError(f"{where}: a whole number is expected; got {text[:80]!r}")
        if field in _POSITIVE and not int(text):
            raise InputError(f"{where}: a number from 1 on is expected; got {text[:80]!r}")
        return int(text)
    return text[:200]
