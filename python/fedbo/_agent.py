"""Agents: one party of a federation over a network, whose objective is a Python function."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

from fedbo import _fedbo, _space, _trial
from fedbo._answer import answer
from fedbo._errors import BudgetSpent, DefinitionError, Error, SessionEnded
from fedbo._event import WARNINGS, PartyEvent
from fedbo._objective import Evaluator, Objective, logger, number
from fedbo._trial import Trial

@dataclass(frozen=True)
class AgentReport:
    """The results of one call of :meth:`Agent.run`."""

    ended: Literal["complete", "study-over"]
    """``complete``: the agent's plan is done; ``study-over``: the coordinator has ended the study before."""
    told: int
    """Trials that it told."""
    failed: int
    """Those of them that failed."""
    budget_spent: bool
    """True if the agent's budget allowed no further upload: it went on with what others release."""


@dataclass(frozen=True)
class StudyStatus:
    """An agent in one of its studies."""

    study: str
    """The study."""
    agent: str
    """The agent's name in it."""
    slot: int
    """Its place in the roster."""
    coordinator: str
    """The coordinator's address."""
    round: int | None
    """The newest round; None before the first."""
    rounds: int
    """Rounds of the agent's plan."""
    ledger_head: str | None
    """The end of the study's ledger, as ``SEQ:HASH``: all agents with that number have that hash."""
    trials: int
    """Trials that have ended."""
    best: float | None
    """The best value."""
    trust_percent: int | None
    """The trust in the others at the newest query, where the algorithm weighs them; below 0 that in their negated functions."""
    uploads_acknowledged: int
    """Uploads that the coordinator has."""
    uploads_missed: int
    """Uploads that came too late."""
    finished: bool
    """True if its plan is done, or the study over."""


@dataclass(frozen=True)
class PrivacyStatus:
    """The privacy that an agent has spent over all its studies, and its budget."""

    epsilon_max: float
    """The budget."""
    delta: float
    """The probability with which the guarantee may fail."""
    epsilon: float | None
    """What was spent, an upper bound at ``delta``; None if nothing finite is proved."""
    releases: int
    """Uploads that were charged."""


@dataclass(frozen=True)
class AgentStatus:
    """An agent's studies, and what it has spent."""

    studies: tuple[StudyStatus, ...]
    """Its studies, by name."""
    privacy: PrivacyStatus | None
    """Its spending over all of them; None before its first run of a study that charges."""


