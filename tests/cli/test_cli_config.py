"""Options from ptq.toml: precedence, refusals, --save-config and ptq init; the oracle is the JSON's `options`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from ptq_cli.options.config_file import find_config
from ptq_cli.options.config_options import STARTER


def options_of(outcome) -> dict[str, object]:
    assert outcome.code == 0, outcome.err
    found: dict[str, object] = json.loads(outcome.out)["options"]
    return found


def write(text: str, name: str = "ptq.toml") -> Path:
    Path(name).write_text(text)
    return Path(name)


@pytest.fixture
def sensitivity(ptq, model):
    """Run a quick command that has targets and a list."""

    def call(*arguments):
        return ptq("inspect", model, "--json", "-", *arguments)

    return call


def test_the_command_line_comes_before_the_file_and_the_file_before_the_defaults(sensitivity):
    assert options_of(sensitivity())["target"] == "ort"
    write('[inspect]\ntarget = "litert"\n')
    assert options_of(sensitivity())["target"] == "litert"
    assert options_of(sensitivity("--target", "gemmlowp"))["target"] == "gemmlowp"


def test_the_table_of_a_command_comes_before_the_common_keys(sensitivity):
    write('target = "tensorrt"\n[inspect]\ntarget = "litert"\n')
    assert options_of(sensitivity())["target"] == "litert"
    write('target = "tensorrt"\n')
    assert options_of(sensitivity())["target"] == "tensorrt"


@pytest.mark.parametrize(
    ("arguments", "skip"),
    [([], ["conv"]), (["--target", "litert"], ["head"]), (["--skip", "pool"], ["pool"])],
)
def test_the_options_of_a_target_apply_where_it_is_chosen(sensitivity, arguments, skip):
    write('[inspect]\nskip = ["conv"]\n[inspect.targets.litert]\nskip = ["head"]\n')
    assert options_of(sensitivity(*arguments))["skip"] == skip


def test_the_target_of_the_file_chooses_too(sensitivity):
    write('target = "litert"\n[inspect.targets.litert]\nskip = ["head"]\n')
    assert options_of(sensitivity())["skip"] == ["head"]


@pytest.mark.parametrize("place", ["the command line", "the file"])
def test_the_target_of_a_plan_chooses_where_none_is_given(ptq, model, data, place):
    solve = ("quantize", model, "--data", data, "--target", "qnn", "--effort", "fast", "--force")
    assert ptq(*solve, "-o", "q.onnx", "--save-plan", "plan.json").code == 0
    tables = '[quantize.targets.ort]\nio = "float16"\n[quantize.targets.qnn]\nio = "int8"\n'
    given = ("--plan", "plan.json") if place == "the command line" else ()
    write(("" if given else '[quantize]\nplan = "plan.json"\n') + tables)
    done = ptq(
        "quantize", model, "--data", data, *given, "--force", "-o", "again.onnx", "--json", "-"
    )
    assert done.code == 0, done.err
    changes = json.loads(done.out)["changes"]
    assert any("is uint8 (scale" in line for line in changes)
    assert not any("float16" in line for line in changes)


def test_a_common_key_reaches_only_commands_that_have_the_option(sensitivity):
    write("threads = 1\nbatch = 2\n")
    assert "threads" not in options_of(sensitivity())


@pytest.mark.parametrize("key", ["skip-bad-samples", "skip_bad_samples"])
def test_a_dash_may_be_an_underline_and_a_flag_is_true_or_false(ptq, model, data, key):
    write(f"[calibrate]\n{key} = true\ndata = {str(data)!r}\noutput = 's.npz'\n")
    options = options_of(ptq("calibrate", model, "--json", "-"))
    assert options["skip-bad-samples"] is True
    assert Path("s.npz").is_file()


def test_numbers_of_a_list_are_joined_as_on_the_command_line(ptq, model, folder):
    from PIL import Image

    (folder / "images").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "images" / "black.png")
    write("mean = [0.5, 0.25, 0.1]\nstd = 0.5\n[evaluate]\nsize = [8, 8]\n")
    result = ptq("evaluate", model, "--data", folder / "images", "--json", "-")
    prepared = json.loads(result.out)["preprocessing"]
    assert prepared["mean"] == [0.5, 0.25, 0.1]
    assert prepared["size"] == [8, 8]


def test_pyproject_has_the_same_tables(sensitivity):
    write('[tool.ptq.inspect]\ntarget = "litert"\n', "pyproject.toml")
    assert options_of(sensitivity())["target"] == "litert"
    write('[project]\nname = "x"\n', "pyproject.toml")
    assert options_of(sensitivity())["target"] == "ort"


@pytest.mark.parametrize(
    "content", [b"tool = 3\n", b"[tool.other\n", b"[tool.other]\nx = '\xff'\n"]
)
def test_a_pyproject_of_other_tools_sets_nothing(sensitivity, content):
    Path("pyproject.toml").write_bytes(content)
    assert options_of(sensitivity())["target"] == "ort"


def test_a_damaged_pyproject_that_names_ptq_is_one_line_with_the_remedy(sensitivity):
    write("[tool.ptq\n", "pyproject.toml")
    line = sensitivity().line
    assert line.startswith("error: pyproject.toml: the file is not TOML: ")
    assert line.endswith("; mend it, or name another file as --config")


@pytest.mark.parametrize("value", ["0", '""', "[]", "false", "3"])
def test_what_is_no_table_of_ptq_is_refused(sensitivity, value):
    write(f"[tool]\nptq = {value}\n", "pyproject.toml")
    line = "error: pyproject.toml: tool.ptq is no table; write [tool.ptq]"
    assert sensitivity().line == line


def test_a_key_that_is_named_as_the_table_of_tools_is_refused(sensitivity):
    write("tool = 3\n")
    assert sensitivity().line.startswith("error: ptq.toml: no command has an option tool; ")


def test_ptq_toml_comes_before_pyproject_and_a_given_file_before_both(sensitivity):
    write('[tool.ptq]\ntarget = "litert"\n', "pyproject.toml")
    write('target = "tensorrt"\n')
    write('target = "gemmlowp"\n', "other.toml")
    found = sensitivity()
    assert options_of(found)["target"] == "tensorrt"
    assert found.line == "options from ptq.toml"
    given = sensitivity("--config", "other.toml")
    assert options_of(given)["target"] == "gemmlowp"
    assert given.err == ""


def test_there_is_no_file_in_an_empty_folder(folder):
    assert find_config() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[inspect]\ntarge = 'ort'", "[inspect] has no option targe; did you mean target? Known: "),
        (
            "[inspct]\n",
            "there is no table inspct; did you mean inspect? Known: benchmark, calibrate, ",
        ),
        ("treads = 1", "no command has an option treads; did you mean threads? Known: against, "),
        ("[calibrate]\neval_data = 'x'", "[calibrate] has no option eval_data; "),
        ("eval_data = 'x'", "no command has an option eval_data; did you mean eval? Known: "),
        ("[inspect]\nthreads = 1", "[inspect] has no option threads; "),
        ("[inspect.targets.litter]\n", "there is no target litter; did you mean litert? Known:"),
        ("[inspect.targets.ort]\nx = 1", "[inspect.targets.ort] has no option x; Known: "),
        ("[inspect]\ntargets = 1", "write [inspect.targets.NAME]"),
        ("[calibrate]\nskip-bad-samples = 'yes'", "skip-bad-samples is 'yes'; write skip-bad-samp"),
        ("[inspect]\nskip = [[1]]", "skip is [[1]]; write a text, a number, or a list of them"),
        ("[inspect\n", "the file is not TOML"),
        ("config = 'x.toml'", "no command has an option config"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_the_known_names(ptq, model, text, said):
    write(text)
    command = ["calibrate", model, "-o", "s.npz"] if "calibrate" in text else ["inspect", model]
    result = ptq(*command)
    assert result.code == 2
    assert said in result.err
    assert len([line for line in result.err.splitlines() if line.startswith("error: ")]) == 1


def test_a_value_of_the_file_is_checked_like_one_of_the_command_line(ptq, model, data):
    write("samples = 0\n")
    result = ptq("calibrate", model, "--data", data, "-o", "s.npz")
    assert result.code == 2
    assert "--samples" in result.err


def test_a_contradiction_names_the_file_that_one_side_comes_from(ptq, model, data):
    write('[quantize]\nformat = "qdq"\n')
    result = ptq("quantize", model, "--data", data, "-o", "m.tflite")
    assert "output m.tflite is not of format qdq, which ptq.toml sets; give a name" in result.err
    given = ptq("quantize", model, "--data", data, "-o", "m.tflite", "--format", "qdq")
    assert "output m.tflite is not of format qdq; give a name" in given.err


@pytest.mark.parametrize(
    ("text", "arguments", "kept"),
    [
        ("size = [9, 9]\n", ["--resize", 8, "--crop", "8,8"], {"resize": 8, "crop": "8,8"}),
        ("size = [9, 9]\nletterbox = 7\n", ["--crop", "8,8"], {"crop": "8,8"}),
        ("resize = 9\ncrop = [9, 9]\n", ["--size", "8,8"], {"size": "8,8"}),
        ("resize = 9\nmean = 0\n", ["--crop", "8,8"], {"resize": 9, "mean": "0", "crop": "8,8"}),
    ],
)
def test_the_command_line_excludes_options_of_the_file(ptq, model, data, text, arguments, kept):
    write(text)
    given = ("--data", data, "-o", "s.npz")
    outcome = ptq("calibrate", model, *given, "--save-config", "saved.toml", *arguments)
    assert "preprocessing options apply only to images" in outcome.err  # they go together
    saved = tomllib.loads(Path("saved.toml").read_text())["calibrate"]
    names = {"size", "letterbox", "resize", "crop", "mean"}
    assert {name: saved[name] for name in names & saved.keys()} == kept
    write('size = "8,8"\nresize = 9\n')
    assert "--size excludes --resize and --crop" in ptq("calibrate", model, *given).err


@pytest.mark.parametrize("name", ["transcripts", "alphabet"])
def test_labels_of_texts_exclude_boxes_of_the_file(ptq, model, data, name):
    write('[quantize]\nboxes = "boxes"\n')
    outcome = ptq("quantize", model, "--data", data, "-o", "o.onnx", f"--{name}", "absent.txt")
    assert outcome.code == 1  # of the file that is absent
    assert "absent.txt" in outcome.err
    assert "finds boxes" not in outcome.err


def test_a_missing_file_is_named(ptq, model):
    result = ptq("inspect", model, "--config", "absent.toml")
    assert (result.code, "absent.toml: cannot be read" in result.line) == (2, True)


def test_saved_options_are_those_that_are_not_defaults_and_give_the_same_run(ptq, model, data):
    given = ["--data", data, "--skip", 'a "b"\\\n\x7fc', "--target", "ort", "--threads", "1"]
    saved = ["--no-equalize", "--save-config", "saved.toml"]
    assert ptq("sensitivity", model, *given, *saved).code == 2  # no such node
    tables = tomllib.loads(Path("saved.toml").read_text())
    assert tables == {
        "sensitivity": {
            "data": str(data),
            "skip": ['a "b"\\\n\x7fc'],
            "threads": 1,
            "equalize": False,
        }
    }
    write('[sensitivity]\nskip = ["head"]\nequalize = false\nmeasure = 0\n', "small.toml")
    again = ["--data", data, "--config", "small.toml", "--save-config", "again.toml", "--json", "-"]
    assert options_of(ptq("sensitivity", model, *again))["equalize"] is False
    assert tomllib.loads(Path("again.toml").read_text())["sensitivity"]["measure"] == 0


def test_save_config_replaces_no_file(ptq, model):
    before = model.read_bytes()
    result = ptq("inspect", model, "--save-config", model)
    assert (result.code, "exists; --save-config replaces no file" in result.line) == (2, True)
    assert model.read_bytes() == before


def test_init_writes_a_file_that_every_command_reads_and_replaces_none(ptq, model):
    assert ptq("init").out == "Written: ptq.toml\n"
    assert Path("ptq.toml").read_text() == STARTER
    assert ptq("inspect", model).code == 0
    again = ptq("init")
    assert (again.code, "ptq.toml exists" in again.line) == (2, True)


def test_every_option_in_the_comments_of_the_starter_exists(ptq, model):
    write(re.sub(r"^# (?=\[|[\w-]+ = )", "", STARTER, flags=re.MULTILINE))
    tables = tomllib.loads(Path("ptq.toml").read_text())
    assert tables["quantize"]["targets"]["tensorrt"] == {"per-tensor": False}
    assert ptq("inspect", model).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[inspect]\nskip = []\n[quantize]\nmax_drop = 1.0\nmax-drop = 50.0\n",
         "[quantize] has max_drop and max-drop, the same option; keep one"),
        ("skip_bad_samples = true\nskip-bad-samples = false\n",
         "the file has skip_bad_samples and skip-bad-samples, the same option; keep one"),
        ("[quantize.targets.litert]\nmax_drop = 1.0\nmax-drop = 2.0\n",
         "[quantize.targets.litert] has max_drop and max-drop, the same option; keep one"),
        ('[inspect.targets.litert]\ntarget = "ort"\n',
         "[inspect.targets.litert] is for one target; set target in [inspect]"),
    ],
)  # fmt: skip
def test_an_entry_that_another_would_hide_is_refused(sensitivity, text, said):
    write(text)
    outcome = sensitivity()
    assert (outcome.code, said in outcome.err) == (2, True)


def test_a_byte_order_mark_is_no_text(sensitivity):
    Path("ptq.toml").write_text('[inspect]\ntarget = "litert"\n', "utf-8-sig")
    assert options_of(sensitivity())["target"] == "litert"


def test_a_folder_of_the_name_of_the_file_is_refused(sensitivity):
    Path("ptq.toml").mkdir()
    outcome = sensitivity()
    assert (outcome.code, "ptq.toml: cannot be read" in outcome.err) == (2, True)
