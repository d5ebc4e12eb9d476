"""Parameters of a search space, and study definitions in the format of a ``study.toml``."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fedbo._errors import DefinitionError

Value: TypeAlias = int | float | bool | str
"""The value of a parameter."""

Choice: TypeAlias = Value | tuple[Any, ...] | None
"""A choice of a categorical parameter."""


When: TypeAlias = Mapping[str, Choice | list[Any]]
"""The condition under which a parameter exists: for each parent, its value or a list of values. All entries must hold."""


@dataclass(frozen=True)
class Float:
    """A real parameter from ``low`` to ``high``, or one of several numbers ``values``.

    ``log`` searches on a logarithmic scale, ``step`` on a grid. The model uses the distances between ``values``, which are sorted.
    With ``when``, the parameter exists only with the given values of others.

    >>> fedbo.Float(0.0, 0.5, when={"booster": "dart", "n_layers": [2, 3]}).when
    {'booster': 'dart', 'n_layers': [2, 3]}

    >>> fedbo.Float(values=[0.1, 0.2, 0.5, 1.0], log=True).values
    (0.1, 0.2, 0.5, 1.0)
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    values: Sequence[float] | None = field(default=None, kw_only=True)
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_when(self)

    def _keys(self) -> dict[str, object]:
        return _numeric("float", self, float)


@dataclass(frozen=True)
class Int:
    """An integer parameter from ``low`` to ``high``, both inclusive, or one of several integers ``values``.

    ``log`` searches on a logarithmic scale, ``step`` on a grid. The model uses the distances between ``values``, which are sorted.
    With ``when``, the parameter exists only with the given values of others.
    """

    low: int | None = None
    high: int | None = None
    log: bool = False
    step: int | None = None
    values: Sequence[int] | None = field(default=None, kw_only=True)
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_when(self)

    def _keys(self) -> dict[str, object]:
        return _numeric("int", self, lambda number: number)


@dataclass(frozen=True)
class Categorical:
    """A parameter with choices: strings, numbers, booleans, None or tuples.

    With ``ordered``, neighbouring choices are similar: ``Categorical(["slow", "medium", "fast"], ordered=True)``. In storages and
    commands, None and tuples are their texts, such as ``None`` and ``(64, 64)``. With ``when``, the parameter exists only with the
    given values of others.
    """

    choices: Sequence[Choice]
    ordered: bool = False
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.choices, (list, tuple)):
            object.__setattr__(self, "choices", tuple(_listed(self.choices)))
        _check_when(self)

    def _keys(self) -> dict[str, object]:
        keys: dict[str, object] = {"type": "categorical", "choices": [stored(choice) for choice in self.choices]}
        if self.ordered:
            keys["ordered"] = True
        return keys | _condition(self)


@dataclass(frozen=True)
class Rule:
    """A linear rule between numeric parameters: every point satisfies ``at_least <= sum of coefficient * value <= at_most``.

    ``terms`` has the coefficient of each parameter, and ``equals`` gives the exact sum instead of bounds. ``name`` is for messages.

    >>> fedbo.Rule({"price": 1.0, "quantity": 2.5}, at_most=10.0).at_most
    10.0
    """

    terms: Mapping[str, float]
    at_most: float | None = field(default=None, kw_only=True)
    at_least: float | None = field(default=None, kw_only=True)
    equals: float | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def _keys(self) -> dict[str, object]:
        terms = {key: float(each) for key, each in mapping("terms", self.terms, "coefficients by the names of parameters").items()}
        keys: dict[str, object] = {"name": self.name, "terms": terms}
        for key, bound in (("at_most", self.at_most), ("at_least", self.at_least), ("equals", self.equals)):
            keys[key] = None if bound is None else float(bound)
        return keys


@dataclass(frozen=True)
class Mixture:
    """Parameters that are the shares of a ``total``: in every point, their sum is the total.

    >>> fedbo.Mixture(["water", "oil", "soap"]).total
    1.0
    """

    parameters: Sequence[str]
    total: float = 1.0
    name: str | None = field(default=None, kw_only=True)

    def _keys(self) -> dict[str, object]:
        return {"name": self.name, "parameters": _listed(self.parameters), "total": float(self.total)}


