"""Any server as the target of a load: its address, its model, and inputs that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import yaml
from numpy.typing import NDArray

from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.clients.metadata import ModelMetadata, Tensor, fetch_metadata, list_models
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.plan import OutputShape
from inferbench_tasks.registry import Registry
from inferbench_tasks.submission.token_lengths import LENGTHS

Protocol = Literal["http", "grpc", "grpc_tfs"]
_SCHEMES: dict[str, Protocol] = {"http": "http", "grpc": "grpc", "tfs": "grpc_tfs", "grpc_tfs": "grpc_tfs"}
_PORTS = {"http": 8000, "grpc": 8001, "grpc_tfs": 8500}
_PATH = re.compile(r"/(?:v2/models/)?([^/]+)(?:/versions/([^/]+))?(?:/infer)?/?")
_MADE_SAMPLES = 64
_MADE_BYTES = 64 * 2**20


def parse_url(url: str, model: str | None, version: str | None, protocol: str | None) -> Endpoint:
    """``[scheme://]host[:port][/model]`` with the scheme http, grpc or tfs; the model may be asked for."""
    parts = urlsplit(url if "://" in url else f"{protocol or 'http'}://{url}")
    if parts.scheme not in _SCHEMES:
        raise InputError(
            f"--url: unknown scheme {parts.scheme!r}; known: {', '.join(_SCHEMES)} (TLS is not supported)"
        )
    kind = _SCHEMES[parts.scheme]
    if protocol is not None and _SCHEMES.get(protocol) != kind:
        raise InputError(f"--protocol {protocol} contradicts the scheme of --url ({parts.scheme})")
    try:
        host, port = parts.hostname, parts.port or _PORTS[kind]
    except ValueError as error:
        raise InputError(f"--url: {error}") from error
    if not host:
        raise InputError(f"--url: no host in {url!r}; for instance http://127.0.0.1:8000/resnet50")
    if parts.path not in ("", "/", "/v2", "/v2/"):
        match = _PATH.fullmatch(parts.path)
        if match is None:
            raise InputError(
                f"--url: {parts.path!r} names no model; for instance /resnet50 or /v2/models/resnet50"
            )
        model, version = model or match[1], version or match[2]
    endpoint = Endpoint(
        protocol=kind, host=host, port=port, model_name=model or "", model_version=version or ""
    )
    if model:
        return endpoint
    models = list_models(endpoint)
    if len(models) != 1:
        models_text = f"the server has: {', '.join(models)}" if models else "the server lists none"
        raise InputError(f"Which model? Name it with --model; {models_text}")
    return endpoint.model_copy(update={"model_name": models[0]})


def parse_arrivals(text: str) -> dict[str, Any]:
    """``poisson:rate_rps=100`` (more parameters after commas), ``poisson:100``, or JSON, as plain data."""
    return parse_kind(text, "--arrivals", ARRIVALS, "poisson, rate_rps: 100")


def parse_lengths(text: str, option: str) -> dict[str, Any]:
    """``lognormal:mean=200,cv=0.8``, ``fixed:64``, ``64``, or JSON, as plain data."""
    if text.strip().isdigit():
        return {"kind": "fixed", "value": int(text)}
    return parse_kind(text, option, LENGTHS, "lognormal, mean: 200, cv: 0.8")


def parse_kind(text: str, option: str, kinds: Registry[Any], example: str) -> dict[str, Any]:
    """A kind and its parameters: ``kind:name=value,...``, or JSON, as plain data.

    A number alone is the kind's first parameter that must be given.
    """
    if text.lstrip().startswith("{"):
        document = _yaml(text, option)
        if not isinstance(document, dict) or "kind" not in document:
            raise InputError(f"{option}: {text!r} has no kind; for instance {{kind: {example}}}")
        return dict(document)
    kind, _, rest = text.partition(":")
    cls = kinds.load(kind, option)
    fields: dict[str, Any] = {"kind": kind}
    first = next(
        (name for name, field in cls.model_fields.items() if name != "kind" and field.is_required()), None
    )
    for part in filter(None, (p.strip() for p in rest.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            if first is None or first in fields:
                instance = f"{kind}:{first or 'name'}=100"
                raise InputError(f"{option}: {part!r} has no name; write name=value, for instance {instance}")
            name, value = first, name
        fields[name.strip()] = _yaml(value, option)
    return fields


def _yaml(text: str, option: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{option}: {text!r} can't be read: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class Inputs:
    """Samples written to ``path``; ``batched``: requests have a batch axis in front."""

    path: Path
    batched: bool
    expected: dict[str, OutputShape]
    made: bool


def inputs_for(
    endpoint: Endpoint,
    input_file: Path | None,
    shapes: Mapping[str, tuple[int, ...]],
    folder: Path,
    seed: int,
) -> Inputs:
    """The user's ``.npz`` (first axis = samples), or noise that fits what the server says of its model."""
    if input_file is not None:
        return Inputs(input_file, True, {}, made=False)
    metadata = fetch_metadata(endpoint)
    if unknown := set(shapes) - {t.name for t in metadata.inputs}:
        names = ", ".join(t.name for t in metadata.inputs)
        raise InputError(f"--shape: the model has no input {', '.join(sorted(unknown))}; it has: {names}")
    batched = all(t.shape is None or (len(t.shape) > 0 and t.shape[0] == -1) for t in metadata.inputs)
    rng = np.random.default_rng([seed, 0x1A9])
    sizes = {t.name: shapes.get(t.name) or _sample_shape(t, batched) for t in metadata.inputs}
    one = sum(int(np.prod(size)) * 8 for size in sizes.values())
    count = int(max(1, min(_MADE_SAMPLES, _MADE_BYTES // max(1, one))))
    arrays = {t.name: _noise(t, (count, *sizes[t.name]), rng) for t in metadata.inputs}
    path = folder / "inputs.npz"
    folder.mkdir(parents=True, exist_ok=True)
    write_archive(path, arrays)
    return Inputs(path, batched, _expected(metadata, batched), made=True)


def _sample_shape(tensor: Tensor, batched: bool) -> tuple[int, ...]:
    shape = tensor.shape
    if shape is not None:
        shape = shape[1:] if batched else shape
    if shape is None or -1 in shape:
        shape_text = "unknown" if shape is None else str(list(shape))
        raise InputError(
            f"Input {tensor.name} takes any size (its shape is {shape_text}): say which with "
            f"--shape {tensor.name}=3,224,224"
        )
    return shape


def _noise(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    kind = np.dtype(tensor.dtype).kind
    if kind == "f":
        return rng.standard_normal(shape).astype(tensor.dtype)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind in "iu":
        return rng.integers(0, 100, shape).astype(tensor.dtype)
    words = np.array(["benchmark", "inference", "latency", "server", "throughput"])
    return np.asarray(rng.choice(words, shape))


def _expected(metadata: ModelMetadata, batched: bool) -> dict[str, OutputShape]:
    expected = {}
    for tensor in metadata.outputs:
        shape = tensor.shape
        leads = batched and shape is not None and len(shape) > 0 and shape[0] == -1
        if shape is not None and leads:
            shape = shape[1:]
        expected[tensor.name] = OutputShape(shape=shape, batched=leads)
    return expected
