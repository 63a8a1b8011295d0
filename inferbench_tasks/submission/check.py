"""Impossible combinations: each value is fine by itself, together they can't be.

Pure: what can be asked for comes as an argument (``abilities.py``), nothing is started, read or installed.
Every check is a generator over one aspect of a job; ``check`` runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.evaluate import data_findings, evaluate_findings
from inferbench_tasks.submission.finding import Finding, unknown
from inferbench_tasks.submission.model import (
    CnnModel,
    MlpModel,
    RnnModel,
    TransformerModel,
    ZooModel,
)
from inferbench_tasks.submission.rate import max_rate_findings
from inferbench_tasks.submission.schema import JobSpec, LoadSpec
from inferbench_tasks.submission.serving import backend_findings
from inferbench_tasks.submission.slo import NO_ERRORS

#: How a network is spelled out that no table has.
CUSTOM_NETWORK = "custom:"
#: float32 parameters of a generated model; above it neither training nor an export is sensible.
MAX_PARAMETERS = 2_000_000_000


def check(spec: JobSpec, abilities: Abilities) -> list[Finding]:
    """What is impossible about a job; empty when nothing is."""
    names = unknown_names(_named(spec), abilities)
    alone = (finding for aspect in _ALONE for finding in aspect(spec))
    against = (finding for aspect in _AGAINST_ABILITIES for finding in aspect(spec, abilities))
    return [*names, *alone, *against]


def _named(spec: JobSpec) -> dict[str, Any]:
    """The names of a job that registries know, as they stand in a submission; a dump of all of it takes long."""
    evaluate = spec.evaluate
    return {
        "model": {"kind": spec.model.kind, "name": getattr(spec.model, "name", None)},
        "serve": {"backend": spec.serve.backend},
        "convert": {"format": spec.convert.format},
        "load": {"network": spec.load.network} if spec.load else None,
        "evaluate": {"dataset": evaluate.dataset, "measures": evaluate.measures} if evaluate else None,
    }


def unknown_names(data: Mapping[str, Any], abilities: Abilities) -> list[Finding]:
    """Names that no registry knows, in data that need not be valid otherwise."""
    findings = []
    for path, names in (
        ("serve.backend", abilities.backends),
        ("convert.format", abilities.formats),
        ("load.network", abilities.networks),
        ("evaluate.dataset", abilities.datasets),
    ):
        name = value_at(data, path)
        if path == "load.network" and isinstance(name, str) and name.startswith(CUSTOM_NETWORK):
            if problem := abilities.custom_network_problem(name):
                findings.append(Finding((path,), problem))
        elif isinstance(name, str) and name not in names:
            findings.append(Finding((path,), unknown(names, name)))
    measures = value_at(data, "evaluate.measures")
    findings += [
        Finding(("evaluate.measures",), unknown(abilities.measures, name))
        for name in (measures if isinstance(measures, (list, tuple)) else ())
        if isinstance(name, str) and name not in abilities.measures
    ]
    model = data.get("model")
    name = model.get("name") if isinstance(model, Mapping) and model.get("kind") == "zoo" else None
    if isinstance(name, str) and name not in abilities.zoo:
        findings.append(Finding(("model.name",), unknown(abilities.zoo, name)))
    return findings


def _blocks(spec: JobSpec) -> Iterator[Finding]:
    """A job has to ask for something; and what only a load has needs one."""
    if spec.load is not None:
        return
    if spec.evaluate is None and spec.trace is None:
        yield Finding(("load",), "missing; give load (how it is to be loaded), evaluate or trace")
    if spec.share is not None:
        yield Finding(("share", "load"), "neighbours share a device under load; add load, or leave share out")
    if spec.nightly is not None:
        yield Finding(("nightly", "load"), "nights compare loads; add load, or leave nightly out")
    for name, bound in (spec.slo.bounds() if spec.slo else {}).items():
        if not FIGURES[name].evaluated and (name, bound) != ("error_ratio", NO_ERRORS):
            message = f"{name} is a figure of a load, which is not asked for; add load, or bound a measure"
            yield Finding((f"slo.{name}", "load"), message)


def _backend(spec: JobSpec, abilities: Abilities) -> Iterator[Finding]:
    """What a backend says of itself: formats, devices, protocols, launchers, batching, processors."""
    name = spec.serve.backend
    if name not in abilities.backends:
        return
    try:
        backend = abilities.backend(name)
    except InputError as error:
        yield Finding(("serve.backend",), str(error))
        return
    known_format = spec.convert.format if spec.convert.format in abilities.formats else None
    with_processors = (n for n in abilities.backends if abilities.backend(n).server_processors)
    yield from backend_findings(spec, backend, known_format, with_processors)


def _image(spec: JobSpec) -> Iterator[Finding]:
    if spec.serve.image is not None and spec.serve.launcher != "container":
        message = "an image is for launcher: container; set that, or remove image"
        yield Finding(("serve.image", "serve.launcher"), message)


def _batching(spec: JobSpec) -> Iterator[Finding]:
    batching = spec.serve.batching
    if batching is None:
        return
    most = batching.max_batch_size
    if too_large := [size for size in batching.preferred_batch_sizes if size > most]:
        yield Finding(
            ("serve.batching.preferred_batch_sizes", "serve.batching.max_batch_size"),
            f"{too_large[0]} is above serve.batching.max_batch_size ({most})",
        )
    if batching.max_delay_ms >= spec.traffic.timeout_ms:
        yield Finding(
            ("serve.batching.max_delay_ms", "load.timeout_ms"),
            f"a request may wait {batching.max_delay_ms:g} ms for its batch and is given up after "
            f"load.timeout_ms ({spec.traffic.timeout_ms:g})",
        )


def _arrivals(spec: JobSpec) -> Iterator[Finding]:
    load = spec.traffic
    try:
        load.arrivals.check(load.duration_s)
    except ValueError as error:
        yield Finding(("load.arrivals", "load.duration_s"), str(error))
    users = load.arrivals.users if isinstance(load.arrivals, ClosedProcess) else None
    if users is not None and (load.max_requests or users + 1) <= users:
        yield Finding(
            ("load.max_requests", "load.arrivals.concurrency"),
            f"{load.max_requests} requests are all sent at once by {users} users, which shows no throughput; "
            f"allow {10 * users} or more",
        )
    if isinstance(load.shards, int):
        if load.connections is not None and load.connections < load.shards:
            yield Finding(
                ("load.connections", "load.shards"),
                f"{load.connections} are too few for {load.shards} shards, which need one each",
            )
        if users is not None and users < load.shards:
            yield Finding(
                ("load.shards", "load.arrivals.concurrency"),
                f"{load.shards} shards are more than there are users (load.arrivals.concurrency: {users})",
            )


def engine_findings(load: LoadSpec, target_latency_ms: float | None) -> Iterator[Finding]:
    """What who makes the load can't do; ``target_latency_ms`` is the bound of MLPerf LoadGen's server scenario."""
    if load.arrivals.kind == "offline" and load.max_requests is not None:
        yield Finding(
            ("load.max_requests", "load.arrivals"), "offline has its number of requests in load.arrivals"
        )
    if load.engine != "mlperf_loadgen":
        return
    scenarios = ("single_stream", "multi_stream", "server", "offline")
    if load.arrivals.kind not in scenarios:
        yield Finding(
            ("load.engine", "load.arrivals.kind"),
            f"MLPerf LoadGen does not make {load.arrivals.kind!r}; it makes: {', '.join(scenarios)}",
        )
    if load.shards not in ("auto", 1):
        yield Finding(("load.shards", "load.engine"), "MLPerf LoadGen is one sender; leave shards out")
    if load.batch_size != 1:
        yield Finding(
            ("load.batch_size", "load.engine"),
            "an MLPerf query has one sample; for more use multi_stream with samples_per_query",
        )
    if load.arrivals.kind == "server" and target_latency_ms is None:
        yield Finding(
            ("load.engine", "slo.p99_ms"),
            "MLPerf LoadGen's server scenario judges by a bound on the latency of 99% of the queries: set "
            "slo.p99_ms",
        )


def _engine(spec: JobSpec) -> Iterator[Finding]:
    yield from engine_findings(spec.traffic, spec.slo.bound("p99_ms") if spec.slo else None)


def _schedule(spec: JobSpec) -> Iterator[Finding]:
    """The scheduler's figures against the length of the load itself."""
    if spec.load is None:
        return
    ends_early = spec.load.max_requests is not None or spec.load.arrivals.kind == "offline"
    least_s = spec.load.warmup_s + (0.0 if ends_early else spec.load.duration_s)
    for name in ("expected_duration_s", "deadline_s"):
        value = getattr(spec, name)
        if value is not None and value < least_s:
            yield Finding(
                (name, "load.duration_s", "load.warmup_s"),
                f"{value:g} s are shorter than the load alone, {least_s:g} s (load.warmup_s + load.duration_s)",
            )


