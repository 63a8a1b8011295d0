"""One number for each sample, as servers write it that know no bare batch axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.answers import AnswerCheck, BadAnswer, ExpectedOutput
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.rows_of_one import as_taken, with_axis


def test_only_bare_numbers_get_an_axis_and_lose_it() -> None:
    """[3] becomes [3, 1] and [3] again; [3, 2] and [2, 1] for three rows stay what they are."""
    bare, pairs = np.arange(3.0), np.zeros((3, 2))
    made = with_axis({"a": bare, "b": pairs})
    assert [array.shape for array in made.values()] == [(3, 1), (3, 2)]
    np.testing.assert_array_equal(as_taken(made["a"], (3,)), bare)
    assert as_taken(pairs, (3,)).shape == (3, 2) and as_taken(np.zeros((2, 1)), (3,)).shape == (2, 1)
    assert as_taken(made["a"], (3, 1)).shape == (3, 1), "the last axis is the model's"


@pytest.mark.parametrize("rows_of_one", [False, True])
def test_requests_have_the_axis_where_the_server_wants_it(rows_of_one: bool) -> None:
    """Over HTTP and gRPC alike."""
    sent: Any = {"x": np.arange(3, dtype=np.float32)}
    shape = (3, 1) if rows_of_one else (3,)
    http = Endpoint(protocol="http", host="h", port=1, model_name="m", rows_of_one=rows_of_one)
    inputs, _ = kserve_http.decode_request(kserve_http.encode_request(http, sent))
    assert inputs["x"].shape == shape
    grpc = http.model_copy(update={"protocol": "grpc"})
    assert kserve_grpc.decode_request(kserve_grpc.encode_request(grpc, sent))["x"].shape == shape


def test_an_answer_with_the_axis_is_the_answer_without() -> None:
    """[3, 1] for [3] is good, and [3] afterwards; for one of [3, 2], or of another number of samples, it is none."""
    check = AnswerCheck(lambda data: {}, {"y": ExpectedOutput(())})
    outputs = {"y": np.array([[1.0], [2.0], [3.0]])}
    check.check(outputs, 3)
    assert outputs["y"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(BadAnswer):
        check.check({"y": np.zeros((2, 1))}, 3)
    with pytest.raises(BadAnswer):
        AnswerCheck(lambda data: {}, {"y": ExpectedOutput((2,))}).check({"y": np.zeros((3, 1))}, 3)
