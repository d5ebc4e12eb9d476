"""A worker of ``fedbo serve``: asks for trials over HTTP, evaluates them, and tells how they ended.

Needs the standard library alone: this file may be copied to a machine without fedbo.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import random
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fedbo._errors import Error
else:
    try:
        from fedbo._errors import Error
    except ImportError:  # this file alone

        class Error(Exception):
            """What fedbo cannot do, in words that say how to go on."""


logger = logging.getLogger("fedbo")

Status = Literal["full", "stopped"]
"""Why there is no further trial: the study has its trials, or somebody has stopped it."""

_RETRIED = (429, 502, 503, 504)
_PASSING = ("unreachable", "busy", "unavailable")
_WAIT_S = 30.0
_TIMEOUT_S = 60.0
# A request has at most 64 KiB, in which JSON writes a character of a message in up to 12 bytes.
_MESSAGE_CHARACTERS = 8000
_MESSAGE_BYTES = 48_000


class ServeError(Error):
    """A refusal of the server, or its absence."""

    def __init__(self, code: str, message: str, stored: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The code of the refusal, as docs/serve.md lists them; ``unreachable`` if there was no answer."""
        self.stored = stored
        """The outcome that is stored, where the trial was told another one."""


@dataclass(frozen=True)
class WorkerReport:
    """The results of one call of :meth:`Worker.run`."""

    told: int
    """Trials that it told."""
    failed: int
    """Those of them that failed."""
    stopped: int
    """Those of them that were stopped early."""
    lost: int
    """Trials whose lease was over before they were told: what came out was not used."""
    ended: Literal["full", "stopped", "limit"]
    """``full``: the study has its trials; ``stopped``: somebody has stopped it; ``limit``: ``n_trials`` of this call."""
    reason: str
    """The reason in the words of the server."""


