"""GGUF files of strangers."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.gguf_file import GgufFile, read_gguf
from tests.gguf_files import fields, gguf, tensor, text


def read(folder: Path, data: bytes) -> GgufFile:
    """What is said of a file of these bytes."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    return read_gguf(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_whole_file_says_what_it_is(tmp_path: Path, version: int) -> None:
    """16 parameters in f32 and 64 in q4_1; the field of the architecture has its name in front."""
    found = read(tmp_path, gguf(fields(), version=version))
    assert (found.architecture, found.parameters, found.precision) == ("llama", 80, "q4_1")
    assert (found.types, len(found.tensors), found.context_tokens) == ({"f32": 16, "q4_1": 64}, 2, 512)
    assert found.fields["tokenizer.ggml.merges"][2] == "Ġt he"


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    """Wherever: in a number, in a text, in a tensor's values; one byte too few is too few."""
    small = {"general.architecture": "llama", "a": ["x", "yy"], "b": [1, 2], "c": 0.5}
    data = gguf(small)
    read(tmp_path, data)
    for end in range(len(data)):
        with pytest.raises(InputError, match="cut off|no GGUF") as refused:
            read(tmp_path, data[:end])
        assert refused.value.field == "model.path"


def test_whatever_bytes_are_wrong_the_answer_is_a_sentence(tmp_path: Path) -> None:
    """Four bytes by chance in 400 files: each is read or refused, and nothing else happens."""
    rng = random.Random(7)
    small = {"general.architecture": "llama", "a": ["x", "yy"] * 9, "b": [1, 2] * 9, "c": 0.5}
    data, refused = gguf(small), 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(4):
            changed[rng.randrange(len(data) - 104)] = rng.randrange(256)
        try:
            read(tmp_path, bytes(changed))
        except InputError:
            refused += 1
    assert refused > 300


NAMED = {"general.architecture": "llama"}
HUGE = 2**62


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no GGUF file"),
        (b"GGML" + bytes(100), "no GGUF file: it does not begin with GGUF"),
        (gguf(NAMED, version=1), "GGUF of version 1; allowed are 2 and 3"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(100), "GGUF of version 50331648"),  # big-endian
        (gguf({"general.architecture": "bert"}), "the architecture 'bert'; allowed are .*, llama, "),
        (gguf({"general.architecture": 7}), "of no architecture"),
        (gguf({"x": 1}), "of no architecture"),
        (gguf(NAMED, []), "has no tensors"),
        (gguf(NAMED, [tensor("t", [31], 3, 0)]), r"'t' of q4_1 has the sizes \[31\]"),
        (gguf(NAMED, [tensor("t", [0], 0, 0)]), r"'t' of f32 has the sizes \[0\]"),
        (gguf(NAMED, [tensor("t", [4] * 5, 0, 0)]), "'t' has 5 axes"),
        (gguf(NAMED, [tensor("t", [4], 99, 0)]), "'t' in the type 99, which is not known"),
        (gguf(NAMED, [tensor("t", [HUGE, HUGE], 0, 0)]), "is cut off: its tensors end at byte"),
        (gguf(NAMED, [tensor("t", [4], 0, HUGE)]), "is cut off: its tensors end at byte"),
        (gguf(NAMED | {"general.alignment": 0}), "its alignment is 0"),
        (gguf(NAMED | {"general.alignment": 12}), "its alignment is 12"),
        (gguf(NAMED | {"general.alignment": "x"}), "its alignment is 'x'"),
        (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 1) + bytes(99), "4,611,686,018,427,387,904 tensors should follow"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, HUGE) + bytes(99), "4,611,686,018,427,387,904 fields"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", HUGE), "bytes should follow"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<IIQ", 9, 8, HUGE), "elements in 'a'"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<IIQ", 9, 4, 3), "3 elements in 'a'"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1), "array of the type 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 77), "'a' has the type 77"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + (text("a") + struct.pack("<II", 4, 1)) * 2, "field 'a' twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    """Counts and lengths are compared with the file before anything of their size is made."""
    with pytest.raises(InputError, match=words):
        read(tmp_path, data)


def test_a_context_that_is_no_number_is_none(tmp_path: Path) -> None:
    """Nobody is told 0 tokens."""
    wrong: list[Any] = ["many", 0, None]
    for value in wrong:
        assert read(tmp_path, gguf(fields(**{"llama.context_length": value}))).context_tokens is None
