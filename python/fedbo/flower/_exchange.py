"""The exchange between nodes and a coordinator: forwards requests to the coordinator, and responses to the nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedbo.flower import _records
from fedbo.flower._coordinator import Refused, Signer, Unavailable, signer
from fedbo.flower._records import ENDED, Answer, Malformed, Request

logger = logging.getLogger("fedbo.flower")

_TTL_S = 40 * 86400.0
"""Lifetime in seconds of a message and its reply, longer than any round."""
_HOLD_S = 200.0
"""Time in seconds for which a signed poll is repeated. It must be below 300 s, because older signatures are rejected."""
_HELD_S = 20.0
"""Minimum duration in seconds of an empty poll that is repeated: the coordinator waited for news, and there was none."""
_PROBE_S = 600.0
"""Time in seconds without a reply after which a node gets another message, because its process may have died without an error."""
_RETRY_S = (2.0, 60.0)
"""Minimum and maximum delay in seconds after a failed message."""
_NODES_S = 3.0
"""Interval in seconds between searches of the grid for new nodes."""


@dataclass(frozen=True)
class States:
    """Latest reported states. A node may report any state, but an agent is identified by its signature."""

    nodes: dict[int, str]
    """State by the grid's node identifier."""
    agents: dict[Signer, str]
    """State by agent: the state of the node that reported most recently, among the nodes that have sent requests of the agent."""


class Service(Protocol):
    """An object that responds to requests."""

    def answer(self, request: Request) -> Answer:
        """Return the response to an agent's request."""
        ...

    def check(self) -> None:
        """Raise an error if the service can no longer respond."""
        ...


@dataclass
class _Node:
    """A node of the grid. Flower identifies the node; the coordinator identifies the agent on it only by signatures."""

    id: int
    state: str = "new"
    heard_at: float = 0.0
    agent: Signer | None = None
    """The agent of the node, once the coordinator has accepted a request signed by it."""
    sent: set[str] = field(default_factory=set)
    """Ids of the messages without a reply."""
    sent_at: float = 0.0
    answering: Future[tuple[list[Answer], Signer | None]] | None = None
    answers: list[Answer] = field(default_factory=list)
    next_at: float | None = 0.0
    """Time of the next message; None while a reply or responses are pending."""
    n_failed: int = 0