class WorkerTrial:
    """A trial that a worker evaluates. ``trial["x"]`` is short for ``trial.params["x"]``."""

    def __init__(self, worker: Worker, fields: Mapping[str, Any]) -> None:
        self._worker = worker
        self.number: int = fields["number"]
        """Its place in the order of asking, from 0."""
        self.params: dict[str, Any] = fields["parameters"]
        """Its point: a value for every parameter."""
        self.source: str = fields["source"]
        """The source of its point: ``initial``, ``own``, ``enqueued``, ..."""
        self.lease_s: float = fields["lease_s"]
        """Seconds for which it is the worker's unless its lease is renewed."""
        self.epochs: int | None = fields.get("epochs")
        """Epochs of a whole training, where trials are stopped early."""
        self.stop_reason: str | None = None
        """Why it is to stop, once a report was answered so."""

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def __repr__(self) -> str:
        return f"WorkerTrial(number={self.number}, params={self.params!r})"

    def report(self, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1; return True if the training is to stop.

        The function then ends: what it returns is of no account.
        """
        return self._worker.report(self, epoch, value)


class Worker:
    """A worker of a study that ``fedbo serve`` serves.

    ``url``
        The address that ``fedbo serve`` prints.
    ``token``
        Its token; without it, that of the variable ``FEDBO_WORKER_TOKEN``.
    ``name``
        The name under which the worker holds trials: letters, digits and characters of ``_.@/-``. No two that run at once may
        have the same; without it, one is made of the machine's name and chance.
    ``ca``
        A file with the authorities (PEM) of the server's certificate, in addition to those of the system.
    ``lease_s``
        Seconds after which a trial is somebody else's if nothing was heard of the worker.
    ``patience_s``
        Seconds for which a server that does not answer, or has no time, is asked again.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        name: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        lease_s: float = 60.0,
        patience_s: float = 300.0,
    ) -> None:
        token = (token or os.environ.get("FEDBO_WORKER_TOKEN", "")).strip()
        if not token:
            raise Error("a worker needs the token of fedbo serve: token=..., or the variable FEDBO_WORKER_TOKEN")
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise Error(
                "the token has a blank, an end of a line, or another character that no token of fedbo serve has; "
                "give what is in its --token-file, and nothing else"
            )
        if not url.startswith(("http://", "https://")):
            raise Error(f"url = {url!r}, expected an address that begins with https:// or http://")
        self.name = name or _some_name()
        """The name under which it holds trials."""
        self.lease_s = float(lease_s)
        """Seconds after which a trial is somebody else's if nothing was heard of the worker."""
        self.patience_s = float(patience_s)
        """Seconds for which a server that does not answer is asked again."""
        self._url = url.rstrip("/")
        self._authorization = f"Bearer {token}"
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if url.startswith("https://"):
            context = ssl.create_default_context()
            if ca is not None:
                context.load_verify_locations(ca)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Worker({self._url!r}, name={self.name!r})"

    def ask(self, wait_s: float | None = None) -> WorkerTrial | Status:
        """Ask for a trial to evaluate; ``"full"`` or ``"stopped"`` if there is no further one.

        Where others evaluate the last trials, any of which may come free, it waits at most ``wait_s`` seconds (None: as long as it
        takes), and then raises :class:`ServeError` with the code ``wait``.
        """
        answer = self._asked(wait_s)
        if answer["status"] == "trial":
            return WorkerTrial(self, answer)
        return "full" if answer["status"] == "full" else "stopped"

    def report(self, trial: WorkerTrial, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1; return True if the training is to stop.

        NaN and infinities stop a training too: it is told as failed.
        """
        value = float(value)
        if not math.isfinite(value):
            trial.stop_reason = f"it reported {value} at epoch {epoch}, which is not a finite number"
            self.tell(trial, failed=trial.stop_reason, kind="not-finite")
            return True
        answer = self._of(trial, "report", {"epoch": int(epoch), "value": value})
        if answer["stop"]:
            trial.stop_reason = answer["reason"]
        return bool(answer["stop"])

    def renew(self, trial: WorkerTrial) -> None:
        """Lengthen the lease of a trial to ``lease_s`` from now. :meth:`run` does so by itself."""
        self._of(trial, "renew", {"lease_s": trial.lease_s})

    def tell(
        self,
        trial: WorkerTrial,
        value: float | Mapping[str, float] | None = None,
        *,
        failed: str | None = None,
        kind: str = "reported",
    ) -> None:
        """Tell the value of a trial, or why it failed; ``kind`` is one word for it. It is durable when this returns.

        In a study with constraints or several objectives, the value is a dict with all numbers by name. A value that is not a finite number
        is a failure. Telling the same again is no mistake.
        """
        if (value is None) == (failed is None):
            raise Error("a trial is told a value, or why it failed: worker.tell(trial, 0.5) or worker.tell(trial, failed='...')")
        if isinstance(value, Mapping):
            outcomes = {name: _number(each) for name, each in value.items()}
            infinite = [name for name, each in outcomes.items() if not math.isfinite(each)]
            if not infinite:
                self._of(trial, "tell", {"outcomes": outcomes})
                return
            name = infinite[0]
            failed, kind = f"{name!r} is {outcomes[name]}, which is not a finite number", "not-finite"
        elif value is not None:
            value = float(value)
            if math.isfinite(value):
                self._of(trial, "tell", {"value": value})
                return
            failed, kind = f"the value is {value}, which is not a finite number", "not-finite"
        self._of(trial, "tell", {"failed": {"kind": kind, "message": _message(failed)}})

    def release(self, trial: WorkerTrial) -> None:
        """Give a trial back: another worker gets it."""
        self._of(trial, "release", {})

    def study(self) -> dict[str, Any]:
        """The study: its parameters, its numbers of trials, its best trial, as docs/serve.md describes them."""
        return self._request("/v1/study", None)

    @contextlib.contextmanager
    def holding(self, trial: WorkerTrial) -> Iterator[None]:
        """Renew the lease of a trial by a thread, every third of it, until the block ends."""
        ended = threading.Event()
        third = trial.lease_s / 3

        def renew() -> None:
            pause = third
            while not ended.wait(pause):
                pause = third
                try:
                    # One that hangs leaves time for another before the lease is over.
                    body = {"lease_s": trial.lease_s}
                    self._of(trial, "renew", body, patience_s=third, timeout_s=third, ended=ended)
                except ServeError as error:
                    if ended.is_set():
                        return
                    logger.warning("the lease of trial %d could not be renewed: %s", trial.number, error)
                    if error.code not in _PASSING:
                        return
                    pause = min(third / 10, 1.0)

        thread = threading.Thread(target=renew, name=f"fedbo-lease-{trial.number}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(1.0)

    def run(
        self, function: Callable[[WorkerTrial], float | Mapping[str, float]], n_trials: int | None = None
    ) -> WorkerReport:
        """Evaluate trials, one after another, until the study is full or was stopped, or this call has told ``n_trials``.

        ``function`` is given a :class:`WorkerTrial` and returns its value, or a dict with all its numbers by name. One that raises makes a failed trial. Ctrl-C gives the
        trial back and goes on as ``KeyboardInterrupt``.
        """
        counts: Counter[str] = Counter()

        def report(ended: Literal["full", "stopped", "limit"], reason: str) -> WorkerReport:
            told, failed, stopped, lost = (counts[key] for key in ("told", "failed", "stopped", "lost"))
            return WorkerReport(told, failed, stopped, lost, ended, reason)

        while n_trials is None or counts["told"] < n_trials:
            answer = self._asked(None)
            if answer["status"] != "trial":
                return report(answer["status"], answer["reason"])
            self._evaluate(function, WorkerTrial(self, answer), counts)
        return report("limit", f"this call has told {n_trials} trials")

    def _evaluate(
        self, function: Callable[[WorkerTrial], float | Mapping[str, float]], trial: WorkerTrial, counts: Counter[str]
    ) -> None:
        value: float | dict[str, float] | None = None
        failure = None
        try:
            with self.holding(trial):
                try:
                    value = _value(function(trial))
                except ServeError:
                    raise
                except Exception as error:
                    logger.warning("trial %d failed", trial.number, exc_info=error)
                    failure = _words(error)
            if trial.stop_reason is None:
                self.tell(trial, value, failed=failure, kind="exception" if failure else "reported")
        except ServeError as error:
            if error.code not in ("not-held", "told-otherwise"):
                self._give_back(trial)
                raise
            logger.warning("the result of trial %d is not used: %s", trial.number, error)
            counts["lost"] += 1
            return
        except BaseException:
            self._give_back(trial)
            raise
        counts["told"] += 1
        if trial.stop_reason is not None:
            counts["stopped"] += 1
        elif failure is not None or not _is_finite(value):
            counts["failed"] += 1

    def _give_back(self, trial: WorkerTrial) -> None:
        """Release a trial if the server answers soon; without that, its lease ends by itself."""
        with contextlib.suppress(Error):
            self._of(trial, "release", {}, patience_s=2.0)

    def _asked(self, wait_s: float | None) -> dict[str, Any]:
        """The answer to a request for a trial that is not ``wait``."""
        until = math.inf if wait_s is None else time.monotonic() + wait_s
        # The same until there is a trial: an answer that was lost is given again.
        nonce = secrets.token_hex(8)
        while True:
            left = until - time.monotonic()
            # The server is to answer before the request times out.
            wait = min(_WAIT_S, max(left, 0.0), self.patience_s / 2)
            body = {"worker": self.name, "nonce": nonce, "lease_s": self.lease_s, "wait_s": wait}
            began = time.monotonic()
            try:
                answer = self._request("/v1/ask", body)
            except ServeError as error:
                if error.code != "nonce-used":
                    raise
                # The answer was lost for longer than the lease, and the trial is another's.
                logger.info("%s", error)
                nonce = secrets.token_hex(8)
                time.sleep(random.uniform(0.1, 0.5))
                continue
            if answer["status"] != "wait":
                return answer
            if time.monotonic() >= until:
                raise ServeError("wait", answer["reason"])
            if time.monotonic() - began < 1.0:  # the server ends, and has not waited
                time.sleep(random.uniform(0.5, 1.5))

    def _of(self, trial: WorkerTrial, action: str, body: dict[str, Any], **limits: Any) -> dict[str, Any]:
        body = {"worker": self.name, **body}
        return self._request(f"/v1/trials/{trial.number}/{action}", body, **limits)

    def _request(
        self,
        path: str,
        body: dict[str, Any] | None,
        *,
        patience_s: float | None = None,
        timeout_s: float = _TIMEOUT_S,
        ended: threading.Event | None = None,
    ) -> dict[str, Any]:
        """The answer to a request, which is repeated while nobody answers: it may be, by its nonce or by what it tells.

        It is not repeated once ``ended`` is set.
        """
        patience = self.patience_s if patience_s is None else patience_s
        timeout = min(timeout_s, max(patience, 1.0))
        until = time.monotonic() + patience
        ended = ended or threading.Event()
        delay = 0.1
        while True:
            try:
                return self._once(path, body, timeout)
            except ServeError as error:
                if error.code not in _PASSING:
                    raise
                pause = random.uniform(delay / 2, delay)
                if time.monotonic() + pause > until:
                    raise
                logger.info("%s; asking again in %.1f s", error, pause)
                if ended.wait(pause):
                    raise
                delay = min(delay * 2, 10.0)

    def _once(self, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except ssl.SSLCertVerificationError as error:
            raise self._untrusted(error) from None
        except (OSError, ValueError, urllib.error.URLError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise self._untrusted(reason) from None
            raise ServeError("unreachable", f"{self._url} does not answer: {reason}") from error
        except Exception as error:  # http.client has a family of its own for answers that break off
            raise ServeError("unreachable", f"{self._url} does not answer: {error!r}") from error
        if not isinstance(answer, dict):
            raise ServeError("unreachable", f"{self._url} does not answer as fedbo serve does")
        return answer

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> ServeError:
        message = f"the certificate of {self._url} is not trusted ({error.verify_message}); name its authority: ca='ca.pem'"
        return ServeError("untrusted", message)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nobody: the token is for this server alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _refusal(error: urllib.error.HTTPError) -> ServeError:
    """The refusal that an answer is; one of a proxy has no code of ours."""
    try:
        problem = json.loads(error.read())
        return ServeError(problem["code"], problem["message"], problem.get("stored"))
    except (OSError, ValueError, TypeError, KeyError):
        code = "unavailable" if error.code in _RETRIED else "bad-answer"
        return ServeError(code, f"{error.url} answers {error.code} {error.reason}, which is not fedbo serve")


def _words(error: Exception) -> str:
    """The type and the text of an exception, which may have none that can be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, whose text cannot be made"


def _message(text: object) -> str:
    """A text as a request may carry it: without halves of characters, and cut where it is too long."""
    message = str(text).encode("utf-8", "replace").decode()[:_MESSAGE_CHARACTERS]
    while len(json.dumps(message)) > _MESSAGE_BYTES:
        message = message[:-500]
    return message


def _value(value: object) -> float | dict[str, float]:
    """The returned value of a function: a float, or several by name."""
    if isinstance(value, Mapping):
        return {str(name): _number(each) for name, each in value.items()}
    return _number(value)


def _is_finite(value: float | Mapping[str, float] | None) -> bool:
    return all(map(math.isfinite, value.values() if isinstance(value, Mapping) else [value or 0.0]))


def _number(value: object) -> float:
    """The returned value of a function as a float."""
    if value is None or isinstance(value, (bool, str, bytes)):
        raise TypeError(f"the function returned {value!r}, which is not a number")
    return float(value)  # type: ignore[arg-type]


def _some_name() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in socket.gethostname())
    return f"{host[:32] or 'worker'}-{os.getpid()}-{secrets.token_hex(4)}"
