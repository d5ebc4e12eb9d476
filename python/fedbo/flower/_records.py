"""Requests and responses of fedbo's protocol in the records of Flower messages.

A message has the record ``fedbo`` with the string ``state``, and for each request or response a record with its exact body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

HEAD = "fedbo"
"""Name of the record in every message."""
ENDED = frozenset({"complete", "study-over", "failed", "none"})
"""States of nodes that make no further requests in this run."""
_WORDS = ENDED | {"asking", "busy"}
REQUESTS_MAX = 8
"""Maximum number of requests per reply. An agent makes at most three."""

Headers = list[tuple[str, str]]


class Malformed(ValueError):
    """The records do not have this format."""


@dataclass(frozen=True)
class Request:
    """A request of an agent, signed if the protocol requires it."""

    id: bytes
    method: str
    target: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Answer:
    """A coordinator's response to the request with this id."""

    id: bytes
    status: int
    headers: Headers
    body: bytes


def write(state: str, parts: Iterable[Request | Answer] = ()) -> RecordDict:
    """Create the content of a message."""
    records = RecordDict({HEAD: ConfigRecord({"state": state})})
    for index, part in enumerate(parts):
        names, values = [name for name, _ in part.headers], [value for _, value in part.headers]
        record = ConfigRecord({"id": part.id, "names": names, "values": values, "body": part.body})
        if isinstance(part, Request):
            record["method"], record["target"] = part.method, part.target
        else:
            record["status"] = part.status
        records[f"{HEAD}.{index}"] = record
    return records


def state(records: RecordDict) -> str:
    """Read the state from a node's message. Unknown states are rejected, because the receiver logs the state."""
    word = _text(_record(records, HEAD), "state")
    if word not in _WORDS:
        raise Malformed("'state' of a record is unknown to this version of fedbo")
    return word


def requests(records: RecordDict) -> list[Request]:
    """Read the requests of a message."""
    return [
        Request(_bytes(part, "id"), _text(part, "method"), _text(part, "target"), _headers(part), _bytes(part, "body"))
        for part in _parts(records)
    ]


def answers(records: RecordDict) -> list[Answer]:
    """Read the responses of a message."""
    return [Answer(_bytes(part, "id"), _status(part), _headers(part), _bytes(part, "body")) for part in _parts(records)]


def _parts(records: RecordDict) -> list[ConfigRecord]:
    count = sum(name.startswith(f"{HEAD}.") for name in records)
    if count > REQUESTS_MAX:
        raise Malformed(f"{count} requests at once; at most {REQUESTS_MAX}")
    return [_record(records, f"{HEAD}.{index}") for index in range(count)]


def _record(records: RecordDict, name: str) -> ConfigRecord:
    record = records.get(name)
    if not isinstance(record, ConfigRecord):
        raise Malformed(f"the message has no record {name!r}: the other side runs another app, or another version of fedbo")
    return record


def _bytes(record: ConfigRecord, key: str) -> bytes:
    value = record.get(key)
    if not isinstance(value, bytes) or key == "id" and len(value) != 32:
        raise Malformed(f"{key!r} of a record is missing or malformed")
    return value


def _text(record: ConfigRecord, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise Malformed(f"{key!r} of a record is missing or not a string")
    return value


def _status(record: ConfigRecord) -> int:
    value = record.get("status")
    if not isinstance(value, int) or not 100 <= value < 600:
        raise Malformed("'status' of a record is missing or not an HTTP status")
    return value


def _headers(record: ConfigRecord) -> Headers:
    names, values = record.get("names"), record.get("values")
    if not isinstance(names, list) or not isinstance(values, list) or len(names) != len(values):
        raise Malformed("headers of a record are missing or malformed")
    headers = [(name, value) for name, value in zip(names, values, strict=True) if isinstance(name, str) and isinstance(value, str)]
    if len(headers) != len(names):
        raise Malformed("headers of a record are not strings")
    return headers