def _slo(spec: JobSpec) -> Iterator[Finding]:
    """Objectives that no run could miss, or none could meet."""
    slo, load = spec.slo, spec.traffic
    if slo is None:
        return
    bounds = list(slo.percentile_bounds_ms().items())
    for (low, low_ms), (high, high_ms) in pairwise(bounds):
        if low_ms > high_ms:
            yield Finding(
                (f"slo.{low}_ms", f"slo.{high}_ms"),
                f"{low_ms:g} is above {high}_ms ({high_ms:g}), which {low} can never exceed; are they swapped?",
            )
    for name, bound_ms in bounds:
        if bound_ms >= load.timeout_ms:
            yield Finding(
                (f"slo.{name}_ms", "load.timeout_ms"),
                f"{bound_ms:g} can never be exceeded: a request is given up after load.timeout_ms "
                f"({load.timeout_ms:g}) and then counts as an error",
            )
    rate_rps = load.arrivals.mean_rate_rps(load.duration_s) if load.arrivals.loop == "open" else None
    if load.arrivals.paced and rate_rps is not None and (rate := slo.bound("throughput_rps") or 0) > rate_rps:
        yield Finding(
            ("slo.throughput_rps", "load.arrivals"),
            f"{rate:g} can't be reached: load.arrivals sends {rate_rps:g} requests per second",
        )
    if (errors := slo.bound("error_ratio") or 0.0) > load.max_error_ratio:
        yield Finding(
            ("slo.error_ratio", "load.max_error_ratio"),
            f"{errors:g} can't be used: the load ends early at load.max_error_ratio "
            f"({load.max_error_ratio:g})",
        )


