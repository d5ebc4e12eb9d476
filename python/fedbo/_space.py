"""Parameters of a search space, and study definitions in the format of a ``study.toml``."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedbo._errors import DefinitionError

Value: TypeAlias = int | float | bool | str
"""The value of a parameter."""


@dataclass(frozen=True)
class Float:
    """A real parameter from ``low`` to ``high``. ``log`` searches on a logarithmic scale, ``step`` on a grid."""

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
    """An integer parameter from ``low`` to ``high``, both inclusive. ``log`` searches on a logarithmic scale, ``step`` on a grid."""

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
    """A parameter with unordered choices: strings, numbers or booleans."""

    choices: Sequence[Value]

    def _keys(self) -> dict[str, object]:
        return {"type": "categorical", "choices": list(self.choices)}


Parameter: TypeAlias = Float | Int | Categorical
"""A parameter of a search space."""

ParameterLike: TypeAlias = Parameter | Sequence[Value]
"""A parameter. A list is shorthand for a :class:`Categorical` with these choices."""


def _check_numbers(given: Float | Int, *numbers: float | None) -> None:
    for number in numbers:
        if number is not None and not _is_number(number):
            raise TypeError(f"{given}: {number!r} is not a number")


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
    """Convert a user's argument, a parameter or a list of choices, to a parameter."""
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
    """Convert the native module's description of a parameter."""
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


def plain(value: Any) -> Any:
    """Convert a NumPy-like scalar, or an integer with ``__index__``, to a Python number. Return any other value unchanged."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    if not isinstance(value, (int, Iterable)) and hasattr(type(value), "__index__"):
        return operator.index(value)
    return value


def mapping(argument: str, given: object, expected: str) -> Mapping[str, Any]:
    """Check that a user's argument is a mapping, and return it."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} = {given!r}, expected a dict: {expected}")
    return given


def whole(argument: str, given: object, low: int, high: int = 2**53) -> int:
    """Check that a user's argument is an integer from ``low`` to ``high``, and return it. Anything with ``__index__`` is accepted."""
    value = plain(given)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{argument} = {given!r}, expected a whole number of at least {low}")
    if value < low:
        raise DefinitionError(f"{argument} = {value}, expected a whole number of at least {low}")
    if value > high:
        raise DefinitionError(f"{argument} = {value}, expected a whole number of at most {high}")
    return value


def epoch(given: object) -> int:
    """Check an epoch reported by a user. Epochs are counted from 1."""
    return whole("epoch", given, 1, 2**32 - 1)


def text(argument: str, given: object) -> str:
    """Check that a user's argument is a string of valid Unicode, without lone surrogates, and return it."""
    if not isinstance(given, str):
        raise TypeError(f"{argument} = {given!r}, expected a string")
    if not _is_unicode(given):
        raise DefinitionError(f"{argument} = {given!a} contains a lone surrogate, which is not valid Unicode; remove it")
    return given


def printable(text: str) -> str:
    """Make a string safe to print: lone surrogates, which ``os.fsdecode`` produces for invalid bytes, become ``\\udcXX``."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_unicode(given: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in given)


def real(argument: str, given: object) -> float:
    """Check that a user's argument is a number, and return it."""
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
    """Return the tables ``[study]``, with additional ``keys``, and ``[space]`` of a study."""
    # `trials` is a placeholder, because the number of trials is an argument of each run.
    study = {"name": name, "direction": direction, "trials": 1, "noisy": noisy, **keys}
    return {"study": study, "space": {key: each._keys() for key, each in space.items()}}


def toml(tables: Mapping[str, Mapping[str, object] | Sequence[Mapping[str, object]]]) -> str:
    """Format tables and arrays of tables as TOML, in order. Nested mappings become subtables, and None values are omitted."""
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
    """Format a value, which may contain nested tables, as TOML on one line."""
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
    if not _is_unicode(text):
        raise DefinitionError(f"{text!a} contains a lone surrogate, which is not valid Unicode; remove it")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(path: list[str], value: object) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)  # not the __repr__ of a subclass
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
    raise TypeError(f"{'.'.join(path)}: {type(value).__name__} is not a type that a definition can contain")
