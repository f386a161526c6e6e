from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.einsum_to_matmul import rewrite_einsum_to_matmul
from ptq.rewrite.prepare.prepare import PREPARE

SIZES = dict(zip("abcdehijknZ", (2, 3, 4, 5, 2, 3, 6, 7, 4, 5, 1), strict=True))


def _graph(parsed, equation, *, weight="", open_letters="", rng):
    """An Einsum of x and v, or of x and a constant w; some letters have an open length."""
    left, right = equation.split("->")[0].replace(" ", "").split(",")

    def dims(letters):
        return ",".join(f"n_{x}" if x in open_letters else str(SIZES[x]) for x in letters)

    feeds = {"x": left, "v": right}
    operands = {"left": "w, v", "right": "x, w", "": "x, v"}[weight]
    constants = {}
    if weight:
        letters = feeds.pop("x" if weight == "left" else "v")
        constants["w"] = rng.standard_normal([SIZES[x] for x in letters]).astype(np.float32)
    inputs = ", ".join(f"float[{dims(letters)}] {name}" for name, letters in feeds.items())
    text = (
        f'g ({inputs}) => (float[{{}}] y) {{{{ y = Einsum<equation = "{equation}">({operands}) }}}}'
    )
    out = equation.split("->")[1] if "->" in equation else "ij"
    arrays = {
        n: rng.standard_normal([SIZES[x] for x in letters]).astype(np.float32)
        for n, letters in feeds.items()
    }
    text = text.format(",".join(f"o{k}" for k in range(len(out.strip()))))
    return parsed(text, **constants), parsed(text, **constants), arrays


@pytest.mark.parametrize(
    ("equation", "operators_after"),
    [
        ("bnd,de->bne", {"MatMul"}),
        ("bnd, dhk -> bhnk", {"MatMul", "Reshape", "Transpose"}),
        ("bhik,bhjk->bhij", {"MatMul", "Transpose"}),
        ("bhij,bhjk->bhik", {"MatMul"}),
        ("bhik,hkd->bid", {"MatMul", "Reshape", "Transpose"}),
        ("bhid,hde->bhie", {"MatMul"}),
        ("bd,d->b", {"MatMul", "Reshape"}),
        ("d,dk->k", {"MatMul", "Reshape"}),
        ("bnd,bnd->bn", {"MatMul", "Reshape"}),
        ("id,jd->ji", {"MatMul", "Transpose"}),
        ("ik,kj", {"MatMul"}),
        ("bchn,dc->bdhn", {"MatMul", "Transpose"}),
    ],
)
@pytest.mark.parametrize("weight", ["", "left", "right"])
def test_a_product_of_two_operands_is_a_matmul(
    equation, operators_after, weight, parsed, same_function, operators, rng
):
    before, after, feeds = _graph(parsed, equation, weight=weight, rng=rng)
    assert rewrite_einsum_to_matmul(after) == [Change("einsum_to_matmul", 1)]
    found = set(operators(after))
    assert found <= {"MatMul", "Reshape", "Transpose"}
    if not weight:
        assert found == operators_after
    same_function(before, after, feeds)


@pytest.mark.parametrize(
    ("equation", "open_letters"),
    [
        ("bnd,dhk->bhnk", "b"),
        ("bnd,dhk->bhnk", "bn"),
        ("bhij,bhjk->bhik", "bij"),
        ("bhik,hkd->bid", "bi"),
        ("bd,d->b", "b"),
        ("ik,bnk->ibn", "n"),
    ],
)
def test_lengths_may_be_open(equation, open_letters, parsed, same_function, operators, rng):
    before, after, feeds = _graph(parsed, equation, open_letters=open_letters, rng=rng)
    assert rewrite_einsum_to_matmul(after) == [Change("einsum_to_matmul", 1)]
    assert operators(after)["Einsum"] == 0
    same_function(before, after, feeds)


def test_the_matmul_keeps_the_name_of_the_einsum(parsed):
    text = (
        "g (float[2,3,4] x, float[2,5,4] v) => (float[2,3,5] y) "
        '{ [scores] y = Einsum<equation = "bij,bkj->bik">(x, v) }'
    )
    graph = parsed(text)
    rewrite_einsum_to_matmul(graph)
    assert [node.op_type for node in graph.nodes if node.name == "scores"] == ["MatMul"]


def test_a_batch_of_one_is_repeated(parsed, same_function, rng):
    text = (
        "g (float[N,3,2,4] x, float[1,3,4,5] v) => (float[N,3,2,5] y) "
        '{ y = Einsum<equation = "bhij,bhjk->bhik">(x, v) }'
    )
    before, after = parsed(text), parsed(text)
    assert rewrite_einsum_to_matmul(after) == [Change("einsum_to_matmul", 1)]
    x, v = (rng.standard_normal(s).astype(np.float32) for s in ((6, 3, 2, 4), (1, 3, 4, 5)))
    same_function(before, after, {"x": x, "v": v})


@pytest.mark.parametrize(
    ("equation", "open_letters"),
    [
        ("bii,ij->bj", ""),  # a diagonal
        ("bnd,dk->bk", ""),  # one operand is added alone
        ("bi,bj->bij", ""),  # nothing is added
        ("bnd,bnd->bnd", ""),
        ("ik,bnk->ibn", "bn"),  # two open lengths in one axis
    ],
)
def test_other_equations_stay(equation, open_letters, parsed, operators, rng):
    _, after, _ = _graph(parsed, equation, open_letters=open_letters, rng=rng)
    assert rewrite_einsum_to_matmul(after) == []
    assert operators(after) == {"Einsum": 1}


def test_lengths_that_may_differ_stay(parsed):
    """Einsum repeats a length of 1, MatMul does not: the contracted lengths have other names."""
    text = (
        'g (float[2,N] x, float[M,3] v) => (float[2,3] y) {{ y = Einsum<equation = "{}">(x, v) }}'
    )
    assert rewrite_einsum_to_matmul(parsed(text.format("ik,kj->ij"))) == []
    ellipsis = text.format("...k,kj->...j").replace("M", "N")
    assert rewrite_einsum_to_matmul(parsed(ellipsis)) == []


def test_preparation_rewrites_einsum_before_it_makes_layers():
    names = [getattr(rewrite, "__name__", "") for rewrite in PREPARE]
    assert names.index("rewrite_einsum_to_matmul") < names.index("rewrite_matmul_add_to_gemm")
