"""The ClientApp: runs an agent until it must wait for a response of its coordinator.

Keys of the node configuration:

``fedbo-agent``
    File of the agent, ``agent.toml``, with its folder, its budget, and its objective as a command.
``fedbo-objective``
    Python function to use instead of a command, as ``module:function``.
``fedbo-token``
    File with the enrolment token. Required until the agent is enrolled.

All data of the agent stays in its folder on the SuperNode's machine.
"""

from __future__ import annotations

import importlib
import logging
import time
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedbo import _fedbo, _space
from fedbo._errors import DefinitionError
from fedbo._event import WARNINGS, PartyEvent
from fedbo._objective import Evaluator, Objective
from fedbo.flower import _records
from fedbo.flower._log import show_log

logger = logging.getLogger("fedbo.flower")

_STATE = "fedbo"
"""Name of the record in a node's context that stores the pending challenge and the time of the last requests. All other state is in the
agent's folder."""

app = ClientApp()


@app.query()
def exchange(message: Message, context: Context) -> Message:
    """Continue the agent with the responses in a message. The reply has its next requests."""
    show_log()
    try:
        content = _go_on(message.content, context)
    except Exception:
        # The exception may reveal data of the node, so it is only logged here.
        logger.exception("the agent of this node gave up")
        content = _records.write("failed")
    return Message(content, reply_to=message)


def _go_on(content: RecordDict, context: Context) -> RecordDict:
    file = context.node_config.get("fedbo-agent")
    if file is None:
        return _records.write("none")
    path = Path(str(file)).absolute()
    asked = context.state.get(_STATE)
    asked = asked if isinstance(asked, ConfigRecord) else ConfigRecord()
    answers = [(answer.id, answer.status, answer.headers, answer.body) for answer in _records.answers(content)]
    challenge, asked_ms = asked.get("challenge"), asked.get("asked-ms")
    mail = _fedbo.Mail(
        answers, challenge if isinstance(challenge, bytes) else None, asked_ms if isinstance(asked_ms, int) else None
    )
    ended = _run(path, mail, context) if _joined(path, mail, context) else "interrupted"
    requests = [_records.Request(*request) for request in mail.outbox]
    if ended != "interrupted":
        return _records.write(ended)
    if not requests:
        return _records.write("busy")
    kept = ConfigRecord({"asked-ms": time.time_ns() // 1_000_000})
    if mail.challenge is not None:
        kept["challenge"] = mail.challenge
    context.state[_STATE] = kept
    return _records.write("asking", requests)


def _joined(path: Path, mail: _fedbo.Mail, context: Context) -> bool:
    """Continue the enrolment. Return True once the agent is enrolled."""
    token = context.node_config.get("fedbo-token")
    if token is None:
        return True

    def show(parameters: dict[str, Any]) -> None:
        for name, keys in parameters.items():
            logger.info("parameter %s: %r", name, _space.from_keys(keys))

    # A token is used only once, so its file may have been deleted after the enrolment.
    file = Path(str(token))
    return not file.exists() or _fedbo.enrol_by_mail(path, file.read_text(), mail, show)


def _run(path: Path, mail: _fedbo.Mail, context: Context) -> str:
    named = context.node_config.get("fedbo-objective")
    evaluate = None if named is None else Evaluator(_function(str(named)), None)

    def happened(fields: dict[str, Any]) -> bool:
        event = PartyEvent(**fields)
        logger.log(logging.WARNING if event.kind in WARNINGS else logging.INFO, "%s", event.message)
        return False

    return _fedbo.run_agent_by_mail(path, mail, _fedbo.Stop(), evaluate, happened, logger.warning)


def _function(named: str) -> Objective:
    module, _, name = named.partition(":")
    try:
        function: Objective = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise DefinitionError(f"fedbo-objective = {named!r}: expected module:function, of a module that can be imported: {error}") from error
    return function
