"""SavedModels whose operators touch files or run code."""

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.artifacts import saved_model
from inferbench_tasks.errors import InputError
from tests.security.bounds import Limits
from tests.skips import needs

pytestmark = needs("tensorflow")


@pytest.fixture(scope="module", autouse=True)
def _tensorflow() -> None:
    """What it costs to import TensorFlow is no input's doing."""
    import tensorflow  # noqa: F401


def written(folder: Path, operator: str | None, place: str = "graph") -> Path:
    """A SavedModel of one node, in its graph or in a function of it."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    graph = model.meta_graphs.add().graph_def
    graph.node.add(name="x", op="Placeholder")
    if operator is not None and place == "graph":
        graph.node.add(name="y", op=operator)
    elif operator is not None:
        function = graph.library.function.add()
        function.signature.name = place
        function.node_def.add(name="y", op=operator)
        graph.node.add(name="z", op="StatefulPartitionedCall").attr["f"].func.name = place
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return folder


FORBIDDEN = [
    "TextLineDataset", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "TFRecordDataset", "SaveV2",
    "InitializeTableFromTextFileV2", "DebugIdentityV2", "DebugIdentityV3", "SaveDatasetV2", "LoadDataset",
    "CreateSummaryFileWriter", "CreateSummaryDbWriter", "MergeV2Checkpoints", "LoadAndRemapMatrix", "ReadFile",
    "WriteFile", "MatchingFiles", "PyFunc", "PyFuncStateless", "EagerPyFunc", "ImmutableConst", "PrintV2",
    "RestoreV2", "Restore", "GenerateVocabRemapping", "DataServiceDatasetV4", "RpcServer", "SqlDataset",
    "DebugIdentity", "XlaCallModule", "SnapshotDataset", "AnOperatorOfNobody",
]  # fmt: skip


@pytest.mark.parametrize("operator", FORBIDDEN)
@pytest.mark.parametrize("place", ["graph", "__inference_f_1", "__inference__traced_save_1"])
def test_operators_with_effects_are_refused(tmp_path: Path, operator: str, place: str) -> None:
    """In the graph, in a function, and in one with a saver's name that the graph itself calls."""
    with pytest.raises(InputError, match=rf"saved_model\.pb: .* operators .*{operator}"):
        saved_model.check(written(tmp_path, operator, place))


@pytest.mark.parametrize(
    "operator", [None, "MatMul", "Conv2D", "ReadVariableOp", "LookupTableFindV2", "While"]
)
def test_operators_that_compute_pass(tmp_path: Path, operator: str | None) -> None:
    """Mathematics, variables, tables in memory and control flow."""
    saved_model.check(written(tmp_path, operator))


@pytest.mark.parametrize(
    "limits", [Limits(cpu_s=30, traces=False)]
)  # TensorFlow leaves its own temporary files
def test_what_tensorflow_saves_itself_passes(tmp_path: Path) -> None:
    """Its own functions for saving and restoring variables are no part of what is served."""
    import tensorflow as tf

    holder: Any = tf.Module()
    holder.weights = tf.Variable(tf.ones((4, 2)))
    call = tf.function(lambda x: {"y": tf.nn.relu(x @ holder.weights)})
    signature = call.get_concrete_function(tf.TensorSpec([None, 4], tf.float32, name="x"))
    tf.saved_model.save(holder, str(tmp_path / "m"), signatures={"serving_default": signature})
    saved_model.check(tmp_path / "m")
