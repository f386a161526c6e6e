"""Class folders in another order than the model's are found; the order that a test made is the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from networks import build_network
from PIL import Image

import ptq
from ptq.data.labelling import Labelling
from ptq.evaluation.checks import label_permutation
from ptq.evaluation.checks.label_permutation import find_permutation
from ptq.evaluation.presentation.html import render_page
from ptq.evaluation.presentation.html_rankings import render_ranking_page

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
MODEL = build_network(
    "f = Flatten(x)\ny = Gemm(f, w, b)",
    {"x": ("n", 3, 1, 1)},
    w=np.eye(3, dtype=np.float32),
    b=np.zeros(3, np.float32),
)


def confusion_of(
    order: list[int], *, samples: int = 10, accuracy: float = 0.9, seed: int = 0
) -> Counter[tuple[int, int]]:
    """Predictions of a model whose class of label k is order[k]."""
    rng = np.random.default_rng(seed)
    found: Counter[tuple[int, int]] = Counter()
    for label, predicted in enumerate(order):
        for _ in range(samples):
            hit = rng.random() < accuracy
            found[label, predicted if hit else int(rng.integers(len(order)))] += 1
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / name).mkdir()
        for k in range(20):
            pixel = np.clip(np.array(colour) + rng.integers(-60, 61, 3), 0, 255).astype(np.uint8)
            Image.fromarray(pixel.reshape(1, 1, 3)).save(tmp_path / name / f"{k}.png")
    return tmp_path


def test_s7_class_folders_in_alphabetical_order_are_the_first_warning_about_data(
    folder: Path,
) -> None:
    report = ptq.quantize(MODEL, folder, eval_data=folder, threads=1).report
    assert report.evaluation is not None
    assert report.evaluation.labels == Labelling(
        "folder names in sorted order", {"blue": 0, "green": 1, "red": 2}
    )
    first = next(suspect for suspect in report.suspects if not suspect.headline)
    assert first.where == "labels"
    assert str(first) == (
        "labels: the model gets 20 of 60 labelled samples right, but 60 with the classes in another order: "
        "predictions match labels one to one; put a classes.txt into the folder of the samples that lists the class "
        "names in the model's order, one a line: red, green, blue"
    )
    assert str(first) in report.warnings[:2]


def test_s7_a_comparison_warns_of_classes_in_another_order(folder: Path) -> None:
    result = ptq.compare(MODEL, MODEL, folder, threads=1)
    assert result.warnings[0].startswith("labels: the model gets 20 of 60 labelled samples right")
    assert result.labels is not None
    assert result.labels.classes == {"blue": 0, "green": 1, "red": 2}


def test_s7_a_sensitivity_ranking_names_the_labels_and_warns_of_another_order(folder: Path) -> None:
    ranking = ptq.sensitivity(MODEL, folder, eval_data=folder, measure=0, threads=1)
    assert ranking.warnings[0].startswith("labels: the model gets 20 of 60 labelled samples right")
    assert str(ranking.labels) == (
        "labels: from folder names in sorted order (3 classes: blue=0, green=1, red=2)"
    )


def test_s7_the_pages_name_the_labels_and_the_warning(folder: Path) -> None:
    pages = (
        render_page(ptq.quantize(MODEL, folder, eval_data=folder, threads=1).report),
        render_ranking_page(ptq.sensitivity(MODEL, folder, eval_data=folder, measure=0, threads=1)),
    )
    for page in pages:
        assert "<li>labels: from folder names in sorted order (3 classes: " in page
        assert page.index(">Warnings</h2>") < page.index("20 of 60 labelled samples right")


def test_s7_the_proposed_list_of_classes_repairs_the_labels(folder: Path) -> None:
    before, assumed = ptq.evaluate(MODEL, folder, threads=1).suspects
    names = before.advice.rpartition(": ")[2].split(", ")
    (folder / "classes.txt").write_text("\n".join(names) + "\n")
    evaluation = ptq.evaluate(MODEL, folder, threads=1)
    assert evaluation.suspects == (assumed,)
    accuracy = evaluation.forms["float"].accuracy
    assert accuracy is not None
    assert accuracy.top1 == 1


def test_b7_swapped_colours_are_not_taken_for_another_order_of_listed_classes(folder: Path) -> None:
    (folder / "classes.txt").write_text("red\ngreen\nblue\n")
    way = ptq.Preprocess(channels="BGR", mean=(0.0,), std=(1.0,))
    for suspects in (
        ptq.evaluate(MODEL, folder, preprocess=way, threads=1).suspects,
        ptq.compare(MODEL, MODEL, folder, preprocess=way, threads=1).suspects,
    ):
        assert [s.where for s in suspects] == ["preprocessing"]
        assert "channels RGB" in suspects[0].advice
        assert suspects[0].what.endswith("but 60 with another preprocessing")
    (found,) = ptq.evaluate(MODEL, _arrays(folder, reverse=True), threads=1).suspects
    assert found.advice == "reverse the colour channels of the arrays (RGB for BGR, or BGR for RGB)"
    assert ptq.evaluate(MODEL, _arrays(folder, reverse=False), threads=1).suspects == ()


def _arrays(folder: Path, *, reverse: bool) -> dict[str, np.ndarray]:
    """The images as arrays of 0 … 1, with labels in the model's order."""
    paths = [
        (path, label) for label, name in enumerate(COLOURS) for path in (folder / name).iterdir()
    ]
    pixels = np.stack([np.asarray(Image.open(path)) for path, _ in paths]).transpose(0, 3, 1, 2)
    values = np.ascontiguousarray(pixels[:, ::-1] if reverse else pixels, np.float32) / 255
    return {"x": values, "labels": np.array([label for _, label in paths])}


