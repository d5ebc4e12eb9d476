"""Agents: parties of a federation over a network, with Python functions as objectives."""

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
from fedbo._interrupt import resumable
from fedbo._objective import Evaluator, Objective, logger, number
from fedbo._trial import Trial

@dataclass(frozen=True)
class AgentReport:
    """Result of one call of :meth:`Agent.run`."""

    ended: Literal["complete", "study-over"]
    """``complete``: the agent's plan is complete; ``study-over``: the coordinator ended the study before that."""
    told: int
    """Number of trials finished by this call, including failed ones."""
    failed: int
    """Number of failed trials among them."""
    budget_spent: bool
    """True if the agent's budget allowed no further upload, and the agent continued with the releases of others."""


@dataclass(frozen=True)
class StudyStatus:
    """State of an agent in one of its studies."""

    study: str
    """Name of the study."""
    agent: str
    """Name of the agent in the study."""
    slot: int
    """Index of the agent on the roster."""
    coordinator: str
    """Address of the coordinator."""
    round: int | None
    """The latest round; ``None`` before the first one."""
    rounds: int
    """Number of rounds in the agent's plan."""
    ledger_head: str | None
    """Head of the study's ledger, as ``SEQ:HASH``. Agents with the same sequence number must have the same hash."""
    trials: int
    """Number of finished trials."""
    best: float | None
    """The best value."""
    trust_percent: int | None
    """Trust in the other agents at the latest query, if the algorithm computes one. Negative if it applies to their negated functions."""
    uploads_acknowledged: int
    """Number of uploads that the coordinator has acknowledged."""
    uploads_missed: int
    """Number of uploads that arrived too late."""
    finished: bool
    """True if the agent's plan is complete or the study is over."""


@dataclass(frozen=True)
class PrivacyStatus:
    """Privacy budget of an agent, and its spending over all studies."""

    epsilon_max: float
    """The budget."""
    delta: float
    """Probability with which the guarantee may fail."""
    epsilon: float | None
    """Upper bound on the spent epsilon at ``delta``; ``None`` if there is no finite bound."""
    releases: int
    """Number of charged uploads."""


@dataclass(frozen=True)
class AgentStatus:
    """Studies and privacy spending of an agent."""

    studies: tuple[StudyStatus, ...]
    """The agent's studies, ordered by name."""
    privacy: PrivacyStatus | None
    """Spending over all studies; ``None`` before the first run of a study that charges the budget."""


