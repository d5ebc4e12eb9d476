"""Agents over a network against the program's coordinator: functions, ask and tell, kill -9, budgets, refusals."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fedbo
from conftest import Run, Start, wait_for_line

Params = dict[str, Any]


def toml(n_agents: int, algorithm: str = "fts", rounds: int = 4, round_s: float = 60.0, privacy: str = "") -> str:
    """Return the file of a federation. Rounds without releases end as soon as all agents have uploaded."""
    agents = "".join(f'[[agents]]\nname = "lab-{n}"\n' for n in range(n_agents))
    return (
        f'[federation]\nname = "labs"\ndirection = "minimize"\nalgorithm = "{algorithm}"\nrounds = {rounds}\ninitial = 2\nseed = 7\n'
        f"[features]\ncount = 30\nlengthscale = 0.3\n[network]\nround_s = {round_s}\n{privacy}"
        '[space.x]\ntype = "float"\nlow = -5.0\nhigh = 5.0\n[space.y]\ntype = "float"\nlow = -5.0\nhigh = 5.0\n'
        + agents
    )


CHARGED = "[privacy]\nepsilon = 6.0\nreleases = 2\n"
SIMULATED = "[privacy]\nepsilon = 6.0\nsimulate = true\n"

OBJECTIVE = """
import json, os, sys

def value(p, lab):
    return (p["x"] - 0.1 * lab) ** 2 + (p["y"] + 1.0) ** 2

if __name__ == "__main__":
    print(json.dumps(value(json.loads(os.environ["FEDBO_PARAMS"]), int(sys.argv[1]))))
"""


def objective(lab: int) -> Callable[[Params], float]:
    def value(p: Params) -> float:
        return float((p["x"] - 0.1 * lab) ** 2 + (p["y"] + 1.0) ** 2)

    return value


@dataclass
class World:
    """A coordinator that serves a study, and the data that its agents need."""

    folder: Path
    url: str
    tokens: list[str]
    ca: Path | None

    def enrol(self, lab: int) -> fedbo.Agent:
        return fedbo.Agent.enrol(self.folder / f"home-{lab}", coordinator=self.url, token=self.tokens[lab], ca=self.ca)

    def enrol_all(self) -> list[fedbo.Agent]:
        return [self.enrol(lab) for lab in range(len(self.tokens))]


@contextmanager
def serve(folder: Path, program: Run, text: str, tls: bool = False) -> Iterator[World]:
    """Create a study from a text in the test's folder and serve it."""
    folder.mkdir()
    (folder / "federation.toml").write_text(text)
    data = ["--data", str(folder / "coordinator")]
    created = program("coordinator", "study", "create", str(folder / "federation.toml"), *data, "--json")
    command = ["coordinator", "run", *data, "--listen", "127.0.0.1:0"]
    if tls:
        program("dev", "certs", "--out", str(folder / "certs"))
        command += ["--tls-cert", str(folder / "certs/cert.pem"), "--tls-key", str(folder / "certs/key.pem")]
    package = str(Path(fedbo.__file__).resolve().parents[1])
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "fedbo", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "://" in line)
            tokens = [token["token"] for token in json.loads(created.stdout)["tokens"]]
            log = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
            log.start()
            yield World(folder, line.split()[-1].strip(), tokens, folder / "certs/ca.pem" if tls else None)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
            log.join()
    assert process.returncode == 0 and not any("Traceback" in line for line in lines), lines


def together(*work: Callable[[], object], seconds: float = 120.0) -> list[Any]:
    """Run functions concurrently. Return their results or exceptions. A failed assertion is raised at once, because other functions may
    wait for its function."""
    results: list[Any] = [None] * len(work)

    def do(index: int) -> None:
        try:
            results[index] = work[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=do, args=(index,), daemon=True) for index in range(len(work))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    while any(thread.is_alive() for thread in threads):
        assert time.monotonic() < until, results
        for result in results:
            if isinstance(result, AssertionError):
                raise result
        time.sleep(0.01)
    return results


def points(trials: list[fedbo.Trial]) -> list[tuple[object, ...]]:
    return [(trial.params["x"], trial.params["y"], trial.value) for trial in trials]


