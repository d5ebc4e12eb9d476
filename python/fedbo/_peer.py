"""Peers: parties of a federation of neighbours without a coordinator, with Python functions as objectives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedbo import _fedbo, _space
from fedbo._answer import answer
from fedbo._errors import SessionEnded
from fedbo._event import WARNINGS, PartyEvent
from fedbo._interrupt import resumable
from fedbo._objective import Evaluator, Objective, logger


@dataclass(frozen=True)
class PeerReport:
    """Result of one call of :meth:`Peer.run`."""

    ended: Literal["complete", "left"]
    """``complete``: everything is shared; ``left``: some neighbours lack reports of this peer or have not finished."""
    told: int
    """Number of trials finished by this call, including failed ones."""
    failed: int
    """Number of failed trials among them."""


@dataclass(frozen=True)
class NeighbourStatus:
    """A neighbour of a peer."""

    name: str
    """Name of the neighbour."""
    url: str
    """Address of the neighbour."""
    key: str | None
    """Key of the neighbour; ``None`` until it is known."""
    confirmed: int
    """Number of this peer's reports that the neighbour has confirmed."""
    received: int
    """Number of the neighbour's reports that this peer has received."""


@dataclass(frozen=True)
class PeerStatus:
    """Progress of a peer."""

    federation: str
    """Name of the federation."""
    peer: str
    """Name of the peer."""
    key: str
    """Key of the peer."""
    reports: int
    """Number of rounds that the peer has reported, including the initial points."""
    rounds: int
    """Number of planned rounds."""
    trials: int
    """Number of finished trials."""
    best: float | None
    """The best value."""
    conflicts: int
    """Number of rounds for which a neighbour has signed two different reports."""
    neighbours: tuple[NeighbourStatus, ...]
    """The neighbours."""


class Peer:
    """One party of a federation of neighbours that share their observations without a coordinator.

    Nothing is private: every neighbour sees all points that this peer tries, and their values. All peers use the same federation
    file. A peer can be interrupted at any time and resumes where it stopped::

        fedbo.Peer("peer.toml", name="north").run(lambda params: measure(**params))

    ``file``
        The peer's file. Its ``[objective]`` is ignored.
    ``name``, ``home``, ``listen``
        The peer's name in the federation, its folder, and the address to listen on. They override the file.
    ``neighbours``
        Addresses of neighbours, ``URL`` or ``NAME=URL``, in addition to those in the file.
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
        self._name = None if name is None else _space.text("name", name)
        self._home = None if home is None else Path(home)
        self._listen = None if listen is None else _space.text("listen", listen)
        self._neighbours = [_space.text("neighbours", each) for each in neighbours]
        self._plain_http = plain_http

    def run(
        self,
        objective: Objective,
        *,
        leave: bool = False,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> PeerReport:
        """Take part until all observations are shared with all neighbours. A further call resumes where the last one stopped.

        If the function raises an exception, the trial fails. Ctrl-C releases the running trial, and the next call evaluates it.

        ``objective``
            A function of a dict of parameters, or of a :class:`Trial` if its parameter is named ``trial`` or annotated as such.
        ``leave``
            Return after the last round without waiting for neighbours that are unreachable or unfinished.
        ``on_event``
            Called with a :class:`PartyEvent` for each event, between trials.

        Raises :class:`Refused` if a neighbour refuses or its identity has changed.
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

        with resumable(f"the trials of peer {self._name or self._file} are kept; run it again to continue from there"):
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
            raise SessionEnded(f"peer {self._name or self._file} was stopped; it resumes when run again")
        return PeerReport("complete" if ended == "complete" else "left", told, failed)

    def status(self) -> PeerStatus:
        """Return the progress of the peer and its neighbours, without network access.

        Raises :class:`DefinitionError` before the first run.
        """
        document = answer("peer status", {"name": self._name, "home": self._home}, self._file)
        names = NeighbourStatus.__dataclass_fields__
        document["neighbours"] = tuple(
            NeighbourStatus(**{name: each[name] for name in names}) for each in document["neighbours"]
        )
        return PeerStatus(**document)

    def __repr__(self) -> str:
        return f"<Peer {self._name or ''} of {os.fspath(self._file)}>"
