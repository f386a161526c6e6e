"""Tasks: what decides is recognized, and counted decisions and figures are those counted by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from networks import build_network

from ptq.core.errors import UsageError
from ptq.data import Sample
from ptq.evaluation.drop import AGREEMENT, ERROR, TOP1
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.tasks.ctc import CtcTask, edit_distance
from ptq.evaluation.tasks.embed import EmbedTask
from ptq.evaluation.tasks.request import recognize_task
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.sequence import SequenceTask
from ptq.evaluation.tasks.task import Example, Task, TaskName, TaskRequest
from ptq.model.graph import Graph

RNG = np.random.default_rng(7)


def spell(*labels: int, classes: int = 12) -> np.ndarray[Any, Any]:
    """Scores of one line whose best class at each step is the given one."""
    scores = RNG.normal(size=(1, len(labels), classes)).astype(np.float32)
    scores[0, np.arange(len(labels)), labels] += 20
    return scores


LINES = [
    spell(0, 0, 3, 3, 0, 4, 0, 0, 5, 0, 0, 0),
    spell(0, 7, 0, 0, 8, 0, 0, 0, 2, 2, 0, 0),
    spell(0, 0, 0, 9, 0, 9, 0, 1, 0, 0, 0, 0),
]
PIXELS = {"x": np.zeros((1, 3, 32, 32), np.float32)}
TOKENS = {"input_ids": np.arange(12).reshape(1, 12), "attention_mask": np.ones((1, 12), np.int64)}


def blobs(classes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Scores of pixels whose best class changes at one edge."""
    scores = np.random.default_rng(seed).normal(size=(1, classes, 32, 32)).astype(np.float32)
    scores[:, 0, :, :16] += 20
    scores[:, 1, :, 16:] += 20
    return scores