def test_eight_functions_over_tls_with_budgets_and_one_of_them_killed(tmp_path: Path, program: Run, start: Start) -> None:
    text = toml(8, "dp-fts-de", rounds=6, round_s=1.5, privacy=CHARGED + "[exploration]\nregions = 1\n")
    with serve(tmp_path / "world", program, text, tls=True) as world:
        assert world.url.startswith("https://")
        agents = world.enrol_all()
        script = f"""
        import fedbo, pathlib, time
        evaluated = pathlib.Path("evaluated")
        def value(p):
            n = int(evaluated.read_text()) if evaluated.exists() else 0
            evaluated.write_text(str(n + 1))
            if n == 3:
                print("in a trial", flush=True)
                time.sleep(60)
            return (p["x"] - 0.7) ** 2 + (p["y"] + 1.0) ** 2
        report = fedbo.Agent({str(world.folder / "home-7")!r}).run(value, epsilon_max=6.0)
        print(report.ended, flush=True)
        """
        last: list[str] = []

        def killed() -> None:
            first = start(script)
            wait_for_line(first, "in a trial")
            os.kill(first.pid, signal.SIGKILL)
            first.communicate(timeout=10)
            second = start(script)
            said, errors = second.communicate(timeout=100)
            last.extend([said.strip(), errors])

        def run(lab: int) -> Callable[[], object]:
            return lambda: agents[lab].run(objective(lab), epsilon_max=6.0)

        results = together(*(run(lab) for lab in range(7)), killed)
        assert all(isinstance(each, fedbo.AgentReport) and each.ended == "complete" for each in results[:7]), results
        assert last[0] == "complete", last
        # Only the trial that was running at the kill was evaluated twice.
        assert (tmp_path / "evaluated").read_text() == "9"
        for agent in agents:
            status = agent.status()
            study = agent.study_status()
            assert study.finished and study.trials == 8 and study.uploads_acknowledged + study.uploads_missed == 2
            assert status.privacy is not None and status.privacy.epsilon is not None
            assert 0.0 < status.privacy.epsilon <= 6.0 == status.privacy.epsilon_max
            assert [trial.state for trial in agent.trials] == ["complete"] * 8
        assert len({agent.study_status().ledger_head for agent in agents}) == 1
        best = json.loads(program("best", f"sqlite:{agents[2].home}/trials.db", "--json").stdout)
        assert best["best"]["value"] == agents[2].study_status().best == min(trial.value or 0.0 for trial in agents[2].trials)
        assert "lab-2" in repr(agents[2]) and "epsilon spent" in agents[2]._repr_html_()


@pytest.mark.parametrize(("algorithm", "privacy", "round_s"), [("fts", "", 60.0), ("dp-fts-de", SIMULATED, 2.0)])
def test_an_agent_equals_the_programs_and_a_simulation(
    tmp_path: Path, program: Run, algorithm: str, privacy: str, round_s: float
) -> None:
    text = toml(2, algorithm, round_s=round_s, privacy=privacy)
    (tmp_path / "problem.py").write_text(OBJECTIVE)
    with serve(tmp_path / "functions", program, text) as world:
        agents = world.enrol_all()
        together(*(lambda lab=lab: agents[lab].run(objective(lab), seed=7) for lab in range(2)))
        of_functions = [points(agent.trials) for agent in agents]
    with serve(tmp_path / "commands", program, text) as world:
        agents = world.enrol_all()

        def run(lab: int) -> Callable[[], object]:
            file = f"agent-{lab}.toml"
            command = json.dumps([sys.executable, "problem.py", str(lab)])
            (tmp_path / file).write_text(
                f'[agent]\nhome = "{agents[lab].home}"\nseed = 7\n[objective]\ncommand = {command}\n'
            )
            return lambda: program("agent", "run", file)

        together(run(0), run(1))
        of_commands = [points(agent.trials) for agent in agents]
    assert [len(each) for each in of_functions] == [6, 6]
    assert of_functions == of_commands
    (tmp_path / "federation.toml").write_text(text)
    labs = fedbo.Federation.from_file(tmp_path / "federation.toml")
    result = labs.simulate({name: objective(lab) for lab, name in enumerate(labs.agents)})
    for lab, name in enumerate(labs.agents):
        rows = [(t.params["x"], t.params["y"], t.value) for t in result.rows if t.agent == name]
        assert rows == of_functions[lab]


