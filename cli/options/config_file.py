"""Options from ptq.toml: which file, which keys, and how they become defaults of a command.

    data = "images/calibration"      options that several commands have
    [quantize]                       options of one command
    target = "litert"
    [quantize.targets.litert]        options of this command for one target
    max-drop = 2.0

The command line comes before the file, and the file before the defaults.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import typer

from ptq.core.errors import UsageError
from ptq.core.option_checks import find_similar

from ..invocation import get_long_name
from . import shared as o
from .parsers import OPTION_NAMES

FILE_NAME = "ptq.toml"
PROJECT_FILE = "pyproject.toml"
PER_TARGET = "targets"
NOT_IN_FILES = frozenset({"config", "save-config", "help", "verbose", "quiet"})
"""Options that a file cannot set."""
_EXCLUDED_BY = {
    "size": ("resize", "crop"),
    "letterbox": ("resize", "crop"),
    "resize": ("size", "letterbox"),
    "crop": ("size", "letterbox"),
    "boxes": ("transcripts", "alphabet"),
    "transcripts": ("boxes",),
    "alphabet": ("boxes",),
}
"""Parameters that a file does not set where the command line gives one of these, which exclude it."""


def find_config() -> Path | None:
    """The file of the current folder: ptq.toml, or pyproject.toml with a table ``tool.ptq``."""
    if Path(FILE_NAME).exists():
        return Path(FILE_NAME)
    project = Path(PROJECT_FILE)
    if not project.is_file() or b"ptq" not in (content := _read(project)):
        return None  # also a damaged file, which is that of other tools
    return project if _find_own_table(_parse(content, project)) is not None else None


class ConfiguredDefaults(dict[str, Any]):
    """Defaults of one command from a file; those of a target apply once the target is known."""

    def __init__(self, ctx: typer.Context, path: Path) -> None:
        """Read and check a file.

        Raises:
            UsageError: The file cannot be read, or has a key that no command knows.
        """
        tables = _read_tables(path)
        commands = getattr(ctx.find_root().command, "commands")  # noqa: B009 # of a group; untyped
        known = {name: _list_options(command) for name, command in commands.items()}
        _check_keys(tables, {name: own for name, own in known.items() if own}, path)
        self.path = path
        self._ctx, self._own = ctx, known[ctx.info_name or ""]
        table = tables.get(ctx.info_name or "", {})
        common = {key: value for key, value in tables.items() if not isinstance(value, dict)}
        super().__init__(self._convert({**common, **table}, path))
        self._per_target = {
            target: self._convert(entries, path)
            for target, entries in table.get(PER_TARGET, {}).items()
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an option by the name of its parameter; none if the command line excludes it."""
        # options of the command line are there before any default is asked for
        if any(self._is_given(other) for other in _EXCLUDED_BY.get(name, ())):
            return default
        entries = self._per_target.get(self._find_target(), {})
        return entries.get(name, super().get(name, default))

    def _find_target(self) -> str | None:
        """The target of the command line, else of the file, else of the plan, else the default."""
        if "target" not in self._own:
            return None
        if self._is_given("target"):
            return str(self._ctx.params["target"])
        plan = self._ctx.params.get("plan") or super().get("plan")
        named = super().get("target") or (plan and _read_target(Path(plan)))
        return str(named or self._own["target"].default)

    def _is_given(self, name: str) -> bool:
        source = self._ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    def _convert(self, entries: Mapping[str, Any], path: Path) -> dict[str, Any]:
        keys = {key: _normalize(key) for key in entries}
        return {
            str(self._own[option].name): _to_text(self._own[option], entries[key], key, path)
            for key, option in keys.items()
            if option in self._own
        }


def _read_target(plan: Path) -> str | None:
    """The target of a plan; None if the file is no plan, which the command says when it reads it."""
    try:
        content = json.loads(plan.read_bytes())
    except (OSError, ValueError):
        return None
    return content.get("target") if isinstance(content, dict) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); ptq init writes a file to start with"
        ) from None


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = "no text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise UsageError(
            f"{path}: the file is not TOML: {reason}; mend it, or name another file as --config"
        ) from None