def unit_vectors(rows: int, width: int = 32) -> np.ndarray[Any, Any]:
    vectors = RNG.normal(size=(rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def softmax(scores: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


SPECKLED = (np.random.default_rng(0).random((1, 32, 32)) < 0.1).astype(np.int64)
RECOGNIZED: list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]] = [
    ("ctc", "text lines", PIXELS, [{"y": line} for line in LINES]),
    ("ctc", "steps first", PIXELS, [{"y": line.swapaxes(0, 1)} for line in LINES]),
    ("sequence", "logits of tokens", TOKENS, [{"logits": line} for line in LINES]),
    ("sequence", "probabilities of tokens", TOKENS, [{"y": softmax(LINES[0])}]),
    ("embed", "vectors of length 1", PIXELS, [{"y": unit_vectors(1)} for _ in range(3)]),
    ("embed", "a named vector", TOKENS, [{"sentence_embedding": 3 * unit_vectors(1)}]),
    (
        "embed",
        "positions that a named output holds",
        TOKENS,
        [{"last_hidden_state": RNG.normal(size=(1, 12, 32)).astype(np.float32)}],
    ),
    ("segment", "scores of pixels", PIXELS, [{"y": blobs(5)}]),
    ("segment", "channels last", PIXELS, [{"y": np.moveaxis(blobs(5), 1, 3)}]),
    ("segment", "a mask", PIXELS, [{"y": (blobs(2)[:, :1] > 9).astype(np.float32)}]),
    ("segment", "classes of pixels", PIXELS, [{"y": blobs(5).argmax(axis=1)}]),
    ("segment", "a named map of small objects", PIXELS, [{"mask": SPECKLED}]),
    ("none", "integers of pixels", PIXELS, [{"y": SPECKLED}]),
    ("classify", "scores", PIXELS, [{"y": RNG.normal(size=(1, 10)).astype(np.float32)}]),
    ("none", "an image", PIXELS, [{"y": RNG.normal(size=(1, 3, 32, 32)).astype(np.float32)}]),
    ("none", "a depth map", PIXELS, [{"y": RNG.random((1, 1, 32, 32)).astype(np.float32)}]),
    ("none", "features", PIXELS, [{"y": RNG.normal(size=(1, 50, 64)).astype(np.float32)}]),
    ("none", "features of tokens", TOKENS, [{"y": RNG.normal(size=(1, 12, 64))}]),
    (
        "sequence",
        "one logit at each token",
        TOKENS,
        [{"logits": RNG.normal(size=(1, 12)).astype(np.float32)}],
    ),
    (
        "classify",
        "starts of answers",
        TOKENS,
        [{"start_logits": RNG.normal(size=(1, 12)).astype(np.float32)}],
    ),
    (
        "none",
        "a score for each of the places of another output",
        PIXELS,
        [
            {
                "offsets": RNG.normal(size=(1, 50, 16)).astype(np.float32),
                "logits": RNG.normal(size=(1, 50, 1)).astype(np.float32),
            }
        ],
    ),
    ("none", "one number", PIXELS, [{"y": np.ones((1, 1), np.float32)}]),
]


@pytest.mark.parametrize(
    ("name", "feed", "outputs"),
    [pytest.param(name, feed, outputs, id=what) for name, what, feed, outputs in RECOGNIZED],
)
def test_a_task_is_recognized_from_shapes_names_and_values(
    name: str, feed: dict[str, Any], outputs: list[dict[str, Any]]
) -> None:
    task, choice = recognize_task(TaskRequest(), [Example(feed, one) for one in outputs])
    assert choice.name == name
    assert (task is None) == (name == "none")
    assert choice.why
    assert not choice.asked


def test_the_state_of_a_recurrent_network_is_no_score_of_classes() -> None:
    state = RNG.normal(size=(1, 1, 128)).astype(np.float32)
    feed = {"mel": RNG.normal(size=(1, 9, 40)).astype(np.float32), "h0": state}
    steps = RNG.normal(size=(1, 9, 10)).astype(np.float32)
    assert recognize_task(TaskRequest(), [Example(feed, {"y": steps, "hn": state})])[0] is None
    task, choice = recognize_task(TaskRequest(), [Example(feed, {"hn": state, "y": steps[:, 0]})])
    assert (choice.name, choice.output) == ("classify", "y")
    assert task is not None
    assert recognize_task(TaskRequest(), [Example(feed, {"hn": state})])[1].output == "hn"


def test_positions_of_texts_of_several_lengths_are_said_as_a_span() -> None:
    examples = [
        Example(
            {"input_ids": np.ones((1, n), np.int64)},
            {"logits": np.random.default_rng(n).normal(size=(1, n, 5)).astype(np.float32)},
        )
        for n in (5, 3, 9)
    ]
    _, choice = recognize_task(TaskRequest("sequence"), examples)
    assert "scores of 5 classes at each of 3 to 9 positions" in choice.why


def test_one_value_at_each_token_is_two_classes_where_the_mask_is_one() -> None:
    logits = np.array([[2.0, -1.0, 0.5, -3.0]], np.float32)
    feed = {"input_ids": np.zeros((1, 4), int), "attention_mask": np.array([[1, 1, 1, 0]])}
    task, choice = recognize_task(TaskRequest(), [Example(feed, {"logits": logits})])
    assert task is not None
    assert "one logit at each of 4 positions: class 1 above 0, else class 0" in choice.why
    changed = logits * np.array([1, -1, 1, -1], np.float32)
    assert task.compare({"logits": logits}, {"logits": changed}, feed).tolist() == [1, 3, 1, 1]
    nothing = np.full_like(logits, np.nan)
    assert task.compare({"logits": logits}, {"logits": nothing}, feed)[:2].tolist() == [3, 3]


def test_scores_of_as_many_positions_as_each_sample_has_are_called_so() -> None:
    examples = [
        Example({"ids": np.zeros((1, n), int)}, {"start": np.arange(n, dtype=np.float32)[None]})
        for n in (5, 9)
    ]
    said = "output start gives one score for each of 5 to 9 positions"
    assert recognize_task(TaskRequest(), examples)[1].why == said


def _list_positions(*lengths: int, batch: tuple[int, ...] = (1,)) -> list[Example]:
    """A probability at each moment of a sound."""
    moments = [RNG.random((*batch, n)).astype(np.float32) for n in lengths]
    return [Example({"sound": np.zeros((*p.shape, 16))}, {"speech": p}) for p in moments]


@pytest.mark.parametrize(
    ("examples", "axes"),
    [
        (_list_positions(40, 31), {}),
        (_list_positions(40, 40), {"sound": (None, "t", None), "speech": (None, "t")}),
        (_list_positions(40, batch=()), {"sound": ("t", None), "speech": ("t",)}),
    ],
    ids=["lengths that differ", "the name of an input's axis", "its axis 0"],
)
def test_values_over_time_are_no_scores_of_classes(
    examples: list[Example], axes: dict[str, tuple[str | None, ...]]
) -> None:
    assert recognize_task(TaskRequest(axes=axes), examples)[0] is None
    asked = TaskRequest("classify", axes=axes)
    assert recognize_task(asked, examples)[1].name == "classify"
    labelled = [replace(example, labels=(3,)) for example in examples]
    assert recognize_task(TaskRequest(axes=axes), labelled, labelled=True)[1].name == "classify"


@pytest.mark.parametrize(
    "axes",
    [
        {"x": ("n", None, "h", "w"), "y": ("n", "classes")},
        {"x": ("n", None, "n", "w"), "y": ("n", "n")},  # some exporters give all open axes one name
        {"x": ("n", None, "n", "w"), "y": ("n",)},
    ],
)
def test_scores_with_an_open_axis_of_another_length_are_classes(
    axes: dict[str, tuple[str | None, ...]],
) -> None:
    scores = RNG.normal(size=(1, 10) if len(axes["y"]) > 1 else (10,)).astype(np.float32)
    choice = recognize_task(TaskRequest(axes=axes), [Example(PIXELS, {"y": scores})])[1]
    assert choice.name == "classify"


def _list_choices(counts: tuple[int, ...], tokens: int | None = 12) -> list[Example]:
    """One score for each choice, of which each is a text, or a vector without tokens."""
    return [
        Example(
            {"ids": np.zeros((1, n, *(() if tokens is None else (tokens,))), int)},
            {"logits": RNG.normal(size=(1, n)).astype(np.float32)},
        )
        for n in counts
    ]


@pytest.mark.parametrize(
    ("examples", "axes"),
    [
        (_list_choices((4, 4)), {"ids": ("n", "c", "s"), "logits": ("n", "c")}),
        (_list_choices((2, 5)), {"ids": ("n", "c", "s"), "logits": ("n", "c")}),
        (
            _list_choices((4, 4)),
            {"ids": (None, "num_choices", None), "logits": (None, "num_choices")},
        ),
        (
            _list_choices((5, 5), None),
            {"ids": (None, "text_batch"), "logits": (None, "text_batch")},
        ),
    ],
    ids=["choices of texts", "numbers that differ", "named choices", "a batch of texts"],
)
def test_scores_of_choices_or_of_texts_are_classes(
    examples: list[Example], axes: dict[str, tuple[str | None, ...]]
) -> None:
    assert recognize_task(TaskRequest(axes=axes), examples)[1].name == "classify"


def test_positions_stay_positions_beside_a_mask_of_pairs() -> None:
    (example,) = _list_positions(40)
    example = replace(example, feed={**example.feed, "mask": np.zeros((1, 40, 40))})
    axes = {"sound": (None, "t", None), "mask": (None, "t", "t"), "speech": (None, "t")}
    assert recognize_task(TaskRequest(axes=axes), [example])[0] is None


def test_a_request_knows_the_names_of_a_models_axes() -> None:
    model = build_network("y = Relu(x)", {"x": ("batch", 4, "time")})
    axes = TaskRequest.from_graph(None, Graph.from_proto(model)).axes
    assert axes["x"] == ("batch", None, "time")
    assert {*axes} == {"x", "y"}


def test_labels_of_classes_make_scores_classes_even_if_they_are_vectors_of_length_one() -> None:
    examples = [Example(PIXELS, {"y": unit_vectors(1)})]
    assert recognize_task(TaskRequest(), examples)[1].name == "embed"
    assert recognize_task(TaskRequest(), examples, labelled=True)[1].name == "classify"


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("embed", RNG.normal(size=(1, 64))),
        ("ctc", RNG.normal(size=(1, 20, 5))),
        ("segment", RNG.normal(size=(1, 3, 32, 32))),
        ("sequence", RNG.normal(size=(1, 7, 9))),
        ("classify", RNG.normal(size=(1, 64))),
    ],
)
def test_a_task_that_is_asked_for_needs_an_output_of_its_shape_only(
    name: TaskName, output: np.ndarray[Any, Any]
) -> None:
    example = Example(PIXELS, {"y": output.astype(np.float32)})
    task, choice = recognize_task(TaskRequest(name), [example])
    assert task is not None
    assert (task.name, choice.name, choice.asked) == (name, name, True)