class Agent:
    """One party of a federation over a network: it keeps its function and its data, and exchanges messages with a coordinator.

    What it does is kept in its folder; interrupted in any way, also by ``kill -9``, it goes on where it was. The choices of its
    parameters are texts of the study's operator: a function must not hand them to a shell.

    ``home``
        The folder of an agent that was enrolled.
    ``study``
        The study to take part in, if it has several.

    With a function, :meth:`run` does all::

        agent = fedbo.Agent.enrol("north", coordinator="https://127.0.0.2:7433", token=token, ca="ca.pem")
        agent.run(lambda params: measure(**params), epsilon_max=4.0)

    Without one, ask for points and tell their values::

        with fedbo.Agent("north").open(epsilon_max=4.0) as agent:
            for trial in agent:
                agent.tell(trial, measure(**trial.params))
    """

    def __init__(self, home: str | os.PathLike[str], study: str | None = None) -> None:
        self._home = Path(home).absolute()
        self._study = study
        self._session: _Session | None = None
        self.study_status()

    @classmethod
    def enrol(
        cls,
        home: str | os.PathLike[str],
        *,
        coordinator: str,
        token: str,
        ca: str | os.PathLike[str] | None = None,
        allow_plain_http: bool = False,
        helper: str | None = None,
    ) -> Agent:
        """Join a study with the token that its operator gave. Done again, it is harmless.

        ``home``
            The agent's folder: of its key, its data and its account of what it spent. It is made if there is none.
        ``coordinator``
            The coordinator's address, ``https://HOST:PORT``.
        ``ca``
            The authority of the coordinator's certificate (PEM), besides those that the system trusts.
        ``allow_plain_http``
            Speak plain HTTP also beyond this machine: everybody on the way can read and change what is sent.
        ``helper``
            The card of the other party's server, as that party says (``fedbo helper card``); needed where two servers sum.

        Raises :class:`Refused` if the coordinator refuses, or is not the one that the token names; then nothing is stored.
        """

        def show(parameters: dict[str, Any]) -> None:
            for name, keys in parameters.items():
                logger.info("%s: parameter %s: %r", os.fspath(home), name, _space.from_keys(keys))

        authority = None if ca is None else Path(ca).absolute()
        joined = _fedbo.enrol(Path(home).absolute(), coordinator, token, authority, allow_plain_http, helper, show)
        logger.info("%s is %s in study %s: %s", os.fspath(home), joined["agent"], joined["study"], joined["protection"])
        if joined["warning"] is not None:
            logger.warning("%s: %s", os.fspath(home), joined["warning"])
        return cls(home, joined["study"])

    @property
    def home(self) -> Path:
        """Its folder."""
        return self._home

    def status(self) -> AgentStatus:
        """Its studies and what it has spent; asks nobody."""
        document = answer("agent status", {"home": self._home})
        privacy = document["privacy"]
        names = StudyStatus.__dataclass_fields__
        return AgentStatus(
            studies=tuple(StudyStatus(**{name: each.get(name) for name in names}) for each in document["studies"]),
            privacy=None if privacy is None else PrivacyStatus(**privacy),
        )

    def study_status(self) -> StudyStatus:
        """Its study; asks nobody."""
        studies = {each.study: each for each in self.status().studies}
        if self._study is None and len(studies) == 1:
            return next(iter(studies.values()))
        if self._study in studies:
            return studies[self._study]
        known = ", ".join(map(repr, studies)) or "none"
        named = "it has several" if self._study is None else f"study={self._study!r} is none of them"
        raise DefinitionError(f"agent {os.fspath(self._home)!r}: name its study, {named}; there are {known}")

    @property
    def trials(self) -> list[Trial]:
        """Its trials in the study, in the order of asking."""
        file = self._home / "trials.db"
        if not file.exists():
            return []
        study = _fedbo.Study.load(f"sqlite:{file}", self.study_status().study)
        return [_trial.from_native(fields) for fields in study.trials()]

    def run(
        self,
        objective: Objective,
        *,
        epsilon_max: float | None = None,
        delta: float | None = None,
        go_on_without_budget: bool = False,
        allow_unprotected: Sequence[str] = (),
        seed: int | None = None,
        failures_max: int | None = None,
        ca: str | os.PathLike[str] | None = None,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> AgentReport:
        """Take part until the agent's plan is done, or the study over. Called again, it goes on where it was.

        An exception of the function is a failed trial. Ctrl-C gives the running trial back: the next call evaluates it.

        ``objective``
            A function of a dict of parameters, or of a :class:`Trial`, if its parameter is named ``trial`` or annotated so.
        ``epsilon_max``, ``delta``
            The privacy that the agent may spend over all its studies; ``delta`` is 1e-5 by default. Needed where the study charges.
        ``go_on_without_budget``
            Once the budget allows no further upload, go on with what others release. By default :class:`BudgetSpent` is raised.
        ``allow_unprotected``
            Names of studies that need not charge the budget.
        ``seed``
            Root of the agent's own draws, the same in every call; secret by default.
        ``failures_max``
            End after so many failures in a row, 0 for never. By default after five before the first value.
        ``ca``
            The authority of the coordinator's certificate, if it is no longer the one that was given to :meth:`enrol`.
        ``on_event``
            Called with an :class:`PartyEvent` for whatever happens.

        Raises :class:`Refused` if the coordinator refuses for good, is not to be trusted, or does not promise what the agent's budget
        asks for, and :class:`BudgetSpent`.
        """
        settings = _settings(epsilon_max, delta, allow_unprotected, seed, failures_max, ca)
        evaluator = Evaluator(objective, None)
        try:
            return self._run(evaluator, settings, _fedbo.Stop(), go_on_without_budget, on_event)
        except Error as error:
            if evaluator.last_error is not None and error.__cause__ is None:
                raise error from evaluator.last_error
            raise

    def _run(
        self,
        begin: Callable[[_fedbo.Call], None],
        settings: dict[str, Mapping[str, object]],
        stop: _fedbo.Stop,
        go_on_without_budget: bool,
        on_event: Callable[[PartyEvent], object] | None,
    ) -> AgentReport:
        status = self.study_status()
        agent = {"home": os.fspath(self._home), "study": status.study, **settings["agent"]}
        settings = {**settings, "agent": agent}
        told = failed = 0
        spent: str | None = None

        def happened(fields: dict[str, Any]) -> bool:
            nonlocal told, failed, spent
            event = PartyEvent(**fields)
            if event.kind == "trial-ended":
                told += 1
                failed += event.value is None
            elif event.kind == "budget-spent":
                spent = event.message
            log = logger.warning if event.kind in WARNINGS else logger.info
            log("%s: %s", status.agent, event.message)
            if on_event is not None:
                on_event(event)
            return spent is not None and not go_on_without_budget

        # Errors name the agent; paths are absolute.
        label = self._home / f"Agent({status.agent!r})"
        ended = _fedbo.run_agent(label, _space.toml(settings), stop, begin, happened, logger.warning)
        if spent is not None and not go_on_without_budget:
            raise BudgetSpent(
                f"{spent}. What was done is kept; go_on_without_budget=True finishes the trials with what others release, and sends "
                "nothing"
            )
        if ended == "interrupted":
            raise SessionEnded(f"agent {status.agent!r} was closed; it goes on where it was when it is run again")
        return AgentReport("complete" if ended == "complete" else "study-over", told, failed, spent is not None)

    def open(
        self,
        *,
        epsilon_max: float | None = None,
        delta: float | None = None,
        go_on_without_budget: bool = False,
        allow_unprotected: Sequence[str] = (),
        seed: int | None = None,
        failures_max: int | None = None,
        ca: str | os.PathLike[str] | None = None,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> Agent:
        """Take part in a thread of its own, for :meth:`ask` and :meth:`tell`; options as of :meth:`run`. Returns the agent itself.

        ``on_event`` is called in that thread.
        """
        if self._session is not None:
            raise Error(f"agent {os.fspath(self._home)!r} is open already; close() it before it is opened with other options")
        settings = _settings(epsilon_max, delta, allow_unprotected, seed, failures_max, ca)
        self._session = _Session(self, settings, go_on_without_budget, on_event)
        return self

    def ask(self, timeout: float | None = None) -> Trial:
        """The next trial, as soon as the study comes to it; one that was asked for and not told before comes first.

        Raises :class:`SessionEnded` once there is none, ``TimeoutError`` if there is none after ``timeout`` seconds, and what
        :meth:`run` raises.
        """
        if self._session is None:
            self.open()
        assert self._session is not None
        return self._session.ask(timeout)

    def tell(self, trial: Trial | int, value: float | None = None, *, failed: str | None = None) -> None:
        """Tell the value of the trial that was asked for, or why it failed. It is durable when this returns."""
        if (value is None) == (failed is None):
            raise DefinitionError("tell a value, or failed='why': one of both")
        if self._session is None:
            raise Error(f"agent {os.fspath(self._home)!r} is not open: ask() for a trial first")
        self._session.tell(trial.number if isinstance(trial, Trial) else trial, value, failed)

    def __iter__(self) -> Iterator[Trial]:
        """The trials, one after the other, until the study is over for this agent; each must be told before the next."""
        while True:
            try:
                trial = self.ask()
            except SessionEnded:
                return
            yield trial

    def close(self) -> None:
        """End what :meth:`open` has begun. A trial that was not told is asked for again next time."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        status = self.study_status()
        return f"<Agent {status.agent!r} of study {status.study!r} at {status.coordinator}, in {os.fspath(self._home)}>"

    def _repr_html_(self) -> str:
        status = self.study_status()
        rows: list[tuple[str, object]] = [
            ("study", status.study),
            ("coordinator", status.coordinator),
            ("round", f"{status.round or 0} of {status.rounds}"),
            ("trials", status.trials),
            ("best", status.best),
        ]
        if status.trust_percent is not None:
            negated = ", negated" if status.trust_percent < 0 else ""
            rows.append((f"trust in the others{negated}", f"{abs(status.trust_percent)} %"))
        privacy = self.status().privacy
        if privacy is not None:
            rows.append(("epsilon spent", f"{privacy.epsilon} of {privacy.epsilon_max} at delta {privacy.delta}"))
        cells = (f"<tr><th>{escape(a)}</th><td>{escape(str(b))}</td></tr>" for a, b in rows)
        return f"<h4>Agent {escape(status.agent)}</h4><table>{''.join(cells)}</table>"


class _Session:
    """A run of an agent in a thread, whose trials wait to be told."""

    def __init__(
        self,
        agent: Agent,
        settings: dict[str, Mapping[str, object]],
        go_on_without_budget: bool,
        on_event: Callable[[PartyEvent], object] | None,
    ) -> None:
        self._name = os.fspath(agent.home)
        self._stop = _fedbo.Stop()
        # Calls to evaluate, then None for good.
        self._calls: queue.SimpleQueue[_fedbo.Call | None] = queue.SimpleQueue()
        self._held: Trial | None = None
        self._call: _fedbo.Call | None = None
        self._source = ""
        # Numbers of trials that are durable, then None for good.
        self._durable: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._ended = ""
        self._process = os.getpid()

        def watch(event: PartyEvent) -> None:
            if on_event is not None:
                on_event(event)
            if event.kind == "trial-started":
                self._source = event.source or ""
            elif event.kind == "trial-ended":
                self._durable.put(event.trial)

        def work() -> None:
            try:
                report = agent._run(self._calls.put, settings, self._stop, go_on_without_budget, watch)
                self._ended = "its plan is done" if report.ended == "complete" else "the coordinator has ended the study"
            except BaseException as error:
                self._error = error
            finally:
                self._calls.put(None)
                self._durable.put(None)

        # A daemon, which must have ended before the interpreter does.
        self._thread = threading.Thread(target=work, name=f"fedbo-agent-{self._name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def ask(self, timeout: float | None) -> Trial:
        self._check_process()
        held = self._held
        if held is not None and self._thread.is_alive():
            return held
        try:
            call = self._calls.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"agent {self._name!r}: no trial in {timeout} s; its study may wait for others") from None
        if call is None:
            self._over()
        assert call is not None
        # Its start was told before the call came.
        self._held, self._call = Trial(number=call.number, params=call.params, source=self._source), call
        return self._held

    def tell(self, trial: int, value: float | None, failed: str | None) -> None:
        self._check_process()
        held, call = self._held, self._call
        if held is None or call is None or held.number != trial:
            asked = "none is" if held is None else f"trial {held.number} is"
            raise DefinitionError(f"trial {trial} is not asked for: {asked}")
        told = None if failed is not None else number(value, "the value told is")
        # The end of an earlier trial still lies there if the wait for it was interrupted.
        while not self._durable.empty():
            if self._durable.get() is None:
                self._durable.put(None)
                self._over()
        if told is None:
            call.fail(str(failed))
        else:
            call.tell(told)
        self._held = None
        if self._durable.get() is None:
            self._durable.put(None)
            self._over()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Error(
                f"agent {self._name!r} was opened by process {self._process}, of which this one is a fork; let that process ask"
            )

    def _over(self) -> None:
        self._calls.put(None)  # also for whoever asks next
        if self._error is not None:
            raise self._error
        raise SessionEnded(f"agent {self._name!r} has nothing more to evaluate: {self._ended}")

    def close(self) -> None:
        atexit.unregister(self.close)
        self._stop.set()
        self._thread.join()


def _settings(
    epsilon_max: float | None,
    delta: float | None,
    allow_unprotected: Sequence[str],
    seed: int | None,
    failures_max: int | None,
    ca: str | os.PathLike[str] | None,
) -> dict[str, Mapping[str, object]]:
    """The tables of an ``agent.toml`` that options stand for."""
    tables: dict[str, Mapping[str, object]] = {
        "agent": {
            "seed": seed,
            "failures_max": failures_max,
            "ca": None if ca is None else os.fspath(Path(ca).absolute()),
        }
    }
    if epsilon_max is not None or delta is not None or allow_unprotected:
        tables["privacy"] = {
            "epsilon_max": epsilon_max,
            "delta": delta,
            "allow_unprotected": list(allow_unprotected),
        }
    return tables
