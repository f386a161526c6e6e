"""Where labels come from: each file and folder is read, refused or named; what was written is the oracle."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ptq.core.errors import DataError
from ptq.data import InputSpec, Samples, open_samples
from ptq.data.labelling import Labelling
from ptq.data.labels.label_numbers import require_class

FREE = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))
ROW = InputSpec("x", np.dtype(np.float32), (None, 2))
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


def folder_of(root: Path, *images: str, **files: str) -> Path:
    """A folder of tiny images and of text files, whose names have _ for the dot."""
    for image in images:
        (root / image).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(root / image)
    for name, text in files.items():
        (root / ".".join(name.rsplit("_", 1))).write_text(text)
    return root


def labels_of(samples: Samples) -> dict[str, tuple[int, ...]]:
    return {sample.name: sample.labels for sample in samples}


def open_rows(labels: Any) -> Samples:
    return open_samples({"x": ROWS, "labels": np.asarray(labels)}, [ROW])


@pytest.mark.parametrize("table", ["labels_csv", "list_txt"])
def test_rows_of_files_that_a_pattern_leaves_out_are_no_errors(tmp_path: Path, table: str) -> None:
    rows = ["b 1.png,2", "a0.png,0", "sub/c.png,cat", "a1.png,1"]
    text = "\n".join(["path,label", *rows] if table == "labels_csv" else rows[:2] + rows[3:])
    folder_of(tmp_path, "a0.png", "a1.png", "b 1.png", "sub/c.png", **{table: text})
    assert labels_of(open_samples(f"{tmp_path}/a*.png", [FREE])) == {"a0.png": (0,), "a1.png": (1,)}
    for wrong in ("gone.png", "../a0.png", str(tmp_path / "a0.png")):
        (tmp_path / ".".join(table.rsplit("_", 1))).write_text(f"{text}\n{wrong},1\n")
        with pytest.raises(DataError, match=r"image '\S+' is not in the folder"):
            open_samples(f"{tmp_path}/a*.png", [FREE])


@pytest.mark.parametrize("kind", ["int64", "float32", "bool"])
def test_s5_one_hot_rows_are_converted_and_the_report_says_so(kind: str) -> None:
    samples = open_rows(np.eye(4)[[2, 0, 3, 1]].astype(kind))
    assert [sample.labels for sample in samples] == [(2,), (0,), (3,), (1,)]
    assert samples.highest_label == 3
    assert samples.labelling.describe().endswith("; one-hot rows converted to class numbers")


def test_s5_one_hot_rows_of_two_classes_and_unlabelled_rows_are_converted() -> None:
    samples = open_rows([[0, 1], [1, 0], [-1, -1], [0, 1]])
    assert [sample.labels for sample in samples] == [(1,), (0,), (), (1,)]


def test_rows_of_several_classes_stay_several_classes() -> None:
    samples = open_rows([[0, 1], [1, -1], [3, 0], [-1, -1]])
    assert [sample.labels for sample in samples] == [(0, 1), (1,), (3, 0), ()]
    assert samples.labelling.notes == ()


def test_a_row_of_zeros_among_one_hot_rows_is_named() -> None:
    with pytest.raises(DataError, match="row 2 is all 0, but other rows are one-hot"):
        open_rows([[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ([0, 0, 1], (2,)),
        (np.array([0.0, 1.0]), (1,)),
        ([True, False], (0,)),
        ([0, 2, 1], (0, 2, 1)),
        ([0, 1, -1], (0, 1)),
    ],
)
def test_s5_a_one_hot_label_of_a_sample_is_converted(label: Any, expected: tuple[int]) -> None:
    (sample,) = open_samples([({"x": ROWS[:1]}, label)], [ROW])
    assert sample.labels == expected


@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_s5_one_hot_rows_of_minus_one_and_one_are_converted(kind: str) -> None:
    samples = open_rows((2 * np.eye(4) - 1)[[2, 0, 3, 1]].astype(kind))
    assert [sample.labels for sample in samples] == [(2,), (0,), (3,), (1,)]
    assert samples.labelling.notes == ("one-hot rows converted to class numbers",)


def test_s5_rows_of_one_and_minus_one_that_may_be_lists_are_refused() -> None:
    rows = [[1, -1, -1]] * 4
    with pytest.raises(
        DataError, match="one-hot rows of class 0, or lists of class 1 alone; give class"
    ):
        open_rows(rows)


@pytest.mark.parametrize("rows", [[[0, 1, 1], [1, 0, 0]], [[-1, 1, 1], [1, -1, -1]]])
def test_s5_rows_of_several_ones_are_refused_with_what_to_give(rows: list[list[int]]) -> None:
    with pytest.raises(
        DataError, match="row 0 has several 1, so it is no one-hot row; give the class"
    ):
        open_rows([*rows, *rows])


def test_s5_one_hot_labels_of_samples_and_batches_are_noted() -> None:
    rows = np.eye(3)[[2, 0, 1, 1]]
    for given in (
        [({"x": ROWS[k : k + 1]}, rows[k]) for k in range(4)],
        lambda: iter([({"x": ROWS}, rows)]),
    ):
        samples = open_samples(given, [ROW])
        assert [sample.labels for sample in samples] == [(2,), (0,), (1,), (1,)]
        assert samples.labelling.notes == ("one-hot rows converted to class numbers",)


def test_s5_one_hot_labels_in_a_folder_of_arrays_are_noted(tmp_path: Path) -> None:
    for k in range(3):
        np.savez(tmp_path / f"{k}.npz", x=ROWS[k : k + 1], labels=np.eye(3)[k])
    samples = open_samples(tmp_path, [ROW])
    assert [sample.labels for sample in samples] == [(0,), (1,), (2,)]
    assert samples.labelling.notes == ("one-hot rows converted to class numbers",)


def _open_items(*labels: Any) -> Samples:
    return open_samples([({"x": ROWS[:1]}, label) for label in labels], [ROW])


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("source", ["items", "batches"])
def test_c10_one_hot_rows_of_minus_one_and_one_of_a_loader_are_converted(
    kind: type, source: str
) -> None:
    rows: NDArray[Any] = (2 * np.eye(4) - 1)[[2, 0, 3, 1]].astype(kind)
    samples = _open_items(*rows) if source == "items" else open_samples([(ROWS, rows)], [ROW])
    assert [sample.labels for sample in samples] == [(2,), (0,), (3,), (1,)]
    assert samples.labelling.notes == ("one-hot rows converted to class numbers",)


def test_c10_a_row_that_was_read_as_a_list_of_classes_is_refused_once_others_are_one_hot() -> None:
    with pytest.raises(
        DataError, match=r"data\[1\]: label \[-1, 1, -1\] is a one-hot row of -1 and 1, but data\[0\]: label "
        r"\[1, -1, -1\] may be a list of class 1 alone; give class numbers",
    ):  # fmt: skip
        list(_open_items([1, -1, -1], [-1, 1, -1]))


def test_c10_a_row_of_several_ones_is_refused() -> None:
    with pytest.raises(DataError, match=r"\[-1, 1, 1\] has several 1, so it is no one-hot row"):
        list(_open_items([-1, 1, 1]))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([2.0, 0.0, -1.0, 3.0], np.float32), [(2,), (0,), (), (3,)]),
        (np.array([True, False, True, True]), [(1,), (0,), (1,), (1,)]),
        (np.array(["2", "0", "-1", "3"]), [(2,), (0,), (), (3,)]),
    ],
    ids=["floats", "booleans", "digits"],
)
def test_c11_labels_of_other_types_are_read_where_they_are_whole_numbers(
    labels: Any, expected: list[tuple[int, ...]]
) -> None:
    for samples in (open_rows(labels), _open_items(*labels), open_samples([(ROWS, labels)], [ROW])):
        assert [sample.labels for sample in samples] == expected


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (0.25, "label 0.25 is no whole number; give the class number of each sample"),
        (np.nan, "a label is NaN; for samples without label give -1"),
        ([0.2, 0.8], "2 values of type float64 for each sample are no one-hot row; give the class"),
        ([True, True], "2 values of type bool for each sample are no one-hot row; give the class"),
    ],
)
def test_c11_labels_that_are_no_whole_numbers_are_refused_in_one_plain_line(
    label: Any, message: str
) -> None:
    for give in (lambda: list(_open_items(label)), lambda: open_rows([label] * 4)):
        with pytest.raises(DataError) as caught:
            give()
        text = str(caught.value)
        assert message in text or (label == [True, True] and "several 1" in text)


def test_c12_names_in_an_npz_are_numbered_by_a_list_of_classes_beside_it(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\ncat\nhen\n")
    names = ["cat", "hen", "cat", "dog"]
    np.savez(tmp_path / "d.npz", x=ROWS, labels=names)
    (tmp_path / "feeds").mkdir()
    (tmp_path / "feeds" / "classes.txt").write_text("dog\ncat\nhen\n")
    for k, name in enumerate(names):
        np.savez(tmp_path / "feeds" / f"{k}.npz", x=ROWS[k : k + 1], labels=name)
    for data in ("d.npz", "feeds"):
        samples = open_samples(tmp_path / data, [ROW])
        assert [sample.labels for sample in samples] == [(1,), (2,), (1,), (0,)]
        assert samples.labelling.describe().endswith(
            ", names numbered by classes.txt (3 classes: dog=0, cat=1, hen=2)"
        )


@pytest.mark.parametrize("kind", [list, np.array])
def test_c12_names_without_known_classes_are_refused_with_what_to_do(kind: Any) -> None:
    names = kind(["cat", "dog", "cat", "hen"])
    for give in (
        lambda: open_samples({"x": ROWS, "labels": names}, [ROW]),
        lambda: list(_open_items("cat")),
        lambda: list(open_samples([(ROWS, names)], [ROW])),
    ):
        with pytest.raises(DataError, match="label 'cat' is a name, and the order of the model's "):
            give()


def test_c12_a_name_that_is_not_in_the_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    np.savez(tmp_path / "d.npz", x=ROWS, labels=["cat", "hen", "cat", "dog"])
    with pytest.raises(DataError, match=r"'hen' is neither a number nor a name in classes\.txt"):
        open_samples(tmp_path / "d.npz", [ROW])


def test_c13_labels_that_mean_ignore_are_refused_with_the_value_for_no_label() -> None:
    with pytest.raises(
        DataError, match="label -100 is negative; for samples without label give -1"
    ):
        open_rows([0, 1, -100, 1])
    with pytest.raises(DataError, match=r"label 255 is not a class .* to be ignored, give -1"):
        require_class(255, {"y": 10}, "data[3]")


def test_a_list_of_classes_of_a_sample_keeps_its_padding() -> None:
    (sample,) = open_samples([({"x": ROWS[:1]}, [1, -1, -1])], [ROW])
    assert sample.labels == (1,)


def test_s5_two_integers_that_may_be_one_hot_are_refused() -> None:
    with pytest.raises(DataError, match=r"\[0, 1\] is a one-hot row or the two classes 0 and 1"):
        list(open_samples([({"x": ROWS[:1]}, [0, 1])], [ROW]))


@pytest.mark.parametrize("kind", [np.int64, np.float32, bool])
def test_a_row_is_read_alike_from_arrays_items_and_batches(kind: type) -> None:
    """Where one way refuses what another reads, no number is wrong; never do two ways read two classes."""
    rows: list[list[list[int]]] = [
        *([[a, b], [c, d]] for a in (0, 1) for b in (0, 1) for c in (0, 1, 2) for d in (0, 1, 3)),
        *([[a, b, c], [0, 1, 0]] for a in (0, 1) for b in (0, 1) for c in (0, 1, -1, 4)),
    ]
    for pair in rows:
        labels: NDArray[Any] = np.array(pair, kind)
        found = set()
        for data in (
            {"x": ROWS[:2], "labels": labels},
            [({"x": ROWS[k : k + 1]}, labels[k]) for k in range(2)],
            [(ROWS[:2], labels)],
            [(ROWS[:1], labels[:1]), (ROWS[:1], labels[1:])],
        ):
            try:
                found.add(tuple(sample.labels for sample in open_samples(data, [ROW])))
            except DataError:
                continue
        assert len(found) < 2, pair


def test_lists_of_classes_in_a_batch_are_no_one_hot_rows() -> None:
    """[0, 1] and [1, 0] counted as one-hot in a batch of their own, and as lists in an array."""
    labels = np.array([[0, 1], [1, 0], [2, 3], [3, 2]])
    assert [s.labels for s in open_rows(labels)] == [(0, 1), (1, 0), (2, 3), (3, 2)]
    batches = [(ROWS[:2], labels[:2]), (ROWS[2:], labels[2:])]
    with pytest.raises(DataError, match=r"\[0, 1\] is a one-hot row or the two classes 0 and 1"):
        list(open_samples(batches, [ROW]))


def test_integers_in_one_order_may_be_lists_in_an_array_too() -> None:
    with pytest.raises(
        DataError, match=r"rows \[0, 1\] are one-hot rows of class 1, or lists of the classes 0 and 1"
    ):  # fmt: skip
        open_rows([[0, 1]] * 4)
    assert [s.labels for s in open_rows([[0.0, 1.0]] * 4)] == [(1,)] * 4


@pytest.mark.parametrize(
    ("label", "message"),
    [([1, 1, 0], "has several 1"), ([0, 0, 0], "is all 0, so it is no one-hot row")],
)
def test_rows_of_zeros_and_ones_that_are_not_one_hot_are_refused(
    label: list[int], message: str
) -> None:
    with pytest.raises(DataError, match=rf"^data\[0\]: label \[.*\] {message}"):
        list(_open_items(label))
    with pytest.raises(DataError, match=f"row 0 {message}"):
        open_rows([label] * 4)


def test_a_one_hot_row_among_lists_is_refused() -> None:
    with pytest.raises(DataError, match="row 1 is a one-hot row, but row 0 is not; give the class"):
        open_rows([[2, 3, 1], [0, 0, 1], [-1, -1, -1], [0, 1, -1]])


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_a_float_that_no_integer_holds_is_one_clear_line(value: float, kind: type) -> None:
    with np.errstate(all="ignore"):
        labels: NDArray[Any] = np.array([0, 1, value, 1]).astype(kind)
    with pytest.raises(DataError, match=r"label -?(inf|1e\+30) is no class number; give whole"):
        open_rows(labels)
    with pytest.raises(DataError, match=r"label -?(inf|1e\+30) is no class number; give whole"):
        list(_open_items(labels[2]))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["0 1", "1 0", "0 1"], [(1,), (0,), (1,)]),
        (["0 0 1", "-1", "1 0 0"], [(2,), (), (0,)]),
        (["-1 1 -1", "1 -1 -1", "-1 -1 1"], [(1,), (0,), (2,)]),
    ],
)
def test_one_hot_rows_in_a_file_are_converted(
    tmp_path: Path, texts: list[str], expected: list[tuple[int, ...]]
) -> None:
    """They were lists of accepted classes: every label wrong, and the model always right."""
    lines = [f"{k}.png {text}\n" for k, text in enumerate(texts)]
    folder = folder_of(tmp_path, "0.png", "1.png", "2.png", labels_txt="".join(lines))
    samples = open_samples(folder, [FREE])
    assert [sample.labels for sample in samples] == expected
    assert samples.labelling.notes == ("one-hot rows converted to class numbers",)


@pytest.mark.parametrize("texts", [["0 1", "2", "1 0"], ["0 1", "1 1 2", "5"], ["3 3", "0", "-1"]])
def test_lists_of_classes_in_a_file_stay_lists(tmp_path: Path, texts: list[str]) -> None:
    lines = [f"{k}.png {text}\n" for k, text in enumerate(texts)]
    folder = folder_of(tmp_path, "0.png", "1.png", "2.png", labels_txt="".join(lines))
    samples = open_samples(folder, [FREE])
    expected = [{int(text) for text in line.split()} - {-1} for line in texts]
    assert [set(sample.labels) for sample in samples] == expected
    assert samples.labelling.notes == ()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["0 1", "0 1"], r"rows \[0, 1\] are one-hot rows of class 1, or lists of the classes"),
        (["3", "0 1 0"], "line 3 is a one-hot row, but line 2 is not"),
        (["0 1 0", "1 1 0"], "line 3 has several 1, so it is no one-hot row"),
        (["0 1 0", "0 0 0"], "line 3 is all 0, but other rows are one-hot"),
    ],
)
def test_lines_that_may_be_one_hot_or_lists_are_refused(
    tmp_path: Path, texts: list[str], message: str
) -> None:
    lines = "".join(f"{k}.png,{text.replace(' ', ',')}\n" for k, text in enumerate(texts))
    folder = folder_of(tmp_path, "0.png", "1.png", labels_csv=f"# file\n{lines}")
    with pytest.raises(DataError, match=rf"labels\.csv: {message}"):
        open_samples(folder, [FREE])


def test_names_of_two_classes_in_a_line_are_both_accepted(tmp_path: Path) -> None:
    files = {"labels_csv": "a.png,cat,dog\nb.png,dog,cat\n", "classes_txt": "cat\ndog\n"}
    samples = open_samples(folder_of(tmp_path, "a.png", "b.png", **files), [FREE])
    assert labels_of(samples) == {"a.png": (0, 1), "b.png": (1, 0)}


def test_s6_names_in_a_labels_file_are_numbered_by_a_list_of_classes(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        *("a.png", "b c.png", "d.png"),
        labels_txt="a.png trouser\nb c.png ankle boot\nd.png 0\n",
        classes_txt="shirt\ntrouser\nankle boot\n",
    )
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"a.png": (1,), "b c.png": (2,), "d.png": (0,)}
    assert samples.labelling.describe() == (
        "from labels.txt, names numbered by classes.txt (2 classes: trouser=1, ankle boot=2)"
    )


def test_s6_names_in_a_labels_file_without_a_list_are_refused_with_the_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "train_1.png", labels_txt="train_1.png trouser\n")
    with pytest.raises(
        DataError, match=r"labels\.txt line 1: image 'train_1\.png': 'trouser' is no class number; "
        r"give numbers, or list the class names in the model's order in classes\.txt",
    ):  # fmt: skip
        open_samples(folder, [FREE])


def test_s6_an_unknown_name_is_refused_with_the_line(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, "a.png", "b.png", labels_txt="a.png cat\nb.png cow\n", classes_txt="cat\ndog\n"
    )
    with pytest.raises(DataError, match=r"line 2: image 'b\.png': 'cow' is no class number and no"):
        open_samples(folder, [FREE])


def test_s6_names_of_class_folders_number_a_labels_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "cat/1.png", "dog/2.png", labels_csv="path,label\ncat/1.png,dog\n")
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"cat/1.png": (1,), "dog/2.png": ()}
    assert samples.labelling.source == "labels.csv, names numbered by the class folders"


@pytest.mark.parametrize("name", ["labels_csv", "ground_truth_csv", "answers_tsv"])
@pytest.mark.parametrize(
    "header", ["path,label", "filename,class_id", "Image,Target", "label,file_name"]
)
def test_s6_a_table_with_a_header_is_read(tmp_path: Path, name: str, header: str) -> None:
    rows = [("a.png", "2"), ("b, c.png", "0")]
    if header.startswith("label"):
        rows = [(label, image) for image, label in rows]
    lines = [header, *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    folder = folder_of(tmp_path, "a.png", "b, c.png", **{name: "\n".join(lines)})
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"a.png": (2,), "b, c.png": (0,)}
    assert samples.labelling.source == ".".join(name.rsplit("_", 1))


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("path,label,split", "unknown column split"),
        ("id,gt", "unknown column id, gt"),
        (",path,label", r"unknown column \(no name\)"),
        ("path,label,class_name", "columns path, label, class_name"),
        ("path;file", "columns path, file"),
    ],
)
def test_s6_other_columns_are_refused_by_name(tmp_path: Path, header: str, named: str) -> None:
    folder = folder_of(tmp_path, "a.png", ground_truth_csv=f"{header}\na.png,3,1\n")
    with pytest.raises(DataError, match=rf"ground_truth\.csv: {named}; keep one column named path"):
        open_samples(folder, [FREE])


def test_a_list_of_images_of_any_name_is_read(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, "a.png", "b.png", val_txt="a.png 65\nb.png 970\n", README_txt="Photos.\n"
    )
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"a.png": (65,), "b.png": (970,)}
    assert samples.labelling.describe() == "from val.txt"


def test_a_file_of_labels_that_is_not_used_is_named(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, "cat/1.png", "dog/2.png", labels_json="{}", more_csv="path,label\n"
    )
    assert open_samples(folder, [FREE]).labelling == Labelling(
        "folder names in sorted order",
        {"cat": 0, "dog": 1},
        ("labels.json is not used", "more.csv is not used"),
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"labels_json": "{}"}, r"labels\.json: is not read as labels; write labels\.csv"),
        ({"a_csv": "path,label\na.png,1", "b_csv": ""}, r"has a\.csv and b\.csv; keep one"),
        ({"a_csv": ""}, r"a\.csv: names no image of the folder"),
        ({"classes_txt": "\n"}, r"classes\.txt: is empty"),
        ({"classes_txt": "cat\ndog\ncat"}, r"classes\.txt line 3: class 'cat' is listed twice"),
        ({"classes_txt": "1 cat\n1 dog"}, r"classes\.txt line 2: class number 1 is listed twice"),
    ],
)
def test_what_cannot_be_labels_is_refused(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        open_samples(folder_of(tmp_path, "a.png", **files), [FREE])


def test_s7_class_folders_are_named_with_their_labels(tmp_path: Path) -> None:
    samples = open_samples(folder_of(tmp_path, "bag/1.png", "ankle-boot/2.png"), [FREE])
    assert samples.labelling.describe() == (
        "from folder names in sorted order (2 classes: ankle-boot=0, bag=1)"
    )


@pytest.mark.parametrize("listing", ["bag\nshirt\nankle-boot\n", "2 ankle-boot\n0 bag\n7: hat\n"])
@pytest.mark.parametrize("name", ["classes_txt", "labels_txt"])
def test_s7_a_list_of_classes_numbers_the_folders(tmp_path: Path, listing: str, name: str) -> None:
    folder = folder_of(tmp_path, "bag/1.png", "ankle-boot/2.png", **{name: listing})
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"ankle-boot/2.png": (2,), "bag/1.png": (0,)}
    assert samples.classes == ("bag", "ankle-boot")
    assert f"numbered by {name.replace('_', '.')} (" in samples.labelling.describe()


@pytest.mark.parametrize(
    ("folders", "listing", "labels"),
    [
        (["0", "1", "2", "3"], "3\n1\n2\n0\n", [3, 1, 2, 0]),
        (["10", "20", "50"], "10\n20\n50\n", [0, 1, 2]),
        (["10", "20", "50"], "ten\ntwenty\n", [10, 20, 50]),
        (["0", "1"], "0 cat\n1 dog\n", [0, 1]),
        (["0", "1", "2"], "0\n1\n", [0, 1, 2]),
    ],
)
def test_a_list_of_classes_numbers_folders_that_are_numbers(
    tmp_path: Path, folders: list[str], listing: str, labels: list[int]
) -> None:
    """The list was passed over without a word."""
    folder = folder_of(tmp_path, *(f"{name}/a.png" for name in folders), classes_txt=listing)
    found = open_samples(folder, [FREE])
    assert labels_of(found) == {f"{n}/a.png": (k,) for n, k in zip(folders, labels, strict=True)}


def test_a_list_of_other_numbers_must_have_each_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "10/a.png", "20/a.png", "50/a.png", classes_txt="10\n20\n")
    with pytest.raises(DataError, match=r"classes\.txt: does not list class folder '50'"):
        open_samples(folder, [FREE])


@pytest.mark.parametrize("names", [["0", "1", "10", "11", "2"], ["0_a", "1_b", "3_d"]])
def test_a_folder_without_samples_renumbers_no_class(tmp_path: Path, names: list[str]) -> None:
    for empty in ("docs", "2_empty", "00"):
        (tmp_path / empty).mkdir()
    samples = open_samples(folder_of(tmp_path, *(f"{name}/a.png" for name in names)), [FREE])
    assert labels_of(samples) == {f"{n}/a.png": (int(n.split("_")[0]),) for n in names}
    assert samples.labelling.notes == ()


@pytest.mark.parametrize(
    ("names", "shown"), [(["1_a", "2_b"], "1_a is class 0"), (["0", "10", "9", "x"], "10 is class")]
)
def test_numbers_in_names_that_are_not_used_are_noted(
    tmp_path: Path, names: list[str], shown: str
) -> None:
    samples = open_samples(folder_of(tmp_path, *(f"{name}/a.png" for name in names)), [FREE])
    (note,) = samples.labelling.notes
    assert note.startswith(f"numbers in the names of class folders are not used: {shown}")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("[3-5]_*/*.png", {3, 4, 5}), ("[12]_*/*.png", {1, 2}), ("1_*/*.png", {1})],
)
def test_a_pattern_does_not_renumber_classes(
    tmp_path: Path, pattern: str, expected: set[int]
) -> None:
    folder = folder_of(tmp_path, *(f"{k}_c/a.png" for k in range(6)))
    samples = open_samples(str(folder / pattern), [FREE])
    assert {label for sample in samples for label in sample.labels} == expected


def test_a_single_folder_is_no_class_unless_its_name_says_so(tmp_path: Path) -> None:
    """All images had label 0, and the labels beside them were passed over without a word."""
    folder = folder_of(tmp_path, "images/a.png", "images/b.png")
    (folder / "images" / "labels.csv").write_text("path,label\na.png,3\n")
    samples = open_samples(folder, [FREE])
    assert labels_of(samples) == {"images/a.png": (), "images/b.png": ()}
    assert samples.labelling == Labelling(
        "",
        notes=(
            "folder images alone gives no labels; if it is a class, name it by the class number, or list "
            "all classes in classes.txt",
            "images/labels.csv is not used; give folder images itself",
        ),
    )
    assert labels_of(open_samples(folder / "images", [FREE]))["a.png"] == (3,)
    (folder / "classes.txt").write_text("words\nimages\n")
    assert labels_of(open_samples(folder, [FREE]))["images/b.png"] == (1,)


@pytest.mark.parametrize(
    "text", ["path label\na.png 3\n", "path,label\na.png,3\n", "# list\n\npath label\na.png 3\n"]
)
def test_a_list_behind_a_header_or_a_comment_is_named(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path, "a.png", train_txt=text, README_txt="Photos.\nTwo.\na.png is one.")
    assert open_samples(folder, [FREE]).labelling == Labelling("", notes=("train.txt is not used",))


def test_a_list_of_classes_in_other_letters_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "cat/a.png", "dog/b.png", Classes_txt="dog\ncat\n")
    if (tmp_path / "classes.txt").exists():
        pytest.skip("this file system does not tell letters apart")
    samples = open_samples(folder, [FREE])
    assert samples.labelling.notes == ("Classes.txt is not used; name it classes.txt",)


def test_s7_a_folder_that_the_list_does_not_have_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "bag/1.png", "hat/2.png", classes_txt="bag\nshoe\n")
    with pytest.raises(DataError, match=r"classes\.txt: does not list class folder 'hat'"):
        open_samples(folder, [FREE])


def test_s7_a_negative_class_folder_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "-1/1.png", "0/2.png", "1/3.png")
    with pytest.raises(DataError, match="class folder '-1' is a negative number"):
        open_samples(folder, [FREE])


@pytest.mark.parametrize("name", ["classes.txt", "labels.txt", "Labels.csv"])
def test_a_broken_link_to_labels_is_refused(tmp_path: Path, name: str) -> None:
    """Without it, class folders would number the classes in another order, in silence."""
    folder_of(tmp_path, "bag/1.png", "ankle-boot/2.png")
    (tmp_path / name).symlink_to("gone")
    with pytest.raises(DataError, match=rf"{name}: is a link to what does not exist; mend it"):
        open_samples(tmp_path, [FREE])
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: is not a regular file; mend it"):
        open_samples(tmp_path, [FREE])


def test_many_classes_are_abridged() -> None:
    text = Labelling("folder names", {f"c{k:02}": k for k in range(40)}).describe()
    assert text.endswith("(40 classes: c00=0, " + ", ".join(f"c{k:02}={k}" for k in range(1, 11))
                         + ", …, c39=39)")  # fmt: skip


@pytest.mark.parametrize("beside", ["labels/a.txt", "annotations/instances.json"])
@pytest.mark.parametrize("images", [["images/a.png"], ["train/a.png", "val/b.png"]])
def test_folders_of_a_data_set_of_boxes_are_no_classes(
    tmp_path: Path, beside: str, images: list[str]
) -> None:
    (tmp_path / beside).parent.mkdir()
    (tmp_path / beside).write_text("0 0.5 0.5 0.2 0.2")
    samples = open_samples(folder_of(tmp_path, *images), [FREE])
    assert labels_of(samples) == dict.fromkeys(images, ())
    assert samples.classes == ()
    assert samples.labelling == Labelling("")


def test_a_class_that_is_named_labels_and_holds_images_stays_a_class(tmp_path: Path) -> None:
    samples = open_samples(folder_of(tmp_path, "labels/a.png", "logos/b.png"), [FREE])
    assert labels_of(samples) == {"labels/a.png": (0,), "logos/b.png": (1,)}


def test_files_beside_a_folder_of_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=ROWS[:1], labels=2)
    (tmp_path / "labels.txt").write_text("0.npz 3\n")
    samples = open_samples(tmp_path, [ROW])
    assert [sample.labels for sample in samples] == [(2,)]
    assert samples.labelling.notes == ("labels.txt is not used",)


def test_folders_in_class_folders_are_named_as_no_classes(tmp_path: Path) -> None:
    nested = folder_of(tmp_path, "train/cat/a.png", "train/dog/b.png", "val/cat/c.png")
    samples = open_samples(nested, [FREE])
    assert samples.labelling.classes == {"train": 0, "val": 1}
    assert samples.labelling.notes == (
        "train/cat and other folders in class folders are no classes; if they should be, give folder train itself",
    )


def test_one_folder_in_each_class_folder_is_no_doubt(tmp_path: Path) -> None:
    nested = folder_of(tmp_path, "cat/images/a.png", "dog/images/b.png")
    assert open_samples(nested, [FREE]).labelling.notes == ()


@pytest.mark.parametrize(
    ("folders", "pattern", "expected"),
    [
        (["a", "b", "c"], "[bc]/*", {"b": 1, "c": 2}),
        (["a", "b", "c"], "[b]/*", {"b": 1}),
        ([f"{k:03d}.x" for k in range(1, 13)], "00[56].x/*", {"005.x": 4, "006.x": 5}),
        (["10_cats", "20_dogs"], "*/*", {"10_cats": 0, "20_dogs": 1}),
        (["2019.summer", "2020.winter"], "", {"2019.summer": 0, "2020.winter": 1}),
        (["1_star", "5_star"], "", {"1_star": 0, "5_star": 1}),
        (["0_a", "1_b", "4_e"], "", {"0_a": 0, "1_b": 1, "4_e": 4}),
        (["0_a", "1_b", "4_e"], "[14]*/*", {"1_b": 1, "4_e": 4}),
    ],
)
def test_a_pattern_numbers_class_folders_as_the_whole_folder_does(
    tmp_path: Path, folders: list[str], pattern: str, expected: dict[str, int]
) -> None:
    folder_of(tmp_path, *(f"{name}/1.png" for name in folders))
    samples = open_samples(f"{tmp_path}/{pattern}".rstrip("/"), [FREE])
    assert {sample.name.split("/")[0]: sample.labels for sample in samples} == {
        name: (number,) for name, number in expected.items()
    }


def test_names_of_classes_need_a_list_where_a_pattern_selects_folders(tmp_path: Path) -> None:
    table = "path,label\na/1.png,a\nb/1.png,b\nc/1.png,c"
    folder_of(tmp_path, "a/1.png", "b/1.png", "c/1.png", labels_csv=table)
    assert labels_of(open_samples(tmp_path, [FREE])) == {
        "a/1.png": (0,),
        "b/1.png": (1,),
        "c/1.png": (2,),
    }
    with pytest.raises(
        DataError, match=r"line 3: image 'b/1.png': 'b' is no class number; .* classes.txt"
    ):
        open_samples(f"{tmp_path}/[bc]/*", [FREE])
    (tmp_path / "classes.txt").write_text("a\nb\nc")
    assert labels_of(open_samples(f"{tmp_path}/[bc]/*", [FREE])) == {
        "b/1.png": (1,),
        "c/1.png": (2,),
    }


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_labels_are_class_numbers(kind: str) -> None:
    samples = open_rows(np.array([1, 2, 0, 2], kind))
    assert [sample.labels for sample in samples] == [(1,), (2,), (0,), (2,)]
    assert samples.highest_label == 2
    if kind == "uint64":
        with pytest.raises(DataError, match="label 18446744073709551615 is no class number"):
            open_rows(np.array([1, 2, 0, 2**64 - 1], kind))


def test_labels_of_bytes_are_texts(tmp_path: Path) -> None:
    names = ["caf\xe9".encode(), b"dog", b"1", b"dog"]
    np.savez(tmp_path / "d.npz", x=ROWS, labels=np.array(names))
    (tmp_path / "classes.txt").write_text("dog\ncaf\xe9\n", "utf-8")
    samples = open_samples(tmp_path / "d.npz", [ROW])
    assert [sample.labels for sample in samples] == [(1,), (0,), (1,), (0,)]
    assert samples.labelling.classes == {"dog": 0, "caf\xe9": 1}
    with pytest.raises(DataError, match=r"a label is bytes that are no UTF-8"):
        open_rows(np.array([b"0", b"\xe9", b"1", b"1"]))


@pytest.mark.parametrize("source", ["npz", "csv", "tar"])
def test_digits_that_are_names_mean_one_class_everywhere(tmp_path: Path, source: str) -> None:
    def read(classes: str, *labels: str) -> list[tuple[int, ...]]:
        (tmp_path / "classes.txt").write_text(classes)
        if source == "npz":
            np.savez(tmp_path / "d.npz", x=ROWS[: len(labels)], labels=np.array(labels))
            return [sample.labels for sample in open_samples(tmp_path / "d.npz", [ROW])]
        if source == "csv":
            images = [f"{k}.png" for k in range(len(labels))]
            rows = [f"{image},{label}" for image, label in zip(images, labels, strict=True)]
            root = folder_of(tmp_path, *images, labels_csv="\n".join(["path,label", *rows]))
            found = labels_of(open_samples(root, [FREE]))
            return [found[image] for image in images]
        with tarfile.open(tmp_path / "d.tar", "w") as archive:
            archive.add(tmp_path / "classes.txt", "classes.txt")
            for k, label in enumerate(labels):
                np.save(tmp_path / "a.npy", ROWS[k : k + 1])
                (tmp_path / "a.cls").write_text(label)
                for kind in ("npy", "cls"):
                    archive.add(tmp_path / f"a.{kind}", f"{k}.{kind}")
        return [sample.labels for sample in open_samples(tmp_path / "d.tar", [ROW])]

    assert read("2019\n2020\ncat\n", "2020", "2019", "-1", "cat") == [(1,), (0,), (), (2,)]
    assert read("0\n1\n2\n", "2", "0", "1") == [(2,), (0,), (1,)]
    # a digit that is no name shows that all are numbers
    assert read("1\n2\n3\n", "0", "2", "1") == [(0,), (2,), (1,)]
    assert read("3\n\n\n\n", "1", "3", "2") == [(1,), (3,), (2,)]
    for label in ("2", "-1"):
        with pytest.raises(DataError, match=f"label '{label}' may be .*; .* write class_{label} "):
            read("0\n2\n1\n-1\n", "0", label)
    # one that exceeds the classes shows that all are names; a reader of single samples sees it first or never
    assert read("1\n2\n3\n", "3", "1", "2") == [(2,), (0,), (1,)]
    if source == "tar":
        for labels in (("10", "1"), ("5", "0")):
            with pytest.raises(DataError, match=f"gives label '{labels[0]}' of an earlier sample "):
                read("5\n10\n15\n", *labels)


def test_rows_of_several_digits_are_numbers(tmp_path: Path) -> None:
    images = ("a.png", "b.png", "c.png")
    root = folder_of(tmp_path, *images, classes_txt="2\n1\n0\n")
    for text, expected in (
        ("a.png 1 0 0\nb.png 0 0 1\nc.png 0 1 0\n", [(0,), (2,), (1,)]),
        ("a.png 0 1\nb.png 2\nc.png -1\n", [(0, 1), (2,), ()]),
    ):
        (root / "labels.txt").write_text(text)
        assert [sample.labels for sample in open_samples(root, [FREE])] == expected


@pytest.mark.parametrize(
    ("folders", "labels"),
    [
        (["1", "2", "10", "misc"], [0, 1, 2, 3]),
        (["10", "20", "misc"], [10, 20, 5]),
        ([f"{k:02x}" for k in range(24)], [k % 13 for k in range(24)]),
    ],
    ids=["refused", "relabelled", "hexadecimal"],
)
def test_folders_of_digits_do_not_name_the_numbers_of_a_table(
    tmp_path: Path, folders: list[str], labels: list[int]
) -> None:
    rows = [f"{name}/a.png,{label}" for name, label in zip(folders, labels, strict=True)]
    images = [f"{name}/a.png" for name in folders]
    root = folder_of(tmp_path, *images, labels_csv="\n".join(["path,label", *rows]))
    found = labels_of(open_samples(root, [FREE]))
    assert [found[image] for image in images] == [(label,) for label in labels]


@pytest.mark.parametrize("kind", ["png", "npy"])
@pytest.mark.parametrize("one_hot", [False, True])
def test_numbers_in_records_of_shards_are_no_names(
    tmp_path: Path, kind: str, one_hot: bool
) -> None:
    folder_of(tmp_path, "a.png", classes_txt="2\n1\n0\n")
    np.save(tmp_path / "a.npy", ROWS[:1])
    with tarfile.open(tmp_path / "d.tar", "w") as archive:
        archive.add(tmp_path / "classes.txt", "classes.txt")
        for k in range(3):
            label = np.eye(3, dtype=int)[k].tolist() if one_hot else k
            (tmp_path / "a.json").write_text(json.dumps({"label": label}))
            for suffix in (kind, "json"):
                archive.add(tmp_path / f"a.{suffix}", f"{k}.{suffix}")
    samples = open_samples(tmp_path / "d.tar", [FREE if kind == "png" else ROW])
    assert [sample.labels for sample in samples] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("source", ["classes_txt", "labels_txt", "npz"])
@pytest.mark.parametrize("first", [0, 1])
def test_names_that_begin_with_the_numbers_of_classes_are_refused(
    tmp_path: Path, source: str, first: int
) -> None:
    names = [f"{first} cat", f"{first + 1} dog"]

    def read(listing: str) -> list[tuple[int, ...]]:
        if source == "npz":
            folder_of(tmp_path, classes_txt=listing)
            np.savez(tmp_path / "d.npz", x=ROWS[:2], labels=np.array(names))
            return [sample.labels for sample in open_samples(tmp_path / "d.npz", [ROW])]
        root = folder_of(tmp_path, *(f"{name}/a.png" for name in names), **{source: listing})
        return [sample.labels for sample in open_samples(root, [FREE])]

    with pytest.raises(DataError, match=r"may be the class numbers, .* as in '0 . (cat|dog)'"):
        read("\n".join(names[::-1]))
    if first:
        with pytest.raises(DataError, match="may be the class numbers"):
            read("\n".join(names))
    else:
        assert read("\n".join(names)) == [(0,), (1,)]
    assert read(f"0 {names[1]}\n1 {names[0]}\n") == [(1,), (0,)]


def test_a_list_of_classes_is_read_in_one_way_for_all_samples(tmp_path: Path) -> None:
    folder_of(tmp_path, classes_txt="100 euro\n200 pound\n")
    for name, label in (("a", "euro"), ("b", "100 euro")):
        np.savez(tmp_path / f"{name}.npz", x=ROWS[:1], labels=np.array([label]))
    with pytest.raises(DataError, match=r"gives label 'euro' of an earlier sample another class"):
        list(open_samples(tmp_path, [ROW]))


@pytest.mark.parametrize(
    ("names", "listing"),
    [
        (["100 euro", "200 euro"], "200 euro\n100 euro\n"),
        (["2 pounds", "5 cent"], "5 cent\n2 pounds\n"),
    ],
)
@pytest.mark.parametrize("source", ["classes_txt", "labels_txt", "npz"])
def test_names_that_begin_with_a_number_are_names(
    tmp_path: Path, names: list[str], listing: str, source: str
) -> None:
    if source == "npz":
        folder_of(tmp_path, classes_txt=listing)
        np.savez(tmp_path / "d.npz", x=ROWS[:2], labels=np.array(names))
        found = [sample.labels for sample in open_samples(tmp_path / "d.npz", [ROW])]
    else:
        root = folder_of(tmp_path, *(f"{name}/a.png" for name in names), **{source: listing})
        found = [sample.labels for sample in open_samples(root, [FREE])]
    assert found == [(1,), (0,)]
