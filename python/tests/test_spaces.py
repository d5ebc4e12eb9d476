"""Property tests of definitions: every declaration can be read back, and every point is within its space."""

from __future__ import annotations

import math
import sys
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedbo
from fedbo._space import toml

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
scalars = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), finite, st.text(st.characters(exclude_categories=("Cs",))))


@given(st.dictionaries(names, st.dictionaries(names, scalars | st.lists(scalars, max_size=4)), min_size=1))
def test_toml_reads_back(tables: dict[str, dict[str, object]]) -> None:
    assert tomllib.loads(toml(tables)) == tables


@st.composite
def parameters(draw: st.DrawFn) -> fedbo.Float | fedbo.Int | fedbo.Categorical:
    kind = draw(st.sampled_from(["float", "log", "int", "log-int", "step", "values", "choice"]))
    if kind in ("int", "log-int"):
        low = draw(st.integers(1 if kind == "log-int" else -1000, 1000))
        return fedbo.Int(low, low + draw(st.integers(1, 10**6)), log=kind == "log-int")
    if kind == "choice":
        choices = draw(st.lists(st.text("abcdefgh ", min_size=1, max_size=5), min_size=2, max_size=5, unique=True))
        return fedbo.Categorical(tuple(choices), ordered=draw(st.booleans()))
    if kind == "values":
        values = draw(st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True))
        log = draw(st.booleans())
        return fedbo.Int(values=values, log=log) if draw(st.booleans()) else fedbo.Float(values=values, log=log)
    if kind == "log":
        low = draw(st.floats(1e-8, 1.0))
        return fedbo.Float(low, low * draw(st.floats(1.1, 1e6)), log=True)
    low = draw(st.floats(-1e6, 1e6))
    if kind == "step":
        n, step = draw(st.integers(1, 50)), draw(st.sampled_from([0.25, 0.5, 2.0]))
        low = float(draw(st.integers(-100, 100)))
        return fedbo.Float(low, low + n * step, step=step)
    return fedbo.Float(low, low + draw(st.floats(1e-3, 1e6)))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.text("abcxyz_0189", min_size=1, max_size=6), parameters(), min_size=1, max_size=4),
    st.sampled_from(["random", "sobol", "log-ei", "ts"]),
    st.integers(0, 2**63 - 1),
)
def test_every_point_is_in_its_space(space: dict[str, fedbo.Float | fedbo.Int | fedbo.Categorical], strategy: str, seed: int) -> None:
    study = fedbo.Study("any", space, direction="maximize", strategy=strategy, seed=seed, noisy=True)
    assert study.space == space
    for number in range(7):
        trial = study.ask()
        for name, declared in space.items():
            value = trial[name]
            if isinstance(declared, fedbo.Categorical):
                assert value in declared.choices
            else:
                if declared.values is not None:
                    assert value in declared.values
                else:
                    assert declared.low is not None and declared.high is not None
                    assert declared.low <= value <= declared.high
                assert isinstance(value, int if isinstance(declared, fedbo.Int) else float)
        study.tell(trial, math.sin(number))
        study.enqueue(trial.params)  # a proposed point is valid
        study.tell(study.ask(), math.cos(number))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_asking_and_telling_leaks_nothing() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def rounds(n: int) -> None:
        for _ in range(n):
            study = fedbo.Study("many", {"x": fedbo.Float(0, 1), "c": ["a", "b"]}, direction="minimize", strategy="random")
            for _ in range(500):
                trial = study.ask()
                study.tell(trial, float(trial["x"]))

    rounds(40)
    before = resident()
    rounds(200)  # 10^5 trials
    grown = resident() - before
    assert grown < 10_000_000, f"{grown / 1e6:.1f} MB more after 10^5 trials"
