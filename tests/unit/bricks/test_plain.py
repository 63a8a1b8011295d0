"""Networks that may be shown: what decides on the work is in them, and no other number of the model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.constants import PLACES
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.networks import network, network_feeds
from inferbench_tasks.bricks.places import DRAWN, drawn
from inferbench_tasks.bricks.plain import coarse, make_plain
from inferbench_tasks.bricks.runtimes.onnxruntime import open_network
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import IMAGE, image, residual, save, weight

ROW = {"x": (TensorProto.FLOAT, ("batch", 4))}


def plain(path: Path, feeds: Arrays) -> list[tuple[dict[str, Array], Arrays]]:
    """Of each brick the constants of its plain network, and its inputs."""
    graph = layer_graph(path, feeds, "portable", path.parent / "p")
    made = []
    for brick in cut(graph, 1):
        proto = ir.to_proto(network(graph, brick, "plain"))
        constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
        made.append((constants, network_feeds(graph, brick)))
    return made


def test_single_numbers_lose_their_digits_and_deciding_ones_stay(tmp_path: Path) -> None:
    """A scale of 0.1234 is the next power of four (1/16 or 1/4), the exponent 3 and the bound 6 are what is done."""
    constants = {
        name: np.array(value, np.float32) for name, value in (("s", 0.1234), ("e", 3), ("l", 0), ("h", 6))
    }
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Pow", ["a", "e"], ["b"]),
        helper.make_node("Clip", ["b", "l", "h"], ["y"]),
    ]
    scaled, raised, clipped = plain(save(tmp_path / "m.onnx", nodes, constants, ROW), {"x": weight(1, 4)})
    assert coarse(0.1234) == 0.0625 * 4 ** round(np.log(0.1234 / 0.0625) / np.log(4))
    assert [float(v) for v in scaled[0].values()] == [coarse(0.1234)]
    assert [float(v) for v in raised[0].values()] == [3]
    assert sorted(float(v) for v in clipped[0].values()) == [0, 6]


def test_weights_and_recorded_numbers_are_nobody_s(tmp_path: Path) -> None:
    """Other weights, the same files: nothing but what decides on the work is in them; and each still runs."""
    files = []
    for seed in (0, 40):
        path = residual(tmp_path / f"{seed}.onnx", prefix=f"secret{seed}/", seed=seed)
        graph = layer_graph(path, image(), "portable", tmp_path / str(seed))
        own = []
        for brick in cut(graph, 1):
            made, feeds = network(graph, brick, "plain"), network_feeds(graph, brick)
            answers = open_network(made).run(None, feeds)
            assert all(np.isfinite(answer).all() for answer in answers)
            numbers = b"".join(array.tobytes() for array in feeds.values())
            own.append(ir.to_proto(made).SerializeToString() + numbers)
        files.append(own)
    assert files[0] == files[1]
    assert not any(b"secret" in one for one in files[0])


def test_the_exporter_s_versions_are_not_told(tmp_path: Path) -> None:
    """The same layer of opset 14 and of 17 is one file: else bricks of one model could be told by it."""
    node = helper.make_node("Relu", ["x"], ["y"])
    made = []
    for opset in (14, 17):
        path = save(tmp_path / f"{opset}.onnx", [node], {}, ROW, opset=opset)
        graph = layer_graph(path, {"x": weight(1, 4)}, "portable", tmp_path / str(opset))
        made.append(ir.to_proto(network(graph, next(cut(graph, 1)), "plain")).SerializeToString())
    assert made[0] == made[1]


def test_integers_that_choose_stay_and_quantised_ones_do_not(tmp_path: Path) -> None:
    """Indices of an embedding are those of the run; what a quantised layer was fed tells of the layers before it."""
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    path = save(tmp_path / "g.onnx", [node], {"w": weight(50, 4)}, {"x": (TensorProto.INT64, ("n", 4))})
    indices = np.array([[1, 49, 7, 7]])
    [(constants, feeds)] = plain(path, {"x": indices})
    assert feeds["x0"].tolist() == indices.tolist()
    assert not np.isin(constants["w0"], weight(50, 4)).any()
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    zero: dict[str, Array] = {"s": np.array(0.37, np.float32), "z": np.array(3, np.uint8)}
    path = save(tmp_path / "q.onnx", [node], zero, {"x": (TensorProto.UINT8, ("n", 64))})
    recorded = np.full((1, 64), 77, np.uint8)
    [(constants, feeds)] = plain(path, {"x": recorded})
    assert (feeds["x0"] != recorded).mean() > 0.9 and feeds["x0"].dtype == np.uint8
    assert sorted(float(v) for v in constants.values()) == [0.25, 3.0]


def test_masks_stay_and_what_is_beside_them_goes(tmp_path: Path) -> None:
    """A mask decides on the time of a Softmax; a bias that was folded into it is a weight."""
    mask = np.triu(np.full((8, 8), -np.inf, np.float32), 1) + np.tril(weight(8, 8))
    nodes = [helper.make_node("Add", ["x", "m"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    (constants, _), (_, feeds) = plain(save(tmp_path / "m.onnx", nodes, {"m": mask}, IMAGE), image())
    kept = constants["w0"]
    assert np.array_equal(np.isneginf(kept), np.isneginf(mask)) and not kept[np.isfinite(kept)].any()
    assert np.isneginf(feeds["x0"]).sum() == 3 * 28


F32_LEAST, F64_LEAST = float(np.finfo(np.float32).min), float(np.finfo(np.float64).min)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-4_999.0, np.float32, -(4.0**6)),
        (-5_000.0, np.float32, -(4.0**7)),
        (-8_192.0, np.float32, -(4.0**7)),
        (-1e4, np.float32, -(4.0**7)),
        (-1e9, np.float32, -(4.0**15)),
        (F32_LEAST, np.float32, -(4.0**63)),
        (-F32_LEAST, np.float32, 4.0**63),
        (-65_504.0, np.float16, -(4.0**7)),
        (60_000.0, np.float16, 4.0**7),
        (F64_LEAST, np.float64, -(4.0**511)),
        (-np.inf, np.float32, -np.inf),
        (0.0, np.float32, 0.0),
    ],
)
def test_a_power_of_four_masks_and_is_finite_as_the_number_does_and_is(
    value: float, dtype: Any, expected: float
) -> None:
    """Numbers of -5000 and below mask; a type's least one has a power below it."""
    assert coarse(value, dtype) == float(dtype(coarse(value, dtype))) == expected