def test_b7_a_list_of_classes_in_another_order_is_to_be_corrected(folder: Path) -> None:
    (folder / "classes.txt").write_text("green\nblue\nred\n")
    (found, _) = ptq.evaluate(MODEL, folder, threads=1).suspects
    assert found.where == "labels"
    assert found.advice == (
        "correct classes.txt, which must list the class names in the model's order, one a line: red, green, blue"
    )


def test_labels_of_an_array_in_another_order_are_renumbered() -> None:
    found = find_permutation(confusion_of([2, 0, 1, 4, 3]), Labelling("array 'labels'"))
    assert found is not None
    assert found.advice == "renumber the labels: 0 → 2, 1 → 0, 2 → 1, 3 → 4, 4 → 3"


@pytest.mark.parametrize(
    ("shift", "advice"), [(-1, "subtract 1 from the labels"), (1, "add 1 to the labels")]
)
def test_labels_that_count_from_another_number_are_found(shift: int, advice: str) -> None:
    sound = confusion_of(list(range(8)))
    found = find_permutation(Counter({(a - shift, b): n for (a, b), n in sound.items()}), None)
    assert found is not None
    assert found.advice == advice


def test_two_folders_that_were_swapped_are_found() -> None:
    names = {f"c{k}": k for k in range(10)}
    order = [0, 1, 2, 7, 4, 5, 6, 3, 8, 9]
    found = find_permutation(confusion_of(order), Labelling("folder names", names))
    assert found is not None
    assert found.advice.endswith(": c0, c1, c2, c7, c4, c5, c6, c3, c8, c9")


def test_classes_without_samples_leave_gaps_in_the_list() -> None:
    pairs = {(a, b): n for (a, b), n in confusion_of([3, 2, 1, 0]).items() if a != 2 and b != 1}
    found = find_permutation(
        Counter(pairs), Labelling("folder names", {f"c{k}": k for k in range(4)})
    )
    assert found is not None
    assert found.advice.endswith(": 0 c3, 2 c1, 3 c0")


@pytest.mark.parametrize("accuracy", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_a_model_with_sound_labels_is_not_suspected(
    accuracy: float, classes: int, seed: int
) -> None:
    for samples in (1, 2, 10):
        sound = confusion_of(list(range(classes)), samples=samples, accuracy=accuracy, seed=seed)
        assert find_permutation(sound, None) is None


def test_a_model_that_confuses_one_class_is_not_suspected() -> None:
    confusion = confusion_of(list(range(5)), samples=20, accuracy=1)
    confusion[3, 4] = confusion.pop((3, 3))
    assert find_permutation(confusion, None) is None


def test_few_samples_do_not_suffice() -> None:
    assert find_permutation(confusion_of([1, 2, 3, 0], samples=1, accuracy=1), None) is None
    assert find_permutation(confusion_of([1, 2, 3, 0], samples=6, accuracy=1), None) is not None


def test_no_assignment_is_sought_where_none_could_be_significant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One wrong sample each of many classes fits some order by chance."""
    monkeypatch.setattr(label_permutation, "_assign", lambda _: pytest.fail("it was sought"))
    singles = confusion_of(list(range(1000)), samples=1, accuracy=0.7)
    assert find_permutation(singles, None) is None
    one_class = confusion_of(list(range(5)), samples=20, accuracy=1)
    one_class[3, 3], one_class[3, 0], one_class[3, 1] = 0, 10, 10
    assert find_permutation(one_class, None) is None
