"""Several forms of a model on the same samples; engines written by hand are the oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from cases import CASES
from networks import gaussian_array

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.evaluation.drop import AGREEMENT, ERROR, TOP1
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.metrics import Accuracy
from ptq.evaluation.runs.engines import make_session_engine
from ptq.evaluation.runs.run_forms import split_into_batches
from ptq.model.graph import Graph
from ptq.model.session.session import Session

Feed = Mapping[str, Any]


def scores(feed: Feed) -> list[Any]:
    """The input itself, ten scores a sample."""
    return [feed["x"]]


def labelled(count: int, classes: int = 10) -> list[Sample]:
    """Samples whose largest element is their label, but for each third."""
    made = []
    for index in range(count):
        x = gaussian_array(1, classes, seed=index)
        label = int(x.argmax()) if index % 3 else int(x.argmin())
        made.append(Sample(f"sample {index}", {"x": x}, (label,)))
    return made


@pytest.mark.parametrize("given", [(10,), (3, 12)])
def test_a_label_that_is_no_class_is_refused_unless_a_metric_reads_it(
    given: tuple[int, ...],
) -> None:
    samples = [*labelled(2), Sample("odd", labelled(1)[0].feed, given)]
    said = f"^odd: label {given[-1]} is not a class of output y, whose classes are 0 to 9"
    with pytest.raises(DataError, match=said):
        evaluate_engines(scores, {"same": scores}, samples, ["y"])
    result = evaluate_engines(
        scores, {"same": scores}, samples, ["y"], metric=lambda outputs, of: [1.0] * len(of)
    )
    assert result.samples == 3


def test_a_label_may_be_a_class_of_any_output() -> None:
    def two(feed: Feed) -> list[Any]:
        return [feed["x"][:, :4], feed["x"]]

    assert evaluate_engines(two, {"same": two}, labelled(6), ["few", "all"]).head == "all"


def test_forms_stand_beside_each_other() -> None:
    result = evaluate_engines(
        scores, {"same": scores, "rolled": lambda f: [np.roll(f["x"], 1, 1)]}, labelled(9), ["y"]
    )
    assert result.samples == 9
    assert result.head == "y"
    assert result.forms["float"].accuracy is not None
    assert result.forms["float"].accuracy.top1 == pytest.approx(6 / 9)
    assert result.forms["float"].outputs == {}
    same, rolled = result.forms["same"].outputs["y"], result.forms["rolled"].outputs["y"]
    assert (same.sqnr_db, same.agreement) == (math.inf, 1.0)
    assert rolled.agreement == 0.0
    assert result.forms["same"].accuracy == result.forms["float"].accuracy


@pytest.mark.parametrize("batch", [1, 4, 7, 64])
def test_figures_do_not_depend_on_the_batch(batch: int) -> None:
    engine = {"rounded": lambda f: [np.round(f["x"], 1)]}
    assert evaluate_engines(scores, engine, labelled(9), ["y"], batch=batch) == evaluate_engines(
        scores, engine, labelled(9), ["y"]
    )


def test_samples_of_other_shapes_are_not_stacked() -> None:
    made = [*labelled(3), *labelled(2, classes=12), *labelled(1)]
    assert [len(group) for group in split_into_batches(made, 8)] == [3, 2, 1]
    assert [len(group) for group in split_into_batches(labelled(7), 3)] == [3, 3, 1]
    assert list(split_into_batches([], 3)) == []


def test_large_samples_run_fewer_at_once_than_asked():
    # 602 KB each: three are below 2 MB; 4 MB: one at a time
    images = [Sample(str(n), {"x": np.zeros((1, 3, 224, 224), np.float32)}) for n in range(7)]
    assert [len(group) for group in split_into_batches(images, 8)] == [3, 3, 1]
    assert [len(group) for group in split_into_batches(images, 2)] == [2, 2, 2, 1]
    large = [Sample(str(n), {"x": np.zeros((1, 2**20), np.float32)}) for n in range(2)]
    assert [len(group) for group in split_into_batches(large, 8)] == [1, 1]


def test_a_model_whose_outputs_do_not_split_runs_one_by_one() -> None:
    seen = []

    def total(feed: Feed) -> list[Any]:
        seen.append(len(feed["x"]))
        return [feed["x"].sum(keepdims=True)[0]]

    result = evaluate_engines(total, {"same": total}, labelled(4), ["y"], batch=4)
    assert result.samples == 4
    assert 1 in seen
    assert result.forms["same"].outputs["y"].sqnr_db == math.inf


def test_the_head_is_the_output_that_knows_the_labels() -> None:
    def heads(feed: Feed) -> list[Any]:
        return [np.ones((len(feed["x"]), 2, 3)), -feed["x"], feed["x"]]

    result = evaluate_engines(heads, {"same": heads}, labelled(9), ["map", "wrong", "right"])
    assert result.head == "right"
    assert result.forms["same"].outputs["map"].agreement is None
    assert set(result.forms["same"].outputs) == {"map", "wrong", "right"}


def test_one_value_of_labelled_classes_is_the_head_even_if_all_are_wrong() -> None:
    def heads(feed: Feed) -> list[Any]:
        return [np.ones((len(feed["x"]), 2, 3)), feed["x"][:, :1]]

    wrong = [Sample(s.name, s.feed, (int(s.feed["x"][0, 0] <= 0),)) for s in labelled(9)]
    result = evaluate_engines(heads, {"same": heads}, wrong, ["map", "logit"])
    assert (result.head, result.forms["float"].accuracy) == ("logit", Accuracy(0, None, 9))


@pytest.mark.parametrize(
    ("outputs", "head"), [(["short", "scores"], "scores"), (["map", "short"], "short")]
)
def test_an_output_that_has_scores_on_the_first_samples_alone_is_no_error(
    outputs: list[str], head: str
) -> None:
    def run(feed: Feed) -> list[Any]:
        x = feed["x"]
        one = {
            "short": x[:, : 1 if x.max() > 90 else 5],
            "scores": x,
            "map": x.reshape(1, -1, 1, 2),
        }
        return [one[name] for name in outputs]

    made = [
        Sample(f"{k}", {"x": gaussian_array(1, 10, seed=k) + 100 * (k == 9)}) for k in range(12)
    ]
    result = evaluate_engines(run, {"same": run}, made, outputs)
    assert result.head == head
    assert result.task is not None
    assert result.task.output == head


def test_without_labels_the_head_is_the_first_that_holds_scores() -> None:
    made = [Sample(s.name, s.feed) for s in labelled(3)]
    result = evaluate_engines(
        lambda f: [np.ones((len(f["x"]), 2, 3)), f["x"]], {}, made, ["map", "scores"]
    )
    assert result.head == "scores"
    assert result.forms["float"].accuracy is None


def test_no_sample_is_an_error_and_a_failing_one_is_named() -> None:
    with pytest.raises(DataError, match="no sample"):
        evaluate_engines(scores, {}, [], ["y"])
    engine = make_session_engine(Session(Graph.from_proto(CASES["relu"]), threads=1))
    with pytest.raises(DataError, match=r"^wrong: "):
        evaluate_engines(engine, {}, [Sample("wrong", {"x": gaussian_array(1, 5, 8, 8)})], ["y"])


def test_a_drop_is_of_accuracy_where_there_are_labels() -> None:
    result = evaluate_engines(
        scores, {"rolled": lambda f: [np.roll(f["x"], 1, 1)]}, labelled(9), ["y"]
    )
    assert result.forms["float"].drop is None
    drop = result.forms["rolled"].drop
    assert drop is not None
    before, after = (result.forms[name].accuracy for name in ("float", "rolled"))
    assert before is not None
    assert after is not None
    assert drop.metric == TOP1
    assert drop.points == pytest.approx(100 * (before.top1 - after.top1))


def test_without_labels_a_drop_is_of_agreement_and_without_scores_the_error() -> None:
    made = [Sample(s.name, s.feed) for s in labelled(9)]
    classes = evaluate_engines(scores, {"same": scores}, made, ["y"]).forms["same"].drop
    fields = [Sample(f"{i}", {"x": gaussian_array(1, 3, 4, 4, seed=i)}) for i in range(4)]
    engine = {"louder": lambda f: [f["x"] * 1.1]}
    error = evaluate_engines(scores, engine, fields, ["y"]).forms["louder"].drop
    assert classes is not None
    assert error is not None
    assert (classes.metric, classes.points, classes.lo) == (AGREEMENT, 0.0, 0.0)
    assert (error.metric, error.points) == (ERROR, pytest.approx(1.0, rel=1e-4))
