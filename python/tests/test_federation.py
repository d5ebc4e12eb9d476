"""Federations in one process: rows, arms and comparisons as in the program, failures, Ctrl-C."""

from __future__ import annotations

import csv
import json
import math
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fedbo
from conftest import Run, Start, interrupt, wait_for_line

SPACE: dict[str, fedbo._space.ParameterLike] = {"x": fedbo.Float(0.0, 1.0), "n": fedbo.Int(1, 64, log=True), "kind": ["a", "b"]}

PROBLEM = '''
import json, os, sys

def value(p, best):
    return (p["x"] - best) ** 2 + 0.01 * abs(p["n"] - 8) + 0.5 * (p["kind"] == "b")

if __name__ == "__main__":
    print(json.dumps(value(json.loads(os.environ["FEDBO_PARAMS"]), float(sys.argv[1]))))
'''


def objective(best: float) -> fedbo._objective.Objective:
    def value(p: dict[str, fedbo._space.Value]) -> float:
        assert isinstance(p["x"], float) and isinstance(p["n"], int)
        return (p["x"] - best) ** 2 + 0.01 * abs(p["n"] - 8) + 0.5 * (p["kind"] == "b")

    return value


def federation(algorithm: str = "shared-prior", rounds: int = 5, **options: Any) -> fedbo.Federation:
    return fedbo.Federation(
        "labs", SPACE, agents=["north", "south"], algorithm=algorithm, rounds=rounds, direction="minimize", seed=7, **options
    )


FUNCTIONS = {"north": objective(0.3), "south": objective(0.6)}

TOML = """
[federation]
name = "labs"
algorithm = "{algorithm}"
rounds = 5
direction = "minimize"
seed = 7
[space.x]
type = "float"
low = 0.0
high = 1.0
[space.n]
type = "int"
low = 1
high = 64
log = true
[space.kind]
type = "categorical"
choices = ["a", "b"]
[[agents]]
name = "north"
command = ["{python}", "problem.py", "0.3"]
[[agents]]
name = "south"
command = ["{python}", "problem.py", "0.6"]
"""


def read(path: Path) -> list[tuple[object, ...]]:
    with path.open() as file:
        return [
            (
                *(row["arm"], row["agent"], int(row["run"]), int(row["iteration"]), row["source"]),
                *(float(row["x"]), int(row["n"]), row["kind"], float(row["value"]), float(row["best"])),
            )
            for row in csv.DictReader(file)
        ]


def rows(result: fedbo.FederationResult) -> list[tuple[object, ...]]:
    return [
        (t.arm, t.agent, t.run, t.iteration, t.source, *(t.params[name] for name in ("x", "n", "kind")), t.value, t.best)
        for t in result.rows
    ]


@pytest.mark.parametrize(("algorithm", "n_runs"), [("shared-prior", 2), ("fts", None)])
def test_rows_and_statistics_are_those_of_the_program(
    tmp_path: Path, program: Run, algorithm: str, n_runs: int | None
) -> None:
    (tmp_path / "federation.toml").write_text(TOML.format(algorithm=algorithm, python=sys.executable))
    (tmp_path / "problem.py").write_text(PROBLEM)
    repeated = [] if n_runs is None else ["--runs", str(n_runs)]
    program("run", "federation.toml", "--out", "of-program", *repeated)
    expected = read(tmp_path / "of-program" / "results.csv")
    assert len(expected) == 16 * (1 if n_runs is None else 5 * n_runs)

    result = federation(algorithm).simulate(FUNCTIONS, n_runs=n_runs, out=tmp_path / "of-package")
    assert rows(result) == expected == read(tmp_path / "of-package" / "results.csv")
    summaries = [json.loads((tmp_path / folder / "summary.json").read_text()) for folder in ("of-program", "of-package")]
    assert summaries[0]["differences"] == summaries[1]["differences"]
    assert [vars(each)["p_adjusted"] for each in result.differences] == [
        each["p_adjusted"] for each in summaries[0]["differences"]
    ]

    # A file with functions instead of its commands, and with more threads.
    same = fedbo.Federation.from_file(tmp_path / "federation.toml")
    (tmp_path / "problem.py").write_text("raise SystemExit(1)")
    assert rows(same.simulate(FUNCTIONS, n_runs=n_runs, n_jobs=4)) == expected
    other = fedbo.Federation.from_file(tmp_path / "federation.toml", seed=8)
    assert other.seed == 8 and rows(other.simulate(FUNCTIONS, n_runs=n_runs)) != expected