def test_ask_and_tell(tmp_path: Path, program: Run) -> None:
    with serve(tmp_path / "world", program, toml(2)) as world:
        asking, running = world.enrol_all()
        events: list[fedbo.PartyEvent] = []
        asked: list[fedbo.Trial] = []

        def ask() -> None:
            with asking.open(on_event=events.append) as agent:
                first = agent.ask(timeout=30)
                assert agent.ask().number == first.number  # until it is told
                with pytest.raises(fedbo.DefinitionError, match="trial 5 is not the current one: trial 0 is"):
                    agent.tell(5, 1.0)
                with pytest.raises(fedbo.Error, match="open already"):
                    agent.open()
            # The agent was closed without a value, so the trial is returned again.
            with asking.open(on_event=events.append) as agent:
                again = agent.ask()
                assert (again.number, again.params) == (first.number, first.params)
                agent.tell(again, objective(0)(dict(again.params)))
                assert agent.trials[0].state == "complete"  # durable when tell() returns; the next trial may be running
                for trial in agent:
                    asked.append(trial)
                    if len(asked) == 1:
                        agent.tell(trial, failed="spilled")
                    elif len(asked) == 2:
                        agent.tell(trial, math.nan)
                    else:
                        agent.tell(trial, objective(0)(dict(trial.params)))
                with pytest.raises(fedbo.SessionEnded, match="its plan is done"):
                    agent.ask()

        results = together(ask, lambda: running.run(objective(1)))
        assert results[0] is None, results
        assert results[1] == fedbo.AgentReport("complete", told=6, failed=0, budget_spent=False)
        assert [trial.number for trial in asked] == [1, 2, 3, 4, 5]
        trials = asking.trials
        assert [trial.state for trial in trials] == ["complete", "failed", "failed", *["complete"] * 3]
        assert trials[1].message is not None and "spilled" in trials[1].message
        kinds = [event.kind for event in events]
        assert kinds[0] == "opened" and kinds.count("trial-ended") == 6 and "round" in kinds and "upload-sent" in kinds
        with pytest.raises(fedbo.Error, match="not open"):
            asking.tell(0, 1.0)


def test_a_study_of_optuna_takes_its_points_from_an_agent(tmp_path: Path, program: Run) -> None:
    optuna = pytest.importorskip("optuna")
    from fedbo.integrations.optuna import FederatedSampler

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {"x": fedbo.Float(-5, 5), "y": fedbo.Float(-5, 5)}

    def tune(agent: fedbo.Agent) -> Any:
        with agent.open(seed=11) as opened:
            study = optuna.create_study(sampler=FederatedSampler(space, opened))
            study.optimize(lambda trial: objective(0)({name: trial.suggest_float(name, -5, 5) for name in space}), n_trials=6)
            with pytest.raises(fedbo.SessionEnded, match="its plan is done"):
                study.optimize(lambda trial: trial.suggest_float("x", -5, 5), n_trials=1)
            return study

    with serve(tmp_path / "world", program, toml(2)) as world:
        agents = world.enrol_all()
        study, _ = together(lambda: tune(agents[0]), lambda: agents[1].run(objective(1), seed=12))
        told = [(trial.params["x"], trial.params["y"], trial.value) for trial in study.trials if trial.value is not None]
        sources = [trial.user_attrs["fedbo:source"] for trial in study.trials if trial.value is not None]
        assert told == points(agents[0].trials) and len(told) == 6
        assert sources == [trial.source for trial in agents[0].trials] and "initial" in sources
    with serve(tmp_path / "again", program, toml(2)) as world:
        functions = world.enrol_all()
        together(
            lambda: functions[0].run(objective(0), seed=11),
            lambda: functions[1].run(objective(1), seed=12),
        )
        assert points(functions[0].trials) == told


def test_ctrl_c_ends_an_agent_that_waits_for_others_and_so_does_the_end_of_its_process(
    tmp_path: Path, program: Run, start: Start
) -> None:
    with serve(tmp_path / "world", program, toml(2)) as world:
        agents = world.enrol_all()
        began = time.monotonic()
        timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            agents[0].run(objective(0))  # round 1 begins only after the other agent has evaluated its initial points
        assert 1.0 < time.monotonic() - began < 15.0 and len(agents[0].trials) == 2
        process = start(
            f"""
            import fedbo
            agent = fedbo.Agent({os.fspath(agents[1].home)!r}).open()
            print(agent.ask().number)
            """
        )
        said, errors = process.communicate(timeout=60)
        assert (process.returncode, said, errors) == (0, "0\n", "")


