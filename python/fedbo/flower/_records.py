"""Requests and answers of fedbo's protocol in the records of Flower's messages.

A message has the record ``fedbo`` with the word ``state``, and a record for each request or answer, whose body stands there byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

HEAD = "fedbo"
"""The name of the record that is in every message."""
ENDED = frozenset({"complete", "study-over", "failed", "none"})
"""Words of a node that asks nothing more in this run."""
_WORDS = ENDED | {"asking", "busy"}
REQUESTS_MAX = 8
"""Requests of one reply at most; an agent has three."""

Headers = list[tuple[str, str]]


class Malformed(ValueError):
    """Records that are none of these."""


@dataclass(frozen=True)
class Request:
    """A request of an agent, signed where the protocol asks for it."""

    id: bytes
    method: str
    target: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Answer:
    """A coordinator's answer to the request of this name."""

    id: bytes
    status: int
    headers: Headers
    body: bytes


def write(state: str, parts: Iterable[Request | Answer] = ()) -> RecordDict:
    """The content of a message."""
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
    """The word of a node's message, one of those that are known: others would stand in the receiver's log."""
    word = _text(_record(records, HEAD), "state")
    if word not in _WORDS:
        raise Malformed("'state' of a record is no word of this version of fedbo")
    return word


def requests(records: RecordDict) -> list[Request]:
    """The requests of a message."""
    return [
        Request(_bytes(part, "id"), _text(part, "method"), _text(part, "target"), _headers(part), _bytes(part, "body"))
        for part in _parts(records)
    ]


def answers(records: RecordDict) -> list[Answer]:
    """The answers of a message."""
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
        raise Malformed(f"{key!r} of a record is missing or not in its form")
    return value


def _text(record: ConfigRecord, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise Malformed(f"{key!r} of a record is missing or not a text")
    return value


def _status(record: ConfigRecord) -> int:
    value = record.get("status")
    if not isinstance(value, int) or not 100 <= value < 600:
        raise Malformed("'status' of a record is missing or no status of HTTP")
    return value


def _headers(record: ConfigRecord) -> Headers:
    names, values = record.get("names"), record.get("values")
    if not isinstance(names, list) or not isinstance(values, list) or len(names) != len(values):
        raise Malformed("headers of a record are missing or not in their form")
    headers = [(name, value) for name, value in zip(names, values, strict=True) if isinstance(name, str) and isinstance(value, str)]
    if len(headers) != len(names):
        raise Malformed("headers of a record are no texts")
    return headers
