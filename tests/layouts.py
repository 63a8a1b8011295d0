"""Small data sets in COCO's and SQuAD's layouts, and models that answer them, made where a test needs them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SPLIT = "val2017"
#: Category ids with gaps, not in the order of the names.
CATEGORIES = [{"id": 3, "name": "car"}, {"id": 1, "name": "person"}, {"id": 90, "name": "brush"}]
#: Image's id -> width and height; 7 has no annotation.
SIZES = {42: (40, 20), 7: (30, 30), 9: (20, 40)}


def instances() -> dict[str, Any]:
    """Three images, two boxes and a crowd."""
    return {
        "info": {},
        "images": [
            {"id": at, "file_name": f"{at:06}.png", "width": w, "height": h} for at, (w, h) in SIZES.items()
        ],
        "categories": [dict(category) for category in CATEGORIES],
        "annotations": [
            {
                "id": 1,
                "image_id": 42,
                "category_id": 90,
                "bbox": [10, 5, 20, 10],
                "area": 150.5,
                "iscrowd": 0,
            },
            {"id": 2, "image_id": 9, "category_id": 1, "bbox": [0, 0, 10, 20], "area": 200, "iscrowd": 0},
            {"id": 3, "image_id": 9, "category_id": 1, "bbox": [10, 20, 10, 20], "area": 90, "iscrowd": 1},
        ],
    }


def coco(folder: Path, document: Any = None, split: str = SPLIT) -> Path:
    """The folder, as COCO's archives unpack: the images in a folder beside ``annotations``."""
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    (folder / split).mkdir(exist_ok=True)
    document = instances() if document is None else document
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "annotations" / f"instances_{split}.json").write_text(text)
    for at, size in SIZES.items():
        (folder / split / f"{at:06}.png").write_bytes(png(size, at))
    return folder


def png(size: tuple[int, int], shade: int) -> bytes:
    """A picture of one colour; its red tells which it is."""
    data = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 0)).save(data, "PNG")
    return data.getvalue()


CONTEXT = "Ada Lovelace wrote the first program in 1843 , and Babbage built no engine ."
QUESTIONS = ("who wrote it", "when was it", "who built an engine")


def squad(path: Path, version: str = "v2.0") -> Path:
    """Three questions about one text; of 2.0 the last has no answer, of 1.1 it is not there."""
    qas: list[dict[str, Any]] = [
        {"id": "a", "question": QUESTIONS[0], "answers": [
            {"text": "Ada Lovelace", "answer_start": 0}, {"text": "Lovelace", "answer_start": 4},
            {"text": "Ada Lovelace", "answer_start": 0}]},
        {"id": "b", "question": QUESTIONS[1], "answers": [{"text": "in 1843", "answer_start": 37}]},
    ]  # fmt: skip
    if version == "v2.0":
        qas = [{**qa, "is_impossible": False} for qa in qas]
        plausible = [{"text": "Babbage", "answer_start": 51}]
        qas.append(
            {
                "id": "c",
                "question": QUESTIONS[2],
                "answers": [],
                "is_impossible": True,
                "plausible_answers": plausible,
            }
        )
    paragraphs = [{"context": CONTEXT, "qas": qas}]
    path.write_text(json.dumps({"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *dict.fromkeys(f"{' '.join(QUESTIONS)} {CONTEXT}".lower().split()),
)


def tokenizer(path: Path, *, pairs: bool = True) -> Path:
    """A ``tokenizer.json`` of whole words, in lower case, that makes pairs as BERT's does."""
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, processors

    made = tokenizers.Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if pairs:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    made.save(str(path))
    return path


def answering(path: Path, start: dict[str, float], end: dict[str, float], tokens: int | str = "t") -> Path:
    """A model that scores each token by its word alone, as start and as end of an answer; others have -1."""
    tables = {}
    for name, by_word in (("starts", start), ("ends", end)):
        tables[name] = np.full(len(WORDS), -1, dtype=np.float32)
        for word, score in by_word.items():
            tables[name][WORDS.index(word)] = score
    names = ("input_ids", "attention_mask", "token_type_ids")
    nodes = [helper.make_node("Gather", ["starts", "input_ids"], ["of_starts"])]
    nodes += [
        # The other inputs are of no use to it, and a graph may have none that nobody reads.
        helper.make_node("Add", ["attention_mask", "token_type_ids"], ["both"]),
        helper.make_node("Mul", ["both", "nothing"], ["zeros"]),
        helper.make_node("Cast", ["zeros"], ["none"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["of_starts", "none"], ["start_logits"]),
        helper.make_node("Gather", ["ends", "input_ids"], ["end_logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "answering",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", tokens]) for name in names],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", tokens])
            for name in ("start_logits", "end_logits")
        ],
        [
            *(numpy_helper.from_array(table, name) for name, table in tables.items()),
            numpy_helper.from_array(np.zeros(1, np.int64), "nothing"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def detecting(path: Path, boxes: np.ndarray[Any, Any], side: int = 64) -> Path:
    """A model of pictures 3 x side x side in [0, 1] whose red says, in 255ths, which of these rows it answers."""
    graph = helper.make_graph(
        [
            helper.make_node("Slice", ["input", "zero", "one", "axes"], ["corner"]),
            helper.make_node("Mul", ["corner", "scale"], ["shade"]),
            helper.make_node("Round", ["shade"], ["rounded"]),
            helper.make_node("Clip", ["rounded", "least", "most"], ["within"]),
            helper.make_node("Cast", ["within"], ["index"], to=TensorProto.INT64),
            helper.make_node("Reshape", ["index", "flat"], ["which"]),
            helper.make_node("Gather", ["table", "which"], ["detections"]),
        ],
        "detecting",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, side, side])],
        [helper.make_tensor_value_info("detections", TensorProto.FLOAT, ["n", *boxes.shape[1:]])],
        [
            numpy_helper.from_array(np.zeros(3, np.int64), "zero"),
            numpy_helper.from_array(np.ones(3, np.int64), "one"),
            numpy_helper.from_array(np.array([1, 2, 3]), "axes"),
            numpy_helper.from_array(np.array([255], np.float32), "scale"),
            numpy_helper.from_array(np.array(0, np.float32), "least"),
            numpy_helper.from_array(np.array(len(boxes) - 1, np.float32), "most"),
            numpy_helper.from_array(np.array([-1]), "flat"),
            numpy_helper.from_array(boxes.astype(np.float32), "table"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path