def _processors(spec: JobSpec, abilities: Abilities) -> Iterator[Finding]:
    """Known processors, and raw data for them."""
    if spec.processors is None:
        return
    for part in ("before", "after"):
        for at, step in enumerate(getattr(spec.processors, part)):
            if step.kind not in abilities.processors:
                message = unknown(abilities.processors, step.kind)
                yield Finding((f"processors.{part}.{at}.kind",), message)
    if spec.processors.before and spec.requests.kind == "random":
        message = "random gives tensors, processors.before needs raw data; use dataset or files"
        yield Finding(("requests.kind", "processors.before"), message)


def _model(spec: JobSpec) -> Iterator[Finding]:
    model = spec.model
    if isinstance(model, (MlpModel, CnnModel, RnnModel, TransformerModel)):
        count = parameters(model)
        if count > MAX_PARAMETERS:
            yield Finding(
                ("model",),
                f"would have about {count / 1e9:.1f} billion parameters ({count * 4 / 1e9:.0f} GB); "
                f"at most {MAX_PARAMETERS / 1e9:.0f} billion are allowed",
            )


def _conversion(spec: JobSpec, abilities: Abilities) -> Iterator[Finding]:
    """Whether the model can be had in its framework, and in the format and precision that are asked for."""
    framework = _framework(spec, abilities)
    if isinstance(framework, Finding):
        yield framework
        return
    if framework not in abilities.formats or spec.convert.format not in abilities.formats:
        return
    assert framework is not None
    try:
        abilities.require_route(framework, spec.convert.format, spec.convert.precision)
    except InputError as error:
        if error.field in ("convert.format", "convert.precision"):
            others = ("convert.format", "convert.precision", "model.kind", "model.name", "model.framework")
            yield Finding((error.field, *(other for other in others if other != error.field)), error.message)
        else:
            yield Finding(("convert.format", "model.kind"), str(error))


#: What a built-in model may not be to be had in.
_OF_A_ZOO_MODEL = ("model.framework", "model.layers", "model.width")


def _framework(spec: JobSpec, abilities: Abilities) -> str | Finding | None:
    """The framework that the model comes from; None where only its file or record tells."""
    if not isinstance(spec.model, ZooModel):
        return getattr(spec.model, "framework", None)
    if spec.model.name not in abilities.zoo:
        return None
    try:
        return abilities.framework(spec.model)
    except InputError as error:
        if error.field in _OF_A_ZOO_MODEL:
            return Finding((error.field, "model.name"), error.message)
        return Finding(("model.framework", "model.name"), str(error))


def parameters(model: MlpModel | CnnModel | RnnModel | TransformerModel) -> int:
    """About how many parameters a canonical model has, from the leading terms of its blocks."""
    if isinstance(model, MlpModel):
        return model.input_size * model.neurons + (model.layers - 1) * model.neurons**2
    if isinstance(model, CnnModel):
        return 2 * 9 * model.layers * model.channels**2
    if isinstance(model, RnnModel):
        first = 4 * model.hidden_size * (model.input_size + model.hidden_size)
        return first + (model.layers - 1) * 8 * model.hidden_size**2
    return 12 * model.layers * model.hidden_size**2


_ALONE: tuple[Callable[[JobSpec], Iterator[Finding]], ...] = (
    _blocks,
    _image,
    _batching,
    _arrivals,
    max_rate_findings,
    evaluate_findings,
    _engine,
    _schedule,
    _slo,
    _model,
)
_AGAINST_ABILITIES: tuple[Callable[[JobSpec, Abilities], Iterator[Finding]], ...] = (
    _backend,
    _processors,
    _conversion,
    data_findings,
)
