"""The user's data sets: what is wrong is refused with file and line, and labels are what they say."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.datasets.about import facts
from inferbench_tasks.datasets.base import Collection, identity, open_dataset
from inferbench_tasks.datasets.file_types import WRITERS
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.datasets.mnist import Mnist
from inferbench_tasks.datasets.pictures import problem
from inferbench_tasks.datasets.shapes import Shapes
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.processors.image import Image as ToTensor
from inferbench_tasks.requests.fashion import NAMES as CLOTHES
from tests.contract.test_datasets import png

MODEL = ModelArtifact(
    name="m", framework="onnx", format="onnx", path="", digest="", task="image-classification",
    inputs=(TensorSpec(name="input", dtype="float32", shape=(64,)),),
    outputs=(TensorSpec(name="scores", dtype="float32", shape=(10,)),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "label,x\n1,2\n3\n", r"t.csv:3: 1 values, the head has 2"),
        ("t.csv", "label,x\n1,2\n0,nan\n", r"t.csv:3: x is no finite number: 'nan'"),
        ("t.csv", "label,x\n", "t.csv has no rows"),
        ("t.csv", "x\n1\n", r"t.csv:2: a label is needed"),
        ("t.csv", "label,text\na,b\n,c\n", r"t.csv:3: the label is empty"),
        ("t.csv", "label,label\n1,2\n", r"t.csv:1: a column stands twice"),
        ("t.jsonl", '{"label": 1, "text": "a"}\n{"label"\n', r"t.jsonl:2: no JSON"),
        ("t.jsonl", '{"label": 1.5, "text": "a"}\n', r"t.jsonl:1: a label is needed, .* got 1.5"),
        ("t.csv", "label,x\n3.0,1\n4.0,1\n", r"t.csv:2: the label '3.0' is no whole number from 0"),
        ("t.csv", "label,x\n0,1\n 3,1\n", r"t.csv:3: the label ' 3' is no whole number from 0"),
        ("t.csv", "label,x\n" + 5_000 * "9" + ",1\n", r"t.csv:2: class 9{20} is not below 100,000"),
        ("t.csv", "label,x\n1,1e39\n", r"t.csv:2: x is no finite number: '1e39' \(float32\)"),
        ("t.jsonl", '{"label": 1, "x": 1' + 400 * "0" + "}\n", r"t.jsonl:1: x is no finite number"),
        ("t.jsonl", '{"label": true, "text": "a"}\n', r"t.jsonl:1: a label is needed"),
        ("t.jsonl", "[]\n", r"t.jsonl:1: no object"),
        ("t.txt", "x", r"t.txt is no table; allowed: .csv, .jsonl, .parquet"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    """What is wrong is said with the file and the line in which it stands."""
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        open_dataset("table", name, tmp_path)


def test_labels_of_numbers_are_the_classes(tmp_path: Path) -> None:
    """2 is class 2, though only two classes occur."""
    (tmp_path / "t.csv").write_text("label,x,y\n2,1,2\n0,3,4\n")
    collection = open_dataset("table", "t.csv", tmp_path)
    assert collection.labels is not None and collection.labels.tolist() == [2, 0]
    assert not collection.by_name
    assert collection.rows(np.array([1]))[""].tolist() == [[3.0, 4.0]]


def test_names_are_classes_in_the_order_that_is_given(tmp_path: Path) -> None:
    """Sorted names, unless classes.txt has the model's order; a label that it lacks is named with its line."""
    (tmp_path / "t.csv").write_text("label,text\ndog,a\ncat,b\n")
    collection = open_dataset("table", "t.csv", tmp_path)
    assert collection.by_name and collection.labels is not None and collection.labels.tolist() == [1, 0]
    (tmp_path / "classes.txt").write_text("dog\nbird\ncat\n")
    collection = open_dataset("table", "t.csv", tmp_path)
    assert not collection.by_name and collection.labels is not None and collection.labels.tolist() == [0, 2]
    (tmp_path / "classes.txt").write_text("dog\nbird\n")
    with pytest.raises(InputError, match=r"t.csv:3: 'cat' is no class of classes.txt"):
        open_dataset("table", "t.csv", tmp_path)
    (tmp_path / "classes.txt").write_text("\ufeffdog\n\ncat\ndog\n")
    with pytest.raises(InputError, match=r"classes.txt:4: 'dog' stands in line 1 too"):
        open_dataset("table", "t.csv", tmp_path)


