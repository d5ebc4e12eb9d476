"""A federation in Flower: a grid without a runtime, killed processes, and a SuperLink with SuperNodes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import fedbo
from conftest import Run, environment
from superlink import Deployment, fedbo_app, wait_for
from test_agent import CHARGED, OBJECTIVE, SIMULATED, objective, points, serve, together, toml

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedbo.flower import _coordinator, _exchange, _records, client_app, server_app

pytestmark = pytest.mark.flower


@pytest.fixture(autouse=True)
def identity() -> None:
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 0


def context(node_id: int, node_config: dict[str, Any], run_config: dict[str, Any] | None = None) -> Context:
    return Context(run_id=1, node_id=node_id, node_config=node_config, state=RecordDict(), run_config=run_config or {})


Node = Callable[[Message, Context], Message]


class Grid:
    """The part of Flower's grid that a ServerApp uses. ``node`` handles each message on a separate thread."""

    def __init__(self, configs: list[dict[str, Any]], node: Node = client_app.app) -> None:
        self.contexts = {index + 1: context(index + 1, config) for index, config in enumerate(configs)}
        self.sent: list[Message] = []
        self.replies: dict[str, Message] = {}
        self._node = node

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            name = f"message-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = name
            self.sent.append(message)
            names.append(name)
            threading.Thread(target=self._handle, args=(message, name), daemon=True).start()
        return names

    def _handle(self, message: Message, name: str) -> None:
        try:
            reply = self._node(message, self.contexts[message.metadata.dst_node_id])
        except Exception as error:
            reply = Message(Error(code=1, reason=str(error)), reply_to=message)
        self.replies[name] = reply

    def pull_messages(self, names: Iterable[str]) -> list[Message]:
        return [self.replies.pop(name) for name in names if name in self.replies]


def exchange(grid: Grid, service: _exchange.Service) -> _exchange.Exchange:
    return _exchange.Exchange(grid, service, pause_s=0.02, hold_s=2.0)  # type: ignore[arg-type]


class World:
    """A study on the ServerApp's machine, and the agents' files on the nodes' machines."""

    def __init__(self, folder: Path, program: Run, text: str, privacy: str = "", seed: int | None = 7) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "federation.toml").write_text(text)
        (folder / "problem.py").write_text(OBJECTIVE)
        self.data = folder / "coordinator"
        created = program("coordinator", "study", "create", str(folder / "federation.toml"), "--data", str(self.data), "--json")
        self.configs: list[dict[str, Any]] = []
        for lab, token in enumerate(json.loads(created.stdout)["tokens"]):
            (folder / f"token-{lab}").write_text(token["token"] + "\n")
            command = json.dumps([sys.executable, "problem.py", str(lab)])
            file = folder / f"agent-{lab}.toml"
            seeded = "" if seed is None else f"seed = {seed}\n"
            file.write_text(f'[agent]\nhome = "home-{lab}"\n{seeded}[objective]\ncommand = {command}\n{privacy}')
            self.configs.append({"fedbo-agent": str(file), "fedbo-token": str(folder / f"token-{lab}")})

    def agents(self) -> list[fedbo.Agent]:
        return [fedbo.Agent(self.folder / f"home-{lab}") for lab in range(len(self.configs))]

    def run(self, grid: Grid, is_over: Callable[[_exchange.States], bool] | None = None) -> dict[int, str]:
        """Run a ServerApp with shorter pauses. Return the states of the nodes."""
        coordinator = _coordinator.Coordinator(self.data)
        try:
            over = is_over or server_app._End(coordinator, str(coordinator.study(None)["study"]))
            return exchange(grid, coordinator).run(over).nodes
        finally:
            coordinator.close()


