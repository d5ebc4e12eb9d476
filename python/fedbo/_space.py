"""Parameters of a search space, and definitions in the layout of a ``study.toml``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedbo._errors import DefinitionError

Value: TypeAlias = int | float | bool | str
"""The value of a parameter."""


@dataclass(frozen=True)
class Float:
    """A real parameter from ``low`` to ``high``; ``log`` searches its logarithm, ``step`` a grid."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _check_numbers(self, self.low, self.high, self.step)

    def _keys(self) -> dict[str, object]:
        return _numeric("float", float(self.low), float(self.high), self.log, self.step)


@dataclass(frozen=True)
class Int:
    """A whole parameter from ``low`` to ``high``, both included; ``log`` searches its logarithm, ``step`` a grid."""

    low: int
    high: int
    log: bool = False
    step: int | None = None

    def __post_init__(self) -> None:
        _check_numbers(self, self.low, self.high, self.step)

    def _keys(self) -> dict[str, object]:
        return _numeric("int", self.low, self.high, self.log, self.step)


@dataclass(frozen=True)
class Categorical:
    """A parameter with unordered choices: texts, numbers or booleans."""

    choices: Sequence[Value]

    def _keys(self) -> dict[str, object]:
        return {"type": "categorical", "choices": list(self.choices)}


Parameter: TypeAlias = Float | Int | Categorical
"""A parameter of a search space."""

ParameterLike: TypeAlias = Parameter | Sequence[Value]
"""A parameter; a list is short for its choices."""


def _check_numbers(given: Float | Int, *numbers: float | None) -> None:
    for number in numbers:
        if number is not None and not _is_number(number):
            raise TypeError(f"{given}: {number!r} is no number")


def _numeric(
    kind: str, low: float, high: float, log: bool, step: float | None
) -> dict[str, object]:
    keys: dict[str, object] = {"type": kind, "low": low, "high": high}
    if log:
        keys["log"] = True
    if step is not None:
        keys["step"] = step
    return keys


def parameter(name: str, given: object) -> Parameter:
    """The parameter that a user gave: one of ours, or a list of choices."""
    if isinstance(given, (Float, Int, Categorical)):
        return given
    if isinstance(given, (list, tuple, set, frozenset)):
        if isinstance(given, tuple) and len(given) == 2 and all(_is_number(each) for each in given):
            raise TypeError(
                f"parameter {name!r}: a tuple of two numbers is ambiguous; write fedbo.Float({given[0]}, {given[1]}) "
                f"or fedbo.Int(..) for a range, [{given[0]}, {given[1]}] for two choices"
            )
        if isinstance(given, (set, frozenset)):
            raise TypeError(f"parameter {name!r}: a set has no order; give its choices as a list")
        return Categorical(given)
    raise TypeError(
        f"parameter {name!r}: expected fedbo.Float, fedbo.Int, fedbo.Categorical or a list of choices, "
        f"got {type(given).__name__}"
    )


def from_keys(keys: Mapping[str, object]) -> Parameter:
    """The parameter that the native module describes."""
    kind = keys["type"]
    if kind == "categorical":
        choices = keys["choices"]
        assert isinstance(choices, list)
        return Categorical(tuple(choices))
    low, high, log, step = keys["low"], keys["high"], bool(keys.get("log", False)), keys.get("step")
    if kind == "int":
        assert isinstance(low, int) and isinstance(high, int)
        assert step is None or isinstance(step, int)
        return Int(low, high, log, step)
    assert isinstance(low, (int, float)) and isinstance(high, (int, float))
    assert step is None or isinstance(step, (int, float))
    return Float(float(low), float(high), log, step)


def plain(value: object) -> object:
    """A scalar of NumPy or the like as Python's own; everything else as it is."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    return value


def mapping(argument: str, given: object, expected: str) -> Mapping[str, Any]:
    """The mapping that a user gave as an argument."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} = {given!r}, expected a dict: {expected}")
    return given


def whole(argument: str, given: object, low: int) -> int:
    """The whole number that a user gave as an argument, at least ``low``."""
    value = plain(given)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{argument} = {given!r}, expected a whole number of at least {low}")
    if value < low:
        raise DefinitionError(f"{argument} = {given!r}, expected a whole number of at least {low}")
    return value


def real(argument: str, given: object) -> float:
    """The number that a user gave as an argument."""
    value = plain(given)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{argument} = {given!r}, expected a number")
    return value


def _is_number(value: object) -> bool:
    value = plain(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def study_tables(
    name: str, space: Mapping[str, Parameter], *, direction: str | None, noisy: bool, **keys: object
) -> dict[str, Mapping[str, object]]:
    """The tables ``[study]``, with further ``keys``, and ``[space]`` of a study."""
    # How many trials there are to be is said where they are asked for.
    study = {"name": name, "direction": direction, "trials": 1, "noisy": noisy, **keys}
    return {"study": study, "space": {key: each._keys() for key, each in space.items()}}


def toml(tables: Mapping[str, Mapping[str, object] | Sequence[Mapping[str, object]]]) -> str:
    """Tables and arrays of tables as TOML, in their order; a value that is a mapping is a table of its own, and None is left out."""
    lines: list[str] = []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            _write_table([name], table, lines)
            continue
        for each in table:
            lines.append(f"[[{_key(name)}]]")
            lines += [f"{_key(key)} = {_value([name, key], value)}" for key, value in each.items() if value is not None]
    return "\n".join(lines) + "\n"


def inline(value: object) -> str:
    """A value as TOML in one line; tables in it too."""
    return _value([], value)


def _write_table(path: list[str], table: Mapping[str, object], lines: list[str]) -> None:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if len(inner) < len(table) or not table:
        lines.append("[" + ".".join(_key(part) for part in path) + "]")
        for key, value in table.items():
            if key not in inner and value is not None:
                lines.append(f"{_key(key)} = {_value([*path, key], value)}")
    for key, value in inner.items():
        _write_table([*path, key], value, lines)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(path: list[str], value: object) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)  # whatever a subclass shows
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return float.__repr__(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        keys = (f"{_key(key)} = {_value([*path, key], each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(keys) + " }"
    if isinstance(value, Iterable):
        return "[" + ", ".join(_value(path, each) for each in value) + "]"
    raise TypeError(f"{'.'.join(path)}: {type(value).__name__} is none of the values that a definition has")