def test_a_table_may_be_a_folder_with_its_images_and_its_classes(tmp_path: Path) -> None:
    """What reads samples reaches only what a submission names: of a table's images that is their folder."""
    folder = tmp_path / "mine"
    (folder / "images").mkdir(parents=True)
    for name, colour in (("a", 10), ("b", 200)):
        Image.new("L", (4, 4), colour).save(folder / "images" / f"{name}.png")
    (folder / "labels.csv").write_text("label,file\ndog,images/a.png\ncat,images/b.png\n")
    (folder / "classes.txt").write_text("dog\ncat\n")
    collection = open_dataset("table", "mine", tmp_path)
    assert collection.labels is not None
    assert collection.labels.tolist() == [0, 1] and collection.classes == ("dog", "cat")
    before = identity("table", "mine", tmp_path)["files"]
    assert len(before) == 4  # the table, the names, two images
    Image.new("L", (4, 4), 11).save(folder / "images" / "a.png")
    assert identity("table", "mine", tmp_path)["files"] != before
    (folder / "more.jsonl").write_text("{}")
    with pytest.raises(
        InputError, match=r"mine needs one table .* at its top; there: labels.csv, more.jsonl"
    ):
        open_dataset("table", "mine", tmp_path)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"none needs one table .*; there: none"):
        open_dataset("table", "none", tmp_path)


def test_broken_images_are_counted_named_and_bounded(tmp_path: Path) -> None:
    """One in 150 is left out and named, and its class keeps its number; two in 151 are too many."""
    for at in range(150):
        place = tmp_path / "set" / f"{at % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{at}.png").write_bytes(png(at))
    (tmp_path / "set" / "0" / "0.png").write_bytes(png(9)[:45])
    collection = open_dataset("folder", "set", tmp_path)
    assert collection.count == 149 and len(collection.left_out) == 1
    assert collection.left_out[0].startswith("0/0.png: ")
    (tmp_path / "set" / "1" / "x.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"2 of 151 images can't be read, allowed are 1%: 0/0.png"):
        open_dataset("folder", "set", tmp_path)


def test_an_empty_folder_and_a_link_outwards_are_refused(tmp_path: Path) -> None:
    """Nothing is evaluated on no samples, and nothing is read outside of the folder."""
    (tmp_path / "set" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match="has no image in a folder of a class"):
        open_dataset("folder", "set", tmp_path)
    (tmp_path / "secret.png").write_bytes(png(1))
    (tmp_path / "set" / "a" / "l.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(InputError, match="leads out of the folder"):
        open_dataset("folder", "set", tmp_path)


def test_labels_that_do_not_fit_the_models_classes_are_refused(tmp_path: Path) -> None:
    """Class 10 of a model with 10 classes, and names that are more or fewer than its classes."""
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32), labels=np.array([3, 10]))
    with pytest.raises(InputError, match="the first is 10 of sample 1"):
        fitted(open_dataset("arrays", "a.npz", tmp_path), Digits("digits"), MODEL)
    (tmp_path / "t.csv").write_text("label,text\ndog,a\ncat,b\n")
    with pytest.raises(InputError, match=r"2 classes by their names, m scores 10.*classes.txt"):
        fitted(open_dataset("table", "t.csv", tmp_path), Digits("digits"), MODEL)


def test_targets_stand_where_the_labels_are_of_other_classes_than_the_models() -> None:
    """Two shapes, ten scores: the boxes and masks are what they are, and the labels alone are left out."""
    pictures = MODEL.model_copy(
        update={"inputs": (TensorSpec(name="input", dtype="float32", shape=(1, 32, 32)),)}
    )
    dataset = fitted(Shapes().open(None), Digits("digits"), pictures)
    assert dataset.labels() is None and set(dataset.targets()) == {"numbers", "pictures", "masks", "boxes"}


