"""What a SavedModel's graph may do: TensorFlow runs its operators with all rights of the process.

An allow-list. Of TensorFlow's operators those without state and without effects compute and nothing else;
of those with state the ones named here keep variables, tables and random numbers in memory. Operators that
read or write files, print, run Python or other programs, or talk to other machines are not in it, nor is any
that this version of TensorFlow does not know.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError

#: With state, which stays in the process's memory.
IN_MEMORY = {
    "VarHandleOp", "ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "VarIsInitializedOp", "VariableShape", "Variable", "VariableV2", "DestroyResourceOp", "DisableCopyOnRead",
    "ResourceGather", "ResourceGatherNd", "Assert", "If", "While", "Case", "StatefulPartitionedCall", "Empty",
    "HashTable", "HashTableV2", "AnonymousHashTable", "MutableHashTable", "MutableHashTableV2",
    "AnonymousMutableHashTable", "MutableDenseHashTableV2", "InitializeTableV2", "LookupTableFindV2",
    "LookupTableSizeV2", "LookupTableExportV2", "LookupTableImportV2", "LookupTableInsertV2",
    "LookupTableRemoveV2", "TensorArrayV3", "TensorArrayCloseV3", "TensorArrayConcatV3", "TensorArrayGatherV3",
    "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArraySizeV3", "TensorArraySplitV3",
    "TensorArrayWriteV3", "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "CheckNumerics",
    "CheckNumericsV2", "GuaranteeConst", "RandomUniform", "RandomUniformInt", "RandomStandardNormal",
    "TruncatedNormal", "ParameterizedTruncatedNormal", "RandomShuffle", "RandomGamma", "RandomPoissonV2",
    "Multinomial", "StatelessRandomGetAlg", "StatefulUniform", "StatefulStandardNormalV2",
    "StatefulUniformInt", "StatefulTruncatedNormal", "RngSkip", "RngReadAndSkip", "DeviceIndex", "CudnnRNNV2",
    "CudnnRNNV3", "TemporaryVariable",
}  # fmt: skip
#: Without state by TensorFlow's own word, and yet with effects beyond their outputs.
EFFECTS = re.compile(
    r"PyFunc|^Sharded|ReadFile|WriteFile|MatchingFiles|ImmutableConst|Dataset|Iterator|TextFile|^Reader|Reader$|ReaderV2$"
    r"|^Debug|^Abort$|Snapshot|LoadAndRemap|GenerateVocabRemapping|CustomCall|CustomAggregator|^Mlir|Collective"
    r"|^DTensor|TPU|^Xla|^Copy|^Foo|Summary$|SdcaOptimizer|BatchFunction|^Batch$|^Unbatch|DecodeProto|EncodeProto"
    r"|SymbolicGradient|RemoteCall|^_(?!Fused|FusedBatchNormEx)|Checkpoint|^(Save|Restore)|Rpc|^Queue|^Barrier"
)
#: A SavedModel keeps functions of this kind that save and restore its own variables; TensorFlow makes its own.
CHECKPOINT = re.compile(r"__inference__traced_(save|restore)_\d+")
CHECKPOINT_OPERATORS = {"RestoreV2", "SaveV2", "MergeV2Checkpoints", "ShardedFilename"}


#: Of variables that only a training needs.
_OF_TRAINING = re.compile(r"\.OPTIMIZER_SLOT|^(_?optimizer|keras_api)/|^save_counter")


def check(path: Path) -> None:
    """InputError for a damaged SavedModel and for one whose graph does more than compute."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString((path / "saved_model.pb").read_bytes())
    except DecodeError as error:
        raise InputError(f"{path}/saved_model.pb is damaged: {error}", field="model.path") from error
    if not any(meta.graph_def.node or meta.graph_def.library.function for meta in model.meta_graphs):
        raise InputError(f"{path}/saved_model.pb has no graph in it", field="model.path")
    allowed = _computing()
    for meta in model.meta_graphs:
        checkpoint = _checkpoint_functions(meta)
        functions = meta.graph_def.library.function
        _check_nodes(path, "the graph", meta.graph_def.node, allowed | {f.signature.name for f in functions})
        for function in functions:
            name = function.signature.name
            extra = CHECKPOINT_OPERATORS if name in checkpoint else set()
            _check_nodes(path, name, function.node_def, allowed | extra)


