"""A job arrives as it was sent, and its arrays are not copied on the way."""

from __future__ import annotations

import hashlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from networks import build_network, gaussian_array
from parts import CONV, WB

from ptq.data.workers.job_content import digest_pieces, pack_job, unpack_job
from ptq.model.graph import Graph

ARRAYS = {
    "float32": gaussian_array(3, 5),
    "Fortran": np.asfortranarray(gaussian_array(7, 3)),
    "strided": gaussian_array(8, 8)[::2, ::3],
    "empty": np.zeros((0, 4), np.int16),
    "scalar": np.array(2.5),
    "bytes": np.arange(131, dtype=np.uint8),
    "bfloat16": np.arange(9).astype(ml_dtypes.bfloat16),
    "int4": np.arange(-3, 4).astype(ml_dtypes.int4),
    "texts": np.array(["a", "bc"], object),
}


def send(job: Any) -> Any:
    return unpack_job(b"".join(pack_job(job)))


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_of_any_kind_arrives(kind: str) -> None:
    array = ARRAYS[kind]
    found, again, text = send([array, array, "text"])
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes() or kind == "texts"
    assert found.tolist() == array.tolist()
    assert again is found
    assert text == "text"


def test_arrays_stand_in_the_content_at_multiples_of_64_bytes() -> None:
    sent = [np.arange(count, dtype=np.uint8) for count in (1, 1000, 63, 64)]
    content = b"".join(pack_job(sent))
    start = np.frombuffer(content, np.uint8).ctypes.data
    for array, found in zip(sent, unpack_job(content), strict=True):
        assert np.array_equal(array, found)
        place = found.ctypes.data - start
        assert 0 < place < len(content)
        assert place % 64 == 0
        assert not found.flags.writeable


def test_an_array_is_not_copied_when_it_is_packed() -> None:
    array = gaussian_array(100, 100)
    views = [np.frombuffer(piece, np.uint8) for piece in pack_job({"weights": array})]
    assert any(np.shares_memory(array, view) for view in views)


def test_the_digest_is_that_of_the_joined_pieces() -> None:
    pieces = pack_job(ARRAYS)
    assert digest_pieces(pieces) == hashlib.sha256(b"".join(pieces)).digest()


def test_a_graph_arrives_with_its_weights() -> None:
    graph = Graph.from_proto(
        build_network(CONV + "y = Relu(c)", {"x": (1, WB["w"].shape[1], 8, 8)}, **WB)
    )
    assert send(graph).to_bytes() == graph.to_bytes()
