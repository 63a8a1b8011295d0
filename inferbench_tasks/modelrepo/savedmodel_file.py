"""A SavedModel of anybody's as a model that can be served: one of its signatures, its batch free where that goes."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.savedmodel import SIGNATURE, SavedModelFormat, load, tensor_spec
from inferbench_tasks.modelrepo.onnx_file import Adapted
from inferbench_tasks.modelrepo.own_batch import (
    Tensors,
    artifact,
    common_batch,
    keep_original,
    outcome,
    proof,
)

ORIGINAL = "original"
REMEDY = "export it with a first axis of samples: tf.TensorSpec([None, ...])"


def adapt(folder: Path, shown: str, wanted: str | None = None) -> Adapted:
    """Leave one signature under the usual name, with a free batch where that is possible; written anew for either.

    Raises InputError, which names the signatures there are, or what is in the way.
    """
    loaded = _load(folder)
    name = _choose(loaded, shown, wanted)
    call = loaded.signatures[name]
    notes: tuple[str, ...] = ()
    if name != SIGNATURE:
        notes = (f"the signature {name} is served",)
        _save(folder, loaded, call)
        loaded, call = load(folder)
    tensors = _tensors(call, shown)
    if tensors.batch is None:
        return Adapted(tensors.inputs, tensors.outputs, None, notes)
    original = folder.with_name(ORIGINAL)
    trial = folder.with_name("free")
    try:
        _write_free(trial, call, tensors)
        predict = SavedModelFormat()
        freed = Tensors(tensors.inputs, tensors.outputs, None)
        ways = [
            predict.open(artifact("savedmodel", path, t)) for path, t in ((folder, tensors), (trial, freed))
        ]
        reason = proof(ways[0], ways[1], tensors.inputs, tensors.batch)
    except Exception as error:  # noqa: BLE001 - TensorFlow raises anything; it is then served as it came
        reason = " ".join(str(error).split())[-300:]
    if reason is None:
        folder.replace(original)
        trial.replace(folder)
        keep_original(folder, original, tensors.batch)
    else:
        shutil.rmtree(trial, ignore_errors=True)
    return outcome(tensors, reason, notes)


def operators(folder: Path, wanted: str | None = None) -> dict[str, int]:
    """How often each operator stands in the signature's graph and the functions that it calls."""
    loaded = _load(folder)
    graph = loaded.signatures[_choose(loaded, folder.name, wanted)].graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    counts = Counter(node.op for node in nodes if node.op not in ("Placeholder", "Const", "NoOp", "Identity"))
    return dict(counts.most_common())


def _choose(loaded: Any, shown: str, wanted: str | None) -> str:
    names: list[str] = sorted(loaded.signatures)
    if wanted is not None:
        if wanted not in names:
            raise InputError(
                f"{shown} has no signature {wanted!r}; it has: {', '.join(names) or 'none'}",
                field="model.signature",
            )
        return wanted
    if SIGNATURE in names:
        return SIGNATURE
    if len(names) == 1:
        return names[0]
    raise InputError(
        f"{shown} has {len(names)} signatures and none is called {SIGNATURE}; choose one by model.signature: "
        f"{', '.join(names) or 'none'}",
        field="model.signature",
    )


def _load(folder: Path) -> Any:
    """To be kept while its signatures are used: they hold its variables weakly. InputError where it is damaged."""
    import tensorflow as tf

    try:
        return tf.saved_model.load(str(folder))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise InputError(
            f"The SavedModel {folder.name} can't be loaded: {error}", field="model.path"
        ) from error


def _save(folder: Path, loaded: Any, call: Any) -> None:
    """Anew, with this signature alone."""
    import tensorflow as tf

    fresh = folder.with_name("chosen")
    tf.saved_model.save(loaded, str(fresh), signatures={SIGNATURE: call})
    shutil.rmtree(folder)
    fresh.replace(folder)


def _tensors(call: Any, shown: str) -> Tensors:
    taken, given = call.structured_input_signature[1], call.structured_outputs
    shapes = [(name, _shape(tensor)) for name, tensor in (*taken.items(), *given.items())]
    return Tensors(_specs(taken), _specs(given), common_batch(shapes, shown, REMEDY))


def _specs(by_name: Any) -> tuple[TensorSpec, ...]:
    specs = []
    for name, tensor in by_name.items():
        shape = tuple(-1 if size is None else size for size in (_shape(tensor) or ())[1:])
        dtype = "str" if tensor.dtype.name == "string" else tensor.dtype.name
        specs.append(TensorSpec(name=name, dtype=dtype, shape=shape))
    return tuple(specs)


def _shape(tensor: Any) -> tuple[int | None, ...] | None:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def _write_free(folder: Path, call: Any, tensors: Tensors) -> None:
    """The signature with its weights as constants; what is written down of the batch in its Reshapes is left over."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(call)
    graph = frozen.graph.as_graph_def()
    shapes = {node.input[1] for node in graph.node if node.op == "Reshape"}
    for node in graph.node:
        if node.op == "Placeholder" and node.attr["shape"].shape.dim:
            node.attr["shape"].shape.dim[0].size = -1
        if node.op == "Const" and node.name in shapes:
            _free_constant(node, tensors.batch)
        if "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]
    fed = [tensor.name for tensor in frozen.inputs]
    fetched = [tensor.name for tensor in frozen.outputs]
    names = [tensor.name.partition(":")[0] for tensor in frozen.inputs]
    specs = {spec.name: spec for spec in tensors.inputs}
    order = [next(name for name in specs if name == n or n.endswith("_" + name)) for n in names]

    def imported() -> Any:
        tf.graph_util.import_graph_def(graph, name="")

    wrapped = tf.compat.v1.wrap_function(imported, [])
    run = wrapped.prune([wrapped.graph.get_tensor_by_name(n) for n in fed],
                        [wrapped.graph.get_tensor_by_name(n) for n in fetched])  # fmt: skip
    outputs = sorted(spec.name for spec in tensors.outputs)  # as TensorFlow flattens a dictionary

    def serve(**given: Any) -> dict[str, Any]:
        return dict(zip(outputs, run(*[given[name] for name in order]), strict=True))

    holder = tf.Module()
    holder.run = run
    signature = tf.function(serve).get_concrete_function(
        **{spec.name: tensor_spec(spec) for spec in tensors.inputs}
    )
    tf.saved_model.save(holder, str(folder), signatures={SIGNATURE: signature})


def _free_constant(node: Any, batch: int | None) -> None:
    import tensorflow as tf

    sizes = tf.make_ndarray(node.attr["value"].tensor).copy()
    if sizes.ndim == 1 and len(sizes) and sizes[0] == batch and -1 not in sizes:
        sizes[0] = -1
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(sizes))