@pytest.mark.parametrize(("algorithm", "privacy", "round_s"), [("fts", "", 60.0), ("dp-fts-de", SIMULATED, 3.0)])
def test_agents_in_flower_equal_those_over_http_and_a_simulation(
    tmp_path: Path, program: Run, algorithm: str, privacy: str, round_s: float
) -> None:
    text = toml(3, algorithm, rounds=6, round_s=round_s, privacy=privacy)
    world = World(tmp_path / "flower", program, text)
    grid = Grid(world.configs)
    assert world.run(grid) == {1: "complete", 2: "complete", 3: "complete"}
    in_flower = [points(agent.trials) for agent in world.agents()]
    assert [len(each) for each in in_flower] == [8, 8, 8]
    with serve(tmp_path / "http", program, text) as http:
        agents = http.enrol_all()
        together(*(lambda lab=lab: agents[lab].run(objective(lab), seed=7) for lab in range(3)))
        assert [points(agent.trials) for agent in agents] == in_flower
    labs = fedbo.Federation.from_file(world.folder / "federation.toml")
    result = labs.simulate({name: objective(lab) for lab, name in enumerate(labs.agents)})
    for lab, name in enumerate(labs.agents):
        rows = [(t.params["x"], t.params["y"], t.value) for t in result.rows if t.agent == name]
        assert rows == in_flower[lab]
    # Two messages per round and agent, and a few for the enrolment and the start.
    assert len(grid.sent) <= 3 * (2 * 7 + 6), len(grid.sent)


IN_A_PROCESS = """
import pickle, sys
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity
TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 0
from fedbo.flower.client_app import app
content, state, config = pickle.load(sys.stdin.buffer)
context = Context(run_id=1, node_id=1, node_config=config, state=state, run_config={})
message = Message(content, 1, MessageType.QUERY)
message.metadata.__dict__["_message_id"] = "message"
reply = app(message, context)
pickle.dump((reply.content, context.state), sys.stdout.buffer)
"""

DIES = """
import os, pathlib, signal
evaluated = pathlib.Path("evaluated")

def value(p):
    n = int(evaluated.read_text()) if evaluated.exists() else 0
    evaluated.write_text(str(n + 1))
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return (p["x"] - 0.7) ** 2 + (p["y"] + 1.0) ** 2
"""


def in_a_process(folder: Path) -> Node:
    """Handle a message in a separate process, as Flower does. Only the node's disk outlives the process."""

    def node(message: Message, context: Context) -> Message:
        given = pickle.dumps((message.content, context.state, context.node_config))
        ended = subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS], input=given, cwd=folder, env=environment(folder), capture_output=True
        )
        if ended.returncode != 0:
            raise RuntimeError(f"the process ended with {ended.returncode}")
        content, context.state = pickle.loads(ended.stdout)
        return Message(content, reply_to=message)

    return node


def test_a_node_and_a_coordinator_that_are_killed_charge_nothing_twice(tmp_path: Path, program: Run) -> None:
    text = toml(3, "dp-fts-de", rounds=6, round_s=5.0, privacy=CHARGED + "[exploration]\nregions = 1\n")
    world = World(tmp_path / "world", program, text, "[privacy]\nepsilon_max = 6.0\n", seed=None)
    (world.folder / "dies.py").write_text(DIES)
    world.configs[2]["fedbo-objective"] = "dies:value"
    processes = in_a_process(world.folder)

    def node(message: Message, context: Context) -> Message:
        # One agent has a process per message, as all agents have in production.
        return (processes if context.node_id == 3 else client_app.app)(message, context)

    coordinator = _coordinator.Coordinator(world.data)
    charged = world.data / "labs.ledger.db"

    def crash(states: _exchange.States) -> bool:
        if coordinator.study("labs")["round"] >= 3:
            os.kill(coordinator._process.pid, signal.SIGKILL)
            coordinator._process.wait()
        return False

    # The first ServerApp loses its coordinator and all its state about the nodes.
    with contextlib.closing(coordinator), pytest.raises(fedbo.Error, match="has ended"):
        _exchange.Exchange(Grid(world.configs, node), coordinator, pause_s=0.05, hold_s=2.0).run(crash)  # type: ignore[arg-type]
    program("privacy", "verify", str(charged))
    grid = Grid(world.configs, node)
    assert world.run(grid) == {1: "complete", 2: "complete", 3: "complete"}
    # Only the trial of the killed process was evaluated twice. Rounds continue without an agent that is away.
    *_, killed = world.agents()
    assert int((world.folder / "evaluated").read_text()) == len(killed.trials) + 1
    heads = set()
    for agent in world.agents():
        status, privacy = agent.study_status(), agent.status().privacy
        assert status.finished and 5 <= status.trials <= 8 and {trial.state for trial in agent.trials} == {"complete"}
        assert privacy is not None and privacy.epsilon is not None and privacy.epsilon <= 6.0
        # At most one charge for each of the two rounds that collect.
        assert 1 <= privacy.releases <= 2 and status.uploads_acknowledged <= 2
        heads.add(status.ledger_head)
    (head,) = heads
    assert head is not None and head.startswith("2:")
    program("privacy", "verify", str(charged), "--head", head)


