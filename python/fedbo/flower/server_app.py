"""The ServerApp: runs a coordinator, and forwards requests of its agents from Flower messages.

Keys of the run configuration: ``fedbo-data``, the coordinator's folder on the ServerApp's machine, and ``fedbo-study``, required if the
folder has several studies.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedbo._errors import DefinitionError, Error
from fedbo.flower._coordinator import Coordinator
from fedbo.flower._exchange import Exchange, States, counted
from fedbo.flower._log import show_log
from fedbo.flower._records import ENDED

logger = logging.getLogger("fedbo.flower")

_LOOK_S = 20.0
"""Interval in seconds between checks of the study's state."""
_LINGER_S = 120.0
"""Time in seconds in which nodes can fetch the last releases after the study has finished."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the study until it is finished and its agents have its releases."""
    show_log()
    configured = context.run_config
    data = configured.get("fedbo-data") or os.environ.get("FEDBO_COORDINATOR")
    if not isinstance(data, str):
        raise DefinitionError('name the coordinator\'s folder in the run\'s configuration, fedbo-data = "/var/lib/fedbo-coordinator"')
    named = configured.get("fedbo-study")
    coordinator = Coordinator(Path(data).absolute())
    try:
        study = coordinator.study(str(named) if named else None)
        logger.info("study %s with %d agents, %s", study["study"], study["agents"], study["state"])
        states = Exchange(grid, coordinator).run(_End(coordinator, str(study["study"])))
    finally:
        coordinator.close()
    _report(states, str(study["study"]))


def _report(states: States, study: str) -> None:
    """Log the final states of the nodes and the study's agents. Raise an error if agents gave up."""
    nodes = list(states.nodes.values())
    agents = [state for (of, _), state in states.agents.items() if of == study]
    logger.info("nodes: %s; agents: %s", counted(nodes), counted(agents))
    n_failed = agents.count("failed")
    if n_failed:
        raise Error(f"agents that gave up: {n_failed}; the logs of their SuperNodes have the reasons")
    if "failed" in nodes:
        logger.warning("nodes that gave up without a known agent, or with an agent now on another node: %d", nodes.count("failed"))


class _End:
    """Decides when a run is over: when all agents have ended, or a while after the study has finished.

    The states of nodes are ignored: a restarted site may have a new node, and a node may report any state.
    """

    def __init__(self, coordinator: Coordinator, study: str) -> None:
        self._coordinator = coordinator
        self._study = study
        self._looked_at = time.monotonic()
        self._finished_at: float | None = None
        self._n_agents = int(coordinator.study(study)["agents"])

    def __call__(self, states: States) -> bool:
        ended = [key for (study, key), state in states.agents.items() if study == self._study and state in ENDED]
        if len(ended) >= self._n_agents:
            return True
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            if self._finished_at is None and self._coordinator.study(self._study)["state"] == "finished":
                self._finished_at = now
        return self._finished_at is not None and now - self._finished_at > _LINGER_S