@pytest.mark.parametrize("name", ["embed", "ctc", "segment", "sequence", "classify"])
def test_a_task_that_no_output_fits_is_refused_with_the_shapes(name: TaskName) -> None:
    rows = 2 if name == "classify" else 1  # one value may be two classes
    example = Example(PIXELS, {"y": np.ones((rows, rows), np.float32)})
    said = rf"^task {name}: no output fits \(y \[{rows}, {rows}\]\); give another task, or leave"
    with pytest.raises(UsageError, match=said):
        recognize_task(TaskRequest(name), [example])


def test_scores_of_places_are_measured_by_their_error_unless_classes_are_asked_for() -> None:
    samples = [Sample(f"s{k}", {"x": RNG.normal(size=(1, 50, 1))}) for k in range(10)]

    def run(feed: dict[str, Any]) -> list[Any]:
        return [np.repeat(feed["x"], 16, axis=-1), feed["x"]]

    def evaluate(request: TaskRequest) -> Evaluation:
        rounded = {"int8": lambda feed: [np.round(y) for y in run(feed)]}
        return evaluate_engines(run, rounded, samples, ["offsets", "logits"], task=request)

    drop = evaluate(TaskRequest()).forms["int8"].drop
    assert drop is not None
    assert drop.metric == ERROR
    drop = evaluate(TaskRequest("classify")).forms["int8"].drop
    assert drop is not None
    assert drop.metric == AGREEMENT


