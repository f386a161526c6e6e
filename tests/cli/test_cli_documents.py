"""JSON documents of every command; the oracles are the shipped JSON Schema and the files themselves."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from ptq_cli.documents.document_header import SCHEMA_VERSION
from ptq_cli.documents.document_types import DOCUMENTS, ROWS

jsonschema = pytest.importorskip("jsonschema", reason="validates documents; pip install jsonschema")

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((files("ptq_cli") / "schema.json").read_text("utf-8"))


def validate(command: str, document: object) -> None:
    """Validate a document, which must have no entry that the schema does not name."""
    jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{command}"}]}).validate(
        document
    )
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    if isinstance(document, dict):
        assert document.keys() <= SCHEMA["$defs"][command]["properties"].keys()


def digest(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def quantized(ptq, model, data) -> Path:
    made = ptq("quantize", model, "--data", data, "-o", "q.onnx", "--rounding", "nearest")
    assert made.code == 0
    return Path("q.onnx")


def test_the_schema_is_made_of_the_dataclasses():
    pytest.importorskip(
        "pydantic", "2.10", reason="makes the schema, of annotations that older ones do not find"
    )
    command = [sys.executable, str(ROOT / "scripts" / "schema"), "--check"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_schema_is_valid_and_has_every_command(ptq):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    commands = DOCUMENTS.keys() - {"error"} | ROWS.keys()
    assert all(f"#/$defs/{c}" in str(SCHEMA["anyOf"]) for c in commands)
    listed = ptq("--help").out.split("Commands:")[1].split()
    assert commands <= set(listed)


def test_quantize_names_version_options_digests_and_output(ptq, model, data):
    result = ptq("quantize", model, "--data", data, "--method", "minmax", "--json", "-")
    document = json.loads(result.out)
    validate("quantize", document)
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["ptq_version"] == version("onnx-ptq")
    assert document["command"] == "quantize"
    assert document["options"]["method"] == "minmax"
    assert document["options"]["bias-correction"] is True
    assert document["output"] == "model.int8.onnx"
    assert document["digests"] == {
        "model": digest(model),
        "data": digest(data),
        "output": digest(Path("model.int8.onnx")),
    }


def test_a_file_that_is_replaced_is_no_source_of_the_result(ptq, model, data):
    outputs = {"--report": "r.html", "--summary": "s.md", "--save-plan": "p.json", "-o": "q.onnx"}
    for name in outputs.values():
        Path(name).write_text("of an earlier run")
    more = [part for pair in outputs.items() for part in pair]
    result = ptq("quantize", model, "--data", data, "--effort", "fast", *more, "--json", "-")
    assert result.code == 0, result.err
    assert json.loads(result.out)["digests"].keys() == {"model", "data", "output"}
    page = Path("r.html").read_text(encoding="utf-8")
    assert {"model", "output"} <= {*re.findall(r"digest of ([\w-]+)", page)}
    assert not [name for name in outputs if f"digest of {name.removeprefix('--')}" in page]


@pytest.mark.parametrize(
    ("command", "further"),
    [
        ("evaluate", ["--against", "MODEL", "--max-drop", "5"]),
        ("compare", ["MODEL", "--max-drop", "5"]),
        ("verify", []),
        ("verify", ["--no-portability"]),
        ("convert", ["--format", "qoperator", "-o", "c.onnx"]),
        ("lint", []),
    ],
)
def test_documents_about_a_quantized_model_follow_the_schema(
    ptq, model, data, quantized, command, further
):
    samples = [] if command in ("convert", "lint") else ["--data", data]
    arguments = [model if a == "MODEL" else a for a in further]
    result = ptq(command, quantized, *samples, *arguments, "--json", "-")
    assert not result.err.startswith("error")
    validate(command, json.loads(result.out))


@pytest.mark.parametrize(
    ("command", "further"),
    [
        ("inspect", []),
        ("calibrate", ["--data", "DATA", "-o", "s.npz"]),
        ("sensitivity", ["--data", "DATA", "--measure", "0", "--method", "minmax"]),
    ],
)
def test_documents_about_a_float_model_follow_the_schema(ptq, model, data, command, further):
    arguments = [data if a == "DATA" else a for a in further]
    result = ptq(command, model, *arguments, "--json", "d.json")
    assert result.code == 0
    validate(command, json.loads(Path("d.json").read_text()))


def test_the_operator_table_follows_the_schema(ptq):
    validate("ops", json.loads(ptq("ops", "--json", "-").out))


def test_a_document_from_before_the_schema_follows_it_too(ptq, model):
    document = json.loads(ptq("inspect", model, "--json", "-").out)
    header = ("schema_version", "ptq_version", "command", "options", "digests", "output")
    old = {key: value for key, value in document.items() if key not in header}
    jsonschema.Draft202012Validator(SCHEMA).validate(old)


def test_a_document_without_its_nodes_breaks_the_schema(ptq, model):
    document = json.loads(ptq("inspect", model, "--json", "-").out)
    del document["nodes"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (["inspect", "absent.onnx"], "model", 1),
        (["inspect", "MODEL", "--target", "toaster"], "usage", 2),
        (["inspect", "MODEL", "--nonsense"], "usage", 2),
        (["evaluate", "MODEL", "--data", "absent"], "data", 1),
        (["quantize", "MODEL", "--plan", "absent.json"], "plan", 1),
        (["quantize", "MODEL", "--stats", "absent.npz"], "stats", 1),
    ],
)
@pytest.mark.parametrize("place", ["-", "error.json"])
def test_an_error_is_a_document_where_json_goes(ptq, model, arguments, kind, code, place):
    arguments = [model if a == "MODEL" else a for a in arguments]
    result = ptq(*arguments, f"--json={place}")
    document = json.loads(result.out if place == "-" else Path(place).read_text())
    validate("error", document)
    assert document["command"] == arguments[0]
    assert document["error"]["kind"] == kind
    assert document["error"]["exit_code"] == result.code == code
    said = result.line.partition(" (ptq explain ")[0]  # for people, not for programs
    assert said == f"error: {document['error']['message']}"


def test_an_error_replaces_the_document_of_an_earlier_run(ptq, model):
    assert ptq("inspect", model, "--json", "d.json").code == 0
    assert ptq("inspect", model, "--skip", "absent", "--json", "d.json").code == 2
    assert json.loads(Path("d.json").read_text())["error"]["kind"] == "usage"


@pytest.mark.parametrize("more", [[], ["--nonsense"]])
def test_an_error_never_replaces_an_input(ptq, model, more):
    before = model.read_bytes()
    assert ptq("inspect", model, "--json", model, *more).code == 2
    assert model.read_bytes() == before


def test_without_json_nothing_is_printed_on_standard_output(ptq, folder):
    result = ptq("inspect", "absent.onnx")
    assert result.out == ""
    assert not list(Path().iterdir())