def test_nothing_leaves_a_node_when_a_trial_ends(tmp_path: Path, program: Run) -> None:
    """The upload of a trial that takes no time is sent at the scheduled time of the round, in the second half of the collection."""
    world = World(tmp_path / "world", program, toml(2, "dp-fts-de", rounds=3, round_s=4.0, privacy=SIMULATED))
    took: list[float] = []

    def node(message: Message, context: Context) -> Message:
        began = time.monotonic()
        reply = client_app.app(message, context)
        begins = any(answer.status == 200 and answer.body.startswith(b"FBHO") for answer in _records.answers(message.content))
        if begins and any(request.method == "PUT" for request in _records.requests(reply.content)):
            took.append(time.monotonic() - began)
        return reply

    assert world.run(Grid(world.configs, node)) == {1: "complete", 2: "complete"}
    assert len(took) >= 2 and min(took) > 1.0, took


def test_the_end_of_a_server_app_is_that_of_its_coordinator(tmp_path: Path, program: Run) -> None:
    world = World(tmp_path / "world", program, toml(2))
    script = f"""
    import pathlib, time
    from fedbo.flower._coordinator import Coordinator
    coordinator = Coordinator(pathlib.Path({os.fspath(world.data)!r}))
    print("serving", flush=True)
    time.sleep(60)
    """
    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdout is not None and server.stdout.readline() == b"serving\n"
    server.kill()
    server.wait()
    server.stdout.close()
    # The folder is unlocked now, or will be shortly.
    _coordinator.Coordinator(world.data).close()


def test_what_a_node_may_not_ask_is_not_passed_on(tmp_path: Path, program: Run) -> None:
    world = World(tmp_path / "world", program, toml(2))
    name, ours = bytes(32), [("fedbo-protocol", "3")]

    def request(method: str = "GET", target: str = "/v1/openapi.json", headers: Any = ours, body: bytes = b"") -> _records.Request:
        return _records.Request(name, method, target, headers, body)

    with contextlib.closing(_coordinator.Coordinator(world.data)) as coordinator:
        assert coordinator.answer(request()).status == 200
        for refused in [
            request(target="/metrics"),
            request(target="/v1/x HTTP/1.1\r\nhost: elsewhere\r\n\r\n"),
            request(target="http://127.0.0.1/v1/x"),
            request(target="/v1/../metrics"),
            request(target="/v1/studies/labs/.."),
            request(target="/v1/.%2E/metrics"),
            request(method="DELETE"),
            request(method="GET /metrics"),
            request(headers=[*ours, ("transfer-encoding", "chunked")]),
            request(headers=[("fedbo-protocol", "2\r\nx: y")]),
        ]:
            with pytest.raises(_coordinator.Refused):
                coordinator.answer(refused)
        # The name of a study may have dots.
        assert coordinator.answer(request(target="/v1/studies/la..bs")).status in (401, 404)
        # The requests are unsigned, or signed by a key that the coordinator does not know.
        assert coordinator.answer(request(target="/v1/studies/labs")).status == 401


def test_nothing_is_passed_on_to_what_took_the_port_of_a_coordinator_that_ended(tmp_path: Path, program: Run) -> None:
    """A request contains a raw vector, and the program of another user may listen on the port as soon as it is free."""
    world = World(tmp_path / "world", program, toml(2))
    with contextlib.closing(_coordinator.Coordinator(world.data)) as coordinator, socket.socket() as other:
        coordinator._process.kill()
        coordinator._process.wait()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((coordinator._host, coordinator._port))
        other.listen()
        other.settimeout(0.5)
        with pytest.raises(fedbo.Error, match="has ended"):
            coordinator.answer(_records.Request(bytes(32), "GET", "/v1/openapi.json", [("fedbo-protocol", "3")], b""))
        with pytest.raises(TimeoutError):
            other.accept()


class Knows:
    """A coordinator of three agents that checks a key instead of a signature."""

    def answer(self, request: _records.Request) -> _records.Answer:
        knows = request.target == "/v1/openapi.json" or dict(request.headers)["fedbo-key"] in ("a", "b", "c")
        return _records.Answer(request.id, 200 if knows else 401, [], b"")

    def check(self) -> None:
        pass

    def study(self, name: str) -> dict[str, Any]:
        return {"study": name, "agents": 3, "state": "running"}