def test_text_is_read_as_ctc_defines_it() -> None:
    assert CtcTask("y", 0).decode(LINES[0]) == [(3, 4, 5)]
    assert CtcTask("y", 0).decode(LINES[2]) == [(9, 9, 1)]
    assert CtcTask("y", 0, steps_first=True).decode(LINES[2].swapaxes(0, 1)) == [(9, 9, 1)]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("flaw", "lawn", 2), ("", "", 0)],
)
def test_the_edit_distance_is_that_of_known_pairs(one: str, other: str, distance: int) -> None:
    assert edit_distance([*map(ord, one)], [*map(ord, other)]) == distance


def measure(task: Task, pairs: list[tuple[Any, Any]], feed: dict[str, Any] = PIXELS) -> Any:
    meter = task.start()
    for before, after in pairs:
        meter.add(Example(feed, {"y": before}), {"y": after})
    return meter


def test_ctc_counts_lines_and_characters() -> None:
    wrong = spell(0, 7, 0, 0, 8, 0, 0, 0, 6, 6, 0, 0)  # the last of three characters differs
    pairs = [(LINES[0], LINES[0]), (LINES[1], wrong), (LINES[2], LINES[2])]
    meter = measure(CtcTask("y", 0), pairs)
    drop, (errors,) = meter.measure_drop(), meter.measure_figures()
    assert (drop.metric, drop.lost, drop.samples) == ("agreement of decoded sequences", 1, 3)
    assert drop.points == pytest.approx(100 / 3)
    assert 0 < drop.lo < drop.points < drop.hi < 100
    assert errors.name == "character error rate"
    assert errors.value == pytest.approx(1 / 9)
    assert errors.interval[0] <= errors.value <= errors.interval[1]