class Exchange:
    """Forwards requests and responses between the nodes of a grid and a coordinator."""

    def __init__(self, grid: Grid, service: Service, *, pause_s: float = 1.0, hold_s: float = _HOLD_S) -> None:
        self._grid = grid
        self._service = service
        self._pause_s = pause_s
        self._hold_s = hold_s
        self._nodes: dict[int, _Node] = {}
        self._ending = False

    def run(self, is_over: Callable[[States], bool]) -> States:
        """Run until ``is_over`` returns True. It is called with all states in each iteration. Return the states at that time."""
        looked_at = float("-inf")
        with ThreadPoolExecutor(max_workers=1024, thread_name_prefix="fedbo-answers") as pool:
            try:
                while True:
                    self._service.check()
                    if time.monotonic() - looked_at >= _NODES_S:
                        looked_at = time.monotonic()
                        self._look_for_nodes()
                    self._pull(pool)
                    for node in self._nodes.values():
                        self._advance(node)
                    states = self._states()
                    if is_over(states):
                        return states
                    time.sleep(self._pause_s)
            finally:
                self._ending = True

    def _states(self) -> States:
        nodes = self._nodes.values()
        # A restarted site may have a new node, so use the latest node of an agent.
        in_order = sorted(nodes, key=lambda node: node.heard_at)
        return States({node.id: node.state for node in nodes}, {node.agent: node.state for node in in_order if node.agent})

    def _look_for_nodes(self) -> None:
        for node_id in self._grid.get_node_ids():
            if node_id not in self._nodes:
                logger.info("found node %d", node_id)
                self._nodes[node_id] = _Node(node_id)

    def _advance(self, node: _Node) -> None:
        now = time.monotonic()
        if node.answering is not None and node.answering.done():
            node.answers, agent = node.answering.result()
            node.agent = agent or node.agent
            node.answering, node.next_at = None, now
        if node.next_at is not None and node.next_at <= now:
            self._push(node)
        elif node.sent and now - node.sent_at > _PROBE_S:
            self._push(node)

    def _push(self, node: _Node) -> None:
        content = _records.write("answers", node.answers)
        message = Message(content, node.id, MessageType.QUERY, ttl=_TTL_S)
        pushed = [message_id for message_id in self._grid.push_messages([message]) if message_id]
        node.sent.update(pushed)
        node.sent_at = time.monotonic()
        node.next_at = None if pushed else self._later(node)

    def _pull(self, pool: ThreadPoolExecutor) -> None:
        waiting = {message_id: node for node in self._nodes.values() for message_id in node.sent}
        if not waiting:
            return
        for reply in self._grid.pull_messages(list(waiting)):
            node = waiting.get(reply.metadata.reply_to_message_id)
            # Another reply of the same node may just have been processed, which clears `sent`.
            if node is not None and reply.metadata.reply_to_message_id in node.sent:
                self._take(node, reply, pool)

    def _take(self, node: _Node, reply: Message, pool: ThreadPoolExecutor) -> None:
        node.sent.discard(reply.metadata.reply_to_message_id)
        if reply.has_error():
            logger.warning("node %d: no reply: %.200r", node.id, reply.error.reason)
            node.next_at = None if node.sent else self._later(node)
            return
        try:
            state, requests = _records.state(reply.content), _records.requests(reply.content)
        except Malformed as error:
            logger.warning("node %d: %s", node.id, error)
            state, requests = "failed", []
        if state == "busy":
            # The agent is still processing an earlier message, possibly one of an earlier run.
            node.next_at = None if node.sent else self._later(node)
            return
        if state != node.state:
            logger.info("node %d: %s", node.id, state)
        node.state, node.heard_at, node.n_failed = state, time.monotonic(), 0
        node.sent.clear()
        node.answers = []
        if state not in ENDED:
            node.answering = pool.submit(self._answer, node.id, requests)

    def _later(self, node: _Node) -> float:
        pause = min(_RETRY_S[0] * 2.0 ** min(node.n_failed, 10), _RETRY_S[1])
        node.n_failed += 1
        return time.monotonic() + pause

    def _answer(self, node_id: int, requests: list[Request]) -> tuple[list[Answer], Signer | None]:
        """Return the responses to a node's requests. Also return the agent that made them, if the coordinator has authenticated it."""
        answers: list[Answer] = []
        agent = None
        for request in requests:
            try:
                answer = self._held(request)
                answers.append(answer)
                if answer.status < 400:
                    agent = signer(request) or agent
            except Refused as error:
                logger.warning("node %d: %s", node_id, error)
            except Unavailable as error:
                # The node repeats requests that have no response.
                logger.warning("node %d: %s", node_id, error)
                time.sleep(_RETRY_S[0])
        return answers, agent

    def _held(self, request: Request) -> Answer:
        """Return the response to a request. A signed poll without news is repeated here, so that the node does not start a process for an
        empty response."""
        until = time.monotonic() + self._hold_s
        answer: Answer | None = None
        while True:
            began = time.monotonic()
            newer = self._service.answer(request)
            # An error because the signature has meanwhile expired does not replace the previous response.
            if answer is None or newer.status < 400:
                answer = newer
            has_no_news = newer.status == 204 and "fedbo-resend" not in dict(newer.headers)
            now = time.monotonic()
            if not has_no_news or now - began < _HELD_S or now > until or self._ending:
                return answer


def counted(states: list[str]) -> dict[str, int]:
    """Return the number of occurrences of each state."""
    return {state: states.count(state) for state in sorted(set(states))}
