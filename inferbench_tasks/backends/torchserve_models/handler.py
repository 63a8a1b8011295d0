# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-call"
"""Runs inside TorchServe, in TorchServe's own environment: a TorchScript model behind KServe v2 with binary tensors.

TorchServe hands over the requests that its batching took together; those of one shape are joined and run once.
"""

import json
import mmap
import os
import struct

import numpy as np
import torch

HEADER_LENGTH = "inference-header-content-length"
DTYPES = {
    "BOOL": "bool", "UINT8": "uint8", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip


class Handler:  # TorchServe takes the file's only class
    """One worker. Two counters (runs, rows) lie in a file that the control plane reads."""

    def initialize(self, context):
        """Load the model of the archive."""
        folder = context.system_properties["model_dir"]
        with open(os.path.join(folder, "inferbench.json")) as file:
            self.config = json.load(file)
        torch.set_num_threads(self.config["threads"])
        self.module = torch.jit.load(os.path.join(folder, "model.pt"), map_location="cpu").eval()
        with open(os.path.join(self.config["folder"], f"counters-{os.getpid()}"), "wb+") as file:
            file.write(bytes(16))
            file.flush()
            self.counters = mmap.mmap(file.fileno(), 16)
        self.initialized = True

    def handle(self, data, context):
        """Answer a batch of requests; one answer per request."""
        answers = [b""] * len(data)
        groups: dict[tuple, list] = {}  # type: ignore[type-arg]
        for at, row in enumerate(data):
            try:
                headers = {key.lower(): value for key, value in context.get_all_request_header(at).items()}
                length = headers.get(HEADER_LENGTH)
                arrays = self.decode(row.get("body"), int(length) if length else None)
                key = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
                groups.setdefault(key, []).append((at, arrays))
            except (ValueError, KeyError, TypeError) as error:
                answers[at] = self.refuse(context, at, 400, str(error))
        for group in groups.values():
            try:
                for at, outputs in self.run(group):
                    answers[at] = self.encode(context, at, outputs)
            except Exception as error:  # noqa: BLE001 - whatever PyTorch raises is the request's answer
                for at, _ in group:
                    answers[at] = self.refuse(context, at, 500, f"inference failed: {error}")
        return answers

    def run(self, group):
        """The outputs of each request of one shape, from one run of the model."""
        joined = [np.concatenate(parts) for parts in zip(*(arrays for _, arrays in group), strict=True)]
        with torch.inference_mode():
            answer = self.module(*(torch.from_numpy(array) for array in joined))
        if isinstance(answer, dict):
            answer = tuple(answer.values())
        values = [part.numpy() for part in (answer if isinstance(answer, (tuple, list)) else (answer,))]
        runs, rows = struct.unpack("<qq", self.counters[:16])
        self.counters[:16] = struct.pack("<qq", runs + 1, rows + len(joined[0]))
        start = 0
        for at, arrays in group:
            end = start + len(arrays[0])
            yield at, [value[start:end] for value in values]
            start = end

    def decode(self, body, length):
        """Decode a request; the inputs come in the model's order."""
        if isinstance(body, dict):
            document, tail = body, b""
        elif length is None:
            document, tail = json.loads(bytes(body)), b""
        else:
            document, tail = json.loads(bytes(body[:length])), bytes(body[length:])
        tensors, at = {}, 0
        for item in document["inputs"]:
            size = item.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = np.array(item["data"], dtype=DTYPES[item["datatype"]])
            else:
                values = np.frombuffer(tail[at : at + size], dtype=DTYPES[item["datatype"]])
                at += size
            tensors[item["name"]] = (item["datatype"], values.reshape(item["shape"]))
        arrays = []
        for spec in self.config["inputs"]:
            if spec["name"] not in tensors:
                raise ValueError(f"inputs: {spec['name']} is missing")
            datatype, array = tensors[spec["name"]]
            if datatype != spec["datatype"]:
                raise ValueError(f"inputs.{spec['name']}: {datatype} given, {spec['datatype']} expected")
            fits = array.ndim == len(spec["shape"]) and all(
                want in (-1, size) for want, size in zip(spec["shape"], array.shape, strict=True)
            )
            if not fits:
                raise ValueError(
                    f"inputs.{spec['name']}: {list(array.shape)} given, {spec['shape']} expected"
                )
            arrays.append(array.copy())  # writable, as PyTorch wants it
        if len(tensors) != len(arrays) or len({len(array) for array in arrays}) != 1:
            raise ValueError("inputs: unknown inputs, or different batch sizes")
        return arrays

    def encode(self, context, at, outputs):
        """Encode an answer: binary tensors behind a JSON part."""
        items, parts = [], []
        for spec, value in zip(self.config["outputs"], outputs, strict=True):
            raw = np.ascontiguousarray(value).tobytes()
            items.append(
                {
                    "name": spec["name"],
                    "datatype": spec["datatype"],
                    "shape": list(value.shape),
                    "parameters": {"binary_data_size": len(raw)},
                }
            )
            parts.append(raw)
        head = json.dumps({"model_name": self.config["name"], "outputs": items}).encode()
        context.set_response_content_type(at, "application/octet-stream")
        context.set_response_header(at, HEADER_LENGTH, str(len(head)))
        return b"".join([head, *parts])

    def refuse(self, context, at, status, text):
        """An error for one request of the batch."""
        context.set_response_status(code=status, phrase="Bad Request" if status == 400 else "Error", idx=at)
        context.set_response_content_type(at, "application/json")
        return json.dumps({"error": text}).encode()