def rule_tables(rules: Sequence[Rule], mixtures: Sequence[Mixture]) -> dict[str, list[Mapping[str, object]]]:
    """Return the tables ``[[rules]]`` and ``[[mixtures]]`` of a file."""
    tables: dict[str, list[Mapping[str, object]]] = {}
    for key, given, kind in (("rules", rules, Rule), ("mixtures", mixtures, Mixture)):
        if isinstance(given, kind) or not all(isinstance(each, kind) for each in given):
            raise TypeError(f"{key} = {given!r}, expected a list of fedbo.{kind.__name__}(...)")
        tables[key] = [each._keys() for each in given]
    return tables


Parameter: TypeAlias = Float | Int | Categorical
"""A parameter of a search space."""

ParameterLike: TypeAlias = Parameter | Sequence[Choice]
"""A parameter. A list is shorthand for a :class:`Categorical` with these choices, a range for an :class:`Int`."""


def _listed(given: Any) -> list[Any]:
    """Return the elements of a sequence, or of an array with one dimension."""
    if callable(getattr(given, "tolist", None)):
        given = given.tolist()
    if isinstance(given, (str, bytes, Mapping, set, frozenset)) or not isinstance(given, Iterable):
        raise TypeError(f"{given!r} is not a list")
    return list(given)


def _check_when(given: Parameter) -> None:
    """Check a condition. A mapping without entries becomes None, and values become plain."""
    if given.when is None:
        return
    if not isinstance(given.when, Mapping):
        raise TypeError(f"when = {given.when!r}, expected a dict of parents and their values")
    when = {
        parent: [plain(each) for each in values] if isinstance(values, list) else plain(values)
        for parent, values in given.when.items()
    }
    object.__setattr__(given, "when", when or None)


def _condition(given: Parameter) -> dict[str, object]:
    """Return the key ``when``."""
    if given.when is None:
        return {}
    one_of = {
        parent: [stored(each) for each in values] if isinstance(values, list) else stored(values)
        for parent, values in given.when.items()
    }
    return {"when": one_of}


def exists(space: Mapping[str, Parameter], name: str, params: Mapping[str, Any]) -> bool:
    """Return True if a parameter exists at a point, according to the values of its parents."""
    return _exists(space, name, params, (), {})


def _exists(
    space: Mapping[str, Parameter], name: str, params: Mapping[str, Any], children: tuple[str, ...], known: dict[str, bool]
) -> bool:
    if name not in known:
        known[name] = _holds(space, name, params, children, known)
    return known[name]


def _holds(
    space: Mapping[str, Parameter], name: str, params: Mapping[str, Any], children: tuple[str, ...], known: dict[str, bool]
) -> bool:
    for parent, values in (space[name].when or {}).items():
        # Studies refuse circles and unknown parents with an error.
        if parent in children or parent not in space or parent not in params:
            return False
        if not _exists(space, parent, params, (*children, name), known):
            return False
        value = plain(params[parent])
        if not any(value == each for each in (values if isinstance(values, list) else [values])):
            return False
    return True


def _check_numbers(given: Float | Int) -> None:
    kind = type(given).__name__
    if given.values is None:
        if given.low is None or given.high is None:
            raise TypeError(f"{given}: give low and high, as {kind}(1, 8), or values, as {kind}(values=[1, 2, 8])")
        _check_all(given, [number for number in (given.low, given.high, given.step) if number is not None])
        return
    if given.low is not None or given.high is not None or given.step is not None:
        raise TypeError(f"{given}: give either low and high, or values")
    values = [plain(value) for value in _listed(given.values)]
    _check_all(given, values)
    object.__setattr__(given, "values", tuple(sorted(values)))


def _check_all(given: Float | Int, numbers: Iterable[object]) -> None:
    for number in numbers:
        if not _is_number(number):
            raise TypeError(f"{given}: {number!r} is not a number")


