"""A worker of ``fedbo serve``: asks for trials over HTTP, evaluates them, and tells their results.

Needs only the standard library, so this file can be copied to a machine without fedbo.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import operator
import os
import random
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
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
    except ImportError:  # this file was copied without the package

        class Error(Exception):
            """Base class of fedbo's errors. The message explains how to continue."""


logger = logging.getLogger("fedbo")

Status = Literal["full", "stopped"]
"""Reason why there are no further trials: the study has all its trials, or it was stopped."""

_RETRIED = (429, 502, 503, 504)
_PASSING = ("unreachable", "busy", "unavailable")
_WAIT_S = 30.0
_TIMEOUT_S = 60.0
# A request is limited to 64 KiB, and a character of a message takes up to 12 bytes in JSON.
_MESSAGE_CHARACTERS = 8000
_MESSAGE_BYTES = 48_000


class ServeError(Error):
    """The server refused a request or did not respond."""

    def __init__(self, code: str, message: str, stored: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        """Error code, as listed in docs/serve.md; ``unreachable`` if there was no response."""
        self.stored = stored
        """The stored result, if the trial already has a different one."""


@dataclass(frozen=True)
class WorkerReport:
    """Result of one call of :meth:`Worker.run`."""

    told: int
    """Number of trials told by this call, including failed ones."""
    failed: int
    """Number of failed trials among them."""
    stopped: int
    """Number of trials among them that were stopped early."""
    lost: int
    """Number of trials told after their lease had expired. Their results were not used."""
    ended: Literal["full", "stopped", "limit"]
    """``full``: the study has all its trials; ``stopped``: the study was stopped; ``limit``: this call told ``n_trials`` trials."""
    reason: str
    """The reason, as stated by the server."""


class WorkerTrial:
    """A trial that a worker evaluates. ``trial["x"]`` is shorthand for ``trial.params["x"]``."""

    def __init__(self, worker: Worker, fields: Mapping[str, Any]) -> None:
        self._worker = worker
        self.number: int = fields["number"]
        """Number of the trial in the order of asking, starting at 0."""
        self.params: dict[str, Any] = fields["parameters"]
        """The point: a value for every parameter."""
        self.source: str = fields["source"]
        """Source of the point: ``initial``, ``own``, ``enqueued``, ..."""
        self.lease_s: float = fields["lease_s"]
        """Duration of the lease in seconds. The trial is lost if the lease is not renewed in time."""
        self.epochs: int | None = fields.get("epochs")
        """Number of epochs of a complete training, in a study with early stopping."""
        self.stop_reason: str | None = None
        """Reason to stop the training; ``None`` until a report has returned True."""

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def __repr__(self) -> str:
        return f"WorkerTrial(number={self.number}, params={self.params!r})"

    def report(self, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1. Return True if the training should stop.

        The function should then return; its return value is ignored.
        """
        return self._worker.report(self, epoch, value)


class Worker:
    """A worker of a study that is served by ``fedbo serve``.

    ``url``
        The address that ``fedbo serve`` prints.
    ``token``
        The token of the server. Defaults to the environment variable ``FEDBO_WORKER_TOKEN``.
    ``name``
        Name under which the worker holds trials, made of letters, digits and the characters ``_.@/-``. It must be unique among workers
        that run at the same time. By default, it consists of the host name and random characters.
    ``ca``
        A PEM file with certificate authorities to trust, in addition to those of the system.
    ``allow_plain_http``
        Allow plain HTTP to other machines. Anybody on the network path can then read the token and change the messages.
    ``lease_s``
        Duration of a lease in seconds. If the lease is not renewed in time, the trial becomes available to other workers.
    ``patience_s``
        Time in seconds for which a request is retried while the server does not respond or is busy.

    The worker uses the proxy in ``HTTPS_PROXY`` or ``HTTP_PROXY``, but never for this machine or a host in ``NO_PROXY``. Entries of
    ``NO_PROXY`` are host names, which include their subdomains, addresses, or networks such as ``10.0.0.0/8``.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        name: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        allow_plain_http: bool = False,
        lease_s: float = 60.0,
        patience_s: float = 300.0,
    ) -> None:
        token = (token or os.environ.get("FEDBO_WORKER_TOKEN", "")).strip()
        if not token:
            raise Error("a worker needs the token of fedbo serve: token=..., or the variable FEDBO_WORKER_TOKEN")
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise Error(
                "the token has a space, a line break, or another character that a token of fedbo serve cannot have; "
                "give exactly the content of its --token-file"
            )
        if not url.startswith(("http://", "https://")):
            raise Error(f"url = {url!r}, expected an address that begins with https:// or http://")
        host, port = _host_of(url)
        if url.startswith("http://") and not (allow_plain_http or _is_loopback(host)):
            raise Error(
                f"url = {url!r}: over http anybody on the network path can read the token; use https, or allow this with "
                "allow_plain_http=True"
            )
        self.name = name or _some_name()
        """Name under which the worker holds trials."""
        self.lease_s = float(lease_s)
        """Duration of a lease in seconds. If the lease is not renewed in time, the trial becomes available to other workers."""
        self.patience_s = float(patience_s)
        """Time in seconds for which a request is retried while the server does not respond or is busy."""
        self._url = url.rstrip("/")
        self._authorization = f"Bearer {token}"
        # By default, urllib would use proxies for this machine too.
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), urllib.request.ProxyHandler(_proxies(host, port))]
        if url.startswith("https://"):
            context = ssl.create_default_context()
            if ca is not None:
                context.load_verify_locations(ca)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Worker({self._url!r}, name={self.name!r})"

    def ask(self, wait_s: float | None = None) -> WorkerTrial | Status:
        """Ask for a trial to evaluate. Return ``"full"`` or ``"stopped"`` if there are no further trials.

        While other workers evaluate the last trials, which may be released, the call waits for up to ``wait_s`` seconds (None: no
        limit), and then raises :class:`ServeError` with the code ``wait``.
        """
        answer = self._asked(wait_s)
        if answer["status"] == "trial":
            return WorkerTrial(self, answer)
        return "full" if answer["status"] == "full" else "stopped"

    def report(self, trial: WorkerTrial, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1. Return True if the training should stop.

        NaN and infinity also stop the training, and the trial fails.
        """
        value = float(value)
        if not math.isfinite(value):
            trial.stop_reason = f"it reported {value} at epoch {epoch}, which is not a finite number"
            self.tell(trial, failed=trial.stop_reason, kind="not-finite")
            return True
        answer = self._of(trial, "report", {"epoch": operator.index(epoch), "value": value})
        if answer["stop"]:
            trial.stop_reason = answer["reason"]
        return bool(answer["stop"])

    def renew(self, trial: WorkerTrial) -> None:
        """Extend the lease of a trial to ``lease_s`` from now. :meth:`run` does this automatically."""
        self._of(trial, "renew", {"lease_s": trial.lease_s})

    def tell(
        self,
        trial: WorkerTrial,
        value: float | Mapping[str, float] | None = None,
        *,
        failed: str | None = None,
        kind: str = "reported",
    ) -> None:
        """Tell the value of a trial, or the reason for its failure, with ``kind`` as a one-word category.

        The result is durable when this method returns. With constraints or several objectives, the value is a dict with all outcomes by
        name. A value that is not a finite number is a failure. Telling the same result again has no effect.
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
        """Release a trial, so that another worker can evaluate it."""
        self._of(trial, "release", {})

    def study(self) -> dict[str, Any]:
        """Return the study: its parameters, numbers of trials and best trial, as described in docs/serve.md."""
        return self._request("/v1/study", None)

    @contextlib.contextmanager
    def holding(self, trial: WorkerTrial) -> Iterator[None]:
        """Renew the lease of a trial from a thread, every third of its duration, until the block ends."""
        ended = threading.Event()
        third = trial.lease_s / 3

        def renew() -> None:
            pause = third
            while not ended.wait(pause):
                pause = third
                try:
                    # With a timeout of a third of the lease, there is time for another attempt before the lease expires.
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
        """Evaluate trials one after another until the study is full or stopped, or this call has told ``n_trials`` trials.

        ``function`` takes a :class:`WorkerTrial` and returns its value, or a dict with all outcomes by name. If it raises an
        exception, the trial fails. Ctrl-C releases the trial and propagates as ``KeyboardInterrupt``.
        """
        counts: Counter[str] = Counter()

        def report(ended: Literal["full", "stopped", "limit"], reason: str) -> WorkerReport:
            told, failed, stopped, lost = (counts[key] for key in ("told", "failed", "stopped", "lost"))
            return WorkerReport(told, failed, stopped, lost, ended, reason)

        try:
            while n_trials is None or counts["told"] < n_trials:
                answer = self._asked(None)
                if answer["status"] != "trial":
                    return report(answer["status"], answer["reason"])
                self._evaluate(function, WorkerTrial(self, answer), counts)
        except KeyboardInterrupt:
            # Not _interrupt.resumable, because this file is also used without the package.
            logger.warning("interrupted: finished trials are told, and the running one is released; run the worker again to continue")
            raise
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
        """Release a trial if the server responds soon. Otherwise, its lease expires."""
        with contextlib.suppress(Error):
            self._of(trial, "release", {}, patience_s=2.0)

    def _asked(self, wait_s: float | None) -> dict[str, Any]:
        """Request a trial until the response is not ``wait``."""
        until = math.inf if wait_s is None else time.monotonic() + wait_s
        # The nonce stays the same until there is a trial, so the server repeats a lost response.
        nonce = secrets.token_hex(8)
        while True:
            left = until - time.monotonic()
            # The server should respond before the request times out.
            wait = min(_WAIT_S, max(left, 0.0), self.patience_s / 2)
            body = {"worker": self.name, "nonce": nonce, "lease_s": self.lease_s, "wait_s": wait}
            began = time.monotonic()
            try:
                answer = self._request("/v1/ask", body)
            except ServeError as error:
                if error.code != "nonce-used":
                    raise
                # The response was lost for longer than the lease, and another worker has the trial.
                logger.info("%s", error)
                nonce = secrets.token_hex(8)
                time.sleep(random.uniform(0.1, 0.5))
                continue
            if answer["status"] != "wait":
                return answer
            if time.monotonic() >= until:
                raise ServeError("wait", answer["reason"])
            if time.monotonic() - began < 1.0:  # the server is shutting down, so it did not wait
                time.sleep(random.uniform(0.5, 1.5))

    def _of(self, trial: WorkerTrial, action: str, body: dict[str, Any], **limits: Any) -> dict[str, Any]:
        if trial._worker._url != self._url:
            raise Error(f"trial {trial.number} belongs to {trial._worker._url}, and this worker's server is {self._url}")
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
        """Make a request, and retry it while there is no response. Requests are idempotent because of their nonce or their content.

        Retries end once ``ended`` is set.
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
                logger.info("%s; retrying in %.1f s", error, pause)
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
            raise ServeError("unreachable", f"{self._url} does not respond: {reason}") from error
        except Exception as error:  # http.client has separate exceptions for truncated responses
            raise ServeError("unreachable", f"{self._url} does not respond: {error!r}") from error
        if not isinstance(answer, dict):
            raise ServeError("unreachable", f"{self._url} does not respond like fedbo serve")
        return answer

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> ServeError:
        message = f"the certificate of {self._url} is not trusted ({error.verify_message}); name its authority: ca='ca.pem'"
        return ServeError("untrusted", message)


def _host_of(url: str) -> tuple[str, int]:
    """Return the host and port of a URL."""
    try:
        parts = urllib.parse.urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if not host:
        raise Error(f"url = {url!r}, expected https://HOST:PORT")
    return host, port or (443 if scheme == "https" else 80)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _proxies(host: str, port: int) -> dict[str, str]:
    """Return the proxies for a host by URL scheme. There are none for this machine and for hosts in ``NO_PROXY``."""
    name, address = host.rstrip(".").lower(), _address(host)
    is_here = _is_loopback(name) or name.endswith(".localhost") or (address is not None and address.is_unspecified)
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if is_here or any(_bypasses(entry, name, port) for entry in listed.replace(",", " ").replace(";", " ").split()):
        return {}
    proxies = {scheme: proxy for scheme, proxy in urllib.request.getproxies().items() if scheme != "no"}
    for scheme in ("http", "https"):
        if "all" in proxies:
            proxies.setdefault(scheme, proxies["all"])
    return proxies


def _bypasses(entry: str, host: str, port: int) -> bool:
    """Return True if an entry of ``NO_PROXY`` is ``*`` or matches the host. An entry may end with ``:PORT``."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            logger.warning("NO_PROXY: %r is not a network, expected for instance 10.0.0.0/8", entry)
            return False
    listed, _, of_port = entry.rpartition(":")
    if of_port.isdecimal() and (":" not in listed or listed.endswith("]")):
        if int(of_port) != port:
            return False
        entry = listed
    if (given := _address(entry)) is not None:
        return given == address
    entry = entry.rstrip(".").lower()
    if entry.endswith("*"):
        return host.startswith(entry[:-1])
    entry = entry.lstrip("*").lstrip(".")
    return address is None and (host == entry or (entry != "" and host.endswith("." + entry)))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because the token is only for this server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _refusal(error: urllib.error.HTTPError) -> ServeError:
    """Convert an error response. The response of a proxy does not contain an error code of fedbo."""
    try:
        problem = json.loads(error.read())
        return ServeError(problem["code"], problem["message"], problem.get("stored"))
    except (OSError, ValueError, TypeError, KeyError):
        code = "unavailable" if error.code in _RETRIED else "bad-answer"
        return ServeError(code, f"{error.url} responds {error.code} {error.reason}, which is not a response of fedbo serve")


def _words(error: Exception) -> str:
    """Return the type and text of an exception, whose ``__str__`` may raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__} (its text cannot be shown)"


def _message(text: object) -> str:
    """Make a message suitable for a request: remove lone surrogates, and truncate it if it is too long."""
    message = str(text).encode("utf-8", "backslashreplace").decode()[:_MESSAGE_CHARACTERS]
    while len(json.dumps(message)) > _MESSAGE_BYTES:
        message = message[:-500]
    return message


def _value(value: object) -> float | dict[str, float]:
    """Convert the return value of a function to a float, or to several floats by name."""
    if isinstance(value, Mapping):
        return {str(name): _number(each) for name, each in value.items()}
    return _number(value)


def _is_finite(value: float | Mapping[str, float] | None) -> bool:
    return all(map(math.isfinite, value.values() if isinstance(value, Mapping) else [value or 0.0]))


def _number(value: object) -> float:
    """Convert the return value of a function to a float."""
    if value is None or isinstance(value, (bool, str, bytes)):
        raise TypeError(f"the function returned {value!r}, which is not a number")
    return float(value)  # type: ignore[arg-type]


def _some_name() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in socket.gethostname())
    return f"{host[:32] or 'worker'}-{os.getpid()}-{secrets.token_hex(4)}"