def test_arms_are_compared_by_student_and_holm() -> None:
    labs = federation()
    assert labs.arms[0] == "shared-prior" and "ts" in labs.arms
    result = labs.simulate(FUNCTIONS, arms=["shared-prior", "ts"], n_runs=3)
    assert [arm.arm for arm in result.arms] == ["shared-prior", "ts"]
    best = {
        (arm, run): sum(t.best or 0.0 for t in result.rows if (t.arm, t.run, t.iteration) == (arm, run, 5)) / 2
        for arm in ("shared-prior", "ts")
        for run in range(3)
    }
    differences = [best["shared-prior", run] - best["ts", run] for run in range(3)]
    end = next(each for each in result.differences if each.iteration is None)
    mean = sum(differences) / 3
    error = math.sqrt(sum((each - mean) ** 2 for each in differences) / 2 / 3)
    assert end.mean == pytest.approx(mean) and end.standard_error == pytest.approx(error)
    assert end.high == pytest.approx(mean + 4.302652729911275 * error)  # Student's t with 2 degrees of freedom
    assert end.p_adjusted is not None and end.p_value is not None and end.p_adjusted >= end.p_value
    assert result.arms[0].mean == pytest.approx(sum(best["shared-prior", run] for run in range(3)) / 3)
    assert any(trial.source.startswith("shared") for trial in result.rows)
    table = result.to_dataframe()
    assert list(table.columns[:8]) == ["arm", "run", "agent", "iteration", "source", "params_x", "params_n", "params_kind"]
    assert len(table) == 2 * 3 * 16
    assert list(result.summary()["arm"]) == ["shared-prior", "ts"]
    assert len(result.comparisons()) == len(result.differences)
    assert result.svg.startswith("<svg") and "<svg" in result._repr_html_() and "p (Holm)" in str(result)


def test_conditions_rules_and_mixtures_hold_for_every_party() -> None:
    space = {
        "kind": ["a", "b"],
        "tag": ["", "t"],
        "z": fedbo.Float(0, 1, when={"kind": "b"}),
        **{name: fedbo.Float(0, 1) for name in ("u", "v", "w")},
    }
    seen: list[dict[str, Any]] = []

    def value(p: dict[str, Any]) -> float:
        seen.append(p)
        return p["u"] + (0.5 if p["kind"] == "a" else (p["z"] - 0.3) ** 2)

    labs = fedbo.Federation(
        "trees", space, agents=["north", "south"], rounds=5, direction="minimize",
        rules=[fedbo.Rule({"u": 1.0, "v": -1.0}, at_least=0.0)], mixtures=[fedbo.Mixture(["u", "v", "w"])],
    )
    result = labs.simulate({"north": value, "south": value})
    assert [trial.params for trial in result.rows] == seen and len(seen) == 16
    for p in seen:
        assert ("z" in p) == (p["kind"] == "b")
        assert p["u"] + p["v"] + p["w"] == pytest.approx(1.0) and p["u"] >= p["v"] - 1e-6
    with pytest.raises(TypeError, match="expected a list of fedbo.Rule"):
        fedbo.Federation("trees", space, agents=["a", "b"], rounds=5, direction="minimize", rules=[{"u": 1.0}])  # type: ignore[list-item]
    with pytest.raises(fedbo.DefinitionError, match="there is no parameter q"):
        fedbo.Federation("trees", space, agents=["a", "b"], rounds=5, direction="minimize", rules=[fedbo.Rule({"q": 1.0}, at_most=1)])


def test_functions_are_called_in_this_thread_one_after_the_other() -> None:
    threads = set()

    def noisy(params: dict[str, fedbo._space.Value]) -> float:
        threads.add(threading.get_ident())
        return random.random()

    both = {"north": noisy, "south": noisy}
    random.seed(3)
    first = rows(federation().simulate(both))
    random.seed(3)
    assert rows(federation().simulate(both)) == first
    assert threads == {threading.get_ident()}
    with ThreadPoolExecutor(2) as pool:
        assert rows(federation().simulate(FUNCTIONS, executor=pool)) == rows(federation().simulate(FUNCTIONS))