def stored(path: Path) -> dict[str, int]:
    """How many numbers a SavedModel keeps of each type, in variables and constants, by TensorFlow's names; what a
    training keeps beside its variables is left out. Nothing of it is run. InputError where that can't be read.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    counts: Counter[str] = Counter()
    prefix = path / "variables" / "variables"
    if prefix.with_suffix(".index").is_file():
        try:
            reader = tf.train.load_checkpoint(str(prefix))
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise InputError(
                f"The SavedModel {path.name} can't be loaded: {str(error)[:300]}", field="model.path"
            ) from error
        shapes = reader.get_variable_to_shape_map()
        for name, dtype in reader.get_variable_to_dtype_map().items():
            if not _OF_TRAINING.search(name):
                counts[dtype.name] += math.prod(shapes[name])
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((path / "saved_model.pb").read_bytes())
    for meta in model.meta_graphs:
        functions = meta.graph_def.library.function
        for nodes in (meta.graph_def.node, *(function.node_def for function in functions)):
            for node in nodes:
                shape = node.attr["value"].tensor.tensor_shape if node.op == "Const" else None
                if shape is not None and shape.dim:
                    dtype = tf.dtypes.as_dtype(node.attr["value"].tensor.dtype)
                    counts[dtype.name] += math.prod(each.size for each in shape.dim)
    return dict(counts)


def _computing() -> set[str]:
    """The names of TensorFlow's operators that only compute, and those whose state stays in memory."""
    import tensorflow  # noqa: F401 - registers the operators
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    operators = op_def_pb2.OpList()
    operators.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    pure = {o.name for o in operators.op if not o.is_stateful and not EFFECTS.search(o.name)}
    return pure | IN_MEMORY


def _checkpoint_functions(meta: Any) -> set[str]:
    """The functions that save and restore variables, where nothing but TensorFlow's saver calls them."""
    saver = meta.saver_def
    by_tensor = {saver.save_tensor_name.split(":")[0], saver.restore_op_name.split(":")[0]}
    functions: set[str] = set()
    others: set[str] = set()
    for node in meta.graph_def.node:
        names = set(_called(node))
        (functions if node.name in by_tensor else others).update(names)
    for function in meta.graph_def.library.function:
        for node in function.node_def:
            others.update(_called(node))
    # Whatever can be called by an object of the model can be called by its code too.
    others.update(meta.object_graph_def.concrete_functions)
    outputs = {
        tensor.name.split(":")[0]
        for signature in meta.signature_def.values()
        for tensor in (*signature.inputs.values(), *signature.outputs.values())
    }
    reachable = _ancestors(meta.graph_def.node, outputs)
    if reachable & by_tensor:
        return set()
    return {name for name in functions - others if CHECKPOINT.fullmatch(name)}


def _called(node: Any) -> Iterable[str]:
    """The functions that a node names."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _ancestors(nodes: Iterable[Any], names: set[str]) -> set[str]:
    """The nodes that these ones need, and they themselves."""
    inputs = {node.name: [i.lstrip("^").split(":")[0] for i in node.input] for node in nodes}
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += inputs.get(name, [])
    return reached


def _check_nodes(path: Path, where: str, nodes: Iterable[Any], allowed: set[str]) -> None:
    forbidden = sorted({node.op for node in nodes} - allowed)
    if forbidden:
        raise InputError(
            f"{path}/saved_model.pb: {where} has operators that run code, touch files or are unknown: "
            f"{', '.join(forbidden[:5])}; export the model without them",
            field="model.path",
        )