def test_a_run_ends_with_its_agents_whatever_other_nodes_say() -> None:
    """One of three agents moves to another node. Nodes without an agent, or with another agent's key, report that they are complete."""
    service, gave_up, is_back = Knows(), threading.Event(), threading.Event()
    asked: dict[int, int] = {}

    def reply(node: int) -> tuple[str, str, str]:
        """Return the state of the reply, and the key and target of its request."""
        times = asked[node] = asked.get(node, 0) + 1
        match node:
            case 1:  # the first node of agent a
                return ("failed" if times > 1 else "asking"), "a", "/v1/studies/labs"
            case 2:  # agent b ends last
                is_over = is_back.is_set() and times > 10
                return ("complete" if is_over else "asking"), "b", "/v1/studies/labs"
            case 3:
                return ("complete" if times > 1 else "asking"), "c", "/v1/studies/labs"
            case 4:  # the second node of agent a
                gave_up.wait(10)
                return ("complete" if times > 3 else "asking"), "a", "/v1/studies/labs"
            case 5:  # a public request with another agent's key
                return ("complete" if times > 1 else "asking"), "b", "/v1/openapi.json"
            case 6:
                return ("complete" if times > 1 else "asking"), "unknown", "/v1/studies/labs"
            case 7:  # an agent of another study in the same folder
                return ("complete" if times > 1 else "asking"), "a", "/v1/studies/wine/handouts?wait=25"
            case _:
                return "complete", "", ""

    def node(message: Message, context: Context) -> Message:
        word, key, target = reply(context.node_id)
        parts = [_records.Request(bytes(32), "GET", target, [("fedbo-key", key)], b"")] if word == "asking" else []
        return Message(_records.write(word, parts), reply_to=message)

    over = server_app._End(service, "labs")  # type: ignore[arg-type]

    def is_over(states: _exchange.States) -> bool:
        if states.nodes[1] == "failed":
            gave_up.set()
        if states.nodes[4] == "complete":
            is_back.set()
        return over(states)

    states = exchange(Grid([{}] * 9, node), service).run(is_over)
    assert states.agents == {("labs", key): "complete" for key in "abc"} | {("wine", "a"): "complete"}
    assert [states.nodes[each] for each in (1, 2, 4)] == ["failed", "complete", "complete"]


def test_a_run_fails_if_an_agent_gave_up_and_not_if_another_node_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(fedbo.Error, match="gave up: 1;"):
        server_app._report(_exchange.States({1: "complete", 2: "failed"}, {("labs", "a"): "complete", ("labs", "b"): "failed"}), "labs")
    others = {("labs", "a"): "complete", ("wine", "a"): "failed"}
    server_app._report(_exchange.States({1: "complete", 2: "failed", 3: "failed"}, others), "labs")
    assert "another node: 2" in caplog.text


def test_a_node_cannot_write_into_the_log_of_a_server_app(caplog: pytest.LogCaptureFixture) -> None:
    def node(message: Message, context: Context) -> Message:
        if context.node_id == 1:
            raise RuntimeError("gone\nfedbo: forged" + "x" * 5000)
        return Message(_records.write("complete\nfedbo: forged"), reply_to=message)

    def is_over(states: _exchange.States) -> bool:
        return "no reply" in caplog.text and states.nodes[2] != "new"

    assert exchange(Grid([{}, {}], node), Knows()).run(is_over).nodes[2] == "failed"
    messages = [record.getMessage() for record in caplog.records]
    assert any("no reply: 'gone" in each for each in messages) and any("'state'" in each for each in messages)
    assert all("\n" not in each and len(each) < 300 for each in messages), messages


