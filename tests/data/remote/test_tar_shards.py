"""Tar shards as WebDataset writes them; the same samples in a folder are the oracle."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import brightness_model, write_brightness_images
from PIL import Image

import ptq
from ptq.core.errors import DataError

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))
SPECS = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    onnx.save(brightness_model(), tmp_path / "model.onnx")
    return write_brightness_images(tmp_path / "images")


def shards_of(images: Path, count: int = 3) -> str:
    files = sorted(images.rglob("*.png"))
    for k in range(count):
        members = [(f.relative_to(images).as_posix(), f.read_bytes()) for f in files[k::count]]
        write_tar(images.parent / f"data-{k:03}.tar", members)
    return str(images.parent / f"data-{{000..{count - 1:03}}}.tar")


def calibrate(images: Path, data: object) -> bytes:
    model = images.parent / "model.onnx"
    return ptq.calibrate(model, data, preprocess=PREPROCESS, threads=1).to_bytes()


def test_shards_give_the_bytes_of_the_folder(images: Path) -> None:
    expected = calibrate(images, images)
    assert calibrate(images, shards_of(images)) == expected
    assert calibrate(images, str(images.parent / "data-*.tar")) == expected
    for place in images.parent.glob("data-*.tar"):
        (images.parent / "shards").mkdir(exist_ok=True)
        place.rename(images.parent / "shards" / place.name)
    assert calibrate(images, images.parent / "shards") == expected


def test_a_quantized_model_of_shards_is_that_of_the_folder(images: Path) -> None:
    made = [
        ptq.quantize(
            images.parent / "model.onnx", data, preprocess=PREPROCESS, threads=1, force=True
        )
        for data in (images, shards_of(images))
    ]
    assert made[0].plan.to_json() == made[1].plan.to_json()
    assert made[0].graph.digest() == made[1].graph.digest()


@pytest.mark.parametrize("kind", ["cls", "json"])
def test_labels_stand_beside_the_images(images: Path, kind: str) -> None:
    files = sorted(images.rglob("*.png"))
    members = []
    for number, file in enumerate(files):
        label = int(file.parent.name[0])
        text = str(label) if kind == "cls" else json.dumps({"label": label, "text": "a"})
        members += [(f"{number:05}.png", file.read_bytes()), (f"{number:05}.{kind}", text.encode())]
    place = write_tar(images.parent / "x.tar", members)
    found = ptq.open_samples(place, SPECS, PREPROCESS)
    assert [s.labels for s in found] == [(int(f.parent.name[0]),) for f in files]
    assert found.labelling.source == "the shards"


def test_masks_of_the_same_key_are_no_samples(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [("a.png", content), ("a.mask.png", content), ("b.png", content), ("b.txt", b"cat")]
    found = ptq.open_samples(write_tar(images.parent / "x.tar", members), SPECS, PREPROCESS)
    assert found.names == ["a.png", "b.png"]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_arrays_of_a_key_feed_the_inputs(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 1, 3)).astype(np.float32)
    single = [(f"s{k}.npy", npy(x[k])) for k in range(4)]
    one = [ptq.data.InputSpec("x", np.dtype(np.float32), (1, 3))]
    found = list(ptq.open_samples(write_tar(tmp_path / "one.tar", single), one))
    assert [np.array_equal(s.feed["x"], x[k]) for k, s in enumerate(found)] == [True] * 4
    two = [*one, ptq.data.InputSpec("m", np.dtype(np.int64), (1, 2))]
    mask = np.array([[1, 0]])
    members = [
        member
        for k in range(4)
        for member in ((f"s{k}.x.npy", npy(x[k])), (f"s{k}.m.npy", npy(mask)))
    ]
    found = list(ptq.open_samples(write_tar(tmp_path / "two.tar", members), two))
    assert all(np.array_equal(s.feed["m"], mask) for s in found)
    three = [*two, ptq.data.InputSpec("file", np.dtype(np.int64), (1, 2))]
    members += [(f"s{k}.file.npy", npy(mask)) for k in range(4)]
    found = list(ptq.open_samples(write_tar(tmp_path / "three.tar", members), three))
    assert all(np.array_equal(s.feed["file"], mask) for s in found)
    with pytest.raises(DataError, match=r"name each member key\.INPUT\.npy"):
        list(ptq.open_samples(tmp_path / "one.tar", two))


def test_equal_names_in_two_shards_are_different_samples(images: Path) -> None:
    files = sorted(images.rglob("*.png"))
    for k in range(2):
        write_tar(images.parent / f"r-{k}.tar", [("0.png", files[k].read_bytes())])
    found = ptq.open_samples(str(images.parent / "r-{0..1}.tar"), SPECS, PREPROCESS)
    assert found.names == ["r-0/0.png", "r-1/0.png"]
    assert len({sample.digest for sample in found}) == 2


def test_a_truncated_shard_is_refused(images: Path) -> None:
    shards_of(images, 1)
    place = images.parent / "data-000.tar"
    content = place.read_bytes()
    for size in (len(content) // 2, len(content) // 2 // 512 * 512, 100, 0):
        place.write_bytes(content[:size])
        with pytest.raises(
            DataError, match=r"data-000\.tar: not an uncompressed tar file, or trunc"
        ):
            calibrate(images, place)


def test_a_compressed_shard_is_refused_in_one_line(images: Path) -> None:
    with tarfile.open(images.parent / "z.tar", "w:gz") as archive:
        archive.add(images, "images")
    with pytest.raises(DataError, match="not an uncompressed tar file") as caught:
        calibrate(images, images.parent / "z.tar")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "a/../../x.png"])
def test_a_member_that_leads_out_of_the_data_is_refused(images: Path, name: str) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    place = write_tar(images.parent / "x.tar", [(name, content)])
    with pytest.raises(DataError, match="leads out of the data; rename it"):
        calibrate(images, place)


def test_links_in_a_shard_are_no_samples(images: Path) -> None:
    place = images.parent / "x.tar"
    with tarfile.open(place, "w") as archive:
        link = tarfile.TarInfo("a.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match="no samples in this folder"):
        calibrate(images, place)


def test_a_bad_member_is_named_and_may_be_skipped(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    place = write_tar(images.parent / "x.tar", [("a.png", content), ("b.png", b"none")])
    with pytest.raises(DataError, match=r"x\.tar/b\.png: not an image"):
        calibrate(images, place)
    found = ptq.open_samples(place, SPECS, PREPROCESS, skip_bad=True)
    assert [sample.name for sample in found] == ["a.png"]


def test_a_missing_shard_is_named(images: Path) -> None:
    shards_of(images)
    with pytest.raises(DataError, match=r"data-003\.tar: cannot open the data: No such file"):
        calibrate(images, str(images.parent / "data-{000..003}.tar"))


def test_a_pipe_is_no_shard_and_is_not_waited_for(images: Path) -> None:
    os.mkfifo(images.parent / "a.tar")
    with pytest.raises(DataError, match=r"a\.tar: cannot open the data: not a regular file"):
        calibrate(images, str(images.parent / "a.tar"))


def test_shards_of_one_name_in_two_folders_keep_all_samples(images: Path) -> None:
    files = sorted(images.rglob("*.png"))[:8]
    for folder, some in (("train", files[:4]), ("val", files[4:])):
        (images.parent / folder).mkdir()
        members = [(f"{number}.png", file.read_bytes()) for number, file in enumerate(some)]
        write_tar(images.parent / folder / "000.tar", members)
    pattern = f"{images.parent}/{{train,val}}/000.tar"
    samples = ptq.data.open_samples(pattern, SPECS, PREPROCESS)
    names = [sample.name for sample in samples]
    assert names == [f"{folder}/000/{n}.png" for folder in ("train", "val") for n in range(4)]
    assert len({sample.digest for sample in samples}) == len(files)


def test_what_would_lose_samples_is_refused(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    place = write_tar(images.parent / "x.tar", [("a.png", content), ("a.png", content)])
    with pytest.raises(DataError, match=r"x\.tar: has two members named a\.png; give each sample"):
        ptq.data.open_samples(place, SPECS, PREPROCESS)
    write_tar(place, [("a.png", content)])
    with pytest.raises(DataError, match=r"x\.tar: is given twice"):
        ptq.data.open_samples(f"{images.parent}/{{x,x}}.tar", SPECS, PREPROCESS)


def test_links_are_samples_as_in_a_folder(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    place = write_tar(images.parent / "x.tar", [("./a/0.png", content), ("./a/0.cls", b"2")])
    with tarfile.open(place, "a") as archive:
        for name, kind, target in (
            ("./a/1.png", tarfile.LNKTYPE, "./a/0.png"),
            ("./a/2.png", tarfile.SYMTYPE, "../a/1.png"),
            ("./a/2.cls", tarfile.SYMTYPE, "0.cls"),
            ("./a/3.png", tarfile.SYMTYPE, "absent.png"),
            ("./a/4.png", tarfile.SYMTYPE, "4.png"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    samples = list(ptq.data.open_samples(place, SPECS, PREPROCESS))
    assert [(sample.name, sample.labels) for sample in samples] == [
        ("a/0.png", (2,)),
        ("a/1.png", ()),
        ("a/2.png", (2,)),
    ]
    assert len({sample.digest for sample in samples}) == 1


@pytest.mark.parametrize("label", ["cls", "json"])
def test_labels_of_arrays_stand_beside_them(tmp_path: Path, label: str) -> None:
    members = []
    for number in range(3):
        buffer = io.BytesIO()
        np.save(buffer, np.full((1, 3, 8, 8), number, np.float32))
        text = str(number) if label == "cls" else json.dumps({"label": float(number)})
        members += [(f"{number}.npy", buffer.getvalue()), (f"{number}.{label}", text.encode())]
    samples = ptq.data.open_samples(write_tar(tmp_path / "x.tar", members), SPECS)
    assert [sample.labels for sample in samples] == [(0,), (1,), (2,)]
    assert samples.labelling.notes == ()


def test_what_is_stored_twice_without_a_loss_is_no_error(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [("a.png", content), ("notes.md", b"1"), ("notes.md", b"2")]
    place = write_tar(images.parent / "x.tar", members)
    with tarfile.open(place, "a") as archive:
        info = tarfile.TarInfo("a.png")
        info.type, info.linkname = tarfile.LNKTYPE, "a.png"
        archive.addfile(info)
    assert len(list(ptq.data.open_samples(place, SPECS, PREPROCESS))) == 1


@pytest.mark.parametrize(
    ("label", "expected"), [("a dog on a lawn", ()), (10**25, ()), (None, ()), (True, (1,))]
)
def test_other_texts_beside_arrays_are_no_labels(
    tmp_path: Path, label: object, expected: tuple[int, ...]
) -> None:
    members = [("a.npy", npy(ARRAY)), ("a.json", json.dumps({"label": label}).encode())]
    samples = ptq.data.open_samples(write_tar(tmp_path / "x.tar", members), SPECS)
    assert [sample.labels for sample in samples] == [expected]
    noted = label is not None and not expected
    assert (
        samples.labelling.notes
        == ("1 sample without label: a.json holds a text, which is no class without classes.txt",)
        * noted
    )


ARRAY = np.zeros((1, 3, 8, 8), np.float32)


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def read_labels(
    place: str | Path, preprocess: ptq.Preprocess | None = PREPROCESS
) -> dict[str, tuple[int, ...]]:
    return {s.name: s.labels for s in ptq.data.open_samples(place, SPECS, preprocess)}


@pytest.mark.parametrize("kind", ["cls", "json"])
def test_samples_whose_names_have_further_dots_keep_their_own_labels(
    images: Path, kind: str
) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    expected = {f"cam.{n:03}.png": (n % 7,) for n in range(20)}
    members = [
        member
        for name, (label,) in expected.items()
        for member in (
            (name, content),
            (name.replace(".png", ".seg.png"), content),  # a mask
            (
                name.replace("png", kind),
                b"%d" % label if kind == "cls" else b'{"label": %d}' % label,
            ),
        )
    ]
    assert read_labels(write_tar(images.parent / "x.tar", members)) == expected


def test_a_label_of_a_key_is_that_of_all_its_samples_without_one_of_their_own(
    images: Path,
) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [("0.left.png", content), ("0.right.png", content), ("0.cls", b"4")]
    place = write_tar(images.parent / "x.tar", members)
    assert read_labels(place) == {"0.left.png": (4,), "0.right.png": (4,)}
    place = write_tar(images.parent / "x.tar", [*members, ("0.left.cls", b"5")])
    assert read_labels(place) == {"0.left.png": (5,), "0.right.png": (4,)}


def test_a_second_image_of_a_key_with_a_label_is_refused(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [("0.png", content), ("0.cls", b"1"), ("0.1.png", content), ("0.1.cls", b"2")]
    with pytest.raises(DataError, match=r"x\.tar member 0\.1\.png: has a label of its own, but"):
        read_labels(write_tar(images.parent / "x.tar", members))


def test_only_the_exact_ending_is_the_label(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [
        *[("0.coarse.cls", b"9"), ("0.png", content), ("0.cls", b"0")],
        *[("1.PNG", content), ("1.CLS", b"3"), ("2.png", content), ("2.coarse.cls", b"9")],
    ]
    place = write_tar(images.parent / "x.tar", members)
    assert read_labels(place) == {"0.png": (0,), "1.PNG": (3,), "2.png": ()}
    notes = ptq.data.open_samples(place, SPECS, PREPROCESS).labelling.notes
    assert notes == ("1 sample without label: 2.coarse.cls is not named key.cls",)
    write_tar(place, [("0.png", content), ("0.cls", b"0"), ("0.CLS", b"1")])
    with pytest.raises(DataError, match=r"x\.tar: has both 0\.cls and 0\.CLS; keep one label"):
        read_labels(place)


def write_shards(folder: Path, *shards: Iterable[tuple[str, bytes]]) -> str:
    for number, members in enumerate(shards):
        write_tar(folder / f"s{number}.tar", members)
    return f"{folder}/s{{0..{len(shards) - 1}}}.tar"


def test_class_folders_in_shards_that_repeat_names_are_those_of_all_shards(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    place = write_shards(
        images.parent,
        [("cat/0.png", content), ("dog/0.png", content)],
        [("bee/0.png", content), ("dog/0.png", content)],
    )
    found = ptq.data.open_samples(place, SPECS, PREPROCESS)
    assert {sample.name: sample.labels for sample in found} == {
        "s0/cat/0.png": (1,),
        "s0/dog/0.png": (2,),
        "s1/bee/0.png": (0,),
        "s1/dog/0.png": (2,),
    }
    assert found.labelling.classes == {"bee": 0, "cat": 1, "dog": 2}
    assert found.labelling.notes == ()


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("listing", ["labels.csv", "list.tsv"])
def test_each_shard_has_its_own_file_of_labels(images: Path, repeated: bool, listing: str) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    shards, expected = [], {}
    for shard in range(2):
        labels = {f"{n if repeated else n + 3 * shard}.png": n + 3 * shard for n in range(3)}
        table = "path\tlabel\n" + "".join(f"{name}\t{n}\n" for name, n in labels.items())
        table = table if listing.endswith("tsv") else table.replace("\t", ",")
        shards.append([*[(name, content) for name in labels], (listing, table.encode())])
        expected |= {f"s{shard}/{k}" if repeated else k: (n,) for k, n in labels.items()}
    place = write_shards(images.parent, *shards)
    assert read_labels(place) == expected
    assert ptq.data.open_samples(place, SPECS, PREPROCESS).labelling.source == listing


def test_files_of_labels_of_shards_that_contradict_are_refused(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    shards = [
        [(f"{n}.png", content), ("labels.csv", b"path,label\n0.png,%d\n" % n)] for n in range(2)
    ]
    place = write_shards(images.parent, *shards)
    with pytest.raises(DataError, match=r"s1/labels\.csv: gives image '0\.png' another label"):
        read_labels(place)


def test_names_in_shards_are_numbered_by_one_list_of_classes(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    shards = [
        [("0.png", content), ("0.cls", name), ("classes.txt", b"dog\ncat\n"), ("labels.csv", b"?")]
        for name in (b"cat", b"dog")
    ]
    assert read_labels(write_shards(images.parent, *shards)) == {
        "s0/0.png": (1,),
        "s1/0.png": (0,),
    }
    shards[1][2] = ("classes.txt", b"cat\ndog\n")
    with pytest.raises(DataError, match=r"s0/classes\.txt and s1/classes\.txt differ; give all"):
        read_labels(write_shards(images.parent, *shards))


def test_lists_of_the_class_folders_in_shards_must_agree(images: Path) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    shards = [
        [(f"{name}/0.png", content), ("labels.txt", b"dog\ncat\n")] for name in ("cat", "dog")
    ]
    found = ptq.data.open_samples(write_shards(images.parent, *shards), SPECS, PREPROCESS)
    assert [sample.labels for sample in found] == [(1,), (0,)]
    assert found.labelling.notes == ()
    shards[1][1] = ("labels.txt", b"cat\ndog\n")
    with pytest.raises(DataError, match=r"s1/labels\.txt: differs from .*s0/labels\.txt; give all"):
        read_labels(write_shards(images.parent, *shards))


@pytest.mark.parametrize(
    ("record", "expected", "note"),
    [
        ('{"label": [3]}', (3,), None),
        ('{"label": [0, 0, 1]}', (2,), "one-hot rows converted to class numbers"),
        ('{"label": true}', (1,), None),
        ('{"label": false}', (0,), None),
        ('{"label": null, "cls": 2}', (2,), None),
        ('{"label": -1}', (), None),
        ('{"caption": "a"}', (), None),
        ('{"label": 3', (), "1 sample without label: 1.json is no JSON"),
        (
            '{"label": {"x": 1}}',
            (),
            "1 sample without label: 1.json has a label that is neither a number nor a text",
        ),
        ('{"label": [3, 7]}', (3, 7), None),
        ('{"label": [3, 7, -1]}', (3, 7), None),
        *(
            (
                f'{{"label": {label}}}',
                (),
                "1 sample without label: 1.json has a label that is no class",
            )
            for label in ("3.5", "-100", "[0.1, 0.9]", "[1, 1, 0]")
        ),
        (
            '{"boxes": [[0, 0, 2, 2]], "labels": [1, 0, 0]}',
            (),
            "1 sample without label: 1.json has labels of boxes",
        ),
        (
            " " * 2**16 + '{"label": 3}',
            (),
            "1 sample without label: 1.json is larger than 64 KiB",
        ),
    ],
)
def test_labels_in_json_are_read_as_those_of_arrays(
    images: Path, record: str, expected: tuple[int, ...], note: str | None
) -> None:
    content = next(images.rglob("*.png")).read_bytes()
    members = [("0.png", content), ("0.cls", b"5"), ("1.png", content), ("1.json", record.encode())]
    found = ptq.data.open_samples(write_tar(images.parent / "x.tar", members), SPECS, PREPROCESS)
    assert [sample.labels for sample in found] == [(5,), expected]
    assert found.labelling.notes == (() if note is None else (note,))


@pytest.mark.parametrize("sample", [("a.npy", npy(ARRAY)), ("a.npz", npz(x=ARRAY))])
@pytest.mark.parametrize(("text", "expected"), [(b"cat", (1,)), (b"3 5", (3, 5)), (b"-1", ())])
def test_labels_of_arrays_are_read_as_those_of_images(
    tmp_path: Path, sample: tuple[str, bytes], text: bytes, expected: tuple[int, ...]
) -> None:
    members = [sample, ("a.cls", text), ("classes.txt", b"dog\ncat\n")]
    place = write_tar(tmp_path / "x.tar", members)
    assert read_labels(place, None) == {"a.npz": expected}
    assert ptq.data.open_samples(place, SPECS).labelling.notes == ()


def test_labels_of_arrays_that_are_no_classes_are_refused(tmp_path: Path) -> None:
    place = write_tar(tmp_path / "x.tar", [("a.npy", npy(ARRAY)), ("a.cls", b"-5")])
    with pytest.raises(DataError, match=r"x\.tar/a\.npz: label -5 is negative"):
        read_labels(place, None)
    labelled = npz(x=ARRAY, labels=np.array([2]))
    write_tar(place, [("a.npz", labelled), ("a.cls", b"1")])
    with pytest.raises(
        DataError, match=r"member a\.npz: has an array 'labels', and a label beside"
    ):
        read_labels(place, None)
    write_tar(place, [("a.npz", labelled), ("a.npy", npy(ARRAY))])
    with pytest.raises(DataError, match=r"x\.tar: has both a\.npz and a\.npy; keep one feed"):
        read_labels(place, None)
    write_tar(place, [("a.npz", b"none"), ("a.cls", b"1")])
    with pytest.raises(DataError, match=r"x\.tar/a\.npz: cannot read the \.npz"):
        read_labels(place, None)


def test_hidden_members_are_left_out_as_in_a_folder(images: Path) -> None:
    first = next(images.rglob("*.png"))
    (first.parent / f"._{first.name}").write_bytes(b"resource fork")
    (images / "__MACOSX").mkdir()
    (images / "__MACOSX" / "0.png").write_bytes(b"resource fork")
    with tarfile.open(images.parent / "x.tar", "w") as archive:
        archive.add(images, ".")
    assert calibrate(images, images.parent / "x.tar") == calibrate(images, images)


@pytest.mark.parametrize("kind", ["gnu", "posix"])
def test_sparse_members_are_read_with_their_gaps(tmp_path: Path, kind: str) -> None:
    block = 4096
    rows = {f"{k}.npy": np.zeros((1, 40 * block), np.float32) for k in range(3)}
    for k, row in enumerate(rows.values()):
        # more pieces than one header of the old format lists, and one file without a gap at its start
        row[0, (1 + k) * block :: 5 * block] = k + 1
    for name, row in rows.items():
        content = io.BytesIO()
        np.save(content, row)
        stored = content.getvalue()
        with (tmp_path / name).open("wb") as stream:
            for start in range(0, len(stored), block):
                if any(part := stored[start : start + block]):
                    stream.seek(start)
                    stream.write(part)
            stream.truncate(len(stored))
    command = ["tar", "--sparse", f"--format={kind}", "-cf", "x.tar", *rows]
    if sys.platform != "linux" or subprocess.run(command, cwd=tmp_path).returncode:
        pytest.skip("no GNU tar here")
    with tarfile.open(tmp_path / "x.tar") as archive:
        if not all(member.issparse() for member in archive):
            pytest.skip("this file system has no sparse files")
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (1, 40 * block))
    for sample, row in zip(
        ptq.open_samples(tmp_path / "x.tar", [spec]), rows.values(), strict=True
    ):
        np.testing.assert_array_equal(sample.feed["x"], row)


@pytest.mark.parametrize("kind", ["npz", "txt"])
def test_two_members_of_one_name_are_refused(tmp_path: Path, kind: str) -> None:
    members = [(f"{name}.{kind}", b"x") for name in "aba"]
    with pytest.raises(DataError, match=rf"has two members named a\.{kind}; give each sample"):
        ptq.open_samples(write_tar(tmp_path / "x.tar", members), SPECS)


@pytest.mark.parametrize("name", ["README.txt", "classes.txt", "a.txt", "a.mask.npy", "info.json"])
def test_other_files_may_be_stored_twice(tmp_path: Path, name: str) -> None:
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "PNG")
    members = [(name, b"old"), (name, b"x\ny\n")]
    for key, label in (("a", b"1"), ("b", b"0")):
        members += [(f"{key}.png", image.getvalue()), (f"{key}.cls", label)]
    place = write_tar(tmp_path / "x.tar", [members[0], *members[2:], members[1]])
    found = ptq.open_samples(place, SPECS, PREPROCESS)
    assert {s.name: s.labels for s in found} == {"a.png": (1,), "b.png": (0,)}
    write_tar(place, [*members, ("a.cls", b"0")])
    with pytest.raises(DataError, match=r"has two members named a\.cls; give each sample"):
        ptq.open_samples(place, SPECS, PREPROCESS)


@pytest.mark.parametrize(
    "name", ["a\\b", 'q"q', " lead", "c,d", "e;1", "n\nl", "x 1", "tab\tz", "7", "#h", "caf\udce9"]
)
def test_a_name_of_any_characters_has_its_label(tmp_path: Path, name: str) -> None:
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "PNG")
    members = []
    for key, label in ((name, b"1"), ("zz", b"2 0")):
        members += [(f"{key}.png", image.getvalue()), (f"{key}.cls", label)]
    found = ptq.open_samples(write_tar(tmp_path / "x.tar", members), SPECS, PREPROCESS)
    assert {s.name: s.labels for s in found} == {f"{name}.png": (1,), "zz.png": (2, 0)}