def test_exceptions_and_nan_are_failed_trials(caplog: pytest.LogCaptureFixture) -> None:
    def sometimes(params: dict[str, Any]) -> float:
        if params["kind"] == "b":
            raise ValueError("no such kind")
        return math.nan if params["n"] < 4 else float(params["x"])

    result = federation(rounds=12).simulate({"north": sometimes, "south": FUNCTIONS["south"]}, failures_max=0)
    messages = {trial.message for trial in result.rows if trial.agent == "north" and trial.value is None}
    assert any(message and "ValueError: no such kind" in message for message in messages)
    assert any(message and "NaN" in message for message in messages)
    assert all(trial.value is not None for trial in result.rows if trial.agent == "south")
    assert result.arms[0].failed == sum(trial.value is None for trial in result.rows) > 0


def test_a_party_that_always_fails_ends_the_simulation() -> None:
    def broken(params: object) -> float:
        raise RuntimeError("out of reagents")

    with pytest.raises(fedbo.ObjectiveError, match=r"5 trials in a row of agent 'north'.*out of reagents") as raised:
        federation().simulate({"north": broken, "south": FUNCTIONS["south"]})
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_callback_ends_a_simulation_and_what_is_finished_is_kept(tmp_path: Path) -> None:
    labs = federation()
    seen = []

    def callback(of: fedbo.Federation, trial: fedbo.FederationTrial) -> None:
        seen.append(trial)
        if trial.iteration == 2:
            of.stop()

    stopped = labs.simulate(FUNCTIONS, out=tmp_path / "out", callbacks=[callback])
    assert stopped.ended == "stopped" and len(stopped.rows) == 10 and list(stopped.rows) == seen
    whole = labs.simulate(FUNCTIONS, out=tmp_path / "out", resume=True)
    assert whole.ended == "complete" and rows(whole) == rows(labs.simulate(FUNCTIONS))


def test_ctrl_c_in_a_function_ends_the_simulation(tmp_path: Path, start: Start) -> None:
    process = start(
        """
        import time, fedbo
        labs = fedbo.Federation(
            "labs", {"x": fedbo.Float(0.0, 1.0)}, agents=["north", "south"], rounds=5, direction="minimize"
        )
        def slow(params):
            print("at work", flush=True)
            time.sleep(60)
        try:
            labs.simulate({"north": lambda p: p["x"], "south": slow}, out="out")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        labs.simulate({name: lambda p: p["x"] for name in labs.agents}, out="out", resume=True)
        print("whole", flush=True)
        """
    )
    wait_for_line(process, "at work")
    interrupt(process, after=0.2)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert said.split() == ["at", "work", "interrupted", "whole"][2:]


def test_a_signal_between_functions_ends_it_too_and_the_message_says_how_to_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(params: object) -> float:
        signal.raise_signal(signal.SIGINT)
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        federation().simulate({"north": raises, "south": raises}, n_runs=2)
    assert "its trials are not kept; name a folder with out=.." in caplog.text
    with pytest.raises(KeyboardInterrupt):
        federation().simulate({"north": raises, "south": raises}, out=tmp_path / "results")
    assert f"finished trials are in {tmp_path / 'results'}; call simulate again with resume=True" in caplog.text


