"""One digest of all answers: two runs with the same digest answered every sample alike, to the last bit."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays


def answers_digest(outputs: Arrays) -> str:
    """SHA-256 of the outputs, a row for each sample in the order in which the set has them.

    Of each output, by its name: type, shape and bytes (little-endian, row by row); of texts the texts. NaN and the
    sign of zero count as they are stored: bit-equal means bit-equal.
    """
    digest = hashlib.sha256()
    for name in sorted(outputs):
        array = outputs[name]
        texts = array.dtype.kind in "USO"
        # How wide a text's field is says how long the longest one is, and nothing of the answers.
        kind = "text" if texts else array.dtype.newbyteorder("<").str
        digest.update(json.dumps([name, kind, list(array.shape)]).encode() + b"\n")
        if texts:
            digest.update(json.dumps(array.astype(str).ravel().tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes())
    return digest.hexdigest()