def test_sequence_counts_positions_that_the_attention_mask_shows() -> None:
    before, after = spell(1, 2, 3, 4), spell(1, 9, 3, 9)
    mask = {"attention_mask": np.array([[1, 1, 1, 0]])}
    meter = measure(SequenceTask("y"), [(before, after), (before, before)], mask)
    drop, (equal,) = meter.measure_drop(), meter.measure_figures()
    assert drop.points == pytest.approx(100 / 6)  # one of twice three tokens
    assert equal.value == pytest.approx(1 / 2)
    whole = measure(SequenceTask("y"), [(before, after)]).measure_drop()
    assert whole.points == pytest.approx(100 * 2 / 4)


@pytest.mark.parametrize(
    ("name", "mask", "changed"),
    [
        ("input_mask", [[1, 1, 0]], 1),
        ("input_mask", [[1, 1, 5]], 2),  # no mask
        ("padding_mask", [[0, 0, 1]], 2),  # 1 is padding
        ("token_type_ids", [[1, 1, 0]], 2),
    ],
)
def test_a_mask_of_another_name_shows_positions_too(
    name: str, mask: list[list[int]], changed: int
) -> None:
    before = np.eye(4)[[[0, 1, 2]]]
    after = np.eye(4)[[[0, 3, 3]]]
    feed = {"ids": np.ones((1, 3), np.int64), name: np.array(mask)}
    counts = SequenceTask("y").compare({"y": before}, {"y": after}, feed)
    assert counts[0] == changed


def test_without_any_decision_no_share_of_changed_ones_is_excluded() -> None:
    before, nothing = spell(1, 2, 3, 4), {"attention_mask": np.array([[0, 0, 0, 0]])}
    drop = measure(SequenceTask("y"), [(before, before)] * 500, nothing).measure_drop()
    assert (drop.points, drop.lo, drop.hi) == (0, 0, 100)


def test_embed_counts_other_neighbours_and_averages_the_cosine() -> None:
    angles = np.radians([0.0, 10.0, 25.0, 90.0, 99.0])
    before = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    angles[1] = np.radians(15.0)  # now the third is the nearest of the second
    after = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    meter = measure(EmbedTask("y"), [(before[k : k + 1], after[k : k + 1]) for k in range(5)])
    drop, (cosine,) = meter.measure_drop(), meter.measure_figures()
    assert (drop.metric, drop.lost) == ("agreement of nearest neighbours", 1)
    assert cosine.value == pytest.approx((4 + np.cos(np.radians(5))) / 5)


def test_of_copies_in_the_data_each_is_as_near_as_the_other() -> None:
    rows = np.concatenate([unit_vectors(6)] * 3)
    noise = 1e-5 * RNG.normal(size=rows.shape)
    pairs = [(a[None], b[None]) for a, b in zip(rows, rows + noise, strict=True)]
    assert measure(EmbedTask("y"), pairs).measure_drop().lost == 0


@pytest.mark.parametrize("constant", [0.0, 1.0, float("nan")])
def test_equal_vectors_of_another_form_lose_their_neighbours(constant: float) -> None:
    # all are nearest to the first one, which a search takes first among equal ones
    rows = unit_vectors(32) + 3 * unit_vectors(1)
    rows[0] = rows.mean(axis=0)
    pairs = [(one[None], np.full_like(one[None], constant)) for one in rows]
    assert measure(EmbedTask("y"), pairs).measure_drop().lost == 32


def test_a_vector_of_nan_loses_its_neighbour_alone() -> None:
    angles = np.radians([0.0, 10.0, 11.0, 90.0, 91.0])
    before = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    after = before.copy()
    after[0] = np.nan
    pairs = list(zip(before[:, None], after[:, None], strict=True))
    assert measure(EmbedTask("y"), pairs).measure_drop().lost == 1
    same = list(zip(after[:, None], after[:, None], strict=True))
    assert measure(EmbedTask("y"), same).measure_drop().lost == 0