def _find_own_table(content: Mapping[str, Any]) -> Any:
    """What ``tool.ptq`` is in a file of several tools; None if it is not there."""
    tools = content.get("tool")
    return tools.get("ptq") if isinstance(tools, dict) else None


def _read_tables(path: Path) -> dict[str, Any]:
    """Content of a file, or its table ``tool.ptq``."""
    content = _parse(_read(path), path)
    of_several = isinstance(content.get("tool"), dict)
    tables = _find_own_table(content) if of_several else content
    if tables is None:
        return {}
    if not isinstance(tables, dict):
        raise UsageError(f"{path}: tool.ptq is no table; write [tool.ptq]")
    return tables


def _list_options(command: Any) -> dict[str, Any]:
    """Options of a command that a file can set, by their long names."""
    if not any(get_long_name(p) == "config" for p in command.params):
        return {}
    named = {get_long_name(p): p for p in command.params if p.param_type_name == "option"}
    return {name: p for name, p in named.items() if name not in NOT_IN_FILES}


def _check_keys(
    tables: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], path: Path
) -> None:
    _refuse_pairs(tables, path, "the file")
    everywhere = {name for own in known.values() for name in own}
    for key, value in tables.items():
        if not isinstance(value, dict):
            _require_known(key, everywhere, f"{path}: no command has an option")
            continue
        _require_known(key, known, f"{path}: there is no table", normalize=False)
        _refuse_pairs(value, path, f"[{key}]")
        for name, place in _list_command_keys(key, value, path):
            _require_known(name, known[key], f"{path}: {place} has no option")


def _list_command_keys(
    command: str, table: Mapping[str, Any], path: Path
) -> Iterator[tuple[str, str]]:
    """Each key of a command's table, with the name of its table."""
    for key, value in table.items():
        if key != PER_TARGET:
            yield key, f"[{command}]"
            continue
        if not (isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())):
            raise UsageError(f"{path}: write [{command}.{PER_TARGET}.NAME], for example litert")
        for target, entries in value.items():
            _require_known(
                target, get_args(o.TargetName), f"{path}: there is no target", normalize=False
            )
            place = f"[{command}.{PER_TARGET}.{target}]"
            _refuse_pairs(entries, path, place)
            if "target" in entries:
                raise UsageError(f"{path}: {place} is for one target; set target in [{command}]")
            for name in entries:
                yield name, place


def _refuse_pairs(entries: Iterable[str], path: Path, place: str) -> None:
    """Refuse two keys of one table that are one option, such as max-drop and max_drop."""
    first: dict[str, str] = {}
    for key in entries:
        other = first.setdefault(_normalize(key), key)
        if other != key:
            raise UsageError(f"{path}: {place} has {other} and {key}, the same option; keep one")


def _require_known(key: str, known: Iterable[str], problem: str, *, normalize: bool = True) -> None:
    names = sorted(known)
    wanted = _normalize(key) if normalize else key
    if wanted in names:
        return
    renamed = OPTION_NAMES.get(key.replace("-", "_"), "").removeprefix("--")
    close = renamed if renamed in names else find_similar(wanted, names)
    guess = f"did you mean {close}? " if close else ""
    raise UsageError(f"{problem} {key}; {guess}Known: {', '.join(names)}")


def _normalize(key: str) -> str:
    return key.replace("_", "-")


def _to_text(parameter: Any, value: Any, key: str, path: Path) -> Any:
    """A value as the command line would give it, so that it is checked in the same way."""
    if parameter.is_flag:
        if isinstance(value, bool):
            return value
        raise UsageError(f"{path}: {key} is {value!r}; write {key} = true or {key} = false")
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in values):
        raise UsageError(f"{path}: {key} is {value!r}; write a text, a number, or a list of them")
    texts = [str(v) for v in values]
    return texts if parameter.multiple else ",".join(texts)
