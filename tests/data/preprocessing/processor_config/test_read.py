"""Files and objects that hold a configuration, and those that hold none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptq.core.errors import UsageError
from ptq.data import Preprocess

CONFIG = {"do_resize": False, "do_rescale": True, "rescale_factor": 0.5, "do_normalize": False}


def test_a_file_a_dict_and_a_processor_give_the_same_options(tmp_path: Path) -> None:
    class Processor:
        def to_dict(self) -> dict[str, object]:
            return dict(CONFIG)

    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(CONFIG))
    expected = Preprocess(scale=0.5, mean=(0,), std=(1,))
    assert [Preprocess.from_config(s) for s in (path, str(path), CONFIG, Processor())] == [
        expected
    ] * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"a\.json: is not JSON"),
        (b"\xff\xfe\x00", r"a\.json: is not JSON"),
        (b"[" * 100_000, r"a\.json: is not JSON"),
        (b"[1]", r"a\.json: has type list; give a preprocessor_config\.json"),
        (b'{"hidden_size": 4}', r"a\.json: has neither the keys of a preprocessor_config\.json"),
    ],
)
def test_a_file_that_holds_no_configuration_is_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Preprocess.from_config(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json: cannot read the file: No such file"):
        Preprocess.from_config(tmp_path / "gone.json")