def test_the_vectors_of_one_sample_do_not_count_as_samples() -> None:
    before, noise = unit_vectors(40), 0.9 * unit_vectors(40)
    pairs = [(before[k : k + 4], before[k : k + 4] + noise[k : k + 4]) for k in range(0, 40, 4)]
    one_by_one = [
        (one[None], other[None]) for pair in pairs for one, other in zip(*pair, strict=True)
    ]
    drop = measure(EmbedTask("y"), pairs).measure_drop()
    of_vectors = measure(EmbedTask("y"), one_by_one).measure_drop()
    assert drop.points == of_vectors.points > 0
    assert (drop.samples, drop.lost, of_vectors.samples) == (10, None, 40)
    # each share of a sample is a multiple of a quarter; that of a draw is their mean
    assert 100 > drop.hi > drop.points > drop.lo > 0


def test_two_vectors_have_no_neighbours_to_choose_so_the_distance_is_measured() -> None:
    pairs = [(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]]))] * 2
    drop = measure(EmbedTask("y"), pairs).measure_drop()
    assert drop.metric == "cosine distance to float"
    assert drop.points == pytest.approx(100 * (1 - np.sqrt(0.5)))


def test_embed_averages_positions_that_are_not_padding() -> None:
    hidden = np.zeros((1, 3, 2))
    hidden[0] = [[1, 0], [0, 1], [5, 5]]
    feed = {"attention_mask": np.array([[1, 1, 0]])}
    vectors = EmbedTask("y").decode({"y": hidden}, feed)
    np.testing.assert_allclose(vectors, [[np.sqrt(0.5)] * 2])


def test_segment_counts_pixels_and_the_mean_iou_of_classes_that_occur() -> None:
    before = np.zeros((1, 3, 2, 4), np.float32)
    before[:, 0, :, :2], before[:, 1, :, 2:] = 1, 1
    after = before.copy()
    after[:, :, 0, 0] = [[0, 1, 0]]  # one of eight pixels is now class 1
    drop = measure(SegmentTask("y", 3), [(before, after)]).measure_drop()
    (iou,) = measure(SegmentTask("y", 3), [(before, after)]).measure_figures()
    assert drop.points == pytest.approx(100 / 8)
    assert iou.value == pytest.approx((3 / 4 + 4 / 5) / 2)


@pytest.mark.parametrize(
    ("task", "output"),
    [
        (SegmentTask("y", 3), np.eye(3)[np.zeros((1, 4, 4), int)].transpose(0, 3, 1, 2)),
        (SegmentTask("y", 2), np.zeros((1, 1, 4, 4))),
        (SequenceTask("y"), np.eye(3)[np.zeros((1, 4), int)]),
        (CtcTask("y", 0), np.eye(3)[np.zeros((1, 4), int)]),
    ],
)
def test_nan_is_no_class_0_and_decides_nothing_in_float(
    task: Task, output: np.ndarray[Any, Any]
) -> None:
    lost = measure(task, [(output, output * np.nan)])
    assert lost.measure_drop().points == 100
    partly = np.where(np.arange(output.shape[-1]) == 1, np.nan, output)
    if output.shape[1] > 1:  # NaN beside scores is none
        assert measure(task, [(output, output), (partly, partly)]).measure_drop().points == 0
    lost.measure_figures()
    undefined = measure(task, [(output * np.nan, output)]).measure_drop()
    assert undefined.hi == 100


def test_equal_decisions_have_no_drop_and_the_exact_interval() -> None:
    drop = measure(SegmentTask("y", 5), [(blobs(5), blobs(5))] * 4).measure_drop()
    assert (drop.points, drop.lo) == (0, 0)
    assert drop.hi == pytest.approx(100 * (1 - 0.025 ** (1 / 4)))  # pixels depend on each other
    (iou,) = measure(SegmentTask("y", 5), [(blobs(5), blobs(5))] * 4).measure_figures()
    assert iou.interval == (pytest.approx(0.025 ** (1 / 4)), 1)