def test_an_input_may_be_called_like_a_target(tmp_path: Path) -> None:
    """Five names are targets; ``target_ids`` is an input as it always was."""
    arrays = {
        "target_ids": np.ones((2, 3)),
        "target_numbers": np.arange(2.0),
        "labels": np.zeros(2, np.int64),
    }
    np.savez(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    collection = open_dataset("arrays", "a.npz", tmp_path)
    assert set(collection.rows(np.arange(2))) == {"target_ids"} and set(collection.targets) == {"numbers"}


def test_arrays_without_labels_or_of_unequal_length_are_refused(tmp_path: Path) -> None:
    """What is missing is named."""
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32))
    with pytest.raises(InputError, match="needs labels"):
        open_dataset("arrays", "a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32), labels=np.zeros(3, np.int64))
    with pytest.raises(InputError, match="as many samples in each"):
        open_dataset("arrays", "a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32), labels=np.zeros(2))
    with pytest.raises(InputError, match="must be a whole number"):
        open_dataset("arrays", "a.npz", tmp_path)


def test_a_named_data_set_takes_no_path_and_files_need_one(tmp_path: Path) -> None:
    """A path that nothing reads would be believed to be read."""
    with pytest.raises(InputError, match="takes no evaluate.path"):
        open_dataset("digits", "x", tmp_path)
    with pytest.raises(InputError, match="needs evaluate.path"):
        open_dataset("folder", None, tmp_path)


def test_the_digits_are_those_that_the_model_has_itself(tmp_path: Path) -> None:
    """Evaluated by name, the model gets the very arrays of its own data set."""
    source = Digits("digits")
    dataset = fitted(open_dataset("digits", None, tmp_path), source, MODEL)
    rows, own = np.arange(len(dataset)), source.dataset()
    assert np.array_equal(dataset.inputs(rows)["input"], own.inputs(rows)["input"])
    assert np.array_equal(dataset.labels(), own.labels())  # type: ignore[arg-type]


def test_generated_files_are_of_their_types(tmp_path: Path) -> None:
    """Their first bytes are those that their types are known by."""
    collection = open_dataset("file-types", None, tmp_path)
    starts = {
        "gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ", "zip": b"PK\x03\x04", "sqlite": b"SQLite format 3",
        "wav": b"RIFF", "xml": b"<?xml",
    }  # fmt: skip
    for name, start in starts.items():
        at = list(WRITERS).index(name)
        assert collection.classes[at] == name
        assert collection.rows(np.array([at]))[0].startswith(start)


def scoring(classes: int, shape: tuple[int, ...] = (64,)) -> ModelArtifact:
    """A model of so many classes."""
    return MODEL.model_copy(
        update={
            "inputs": (TensorSpec(name="input", dtype="float32", shape=shape),),
            "outputs": (TensorSpec(name="scores", dtype="float32", shape=(classes,)),),
        }
    )


def test_numbers_with_a_point_are_names_only_where_classes_txt_says_so(tmp_path: Path) -> None:
    """Versions are classes in the order that is given; without it they would be sorted by their letters."""
    (tmp_path / "t.csv").write_text("label,text\n10.0,a\n9.0,b\n")
    with pytest.raises(InputError, match=r"t.csv:2: the label '10.0' is no whole number from 0"):
        open_dataset("table", "t.csv", tmp_path)
    (tmp_path / "classes.txt").write_text("9.0\n10.0\n")
    labels = open_dataset("table", "t.csv", tmp_path).labels
    assert labels is not None and labels.tolist() == [1, 0]


def test_classes_of_another_number_are_other_classes(tmp_path: Path) -> None:
    """Ten digits have no accuracy on a model of a thousand classes, nor has a classes.txt that lacks one of eleven."""
    with pytest.raises(InputError, match=r"digits has 10 classes, m scores 1000: they are not the same"):
        fitted(open_dataset("digits", None, tmp_path), Digits("digits"), scoring(1000))
    (tmp_path / "t.csv").write_text("label,x\n" + "".join(f"c{at},1\n" for at in range(10)))
    (tmp_path / "classes.txt").write_text("".join(f"c{at}\n" for at in range(10)))
    with pytest.raises(InputError, match=r"t has 10 classes, m scores 11"):
        fitted(open_dataset("table", "t.csv", tmp_path), Digits("digits"), scoring(11, (1,)))
    assert len(fitted(open_dataset("table", "t.csv", tmp_path), Digits("digits"), scoring(10, (1,)))) == 10


def test_as_many_classes_of_other_names_are_other_classes(tmp_path: Path) -> None:
    """Ten clothes have no accuracy on a model of ten digits. A user's names, which are sorted, may be the model's in
    other words: the user's own list says so."""
    labels = np.arange(10, dtype=np.int64)
    clothes = Collection(
        "clothes", "grey", 10, lambda rows: np.zeros((len(rows), 8, 8), np.float32), labels, CLOTHES
    )
    with pytest.raises(
        InputError, match="class 0 of clothes is 'T-shirt/top', and '0' of m: they are not the same"
    ):
        fitted(clothes, Digits("digits"), MODEL)
    naming = MODEL.model_copy(update={"outputs": (TensorSpec(name="label", dtype="int64", shape=()),)})
    with pytest.raises(InputError, match="'T-shirt/top'"):
        fitted(clothes, Digits("digits"), naming)
    random = MODEL.model_copy(update={"accuracy_reason": "its weights are random"})
    assert len(fitted(clothes, Digits("digits"), random)) == 10, (
        "labels are not used, and only agreement is told"
    )
    names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    columns = ",".join(f"x{at}" for at in range(64))
    rows = "".join(f"{name}{',0' * 64}\n" for name in names)
    (tmp_path / "t.csv").write_text(f"label,{columns}\n{rows}")
    with pytest.raises(
        InputError, match=r"class 0 of t is 'eight', and '0' of m\. Write .* into classes.txt"
    ):
        fitted(open_dataset("table", "t.csv", tmp_path), Digits("digits"), MODEL)
    (tmp_path / "classes.txt").write_text("\n".join(names))
    told = fitted(open_dataset("table", "t.csv", tmp_path), Digits("digits"), MODEL).labels()
    assert told is not None and told.tolist() == [*range(10)]


def test_words_are_for_models_that_see_them_whole(tmp_path: Path) -> None:
    """The middle square of a picture of 320 x 48 may have no ink at all."""
    words = open_dataset("words", None, tmp_path)
    with pytest.raises(InputError, match=r"words are 320 x 48, m takes 64 x 64"):
        fitted(words, Digits("digits"), scoring(20, (3, 64, 64)))
    assert len(fitted(words, Digits("digits"), scoring(20, (1, 24, 160)))) == 1_000
    assert len(fitted(words, Digits("digits"), scoring(20, (48, 320, 3)))) == 1_000


def test_only_pictures_of_eight_bits_and_of_known_formats_are_decoded(tmp_path: Path) -> None:
    """Of 16 bits nearly all would be white; an EPS starts a program, whatever its file is called."""
    Image.new("I;16", (4, 4), 20_000).save(tmp_path / "deep.png")
    (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n")
    assert "more than 8 bits" in str(problem(tmp_path / "deep.png"))
    assert "cannot identify image file" in str(problem(tmp_path / "x.png"))
    for name, message in (("deep.png", "more than 8 bits"), ("x.png", "cannot identify")):
        with pytest.raises(InputError, match=f"Image 0 can't be .*{message}"):
            ToTensor(4)([(tmp_path / name).read_bytes()])
    for ending in ("png", "jpg", "bmp", "webp", "gif", "tif"):
        Image.new("RGB", (4, 4)).save(tmp_path / f"good.{ending}")
        assert problem(tmp_path / f"good.{ending}") is None


def test_another_picture_is_another_data_set_whatever_columns_rows_have(tmp_path: Path) -> None:
    """A row's own ``text`` does not end the list of pictures: the first row says what the table has."""
    rows = [
        '{"label": 0, "file": "0.png"}',
        '{"label": 1, "file": "1.png", "text": "a"}',
        '{"label": 2, "file": "2.png"}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    for at in range(3):
        (tmp_path / f"{at}.png").write_bytes(png(at))
    before = identity("table", "t.jsonl", tmp_path)
    (tmp_path / "2.png").write_bytes(png(99))
    assert identity("table", "t.jsonl", tmp_path)["files"] != before["files"]


def test_a_broken_file_of_arrays_is_refused(tmp_path: Path) -> None:
    """A member that is no array, a header that claims 2^45 numbers, and numbers that the model's type can't hold."""
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32), labels=np.zeros(2, np.int64))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match="members that are no arrays: readme.txt"):
        open_dataset("arrays", "a.npz", tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 45,)}
    )
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("input.npy", header.getvalue())
    with pytest.raises(InputError, match=r"b.npz can't be read"):
        open_dataset("arrays", "b.npz", tmp_path)
    np.savez(tmp_path / "c.npz", input=np.full((2, 64), 1e39), labels=np.zeros(2, np.int64))
    with pytest.raises(InputError, match="array input has values that float32 can't hold"):
        fitted(open_dataset("arrays", "c.npz", tmp_path), Digits("digits"), MODEL)


def test_a_hidden_folder_is_no_class(tmp_path: Path) -> None:
    """What editors leave beside the classes moves none of their numbers."""
    for name in (".ipynb_checkpoints", "cat", "dog"):
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "0.png").write_bytes(png(3))
    assert open_dataset("folder", "set", tmp_path).classes == ("cat", "dog")


def test_images_of_training_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What results say of MNIST's 5,000 has the mark, and of held-out digits it has not."""
    labels = np.zeros(5_000, np.int64)
    monkeypatch.setattr(
        "inferbench_tasks.datasets.mnist._fetched", lambda: (np.zeros((5_000, 28, 28)), labels)
    )
    opened: Collection = Mnist().open(None)
    assert facts(opened)["training"] and not facts(open_dataset("digits", None, tmp_path))["training"]
