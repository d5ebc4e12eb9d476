"""Peers of a federation of neighbours: functions instead of commands, with the same results as a simulation."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedbo

FEDERATION = """
[federation]
name = "neighbours"
direction = "minimize"
algorithm = "distributed-ts"
rounds = 4
initial = 2
seed = 7
[distributed-ts]
pace = "synchronous"
[topology]
graph = "complete"
[space.x]
type = "float"
low = -1.0
high = 1.0
"""

NAMES = ("north", "east")


def objective(best: float) -> Callable[[dict[str, Any]], float]:
    return lambda params: float((params["x"] - best) ** 2)


def peers(folder: Path) -> list[fedbo.Peer]:
    """Return the peers of a federation, on free ports."""
    (folder / "federation.toml").write_text(FEDERATION + "".join(f'[[agents]]\nname = "{name}"\n' for name in NAMES))
    sockets = [socket.socket() for _ in NAMES]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(NAMES, sockets, strict=True)}
    for each in sockets:
        each.close()
    for name in NAMES:
        other = next(each for each in NAMES if each != name)
        (folder / f"{name}.toml").write_text(
            f'[peer]\nname = "{name}"\nhome = "home-{name}"\nlisten = "127.0.0.1:{ports[name]}"\n'
            f'[[neighbours]]\nname = "{other}"\nurl = "http://127.0.0.1:{ports[other]}"\n'
        )
    return [fedbo.Peer(folder / f"{name}.toml") for name in NAMES]


def test_peers_with_functions_equal_a_simulation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    north, east = peers(tmp_path)
    with pytest.raises(fedbo.DefinitionError, match="no peer has started here"):
        north.status()
    calls = 0

    def interrupted(params: dict[str, Any]) -> float:
        nonlocal calls
        calls += 1
        if calls == 2:
            signal.raise_signal(signal.SIGINT)
        return objective(0.3)(params)

    with pytest.raises(KeyboardInterrupt):
        north.run(interrupted)
    assert "run it again to continue from there" in caplog.text
    assert north.status().trials == 1
    other: list[fedbo.PeerReport] = []
    thread = threading.Thread(target=lambda: other.append(east.run(objective(0.5))))
    thread.start()
    events: list[fedbo.PartyEvent] = []
    report = north.run(objective(0.3), on_event=events.append)
    thread.join(60)
    assert report == fedbo.PeerReport("complete", told=5, failed=0)
    assert other == [fedbo.PeerReport("complete", told=6, failed=0)]
    assert {"listening", "trial-started", "trial-ended"} <= {event.kind for event in events}
    status = north.status()
    assert (status.trials, status.reports, status.rounds, status.conflicts) == (6, 5, 4, 0)
    assert [(each.name, each.confirmed, each.received) for each in status.neighbours] == [("east", 5, 5)]
    labs = fedbo.Federation.from_file(tmp_path / "federation.toml")
    result = labs.simulate({"north": objective(0.3), "east": objective(0.5)})
    assert status.best == min(t.value for t in result.rows if t.agent == "north" and t.value is not None)
    values = [event.value for event in events if event.kind == "trial-ended"]
    assert values == [t.value for t in result.rows if t.agent == "north"][1:]


def test_what_is_no_peer_is_refused(tmp_path: Path) -> None:
    peers(tmp_path)
    with pytest.raises(fedbo.DefinitionError, match="'south'|\"south\""):
        fedbo.Peer(tmp_path / "north.toml", name="south").run(objective(0.3))
    with pytest.raises(fedbo.DefinitionError, match="listen = \"here\", expected an IP address and a port"):
        fedbo.Peer(tmp_path / "north.toml", listen="here").run(objective(0.3))
    with pytest.raises(fedbo.DefinitionError, match="nowhere.toml"):
        fedbo.Peer(tmp_path / "nowhere.toml").run(objective(0.3))
