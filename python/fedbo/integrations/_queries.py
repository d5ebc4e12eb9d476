"""Proposals for trials that another framework stores, over parameters with choices of any type."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fedbo import _fedbo, _space
from fedbo._errors import DefinitionError
from fedbo._space import Categorical, Float, Int, Parameter

Code: TypeAlias = dict[str, int | float]
"""A point as passed to the native module, with indices for values on grids and for choices."""

Ended: TypeAlias = tuple[Code, float | None, str]
"""A finished trial: its point, its value (``None`` if it failed), and the source of its point."""

GRID_DUST = 1e-8
"""Tolerance for numbers on a grid, as a fraction of the step. Optuna uses the same."""


def choices(given: Iterable[object], ordered: bool = False) -> Categorical:
    """Create a parameter with choices of any type. :class:`Queries` accepts it, but studies do not."""
    return Categorical(tuple(given), ordered)  # type: ignore[arg-type]


def new_seed() -> int:
    """Draw a seed for a user who gave none."""
    return secrets.randbits(31)


class _Range:
    """A range of numbers."""

    def __init__(self, given: Float | Int) -> None:
        assert given.low is not None and given.high is not None
        self.is_int = isinstance(given, Int)
        self.low, self.high, self.log = given.low, given.high, given.log
        self.single = self.low == self.high
        self.only = self.low
        self.parameter: Parameter = given

    def encode(self, value: object) -> int | float | None:
        given = _space.plain(value)
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            return None
        if not self.low <= given <= self.high:
            return None
        if not self.is_int:
            return float(given)
        return int(given) if given == int(given) else None

    def decode(self, code: int | float) -> int | float:
        return int(code) if self.is_int else float(code)


class _Set:
    """One of several numbers."""

    def __init__(self, name: str, given: Float | Int) -> None:
        self.values = tuple(given.values or ())
        if not self.values:
            raise DefinitionError(f"parameter {name!r}: expected at least one value")
        self.is_int = isinstance(given, Int)
        self.single = len(self.values) == 1
        self.only = self.values[0]
        self.parameter: Parameter = given

    def encode(self, value: object) -> int | float | None:
        given = _space.plain(value)
        if isinstance(given, bool) or not isinstance(given, (int, float)) or given not in self.values:
            return None
        return int(given) if self.is_int else float(given)

    def decode(self, code: int | float) -> int | float:
        return int(code) if self.is_int else float(code)


class _Grid:
    """Numbers on a grid, encoded as indices."""

    def __init__(self, name: str, given: Float | Int) -> None:
        assert given.low is not None and given.high is not None and given.step is not None
        if given.log:
            raise DefinitionError(f"parameter {name!r}: a range has either a step or a logarithmic scale")
        if not given.step > 0 or not given.high >= given.low:
            raise DefinitionError(f"parameter {name!r}: expected low <= high and a step above 0, got {given}")
        self.is_int = isinstance(given, Int)
        self.low, self.step = given.low, given.step
        # The largest grid value within the range.
        n_steps = int((given.high - given.low) / given.step + GRID_DUST)
        self.high = min(given.low + n_steps * given.step, given.high)
        self.n_steps = n_steps
        self.single = n_steps == 0
        self.only = given.low
        self.parameter: Parameter = Int(0, n_steps)

    def encode(self, value: object) -> int | None:
        given = _space.plain(value)
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            return None
        steps = (given - self.low) / self.step
        index = round(steps)
        return index if abs(steps - index) < GRID_DUST and 0 <= index <= self.n_steps else None

    def decode(self, code: int | float) -> int | float:
        value = min(self.low + int(code) * self.step, self.high)
        return int(value) if self.is_int else float(value)


class _Choices:
    """Choices of any type, encoded as indices."""

    def __init__(self, name: str, given: Categorical) -> None:
        self.choices: Sequence[Any] = tuple(given.choices)
        if not self.choices:
            raise DefinitionError(f"parameter {name!r}: expected at least one choice")
        self.single = len(self.choices) == 1
        self.only = self.choices[0]
        self.parameter: Parameter = Categorical(tuple(range(len(self.choices))), given.ordered)

    def encode(self, value: object) -> int | None:
        for index, choice in enumerate(self.choices):
            if choice is value:
                return index
        for index, choice in enumerate(self.choices):
            if type(choice) is type(value) and _is_equal(choice, value):
                return index
        return None

    def decode(self, code: int | float) -> Any:
        return self.choices[int(code)]


def _is_equal(a: Any, b: Any) -> bool:
    if a != a and b != b:  # NaN
        return True
    try:
        return bool(a == b)
    except ValueError:  # arrays
        return False


class Queries:
    """Proposes points of a search space for trials that are stored elsewhere.

    A proposal depends only on the arguments of the constructor and of :meth:`propose`. The only internal state is a cache.
    """

    def __init__(
        self,
        label: str,
        space: Mapping[str, Parameter],
        *,
        direction: Literal["minimize", "maximize"],
        strategy: str | None,
        strategy_options: Mapping[str, object] | None,
        seed: int,
        initial: int | None,
        noisy: bool,
    ) -> None:
        self._space = dict(space)
        self._codecs: dict[str, _Codec] = {name: _codec(name, parameter) for name, parameter in space.items()}
        self.noisy = noisy
        free = [name for name, codec in self._codecs.items() if not codec.single]
        # Other frameworks allow names that are invalid here. If one occurs, all parameters are named by position.
        is_usable = all(map(_is_name, free))
        self._keys = {name: name if is_usable else f"p{place}" for place, name in enumerate(free)}
        self._text: str | None = None
        if free:
            tables = _space.study_tables(
                "queries",
                {key: self._parameter(name) for name, key in self._keys.items()},
                direction=direction,
                seed=seed,
                initial=initial,
                noisy=noisy,
            )
            if strategy is not None or strategy_options:
                tables["strategy"] = {"name": strategy, **(strategy_options or {})}
            self._text = _space.toml(tables)
        self._label = label
        self._native: _fedbo.Sampler | None = None
        self._open()

    def _parameter(self, name: str) -> Parameter:
        """Return a parameter as passed to the native module. Conditions on parents with a single value are left out."""
        when: dict[str, Any] = {}
        for parent, values in (self._space[name].when or {}).items():
            codec = self._codecs.get(parent)
            if codec is None:
                known = ", ".join(other for other in self._codecs if other != name)
                raise DefinitionError(f"parameter {name!r}: when names {parent!r}, expected another parameter: {known}")
            codes = [codec.encode(value) for value in (values if isinstance(values, list) else [values])]
            if None in codes:
                raise DefinitionError(f"parameter {name!r}: when = {{{parent!r}: {values!r}}} is not a value of {parent!r}")
            if parent in self._keys:
                when[self._keys[parent]] = codes
        return replace(self._codecs[name].parameter, when=when or None)

    def _exists(self, name: str, params: Mapping[str, Any]) -> bool:
        only = {key: codec.only for key, codec in self._codecs.items() if codec.single}
        return _space.exists(self._space, name, {**only, **params})

    def _open(self) -> _fedbo.Sampler | None:
        if self._native is None and self._text is not None:
            self._native = _fedbo.Sampler.from_text(Path(self._label), self._text)
        return self._native

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None}

    def encode(self, params: Mapping[str, Any]) -> Code | None:
        """Encode a point. Return ``None`` if a parameter is missing or its value is outside the space.

        A parameter with a single possible value may be missing. Values of parameters that do not exist at the point are left out.
        """
        code: Code = {}
        for name, codec in self._codecs.items():
            if not self._exists(name, params):
                continue
            if name not in params and not codec.single:
                return None
            value = codec.encode(params.get(name, codec.only))
            if value is None:
                return None
            code[name] = value
        return code

    def decode(self, code: Mapping[str, int | float]) -> dict[str, Any]:
        """Decode a point."""
        return {name: codec.decode(code[name]) for name, codec in self._codecs.items() if name in code}

    def propose(
        self, told: Sequence[Ended], open_points: Sequence[Code], number: int
    ) -> tuple[Code, str] | None:
        """Propose the point of trial ``number``. Return it with its source, or ``None`` if every point was tried."""
        fixed: Code = {}
        for name, codec in self._codecs.items():
            if codec.single:
                value = codec.encode(codec.only)
                assert value is not None
                fixed[name] = value
        native = self._open()
        if native is None:  # the space has a single point
            return None if (told or open_points) and not self.noisy else (fixed, "initial")
        proposed = native.propose(
            [(self._free(code), value, source) for code, value, source in told],
            [self._free(code) for code in open_points],
            number,
        )
        if proposed is None:
            return None
        params, source = proposed
        codes = fixed | {name: params[key] for name, key in self._keys.items() if key in params}
        point = self.decode(codes)
        return {name: codes[name] for name in self._codecs if name in codes and self._exists(name, point)}, source

    def _free(self, code: Code) -> Code:
        return {key: code[name] for name, key in self._keys.items() if name in code}


def _is_name(name: str) -> bool:
    is_bad = (each.isspace() or not each.isprintable() or each in '{},"' for each in name)
    return bool(name) and not any(is_bad)


_Codec: TypeAlias = _Range | _Set | _Grid | _Choices


def _codec(name: str, given: Parameter) -> _Codec:
    if isinstance(given, Categorical):
        return _Choices(name, given)
    if given.values is not None:
        return _Set(name, given)
    assert given.low is not None and given.high is not None
    if given.step is None or (given.step == 1 and isinstance(given, Int)):
        return _Range(given if given.step is None else Int(int(given.low), int(given.high), given.log))
    return _Grid(name, given)