def test_exceptions_and_ctrl_c(tmp_path: Path, program: Run, caplog: pytest.LogCaptureFixture) -> None:
    with serve(tmp_path / "world", program, toml(2)) as world:
        agents = world.enrol_all()
        calls = 0

        def interrupted(params: Params) -> float:
            nonlocal calls
            calls += 1
            if calls == 2:
                signal.raise_signal(signal.SIGINT)
            return objective(0)(params)

        with pytest.raises(KeyboardInterrupt):
            agents[0].run(interrupted)
        assert f"the trials of agent {agents[0].home} are kept; run it again" in caplog.text
        assert [trial.state for trial in agents[0].trials][0] == "complete" and calls == 2

        def broken(params: Params) -> float:
            raise RuntimeError("out of reagents")

        with pytest.raises(fedbo.ObjectiveError, match="out of reagents.*failures_max=0") as raised:
            agents[1].run(broken, failures_max=2)
        assert isinstance(raised.value.__cause__, RuntimeError)
        results = together(lambda: agents[0].run(interrupted), lambda: agents[1].run(objective(1)))
        assert [each.ended for each in results] == ["complete", "complete"]
        assert results[0].told == 5 and [trial.state for trial in agents[1].trials][:3] == ["failed", "failed", "complete"]


def test_a_budget_that_is_spent_and_studies_that_are_refused(tmp_path: Path, program: Run) -> None:
    text = toml(2, "dp-fts-de", rounds=4, round_s=2.0, privacy=CHARGED + "[exploration]\nregions = 1\n")
    with serve(tmp_path / "charged", program, text) as world:
        agents = world.enrol_all()
        with pytest.raises(fedbo.Refused, match="charges privacy"):
            agents[0].run(objective(0))

        def spend() -> fedbo.AgentReport:
            with pytest.raises(fedbo.BudgetSpent, match=r"is 0.5 at delta 1e-5.*go_on_without_budget=True") as raised:
                agents[0].run(objective(0), epsilon_max=0.5)
            assert isinstance(raised.value, fedbo.Refused)
            return agents[0].run(objective(0), epsilon_max=0.5, go_on_without_budget=True)

        results = together(spend, lambda: agents[1].run(objective(1), epsilon_max=0.5, go_on_without_budget=True))
        assert results[1] == fedbo.AgentReport("complete", told=6, failed=0, budget_spent=True)
        assert results[0].ended == "complete" and results[0].budget_spent
        for agent in agents:
            privacy = agent.status().privacy
            assert privacy is not None and privacy.releases == 0 and agent.study_status().uploads_acknowledged == 0
            assert agent.study_status().trials == 6
    with serve(tmp_path / "plain", program, toml(2)) as world:
        agent = world.enrol(0)
        with pytest.raises(fedbo.Refused, match="allow_unprotected"):
            agent.run(objective(0), epsilon_max=0.5)
        with pytest.raises(fedbo.DefinitionError, match="epsilon_max"):
            agent.run(objective(0), delta=1e-5)


def test_who_may_not_join_is_refused(tmp_path: Path, program: Run) -> None:
    with serve(tmp_path / "world", program, toml(2)) as world:
        home = tmp_path / "home"
        with pytest.raises(fedbo.DefinitionError, match="token"):
            fedbo.Agent.enrol(home, coordinator=world.url, token="fbt2_nonsense")
        with pytest.raises(fedbo.DefinitionError, match="coordinator URL"):
            fedbo.Agent.enrol(home, coordinator="ftp://127.0.0.1", token=world.tokens[0])
        with serve(tmp_path / "other", program, toml(2)) as other, pytest.raises(fedbo.Refused, match="the token names"):
            fedbo.Agent.enrol(home, coordinator=other.url, token=world.tokens[0])
        world.enrol(0)
        with pytest.raises(fedbo.Refused, match="refused"):
            fedbo.Agent.enrol(home, coordinator=world.url, token=world.tokens[0])
        with pytest.raises(fedbo.DefinitionError, match="study='beer' is not one of them; there are 'labs'"):
            fedbo.Agent(tmp_path / "world" / "home-0", study="beer")
        with pytest.raises(fedbo.Error, match="nowhere"):
            fedbo.Agent(tmp_path / "nowhere")