@pytest.mark.parametrize(
    ("mask", "kept"), [(-6_000.0, -(4.0**7)), (F32_LEAST, -(4.0**63)), (-1e4, -(4.0**7)), (-np.inf, -np.inf)]
)
def test_a_mask_is_one_in_the_suite(tmp_path: Path, mask: float, kept: float) -> None:
    """As a constant, as one number where something else chooses, and as an input: what is masked gets no share of a
    Softmax, and what was finite is."""
    masks = np.array([[0, mask, 0, mask]], np.float32)
    nodes = [
        helper.make_node("Add", ["x", "m"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Where", ["c", "b", "one"], ["y"]),
    ]
    constants: dict[str, Array] = {
        "m": masks, "one": np.array(mask, np.float32), "c": np.array([[True, False, True, True]]),
    }  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, constants, ROW)
    (added, _), (_, feeds), (chosen, _) = plain(path, {"x": weight(1, 4)})
    assert added["w0"].tolist() == [[0, kept, 0, kept]]
    assert feeds["x0"].tolist()[0][1::2] == [kept, kept]
    assert [float(v) for v in chosen.values() if v.size == 1] == [kept]


def test_what_is_sampled_is_a_weight(tmp_path: Path) -> None:
    """A learned picture that positions are looked up in: its operator's other numbers decide on the work, these do
    not."""
    node = helper.make_node("GridSample", ["table", "x"], ["y"])
    inputs = {"x": (TensorProto.FLOAT, ("n", 8, 8, 2))}
    path = save(tmp_path / "m.onnx", [node], {"table": weight(1, 1, 9, 9)}, inputs)
    [(constants, _)] = plain(path, {"x": weight(1, 8, 8, 2)})
    assert constants["w0"].shape == (1, 1, 9, 9) and not np.isin(constants["w0"], weight(1, 1, 9, 9)).any()


def test_several_exponents_are_weights(tmp_path: Path) -> None:
    """One exponent chooses how a power is computed; one for each channel was learned."""
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    exponents = np.array([[2.9374, 3.125, 0.5, 2]], np.float32)
    [(constants, _)] = plain(
        save(tmp_path / "m.onnx", [node], {"e": exponents}, ROW), {"x": np.abs(weight(1, 4))}
    )
    assert constants["w0"].shape == (1, 4) and not np.isin(constants["w0"], exponents).any()
    assert (constants["w0"] > 0).all()


def test_each_place_of_a_model_s_own_is_drawn() -> None:
    """What is no weight and learned or tuned all the same has a rule, by operator and input."""
    assert DRAWN.keys() == PLACES


#: As the operators take them, and as nobody else would have them: their boxes reach 7.125, so that others reach 4.
GRID = np.random.default_rng(5).uniform(-1, 1, (1, 8, 6, 2)).astype(np.float32)
BOXES = np.array([[0.123, 1.5, 6.321, 7.125], [2.0625, 0.75, 5.5, 3.375]], np.float32)
IN_PICTURES = np.concatenate([np.array([[0], [1]], np.float32), BOXES], axis=1)
MOST, IMAGES = np.array([5]), np.array([1, 0])
SCORES = np.array([[[0.71, 0.37]]], np.float32)


def taken(operator: str, inputs: Sequence[Array | None], settings: Mapping[str, Any]) -> Any:
    """A model of one operator, whose constants are called as a brick's are; None: the pictures that it takes."""
    constants = {f"w{at}": array for at, array in enumerate(inputs) if array is not None}
    kind = helper.np_dtype_to_tensor_dtype(next(iter(constants.values())).dtype)
    answered = TensorProto.INT64 if operator == "NonMaxSuppression" else kind
    names = ["x0" if array is None else f"w{at}" for at, array in enumerate(inputs)]
    pictures = [helper.make_tensor_value_info("x0", kind, [2, 3, 8, 8])]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y0"], **settings)],
        "g",
        pictures if inputs[0] is None else [],
        [helper.make_tensor_value_info("y0", answered, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(
    ("operator", "inputs", "settings", "boxes"),
    [
        ("GridSample", (None, np.repeat(GRID, 2, axis=0)), {}, False),
        ("AffineGrid", (weight(2, 2, 3), np.array([2, 3, 8, 6])), {}, False),
        ("AffineGrid", (weight(2, 3, 4), np.array([2, 3, 4, 8, 6])), {}, False),
        ("RoiAlign", (None, BOXES, IMAGES), {"output_height": 2, "output_width": 2}, True),
        ("MaxRoiPool", (None, IN_PICTURES), {"pooled_shape": [2, 2]}, True),
        ("NonMaxSuppression", (BOXES[None], SCORES, MOST), {}, True),
        ("NonMaxSuppression", (BOXES[None], SCORES, MOST), {"center_point_box": 1}, True),
    ],
)
def test_places_and_boxes_are_nobody_s_and_their_operator_takes_them(
    operator: str, inputs: Sequence[Array | None], settings: dict[str, Any], boxes: bool
) -> None:
    """A learned grid, affine maps, boxes and their scores: the same seed draws the same, no number of the model's is
    left but which picture a box is of, and the answers are finite. Boxes have two sides, and lie where pictures are."""
    made = []
    for seed in (3, 3, 4):
        model = ir.from_proto(taken(operator, inputs, settings))
        make_plain(model, np.random.default_rng(seed))
        drawn = {name: value.const_value for name, value in model.graph.initializers.items()}
        made.append({int(name[1:]): tensor.numpy() for name, tensor in drawn.items() if tensor is not None})
        [answer] = open_network(model).run(None, {"x0": weight(2, 3, 8, 8)} if inputs[0] is None else {})
        assert np.isfinite(answer).all() and answer.size
    for at, own in enumerate(inputs):
        if own is None:
            continue
        one, again, other = (each[at] for each in made)
        assert one.shape == own.shape and one.dtype == own.dtype
        if own.dtype.kind == "i":  # which picture, how many
            assert (one == own).all()
            continue
        if operator == "MaxRoiPool":
            assert one[:, 0].tolist() == own[:, 0].tolist()
            own, one, again, other = (each[:, 1:] for each in (own, one, again, other))
        assert not np.isin(one, own).any() and (one == again).all() and (one != other).any()
        if boxes and own.shape[-1] == 4:
            assert (one > 0).all() and (one <= 4).all() and (one[..., 2:] - one[..., :2] >= 0.5).all()


def test_a_grid_of_half_precision_is_drawn_in_it() -> None:
    """From end to end of a picture, neighbours near each other."""
    grid = drawn(("GridSample", 1), GRID.astype(np.float16), np.random.default_rng(0))
    assert grid.dtype == np.float16 and grid.shape == GRID.shape and np.abs(grid).max() == 1
    even = np.linspace(-1, 1, 6)
    assert np.abs(grid[0, :, :, 0] - even).max() <= 0.101 and np.abs(grid[0, 3, :, 1] + 1 / 7).max() <= 0.101


def test_no_name_of_a_size_is_left() -> None:
    """What a branch gives, or a layer on its way, may have sizes with names of the model's."""
    sizes: list[int | str | None] = [1, "secret"]
    branches = {
        name: helper.make_graph(
            [helper.make_node("Neg", ["x0"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)],
        )
        for name in ("then_branch", "else_branch")
    }
    nodes = [helper.make_node("Not", ["x1"], ["y0"]), helper.make_node("If", ["y0"], ["y1"], **branches)]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("x1", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y1", TensorProto.FLOAT, sizes)],
    )
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    assert b"secret" in ir.to_proto(model).SerializeToString()
    make_plain(model, np.random.default_rng(0))
    assert b"secret" not in ir.to_proto(model).SerializeToString()
    [answer] = open_network(model).run(None, {"x0": np.ones((1, 4), np.float32), "x1": np.array(True)})
    assert answer.tolist() == [[-1] * 4]


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("StringNormalizer", {"stopwords": ["secret"]}),
        ("RegexFullMatch", {"pattern": "secret"}),
        ("Constant", {"value_string": "secret"}),
        ("Constant", {"value": ir.tensor(["secret"])}),
    ],
)
@pytest.mark.parametrize("within", [False, True])
def test_a_text_of_the_model_s_does_not_leave(
    operator: str, attributes: dict[str, Any], within: bool
) -> None:
    """Words, patterns, texts as constants, in the body of an operator too."""
    x = ir.val("x", ir.DataType.FLOAT, [1, 4])
    node = ir.node(operator, [x], attributes=attributes)
    if within:
        body = ir.Graph([], list(node.outputs), nodes=[node], opset_imports={"": 20})
        node = ir.node("If", [x], attributes={"then_branch": body})
    graph = ir.Graph([x], list(node.outputs), nodes=[node], opset_imports={"": 20})
    with pytest.raises(InputError, match="a text in its attributes") as refused:
        make_plain(ir.Model(graph, ir_version=9), np.random.default_rng(0))
    assert "secret" not in str(refused.value)


def test_what_can_t_be_drawn_anew_is_refused() -> None:
    """A tree's numbers are attributes, a vocabulary is a list of texts: InputError says which type of layer."""
    for attributes, domain in (({"coefficients": [0.5]}, "ai.onnx.ml"), ({"weights": [0.5] * 17}, "")):
        x = ir.val("x", ir.DataType.FLOAT, [1, 4])
        node = ir.node("Thing", [x], attributes=attributes, domain=domain)
        graph = ir.Graph([x], list(node.outputs), nodes=[node], opset_imports={"": 17, "ai.onnx.ml": 3})
        with pytest.raises(InputError, match="Thing has the model's own numbers"):
            make_plain(ir.Model(graph, ir_version=9), np.random.default_rng(0))


def model_of(nodes: Sequence[Any], constants: Mapping[str, Array], answered: int, **inputs: int) -> ir.Model:
    """From inputs of these types to ``y``."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [helper.make_tensor_value_info("y", answered, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


def drawn_of(model: ir.Model) -> dict[str, Array]:
    """Its constants, and those of bodies, once they are plain."""
    make_plain(model, np.random.default_rng(0))
    graphs = [model.graph, *model.graph.subgraphs()]
    return {
        name: value.const_value.numpy()
        for each in graphs
        for name, value in each.initializers.items()
        if value.const_value is not None
    }


WHOLE = np.random.default_rng(9)
INT8 = WHOLE.integers(-100, 100, (4, 4), dtype=np.int8)
INT16 = WHOLE.integers(-3_000, 3_000, (8, 8), dtype=np.int16)
INT32 = WHOLE.integers(0, 1 << 20, (64, 64), dtype=np.int32)
TABLE = WHOLE.permutation(50_257)
TRUE = WHOLE.random((32, 32)) < 0.5
I64, I32, BOOL, FLOAT = TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT


def either(kind: int, constant: Array) -> Any:
    """An If whose branches give a constant as it is."""
    given = helper.make_tensor_value_info("g", kind, None)
    other = helper.make_tensor_value_info("h", kind, None)
    then = helper.make_graph([], "t", [], [given], [numpy_helper.from_array(constant, "w0")])
    otherwise = helper.make_graph(
        [helper.make_node("Identity", ["w1"], ["h"])],
        "e",
        [],
        [other],
        [numpy_helper.from_array(constant, "w1")],
    )
    then.output[0].name = "w0"
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (model_of([either(TensorProto.INT8, INT8)], {}, TensorProto.INT8, c=BOOL), INT8),
        (model_of([either(I64, TABLE)], {}, I64, c=BOOL), TABLE),
        (model_of([helper.make_node("BitwiseAnd", ["x", "w0"], ["y"])], {"w0": INT32}, I32, x=I32), INT32),
        (model_of([helper.make_node("Cast", ["w0"], ["y"], to=FLOAT)], {"w0": INT16}, FLOAT), INT16),
        (model_of([helper.make_node("Gather", ["w0", "x"], ["y"])], {"w0": TABLE}, I64, x=I64), TABLE),
        (model_of([helper.make_node("Mul", ["x", "w0"], ["y"])], {"w0": TABLE}, I64, x=I64), TABLE),
        (model_of([helper.make_node("Sub", ["x", "w0"], ["y"])], {"w0": TABLE}, I64, x=I64), TABLE),
        (model_of([helper.make_node("And", ["x", "w0"], ["y"])], {"w0": TRUE}, BOOL, x=BOOL), TRUE),
        # What is looked up looks up in its turn: other numbers of the table are rows as well.
        (
            model_of(
                [helper.make_node("Gather", ["w0", "x"], ["i"]), helper.make_node("Gather", ["w1", "i"], ["y"])],
                {"w0": TABLE, "w1": weight(50_257, 1)}, FLOAT, x=I64,
            ),
            TABLE,
        ),
    ],
)  # fmt: skip
def test_integers_that_don_t_choose_are_nobody_s(model: ir.Model, own: Array) -> None:
    """Tables, masks of bits and what a branch gives as it is are drawn anew within the same range; the network checks
    and loads."""
    drawn = {name: each for name, each in drawn_of(model).items() if each.shape == own.shape}
    assert drawn
    for each in drawn.values():
        assert each.dtype == own.dtype and (each != own).mean() > 0.3
        if own.dtype != np.int8:  # of a type as narrow all of its range is taken
            assert each.min() >= own.min() and each.max() <= own.max()
    open_network(model)


LONG = np.arange(40)[::-1].copy()
PARTS = helper.make_node("Split", ["x", "w0"], ["y", *map(str, range(39))])


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (model_of([helper.make_node("Gather", ["x", "w0"], ["y"])], {"w0": LONG}, FLOAT, x=FLOAT), LONG),
        (model_of([PARTS], {"w0": LONG}, FLOAT, x=FLOAT), LONG),
        # A few are settings.
        (model_of([helper.make_node("Mul", ["x", "w0"], ["y"])], {"w0": LONG[:16]}, I64, x=I64), LONG[:16]),
        # Where each column's rows begin in one table: with others a row might not be there.
        (
            model_of(
                [helper.make_node("Add", ["x", "w0"], ["i"]), helper.make_node("Gather", ["w1", "i"], ["y"])],
                {"w0": LONG, "w1": weight(80, 1)}, FLOAT, x=I64,
            ),
            LONG,
        ),
    ],
)  # fmt: skip
def test_integers_that_choose_stay(model: ir.Model, own: Array) -> None:
    """Indices, sizes of parts, and what indices are computed of decide on what is done."""
    assert np.array_equal(drawn_of(model)["w0"], own)