def test_definitions_are_checked_by_the_program() -> None:
    with pytest.raises(fedbo.DefinitionError, match="shared-priors"):
        federation("shared-priors")
    with pytest.raises(fedbo.DefinitionError, match="at least 2"):
        fedbo.Federation("labs", SPACE, agents=["north"], rounds=5, direction="minimize")
    with pytest.raises(TypeError, match="as a list"):
        fedbo.Federation("labs", SPACE, agents="north", rounds=5, direction="minimize")
    with pytest.raises(fedbo.DefinitionError, match="has no effect"):
        federation(privacy={"epsilon": 1.0})
    with pytest.raises(fedbo.DefinitionError, match="nosuch"):
        federation(options={"nosuch": 1})
    labs = federation()
    with pytest.raises(fedbo.DefinitionError, match="no function is given for 'south'"):
        labs.simulate({"north": FUNCTIONS["north"]})
    with pytest.raises(fedbo.DefinitionError, match="no agent is named 'west'"):
        labs.simulate({**FUNCTIONS, "west": FUNCTIONS["north"]})
    with pytest.raises(fedbo.DefinitionError, match="unknown arm"):
        labs.simulate(FUNCTIONS, arms=["nosuch"])
    with pytest.raises(fedbo.DefinitionError, match="named twice"):
        labs.simulate(FUNCTIONS, arms=["ts", "ts"])
    with pytest.raises(fedbo.DefinitionError, match="n_runs = 0"):
        labs.simulate(FUNCTIONS, n_runs=0)
    with pytest.raises(TypeError, match="n_jobs = '2', expected a whole number"):
        labs.simulate(FUNCTIONS, n_jobs="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="objectives = .*, expected a dict"):
        labs.simulate([FUNCTIONS["north"]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"objectives\['south'\] = 3 is not a function"):
        labs.simulate({**FUNCTIONS, "south": 3})  # type: ignore[dict-item]


def test_a_simulation_of_releases_protects_nobody_and_charges_nothing() -> None:
    labs = fedbo.Federation(
        "labs",
        {"x": fedbo.Float(0.0, 1.0)},
        agents=[f"lab-{n}" for n in range(4)],
        algorithm="dp-shared-prior",
        rounds=4,
        direction="minimize",
        privacy={"epsilon": 5.0, "releases": 2, "simulate": True},
    )
    functions = {name: lambda params: (params["x"] - 0.4) ** 2 for name in labs.agents}
    result = labs.simulate(functions)
    assert result.spent is None and rows_of_x(result) == rows_of_x(labs.simulate(functions))


def rows_of_x(result: fedbo.FederationResult) -> list[object]:
    return [trial.params["x"] for trial in result.rows]


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    labs = fedbo.Federation("labs", {"x": fedbo.Float(0.0, 1.0)}, agents=["a", "b"], rounds=2, direction="maximize")
    functions = {"a": lambda params: params["x"], "b": lambda params: -params["x"]}
    with pytest.raises(fedbo.DefinitionError, match="choose one of them"):
        labs.simulate(functions, out=tmp_path / "out", resume=True, overwrite=True)
    with pytest.raises(fedbo.DefinitionError, match="separate arguments"):
        fedbo.Federation("labs", {"x": fedbo.Float(0, 1)}, agents=["a", "b"], rounds=2, direction="maximize", federation={})


def test_a_party_with_observations_tells_them_once(tmp_path: Path) -> None:
    space = {"x": fedbo.Float(0, 1)}
    grid = [({"x": place / 20}, (place / 20 - 0.3) ** 2) for place in range(21)]
    study = fedbo.Study("south", space, direction="minimize", storage=tmp_path / "south.db")
    for params, value in grid:
        study.tell(study.enqueue(params), value)
    (table,) = study.export(tmp_path / "south.csv")

    def basic(**options: object) -> fedbo.Federation:
        return fedbo.Federation(
            "basic", space, agents=["north", "south"], rounds=3, direction="minimize", algorithm="fts", initial=2,
            options={"local_prob": 0.0}, **options,
        )  # fmt: skip

    def far(params: Any) -> float:
        return float((params["x"] - 0.9) ** 2)

    places = [grid, iter(grid), study, str(table), table, f"sqlite:{tmp_path / 'south.db'}#south"]
    results = [basic(observations={"south": given}).simulate({"north": far}) for given in places]
    first = results[0].rows
    assert {row.agent for row in first} == {"north"} and len(first) == 5
    told = [row for row in first if row.source == "message:south"]
    assert len(told) == 1 and abs(told[0].params["x"] - 0.3) < 0.1
    assert all(result.rows == first for result in results)

    both = basic(observations={"south": grid})
    with pytest.raises(fedbo.DefinitionError, match="makes no queries: give it no function"):
        both.simulate({"north": far, "south": far})
    for given, message in [
        ({"east": grid}, "no agent is named \"east\""),
        ({"south": []}, "there is none"),
        ({"south": [({"x": 7.0}, 1.0)]}, "observation 0"),
        ({"south": [({"x": 0.5}, math.nan)]}, "observation 0"),
        ({"south": "none.csv"}, "cannot be read"),
        ({"south": grid, "north": grid}, "no agent is left"),
    ]:
        with pytest.raises(fedbo.DefinitionError, match=message):
            basic(observations=given)
    with pytest.raises(TypeError, match="pairs of a dict"):
        basic(observations={"south": [0.5]})
    with pytest.raises(TypeError, match="not a number"):
        basic(observations={"south": [({"x": 0.5}, "good")]})
