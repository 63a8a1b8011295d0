"""Google's magika as its own package asks and reads it: the bytes that it looks at, and what its scores say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.errors import InputError

FOLDER = "magika/models/standard_v3_3/"
#: Files of its package that the model's scores are read by, and the names under which the model's file keeps them.
CONFIG, CONTENT_TYPES = "magika.config", "magika.content_types"
FILES = {CONFIG: FOLDER + "config.min.json", CONTENT_TYPES: "magika/config/content_types_kb.min.json"}

#: Bytes of a file's beginning and end that it takes, of how many at either end, and what stands where there are none.
_ENDS, _BLOCK, _NO_BYTE = 1024, 4096, 256
#: Of fewer bytes its tool tells text from binary and does not ask the model.
_FEWEST_BYTES = 8
_FORM = {
    "beg_size": _ENDS,
    "mid_size": 0,
    "end_size": _ENDS,
    "block_size": _BLOCK,
    "padding_token": _NO_BYTE,
    "min_file_size_for_dl": _FEWEST_BYTES,
    "use_inputs_at_offsets": False,
}
#: What data sets call a class -> what magika does. By its descriptions: "bzip2 compressed data" is ``bzip``, "zlib
#: compressed data" ``zlibstream``; property lists in XML, which ``plistlib`` writes unless told otherwise, are
#: ``appleplist`` (binary ones ``applebplist``). All others have one name: txt, csv, json, ini, xml, gzip, xz, zip, ...
CALLED = {"bzip2": "bzip", "plist": "appleplist", "zlib": "zlibstream"}
_RULE = (
    "magika's prediction mode high_confidence: a class whose score is below its threshold is said as txt where it is a "
    "kind of text, else as unknown; randomtxt is said as txt, randombytes as unknown"
)


def first_and_last(contents: list[bytes]) -> Arrays:
    """``bytes`` n x 2048 int32: the first of what is left of the first block without white space at its beginning, and
    the last of the last block without white space at its end."""
    import numpy as np

    rows = np.full((len(contents), 2 * _ENDS), _NO_BYTE, np.int32)
    for row, content in zip(rows, contents, strict=True):
        first, last = content[:_BLOCK].lstrip()[:_ENDS], content[-_BLOCK:].rstrip()[-_ENDS:]
        row[: len(first)] = np.frombuffer(first, np.uint8)
        row[2 * _ENDS - len(last) :] = np.frombuffer(last, np.uint8)
    return {"bytes": rows}


def of_files(contents: list[bytes]) -> Arrays:
    """The same; InputError for a file that magika's tool would not ask the model about."""
    for content in contents:
        if len(content) < _FEWEST_BYTES or len(content[:_BLOCK].lstrip()) < _FEWEST_BYTES:
            raise InputError(
                f"a file has fewer than {_FEWEST_BYTES} bytes beside white space at its beginning: magika does not ask "
                f"its model what it is",
                field="evaluate.dataset",
            )
    return first_and_last(contents)


def classes(kept: Mapping[str, str]) -> NamedClasses:
    """By the texts of ``FILES``. InputError where they are of another form than is known here."""
    config: dict[str, Any] = json.loads(kept[CONFIG])
    types: dict[str, Any] = json.loads(kept[CONTENT_TYPES])
    if otherwise := [name for name, value in _FORM.items() if config.get(name) != value]:
        raise InputError(
            f"magika's configuration is of another form: {', '.join(otherwise)}", field="model.name"
        )
    names = tuple(config["target_labels_space"])
    said_as = tuple(config["overwrite_map"].get(name, name) for name in names)
    usual = config["medium_confidence_threshold"]
    return NamedClasses(
        names=names,
        said_as=said_as,
        least=tuple(config["thresholds"].get(name, usual) for name in names),
        else_said=tuple("txt" if types[name]["is_text"] else "unknown" for name in said_as),
        called=CALLED,
        rule=_RULE,
    )
