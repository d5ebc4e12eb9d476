"""Peers: one party of a federation of neighbours, without a coordinator, whose objective is a Python function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedbo import _fedbo
from fedbo._answer import answer
from fedbo._errors import SessionEnded
from fedbo._event import WARNINGS, PartyEvent
from fedbo._objective import Evaluator, Objective, logger


@dataclass(frozen=True)
class PeerReport:
    """The results of one call of :meth:`Peer.run`."""

    ended: Literal["complete", "left"]
    """``complete``: all is shared; ``left``: some neighbours lack reports of this peer, or have not ended."""
    told: int
    """Trials that it told."""
    failed: int
    """Those of them that failed."""


@dataclass(frozen=True)
class NeighbourStatus:
    """A peer's neighbour."""

    name: str
    """Its name."""
    url: str
    """Its address."""
    key: str | None
    """Its key, once it is known."""
    confirmed: int
    """Reports of this peer that it has."""
    received: int
    """Reports that this peer has of it."""


@dataclass(frozen=True)
class PeerStatus:
    """A peer's progress."""

    federation: str
    """The federation."""
    peer: str
    """Its name."""
    key: str
    """Its key."""
    reports: int
    """Rounds that it has reported, the initial points among them."""
    rounds: int
    """Rounds of its plan."""
    trials: int
    """Trials that have ended."""
    best: float | None
    """The best value."""
    conflicts: int
    """Rounds of which a neighbour has signed two reports."""
    neighbours: tuple[NeighbourStatus, ...]
    """Its neighbours."""


class Peer:
    """One party of a federation of neighbours, which share what they observe and need no coordinator.

    Nothing is private: every neighbour sees all points that this peer tries, and their values. All peers have the same federation
    file. Interrupted in any way, a peer goes on where it was::

        fedbo.Peer("peer.toml", name="north").run(lambda params: measure(**params))

    ``file``
        The peer's file; its ``[objective]`` is not used.
    ``name``, ``home``, ``listen``
        The peer's name in the federation, its folder and the address to listen on, in place of the file's.
    ``neighbours``
        Addresses of neighbours, ``URL`` or ``NAME=URL``, beside the file's.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        name: str | None = None,
        home: str | os.PathLike[str] | None = None,
        listen: str | None = None,
        neighbours: Iterable[str] = (),
        plain_http: bool = False,
    ) -> None:
        self._file = Path(file)
        self._name = name
        self._home = None if home is None else Path(home)
        self._listen = listen
        self._neighbours = list(neighbours)
        self._plain_http = plain_http

    def run(
        self,
        objective: Objective,
        *,
        leave: bool = False,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> PeerReport:
        """Take part until all is shared with all neighbours. Called again, it goes on where it was.

        An exception of the function is a failed trial. Ctrl-C gives the running trial back: the next call evaluates it.

        ``objective``
            A function of a dict of parameters, or of a :class:`Trial`, if its parameter is named ``trial`` or annotated so.
        ``leave``
            End after the last round without waiting for neighbours that are away or not done.
        ``on_event``
            Called with a :class:`PartyEvent` for whatever happens, between trials.

        Raises :class:`Refused` if a neighbour refuses, or is not the one that it was.
        """
        told = failed = 0

        def happened(fields: dict[str, Any]) -> bool:
            nonlocal told, failed
            event = PartyEvent(**fields)
            if event.kind == "trial-ended":
                told += 1
                failed += event.value is None
            log = logger.warning if event.kind in WARNINGS else logger.info
            log("%s: %s", self._name or self._file, event.message)
            if on_event is not None:
                on_event(event)
            return False

        ended = _fedbo.run_peer(
            self._file,
            Evaluator(objective, None),
            happened,
            logger.warning,
            stop=_fedbo.Stop(),
            name=self._name,
            home=self._home,
            listen=self._listen,
            neighbours=self._neighbours,
            plain_http=self._plain_http,
            leave=leave,
        )
        if ended == "interrupted":
            raise SessionEnded(f"peer {self._name or self._file} was stopped; it goes on where it was when it is run again")
        return PeerReport("complete" if ended == "complete" else "left", told, failed)

    def status(self) -> PeerStatus:
        """Its progress, and its neighbours'; asks nobody. Raises :class:`DefinitionError` before its first run."""
        document = answer("peer status", {"name": self._name, "home": self._home}, self._file)
        names = NeighbourStatus.__dataclass_fields__
        document["neighbours"] = tuple(
            NeighbourStatus(**{name: each[name] for name in names}) for each in document["neighbours"]
        )
        return PeerStatus(**document)

    def __repr__(self) -> str:
        return f"<Peer {self._name or ''} of {os.fspath(self._file)}>"