def _numeric(kind: str, given: Float | Int, of: Callable[[Any], float]) -> dict[str, object]:
    keys: dict[str, object] = {"type": kind}
    if given.values is not None:
        keys["values"] = [of(value) for value in given.values]
    else:
        keys |= {"low": of(given.low), "high": of(given.high)}
    if given.log:
        keys["log"] = True
    if given.step is not None:
        keys["step"] = given.step
    return keys | _condition(given)


def stored(choice: object) -> Any:
    """Return a choice as the native module stores it: None and tuples become texts."""
    choice = plain(choice)
    if isinstance(choice, tuple):
        return repr(_plain_tuple(choice))
    return "None" if choice is None else choice


def _plain_tuple(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_plain_tuple(each) if isinstance(each, tuple) else plain(each) for each in given)


class Texts:
    """Choices that the native module stores as texts, by parameter and text."""

    def __init__(self, space: Mapping[str, Parameter] | None = None) -> None:
        self._choices: dict[str, dict[str, Choice]] = {}
        for name, each in (space or {}).items():
            if not isinstance(each, Categorical):
                continue
            written = {choice for choice in each.choices if isinstance(choice, str)}
            for choice in each.choices:
                if choice is None or isinstance(choice, tuple):
                    text = stored(choice)
                    if text in written:
                        raise DefinitionError(
                            f"parameter {name!r}: the choices {choice!r} and {text!r} have the same text; rename the string"
                        )
                    self._choices.setdefault(name, {})[text] = choice

    def encode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a user's point for the native module."""
        return {name: stored(value) if name in self._choices else plain(value) for name, value in params.items()}

    def decode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a point of the native module."""
        return {name: self._value(name, value) for name, value in params.items()}

    def space(self, described: Mapping[str, Mapping[str, object]]) -> dict[str, Parameter]:
        """Convert the native module's description of a space."""
        found = {name: from_keys(keys) for name, keys in described.items()}
        for name in self._choices.keys() & found.keys():
            given = found[name]
            assert isinstance(given, Categorical)
            found[name] = replace(given, choices=tuple(self._value(name, choice) for choice in given.choices))
        for name, each in found.items():
            if each.when is not None:
                when = {
                    parent: [self._value(parent, value) for value in values] if isinstance(values, list) else self._value(parent, values)
                    for parent, values in each.when.items()
                }
                found[name] = replace(each, when=when)
        return found

    def _value(self, name: str, value: Any) -> Any:
        return self._choices.get(name, {}).get(value, value) if isinstance(value, str) else value


def parameter(name: str, given: object) -> Parameter:
    """Convert a user's argument, a parameter or a list of choices, to a parameter."""
    if isinstance(given, (Float, Int, Categorical)):
        return given
    if isinstance(given, range):
        if not given:
            raise DefinitionError(f"parameter {name!r}: {given} is empty")
        low, high = sorted((given[0], given[-1]))
        return Int(low, high, step=None if abs(given.step) == 1 or low == high else abs(given.step))
    if getattr(given, "ndim", None) == 1 and callable(getattr(given, "tolist", None)):
        return Categorical(tuple(_listed(given)))
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
    kind, when = keys["type"], keys.get("when")
    assert when is None or isinstance(when, dict)
    if kind == "categorical":
        choices = keys["choices"]
        assert isinstance(choices, list)
        return Categorical(tuple(choices), ordered=bool(keys.get("ordered", False)), when=when)
    log, values = bool(keys.get("log", False)), keys.get("values")
    if values is not None:
        assert isinstance(values, list)
        return Int(log=log, values=values, when=when) if kind == "int" else Float(log=log, values=values, when=when)
    low, high, step = keys["low"], keys["high"], keys.get("step")
    if kind == "int":
        assert isinstance(low, int) and isinstance(high, int)
        assert step is None or isinstance(step, int)
        return Int(low, high, log, step, when=when)
    assert isinstance(low, (int, float)) and isinstance(high, (int, float))
    assert step is None or isinstance(step, (int, float))
    return Float(float(low), float(high), log, step, when=when)


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