def test_records_that_are_none_of_ours_are_refused() -> None:
    request = _records.Request(bytes(32), "GET", "/v1/x", [("a", "b")], b"")
    answer = _records.Answer(bytes(32), 204, [("a", "b")], b"")
    assert _records.requests(_records.write("asking", [request])) == [request]
    assert _records.answers(_records.write("answers", [answer, answer])) == [answer, answer]
    with pytest.raises(_records.Malformed, match="another app"):
        _records.state(RecordDict())
    with pytest.raises(_records.Malformed, match="'state'"):
        _records.state(_records.write("finished"))
    with pytest.raises(_records.Malformed, match="9 requests"):
        _records.requests(_records.write("asking", [request] * 9))
    with pytest.raises(_records.Malformed, match="'method'"):
        _records.requests(_records.write("asking", [answer]))  # a response instead of a request
    with pytest.raises(_records.Malformed, match="'status'"):
        _records.answers(_records.write("answers", [_records.Answer(bytes(32), 7, [("a", "b")], b"")]))
    with pytest.raises(_records.Malformed, match="'id'"):
        _records.answers(_records.write("answers", [_records.Answer(b"short", 200, [("a", "b")], b"")]))


def test_a_node_that_gives_up_tells_nobody_why(tmp_path: Path, program: Run, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path / "world", program, toml(2))
    (world.folder / "token-0").write_text("fbt2_nonsense")
    world.configs[1] = {"fedbo-agent": str(world.folder / "nowhere.toml")}
    grid = Grid([*world.configs, {}])
    states = world.run(grid, lambda states: len(states.nodes) == 3 and all(state in _records.ENDED for state in states.nodes.values()))
    assert states == {1: "failed", 2: "failed", 3: "none"}
    assert "nowhere.toml" in caplog.text and "token" in caplog.text


PACE = "round_s = 42.0\ncollect_s = 40.0"
"""Rounds that give an upload the maximum of 10 s to arrive, and are not longer than this requires."""


def paced(*, privacy: str) -> str:
    return toml(3, "dp-fts-de", rounds=6, privacy=privacy).replace("round_s = 60.0", PACE)


def deployed(world: World) -> Deployment:
    return Deployment(world.folder, world.configs, environment(world.folder))


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run tests with a SuperLink one at a time, even with several test workers, because rounds leave processes little time to start."""
    if sys.platform != "linux":
        pytest.skip("the processes of a deployment are found in /proc")
    with (tmp_path_factory.getbasetemp().parent / "superlink.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.superlink
@pytest.mark.timeout(900, func_only=True)
@pytest.mark.usefixtures("alone")
def test_three_supernodes_equal_agents_over_http_and_a_simulation(tmp_path: Path, program: Run) -> None:
    """Six private rounds with a process per message take minutes, because an upload has to arrive within seconds of its scheduled time
    while processes start.
    """
    text = paced(privacy=SIMULATED + "releases = 6\n")
    world = World(tmp_path / "world", program, text)
    app = fedbo_app(world.folder / "app")
    with serve(tmp_path / "http", program, text) as http, deployed(world) as flower:
        agents = http.enrol_all()
        run = flower.stream(app, {"fedbo-data": str(world.data)})
        over_http = [lambda lab=lab: agents[lab].run(objective(lab), seed=7) for lab in range(3)]
        _, *reports = together(lambda: run.wait(600), *over_http, seconds=660)
        said = flower.log("run")
        assert run.returncode == 0 and "{'complete': 3}" in said, said
        assert [report.ended for report in reports] == ["complete"] * 3
    uploads = [agent.study_status().uploads_acknowledged for agent in world.agents()]
    if uploads != [6, 6, 6]:
        pytest.fail(f"stragglers, so there is nothing to compare: of 6 uploads each, {uploads} came in time; is this machine too busy?")
    in_flower = [points(agent.trials) for agent in world.agents()]
    assert [len(each) for each in in_flower] == [8, 8, 8]
    assert [points(agent.trials) for agent in agents] == in_flower
    labs = fedbo.Federation.from_file(world.folder / "federation.toml")
    result = labs.simulate({name: objective(lab) for lab, name in enumerate(labs.agents)})
    for lab, name in enumerate(labs.agents):
        rows = [(t.params["x"], t.params["y"], t.value) for t in result.rows if t.agent == name]
        assert rows == in_flower[lab], lab


STOPS = """
import json, os, sys, time
from pathlib import Path

lab = int(sys.argv[1])
evaluated = Path(f"evaluated-{lab}")
with evaluated.open("a") as file:
    file.write(os.environ["FEDBO_PARAMS"] + "\\n")
if lab == 2 and len(evaluated.read_text().splitlines()) == 4:
    time.sleep(600)