def test_samples_without_any_decision_do_not_narrow_the_interval() -> None:
    tokens = spell(1, 2, 3)
    mask = np.zeros((1, 3), np.int64)
    meter = SequenceTask("y").start()
    for used in (mask + 1, mask, mask):
        meter.add(Example({"attention_mask": used}, {"y": tokens}), {"y": tokens})
    assert meter.measure_drop().hi == pytest.approx(97.5)


def test_an_output_of_another_shape_keeps_no_decision() -> None:
    for task, before, after in (
        (SequenceTask("y"), spell(1, 2, 3), spell(1, 2)),
        (SegmentTask("y", 5), blobs(5), blobs(5)[:, :, :8]),
        (CtcTask("y", 0), LINES[0], LINES[0][:, :0]),
        (EmbedTask("y"), np.ones((1, 4)), np.ones((1, 5))),
    ):
        changed, decisions = task.compare({"y": before}, {"y": after}, {})[:2]
        assert changed == decisions > 0


def evaluate(
    lines: list[Any], others: list[Any], request: TaskRequest, labels: tuple[int, ...] = ()
) -> Evaluation:
    samples = [Sample(str(k), {"x": line}, labels) for k, line in enumerate(lines)]
    given = iter(others)
    return evaluate_engines(
        lambda feed: [feed["x"]],
        {"int8": lambda _: [next(given)]},
        samples,
        ["y"],
        task=request,
    )


def test_an_evaluation_measures_the_recognized_task_beside_the_sqnr() -> None:
    lines = LINES * 5  # more than the task is recognized on
    others = [line + 0.01 for line in lines[:-1]] + [LINES[0]]
    result = evaluate(lines, others, TaskRequest())
    form = result.forms["int8"]
    assert result.task is not None
    assert result.task.name == "ctc"
    assert form.drop is not None
    assert (form.drop.lost, form.drop.samples) == (1, 15)
    assert form.figures[0].value == pytest.approx(3 / 45)
    assert 0 < form.outputs["y"].sqnr_db < 30


def test_without_a_task_only_the_energy_of_the_error_is_measured() -> None:
    fields = [RNG.normal(size=(1, 3, 32, 32)) for _ in range(4)]
    result = evaluate(fields, [1.1 * field for field in fields], TaskRequest())
    assert result.task is not None
    assert result.task.name == "none"
    assert result.forms["int8"].drop is not None
    assert result.forms["int8"].drop.metric == ERROR
    assert result.forms["int8"].figures == ()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (blobs(3).argmax(axis=1), "the class of each pixel"),
        (softmax(blobs(2), axis=1), "2 classes of pixels"),
        ((blobs(2)[:, :1] > 9).astype(np.float32), "one mask"),
    ],
)
def test_what_an_output_of_pixels_holds_is_said_as_it_is(
    output: np.ndarray[Any, Any], why: str
) -> None:
    assert recognize_task(TaskRequest(), [Example(PIXELS, {"y": output})])[1].why.endswith(why)


def test_vectors_have_no_best_class_that_could_agree() -> None:
    rows = [unit_vectors(1) for _ in range(4)]
    result = evaluate(rows, rows, TaskRequest("embed"))
    assert result.forms["int8"].outputs["y"].agreement is None


def test_classes_are_measured_as_before() -> None:
    rows = [RNG.normal(size=(1, 10)) for _ in range(9)]
    for labels, metric in (((), AGREEMENT), ((3,), TOP1)):
        drop = evaluate(rows, rows, TaskRequest(), labels).forms["int8"].drop
        assert drop is not None
        assert drop.metric == metric


def test_labels_of_another_task_than_classes_are_not_refused_as_classes() -> None:
    rows = [unit_vectors(1) for _ in range(4)]
    result = evaluate(rows, rows, TaskRequest("embed"), (4000,))
    assert result.forms["int8"].drop is not None
    assert result.forms["int8"].drop.points == 0


def test_neighbouring_lines_do_not_decide_each_other() -> None:
    singles = [
        evaluate([a], [b], TaskRequest("ctc")).forms["int8"].drop for a, b in pairwise(LINES)
    ]
    assert [drop.lost for drop in singles if drop is not None] == [1, 1]
