"""Splits by name: which samples each has, what they are called, that none is taken for another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.datasets.about import facts, rows
from inferbench_tasks.datasets.base import Collection, DataSource, identity, open_dataset, usual_split
from inferbench_tasks.datasets.content import require_unchanged
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.datasets.digits import Digits
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.digits import split as digits_split
from tests.contract.test_datasets import png


def folder(place: Path, **splits: dict[str, int]) -> None:
    """Of each split so many images of each class."""
    for number, (split, classes) in enumerate(splits.items()):
        for name, count in classes.items():
            (place / split / name).mkdir(parents=True)
            for at in range(count):
                (place / split / name / f"{at}.png").write_bytes(png(20 * number + at))


def labels(collection: Collection) -> list[int]:
    """Of all samples."""
    assert collection.labels is not None
    return [int(label) for label in collection.labels]


def test_a_split_of_ours_is_its_own_samples_and_says_so(tmp_path: Path) -> None:
    """Other samples than the held-out ones, under another name, with another identity; trained on, which is said. The
    usual split by its name is what is asked without."""
    train = open_dataset("digits", None, tmp_path, "train")
    assert (train.count, train.shown_name, train.split, train.training) == (
        1347,
        "digits, train",
        "train",
        True,
    )
    assert np.array_equal(train.rows(np.array([5])), digits_split().train[[5]])
    assert facts(train)["split"] == "train" and facts(train)["name"] == "digits, train"
    require_unchanged("digits", Digits(), train)
    test, plain = (open_dataset("digits", None, tmp_path, split) for split in ("test", None))
    assert test.shown_name == plain.shown_name == "digits" and test.split == plain.split == "test"
    assert test.count == plain.count == 450
    same, usual, other = (identity("digits", None, tmp_path, split) for split in ("test", None, "train"))
    assert same == usual and "split" not in usual and other["split"] == "train"
    assert {row["name"]: row["splits"] for row in rows()}["digits"] == "train, test"
    assert {row["name"]: row["splits"] for row in rows()}["mnist-5k"] == "train"


def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    """Of ours, of data of the user's with splits, and of such that has none."""
    folder(tmp_path / "pets", train={"cat": 1, "dog": 1}, val={"cat": 1, "dog": 1})
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 4), np.float32), labels=np.arange(2))
    for name, path, message in (
        ("digits", None, "digits has no split 'trian'; did you mean 'train'\\? there are: train, test"),
        ("words", None, "words has no split 'trian'; there are: test"),
        ("folder", "pets", "folder has no split 'trian'; did you mean 'train'\\? there are: train, val"),
        ("arrays", "a.npz", "arrays has no splits; leave it out, or name the file or folder of that part"),
    ):
        with pytest.raises(InputError, match=message) as refused:
            open_dataset(name, path, tmp_path, "trian")
        assert refused.value.field == "evaluate.split"


def test_of_a_folder_each_split_has_the_classes_of_all(tmp_path: Path) -> None:
    """A class that one split lacks moves no number of another; classes.txt goes before; other content of the split, and
    other classes beside it, are another data set, other images beside it are not."""
    pets = tmp_path / "pets"
    folder(pets, train={"bird": 2, "cat": 2, "dog": 1}, val={"cat": 1, "dog": 2})
    val = open_dataset("folder", "pets", tmp_path, "val")
    assert (labels(val), val.classes, val.shown_name) == ([1, 2, 2], ("bird", "cat", "dog"), "pets, val")
    train = open_dataset("folder", "pets", tmp_path, "train")
    assert labels(train) == [0, 0, 1, 1, 2]
    assert (facts(train)["training"], facts(val)["training"]) == (True, False)  # by its name
    with pytest.raises(InputError, match=r"pets has no image .*its splits are train, val: name one"):
        open_dataset("folder", "pets", tmp_path)
    before = identity("folder", "pets", tmp_path, "val")
    assert before["split"] == "val"
    (pets / "train" / "cat" / "more.png").write_bytes(png(99))
    assert identity("folder", "pets", tmp_path, "val") == before
    (pets / "train" / "ant").mkdir()
    (pets / "train" / "ant" / "0.png").write_bytes(png(98))
    assert identity("folder", "pets", tmp_path, "val") != before
    (pets / "classes.txt").write_text("dog\ncat\nbird\nant\n")
    assert labels(open_dataset("folder", "pets", tmp_path, "val")) == [1, 0, 0]
    (tmp_path / "secret.png").write_bytes(png(1))
    (pets / "val" / "cat" / "l.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(InputError, match="leads out of the folder"):
        open_dataset("folder", "pets", tmp_path, "val")


def test_of_a_table_a_split_is_the_rows_that_say_so(tmp_path: Path) -> None:
    """With the numbers of all rows' classes, and without the column among numbers; a row without a split is refused
    with its line; without a name all rows are asked, of texts with a word about it."""
    (tmp_path / "t.csv").write_text("label,text,split\nant,a,train\ncat,b,val\nbee,c,val\n")
    val = open_dataset("table", "t.csv", tmp_path, "val")
    assert (val.rows(np.arange(2)), labels(val), val.shown_name) == (["b", "c"], [2, 1], "t, val")
    assert open_dataset("table", "t.csv", tmp_path, "train").training and not val.training
    every = open_dataset("table", "t.csv", tmp_path)
    assert every.count == 3 and facts(every)["all_splits"] == ["train", "val"] and every.shown_name == "t"
    (tmp_path / "n.csv").write_text("label,x,split\n0,1,train\n1,2,val\n")
    numbers = open_dataset("table", "n.csv", tmp_path, "val")
    assert numbers.rows(np.arange(1))[""].tolist() == [[2.0]] and labels(numbers) == [1]
    with pytest.raises(
        InputError, match=r"n.csv:2: split is no finite number: 'train' .*evaluate.split names"
    ):
        open_dataset("table", "n.csv", tmp_path)
    (tmp_path / "n.csv").write_text("label,x,split\n0,1,\n1,2,val\n")
    with pytest.raises(InputError, match=r"n.csv:2: split must be a text; got ''"):
        open_dataset("table", "n.csv", tmp_path, "val")


def test_a_package_that_lists_splits_and_opens_one_has_none_by_name() -> None:
    """Nobody knows which of them its samples are; of one split that is known."""

    class Leaves(DataSource):
        """Of another package."""

        title, origin, licence, form = "Leaves", "a test", "none", "grey"
        described = Described("1.0.0", "0" * 64, {"train": 2, "test": 1}, ("a", "b"))

        def open(self, path: Path | None) -> Collection:
            raise NotImplementedError

    assert (Leaves().splits(None), usual_split(Leaves())) == ((), None)
    Leaves.described = Described("1.0.0", "0" * 64, {"test": 1}, ("a", "b"))
    assert (Leaves().splits(None), usual_split(Leaves())) == (("test",), "test")