p = json.loads(os.environ["FEDBO_PARAMS"])
print(json.dumps((p["x"] - 0.1 * lab) ** 2 + (p["y"] + 1.0) ** 2))
"""


PENDING = "SELECT round FROM uploads WHERE state = 'pending' ORDER BY round"
MADE = "SELECT round FROM uploads WHERE state <> 'withheld' ORDER BY round"
CHARGES = "SELECT round FROM charges ORDER BY round"


def rounds_of(agent: fedbo.Agent, query: str) -> list[int]:
    """Read the rounds from an agent's log, even while the agent runs."""
    with contextlib.closing(sqlite3.connect(f"file:{agent.home}/agent.db?mode=ro", uri=True)) as log:
        return [int(row[0]) for row in log.execute(query)]


@pytest.mark.superlink
@pytest.mark.timeout(1200, func_only=True)
@pytest.mark.usefixtures("alone")
def test_supernodes_server_apps_and_superlinks_that_are_killed_charge_nothing_twice(tmp_path: Path, program: Run) -> None:
    privacy = "[privacy]\nepsilon = 6.0\nreleases = 6\n[exploration]\nregions = 1\n"
    world = World(tmp_path / "world", program, paced(privacy=privacy), "[privacy]\nepsilon_max = 6.0\n", seed=None)
    (world.folder / "problem.py").write_text(STOPS)
    app = fedbo_app(world.folder / "app")
    config = {"fedbo-data": str(world.data)}
    ledger = str(world.data / "labs.ledger.db")

    def evaluated(lab: int) -> int:
        file = world.folder / f"evaluated-{lab}"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def pending(after: int) -> int | None:
        """Return the latest round after this one, if labs 0 and 1 are charged for it and have no acknowledgements yet."""
        waiting = [rounds_of(fedbo.Agent(world.folder / f"home-{lab}"), PENDING) for lab in range(2)]
        both = waiting[0] == waiting[1] != [] and waiting[0][-1] > after
        return waiting[0][-1] if both else None

    with deployed(world) as flower:
        run = flower.stream(app, config)

        def runs() -> None:
            assert run.poll() is None, flower.log("run")

        # Kill a SuperNode in the middle of a trial.
        wait_for("lab 2 is in its trial of round 2", lambda: evaluated(2) == 4, 300, runs)
        flower.kill_node(2)
        flower.start_node(2)
        wait_for("lab 2 evaluates its trial once more", lambda: evaluated(2) == 5, 120, runs)
        # Kill a ServerApp while uploads are charged but not acknowledged. Another one starts before Flower notices.
        first = wait_for("uploads on their way", lambda: pending(2), 300, runs)
        flower.kill_server_app()
        program("privacy", "verify", ledger)
        lost, run = run, flower.stream(app, config)
        # Kill the SuperLink in a later round. Without a database it loses its runs and nodes, and SuperNodes end.
        wait_for("uploads on their way", lambda: pending(first), 300, runs)
        flower.kill_link()
        wait_for("both runs end", lambda: lost.poll() is not None and run.poll() is not None, 120)
        program("privacy", "verify", ledger)
        flower.start_link()
        wait_for("the SuperNodes end", lambda: flower.ended_nodes() == [0, 1, 2], 180)
        for node in range(3):
            flower.start_node(node)
        run = flower.stream(app, config)
        wait_for("the study ends", lambda: run.poll() is not None, 500)
        said = flower.log("run")
        assert run.returncode == 0 and "{'complete': 3}" in said, said
    heads = set()
    for lab, agent in enumerate(world.agents()):
        status, privacy_of = agent.study_status(), agent.status().privacy
        assert status.finished and {trial.state for trial in agent.trials} == {"complete"}
        # Only the trial of the killed SuperNode was evaluated twice.
        assert evaluated(lab) == status.trials + (lab == 2) and 5 <= status.trials <= 8
        # One charge for each round with an upload, and no other.
        charged = rounds_of(agent, CHARGES)
        assert charged == sorted(set(charged)) == rounds_of(agent, MADE)
        assert privacy_of is not None and privacy_of.releases == len(charged) and 3 <= len(charged) <= 6
        assert privacy_of.epsilon is not None and privacy_of.epsilon <= 6.0
        heads.add(status.ledger_head)
    (head,) = heads
    assert head is not None and head.startswith("6:")
    # There is one release per round, and each is an entry of the chain that the agents have verified.
    verified = json.loads(program("privacy", "verify", ledger, "--head", head, "--json").stdout)
    assert verified["is_sound"] and verified["entries"] == 6
