"""Studies across processes: the same trials as in the program, Ctrl-C, kill -9, forks and pools."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path

import pytest

import fedbo
from conftest import Run, Start, interrupt, wait_for_line

STUDY = """
[study]
name = "branin"
direction = "minimize"
trials = 18
seed = 7
storage = "sqlite:{storage}"
{strategy}
[space.x1]
type = "float"
low = -5.0
high = 10.0
[space.x2]
type = "float"
low = 0.0
high = 15.0
[space.kind]
type = "categorical"
choices = ["a", "b", "c"]
[space.n]
type = "int"
low = 1
high = 64
log = true
[objective]
command = ["{python}", "objective.py"]
"""

OBJECTIVE = '''
import json, math, os

def value(p):
    x1, x2 = p["x1"], p["x2"]
    if p["kind"] == "c" and p["n"] > 32:
        raise ValueError("too large")
    branin = (x2 - 5.1 / (4 * math.pi**2) * x1**2 + 5 / math.pi * x1 - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x1) + 10
    return branin + 3 * (p["kind"] == "b") + math.log(p["n"])

if __name__ == "__main__":
    print(json.dumps(value(json.loads(os.environ["FEDBO_PARAMS"]))))
'''


@pytest.mark.parametrize("strategy", ["", '[strategy]\nname = "ts"', '[strategy]\nname = "gp-ucb"'])
def test_trials_equal_the_programs_to_the_bit(tmp_path: Path, program: Run, strategy: str) -> None:
    (tmp_path / "objective.py").write_text(OBJECTIVE)
    names = {"python": sys.executable, "strategy": strategy}
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(storage="theirs.db", **names))
    program("tune", "study.toml", "--quiet")
    scope: dict[str, object] = {"__name__": "objective"}
    exec(OBJECTIVE, scope)
    file.write_text(STUDY.format(storage="ours.db", **names))
    from_file = fedbo.Study.from_file(file)
    from_file.optimize(scope["value"])
    options = {"strategy": strategy.split('"')[1]} if strategy else {}
    in_python = fedbo.Study(
        "branin",
        {
            "x1": fedbo.Float(-5, 10),
            "x2": fedbo.Float(0, 15),
            "kind": ["a", "b", "c"],
            "n": fedbo.Int(1, 64, log=True),
        },
        direction="minimize",
        seed=7,
        **options,
    )
    in_python.optimize(scope["value"], 18)
    theirs = fedbo.Study.load(tmp_path / "theirs.db").trials
    assert len(theirs) == 18
    for ours in (from_file.trials, in_python.trials):
        assert [dict(t.params) for t in ours] == [dict(t.params) for t in theirs]
        assert [(t.value, t.state, t.source) for t in ours] == [(t.value, t.state, t.source) for t in theirs]


def test_the_program_is_part_of_the_package(program: Run) -> None:
    assert program("--version").stdout.split()[1] == fedbo.__version__
    assert "no-such-command" in program("no-such-command", status=2).stderr


def test_the_program_goes_on_with_a_study_of_python(tmp_path: Path, program: Run) -> None:
    study = fedbo.Study("shared", {"x": fedbo.Float(0, 1)}, direction="minimize", storage=tmp_path / "s.db")
    study.optimize(lambda params: float(params["x"]), 4)
    listed = json.loads(program("trials", "sqlite:s.db", "--json").stdout)
    assert json.dumps(listed).count('"complete"') == 4
    asked = program("ask", "sqlite:s.db").stdout
    assert asked.strip()
    assert study.trials[4].state == "running"


def test_ctrl_c_ends_the_program_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[study]\nname = "s"\ndirection = "minimize"\ntrials = 9\nstorage = "sqlite:s.db"\n[space.x]\ntype = "float"\nlow = 0.0\n'
        'high = 1.0\n[objective]\ncommand = ["sh", "-c", "touch begun; exec sleep 60"]\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "fedbo", "tune", "s.toml"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the parent may ignore the signal
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors, errors


KILLED = """
    import os, signal, sys
    import fedbo
    study = fedbo.Study("k", {"x": fedbo.Float(-2, 2)}, direction="minimize", storage="sqlite:k.db")
    def f(trial):
        if trial.number == 6:
            print("dying", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return trial["x"] ** 2
    study.optimize(f, 10)
"""


def test_kill_9_loses_no_trial(tmp_path: Path, start: Start) -> None:
    process = start(KILLED)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    study = fedbo.Study("k", {"x": fedbo.Float(-2, 2)}, direction="minimize", storage=tmp_path / "k.db")
    assert [trial.state for trial in study.trials] == ["complete"] * 6 + ["running"]
    study.optimize(lambda params: float(params["x"]) ** 2, 10)
    whole = fedbo.Study("k", {"x": fedbo.Float(-2, 2)}, direction="minimize")
    whole.optimize(lambda params: float(params["x"]) ** 2, 10)
    assert [t.params for t in study.trials] == [t.params for t in whole.trials]


INTERRUPTED = """
    import sys, time
    import fedbo
    study = fedbo.Study("c", {"x": fedbo.Float(0, 1)}, direction="minimize", storage="sqlite:c.db")
    def f(trial):
        if trial.number == 3:
            print("sleeping", flush=True)
            time.sleep(60)
        return trial["x"]
    try:
        study.optimize(f, 8)
    except KeyboardInterrupt:
        print([trial.state for trial in study.trials], flush=True)
        sys.exit(7)
"""


def test_ctrl_c_in_the_function_releases_its_trial(tmp_path: Path, start: Start) -> None:
    process = start(INTERRUPTED)
    wait_for_line(process, "sleeping")
    began = time.monotonic()
    interrupt(process, 0.2)
    said, errors = process.communicate(timeout=30)
    assert process.returncode == 7, errors
    assert time.monotonic() - began < 5
    assert said.strip() == str(["complete"] * 3 + ["waiting"])
    study = fedbo.Study.load(tmp_path / "c.db")
    assert study.optimize(lambda params: float(params["x"]), 8).told == 5


ASKING = """
    import sys
    import fedbo
    space = {f"x{i}": fedbo.Float(-2, 2) for i in range(12)}
    study = fedbo.Study("a", space, direction="minimize", storage="sqlite:a.db")
    print("asking", flush=True)
    try:
        study.optimize(lambda p: sum(v**2 for v in p.values()), 2000)
    except KeyboardInterrupt:
        states = {trial.state for trial in study.trials}
        print(states <= {"complete", "waiting"}, flush=True)
        sys.exit(7)
"""


def test_ctrl_c_while_the_study_computes(start: Start) -> None:
    process = start(ASKING)
    wait_for_line(process, "asking")
    began = time.monotonic()
    interrupt(process, 1.5)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 7, errors
    assert said.strip() == "True"
    assert time.monotonic() - began < 20


BETWEEN = """
    import sys, time
    import fedbo
    study = fedbo.Study("b", {"x": fedbo.Float(0, 1)}, direction="minimize", storage="sqlite:b.db")
    trial = study.ask()
    try:
        print("between", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        study.tell(trial, 0.5)
        print(study.trials[0].state, flush=True)
"""


def test_ctrl_c_between_ask_and_tell(start: Start) -> None:
    process = start(BETWEEN)
    wait_for_line(process, "between")
    interrupt(process, 0.2)
    said, errors = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (0, "complete"), errors


WAITING = """
    import sys, threading, time
    import fedbo
    study = fedbo.Study("t", {"x": fedbo.Float(0, 1)}, direction="minimize", storage="sqlite:t.db")
    def f(params):
        print("sleeping", flush=True)
        time.sleep(1.0)
        return params["x"]
    try:
        study.optimize(f, 50, n_jobs=3)
    except KeyboardInterrupt:
        print("ended", sorted({trial.state for trial in study.trials}), flush=True)
        sys.exit(7)
"""


def test_ctrl_c_with_threads_waits_for_them(start: Start) -> None:
    process = start(WAITING)
    wait_for_line(process, "sleeping")
    interrupt(process, 0.3)
    said, errors = process.communicate(timeout=30)
    assert process.returncode == 7, errors
    assert said.strip().splitlines()[-1] == "ended ['waiting']"


def test_a_fork_is_refused(tmp_path: Path) -> None:
    study = fedbo.Study("f", {"x": fedbo.Float(0, 1)}, direction="minimize", storage=tmp_path / "f.db")
    study.optimize(lambda params: float(params["x"]), 2)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            study.ask()
            said = "asked"
        except fedbo.Error as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        assert "fork" in pipe.read()
    assert study.ask().number == 2


def square(params: dict[str, fedbo.Value]) -> float:
    return float(params["x"]) ** 2


def reports(trial: fedbo.Trial) -> float:
    trial.report(1, 0.5)
    return 0.0


def dies(params: dict[str, fedbo.Value]) -> float:
    os._exit(1)


def test_a_process_pool_evaluates() -> None:
    import multiprocessing

    study = fedbo.Study("p", {"x": fedbo.Float(-2, 2)}, direction="minimize")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert study.optimize(square, 12, executor=pool).told == 12
        assert all(t.value == square(dict(t.params)) for t in study.trials)
        other = fedbo.Study("r", {"x": fedbo.Float(-2, 2)}, direction="minimize")
        with pytest.raises(fedbo.ObjectiveError) as caught:
            other.optimize(reports, 20, executor=pool)
        assert "another process" in str(caught.value.__cause__)
        unsent = fedbo.Study("u", {"x": fedbo.Float(-2, 2)}, direction="minimize")
        with pytest.raises((pickle.PicklingError, AttributeError), match="pickle|local object"):
            unsent.optimize(lambda params: params["x"], 20, executor=pool)
        assert {trial.state for trial in unsent.trials} == {"waiting"}
        third = fedbo.Study("d", {"x": fedbo.Float(-2, 2)}, direction="minimize")
        with pytest.raises(Exception, match="terminated abruptly"):
            third.optimize(dies, 20, executor=pool)
        assert {trial.state for trial in third.trials} == {"waiting"}


def test_anything_with_submit_evaluates() -> None:
    class Job:
        """Works like a job of submitit, which has no callbacks."""

        def __init__(self, value: float) -> None:
            self._value = value

        def result(self) -> float:
            return self._value

    class Cluster:
        def submit(self, function, /, *arguments):
            return Job(function(*arguments))

    study = fedbo.Study("s", {"x": fedbo.Float(-2, 2)}, direction="minimize")
    assert study.optimize(square, 6, executor=Cluster(), n_jobs=2).told == 6

    class Refuses(Executor):
        def submit(self, function, /, *arguments, **named) -> Future[float]:
            raise RuntimeError("cannot schedule new futures")

    with pytest.raises(RuntimeError, match="cannot schedule"):
        study.optimize(square, 9, executor=Refuses())
    assert study.optimize(square, 9).told == 3


TOGETHER = """
    import fedbo
    study = fedbo.Study("t", {"x": fedbo.Float(-2, 2), "y": fedbo.Float(-2, 2)}, direction="minimize", storage="sqlite:t.db")
    print("open", flush=True)
    print(study.optimize(lambda p: p["x"] ** 2 + p["y"] ** 2, 40).told)
"""


def test_processes_share_a_file(tmp_path: Path, start: Start) -> None:
    processes = [start(TOGETHER) for _ in range(3)]
    told = []
    for process in processes:
        said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        told.append(int(said.split()[1]))
    assert sum(told) == 40
    trials = fedbo.Study.load(tmp_path / "t.db").trials
    assert [trial.state for trial in trials] == ["complete"] * 40
    assert len({tuple(trial.params.values()) for trial in trials}) == 40


def test_postgresql_keeps_studies(postgresql: str) -> None:
    study = fedbo.Study("kept", {"x": fedbo.Float(-2, 2)}, direction="minimize", storage=postgresql)
    study.optimize(square, 8, n_jobs=2)
    assert len(fedbo.Study.load(postgresql, "kept").trials) == 8