class Agent:
    """One party of a federation over a network. It keeps its function and data, and exchanges messages with a coordinator.

    All state of the agent is in its folder. The agent can be interrupted at any time, even by ``kill -9``, and resumes where it
    stopped. The choices of categorical parameters are written by the study's operator: a function must not pass them to a shell.

    ``home``
        Folder of an enrolled agent.
    ``study``
        Name of the study to take part in. Required if the agent has several studies.

    With a function, :meth:`run` does everything::

        agent = fedbo.Agent.enrol("north", coordinator="https://127.0.0.2:7433", token=token, ca="ca.pem")
        agent.run(lambda params: measure(**params), epsilon_max=4.0)

    Without a function, ask for points and tell their values::

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
        proxy: str | None = None,
    ) -> Agent:
        """Join a study with a token from its operator. The call can be repeated safely.

        ``home``
            Folder for the agent's key, data and record of privacy spending. It is created if it does not exist.
        ``coordinator``
            Address of the coordinator, ``https://HOST:PORT``.
        ``ca``
            Certificate authority (PEM) of the coordinator, in addition to those of the system.
        ``allow_plain_http``
            Allow plain HTTP to other machines. Anybody on the network path can then read and change the messages.
        ``helper``
            Card of the helper, obtained from the party that runs it (``fedbo helper card``). Required if two servers compute the sums.
        ``proxy``
            Outbound proxy, ``http://HOST:PORT``, or ``"none"``. Defaults to ``HTTPS_PROXY``. This machine and the hosts in ``NO_PROXY``
            are reached directly.

        Raises :class:`Refused` if the coordinator refuses or is not the one named by the token. Nothing is stored then.
        """

        def show(parameters: dict[str, Any]) -> None:
            for name, keys in parameters.items():
                logger.info("%s: parameter %s: %r", os.fspath(home), name, _space.from_keys(keys))

        authority = None if ca is None else Path(ca).absolute()
        joined = _fedbo.enrol(
            Path(home).absolute(),
            _space.text("coordinator", coordinator),
            _space.text("token", token),
            authority,
            allow_plain_http,
            None if helper is None else _space.text("helper", helper),
            None if proxy is None else _space.text("proxy", proxy),
            show,
        )
        logger.info("%s is %s in study %s: %s", os.fspath(home), joined["agent"], joined["study"], joined["protection"])
        for warning in joined["warnings"]:
            logger.warning("%s: %s", os.fspath(home), warning)
        return cls(home, joined["study"])

    @property
    def home(self) -> Path:
        """Folder of the agent."""
        return self._home

    def status(self) -> AgentStatus:
        """Return the agent's studies and privacy spending, without network access."""
        document = answer("agent status", {"home": self._home})
        privacy = document["privacy"]
        names = StudyStatus.__dataclass_fields__
        return AgentStatus(
            studies=tuple(StudyStatus(**{name: each.get(name) for name in names}) for each in document["studies"]),
            privacy=None if privacy is None else PrivacyStatus(**privacy),
        )

    def study_status(self) -> StudyStatus:
        """Return the state of the agent in its study, without network access."""
        studies = {each.study: each for each in self.status().studies}
        if self._study is None and len(studies) == 1:
            return next(iter(studies.values()))
        if self._study in studies:
            return studies[self._study]
        known = ", ".join(map(repr, studies)) or "none"
        named = "it has several" if self._study is None else f"study={self._study!r} is not one of them"
        raise DefinitionError(f"agent {os.fspath(self._home)!r}: name its study, {named}; there are {known}")

    @property
    def trials(self) -> list[Trial]:
        """The agent's trials in the study, in the order in which they were asked for."""
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
        proxy: str | None = None,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> AgentReport:
        """Take part until the agent's plan is complete or the study is over. A further call resumes where the last one stopped.

        If the function raises an exception, the trial fails. Ctrl-C releases the running trial, and the next call evaluates it.

        ``objective``
            A function of a dict of parameters, or of a :class:`Trial` if its parameter is named ``trial`` or annotated as such.
        ``epsilon_max``, ``delta``
            Privacy budget of the agent over all its studies. ``delta`` defaults to 1e-5. Required if the study charges.
        ``go_on_without_budget``
            If the budget allows no further upload, continue with the releases of others. By default :class:`BudgetSpent` is raised.
        ``allow_unprotected``
            Names of studies that are allowed not to charge the budget.
        ``seed``
            Seed of the agent's own random numbers, which must be the same in every call. By default, the seed is random and secret.
        ``failures_max``
            End after this many consecutive failures; 0 means never. By default, end after five failures before the first value.
        ``ca``
            Certificate authority of the coordinator, if it has changed since the call of :meth:`enrol`.
        ``proxy``
            Outbound proxy, as in :meth:`enrol`.
        ``on_event``
            Called with a :class:`PartyEvent` for each event.

        Raises :class:`Refused` if the coordinator refuses permanently, cannot be trusted, or does not promise the protection that the
        agent's budget demands, and :class:`BudgetSpent` if the budget allows no further upload.
        """
        settings = _settings(epsilon_max, delta, allow_unprotected, seed, failures_max, ca, proxy)
        evaluator = Evaluator(objective, None)
        try:
            with resumable(f"the trials of agent {os.fspath(self._home)} are kept; run it again to continue from there"):
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

        # Error messages refer to the agent by this label. All paths are absolute.
        label = self._home / f"Agent({status.agent!r})"
        ended = _fedbo.run_agent(label, _space.toml(settings), stop, begin, happened, logger.warning)
        if spent is not None and not go_on_without_budget:
            raise BudgetSpent(
                f"{spent}. Finished trials are kept; go_on_without_budget=True runs the rest with the releases of others, and sends "
                "nothing"
            )
        if ended == "interrupted":
            raise SessionEnded(f"agent {status.agent!r} was closed; it resumes when run again")
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
        proxy: str | None = None,
        on_event: Callable[[PartyEvent], object] | None = None,
    ) -> Agent:
        """Take part on a background thread, for use with :meth:`ask` and :meth:`tell`. Return the agent itself.

        The options are those of :meth:`run`. ``on_event`` is called on that thread.
        """
        if self._session is not None:
            raise Error(f"agent {os.fspath(self._home)!r} is open already; close() it before it is opened with other options")
        settings = _settings(epsilon_max, delta, allow_unprotected, seed, failures_max, ca, proxy)
        self._session = _Session(self, settings, go_on_without_budget, on_event)
        return self

    def ask(self, timeout: float | None = None) -> Trial:
        """Wait for the next trial of the study. A trial that has not been told yet is returned again.

        Raises :class:`SessionEnded` if there are no further trials, ``TimeoutError`` if there is none after ``timeout`` seconds, and
        the errors of :meth:`run`.
        """
        if self._session is None:
            self.open()
        assert self._session is not None
        return self._session.ask(timeout)

    def tell(self, trial: Trial | int, value: float | None = None, *, failed: str | None = None) -> None:
        """Tell the value of the current trial, or the reason for its failure. The result is durable when this method returns."""
        if (value is None) == (failed is None):
            raise DefinitionError("tell either a value or failed='why'")
        if self._session is None:
            raise Error(f"agent {os.fspath(self._home)!r} is not open: ask() for a trial first")
        self._session.tell(trial, value, failed)

    def __iter__(self) -> Iterator[Trial]:
        """Iterate over the trials until the study is over for this agent. Each trial must be told before the next one."""
        while True:
            try:
                trial = self.ask()
            except SessionEnded:
                return
            yield trial

    def close(self) -> None:
        """End the session started by :meth:`open`. A trial that was not told is returned again in the next session."""
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
    """A run of an agent on a separate thread. Its trials wait until they are told."""

    def __init__(
        self,
        agent: Agent,
        settings: dict[str, Mapping[str, object]],
        go_on_without_budget: bool,
        on_event: Callable[[PartyEvent], object] | None,
    ) -> None:
        self._name = os.fspath(agent.home)
        self._identity = f"agent {self._name}, study {agent.study_status().study}"
        self._stop = _fedbo.Stop()
        # Calls to evaluate. None marks the end and remains in the queue.
        self._calls: queue.SimpleQueue[_fedbo.Call | None] = queue.SimpleQueue()
        self._held: Trial | None = None
        self._call: _fedbo.Call | None = None
        self._source = ""
        # Numbers of trials with durable results. None marks the end and remains in the queue.
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

        # A daemon thread, which is joined at exit because it must end before the interpreter does.
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
        # The start event, which sets the source, arrives before the call.
        self._held, self._call = (
            Trial(number=call.number, params=call.params, source=self._source, _study=self._identity),
            call,
        )
        return self._held

    def tell(self, trial: Trial | int, value: float | None, failed: str | None) -> None:
        self._check_process()
        if isinstance(trial, Trial):
            if trial._study not in (None, self._identity):
                raise DefinitionError(f"trial {trial.number} belongs to another agent or study, not to agent {self._name!r}")
            trial = trial.number
        trial = _space.whole("trial", trial, 0)
        held, call = self._held, self._call
        if held is None or call is None or held.number != trial:
            asked = "none is" if held is None else f"trial {held.number} is"
            raise DefinitionError(f"trial {trial} is not the current one: {asked}")
        told = None if failed is not None else number(value, "the value told is")
        # If a previous wait was interrupted, the number of an earlier trial is still in the queue.
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
                f"agent {self._name!r} was opened by process {self._process}, and this one is a fork of it; let that process ask"
            )

    def _over(self) -> None:
        self._calls.put(None)  # for the next caller as well
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
    proxy: str | None,
) -> dict[str, Mapping[str, object]]:
    """Convert the options to the tables of an ``agent.toml``."""
    tables: dict[str, Mapping[str, object]] = {
        "agent": {
            "seed": seed,
            "failures_max": failures_max,
            "ca": None if ca is None else os.fspath(Path(ca).absolute()),
            "proxy": proxy,
        }
    }
    if epsilon_max is not None or delta is not None or allow_unprotected:
        tables["privacy"] = {
            "epsilon_max": epsilon_max,
            "delta": delta,
            "allow_unprotected": list(allow_unprotected),
        }
    return tables
