"""A coordinator that is reachable only on this machine, and a client that forwards requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from fedbo._errors import DefinitionError, Error
from fedbo.flower._records import Answer, Request

_HEADERS = frozenset({"fedbo-protocol", "fedbo-key", "fedbo-time", "fedbo-counter", "fedbo-signature", "content-type"})
"""Allowed request headers. A request with any other header is refused."""
_SIGNED = re.compile(r"/v1/studies/([^/?]+)")
"""Paths that the coordinator serves only to authenticated agents of a study."""
_TARGET = re.compile(r"/v1(?![!-~]*/(?:\.|%2[eE]){2}(?:[/?#]|$))/[!-~]*")
"""Allowed paths below ``/v1/``, without segments ``..``, which a server might resolve."""
_VALUE = re.compile(r"[ -~]{0,512}")
Signer = tuple[str, str]
"""An agent, identified by its study and its key."""
_METHODS = frozenset({"GET", "PUT", "POST"})

_WAIT_S = 60.0
"""Maximum time in seconds to wait for a response. Polls ask the coordinator for a shorter wait."""
_TAKES_OVER_S = 20.0
"""Time in seconds within which a previous coordinator of the folder must exit."""


def signer(request: Request) -> Signer | None:
    """Return the agent that signed a request, if the coordinator verifies the signature before it serves the request."""
    signed, key = _SIGNED.match(request.target), dict(request.headers).get("fedbo-key")
    return None if signed is None or key is None else (signed[1], key)


class Refused(ValueError):
    """A request that does not come from an agent."""


class Unavailable(Error):
    """The coordinator does not respond."""


class Coordinator:
    """A coordinator process that serves the studies of a folder on a loopback address."""

    def __init__(self, data: Path) -> None:
        """Start the process. The folder must have been created by ``fedbo coordinator study create``."""
        self._data = data
        self._lines: deque[str] = deque(maxlen=20)
        until = time.monotonic() + _TAKES_OVER_S
        while not self._start():
            # A previous coordinator may still have locked the folder.
            if time.monotonic() > until:
                raise Error(f"the coordinator of {data} does not start: {' '.join(self._lines)}")
            time.sleep(1.0)

    def _start(self) -> bool:
        command = ["coordinator", "run", "--data", os.fspath(self._data), "--listen", "127.0.0.1:0", "--json"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fedbo.flower._watched", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._log = threading.Thread(target=self._keep_log, args=(self._process,), daemon=True)
        self._log.start()
        try:
            address = str(json.loads(self._process.stdout.readline())["url"])
        except (ValueError, KeyError):
            self.close()
            return False
        self._host, _, port = address.rpartition("://")[2].rpartition(":")
        self._port = int(port)
        return True

    def _keep_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._lines.append(line.strip())
            sys.stderr.write(line)

    def check(self) -> None:
        """Raise an error if the process has exited."""
        if self._process.poll() is not None:
            raise Error(f"the coordinator of {self._data} has ended: {' '.join(self._lines)}")

    def answer(self, request: Request) -> Answer:
        """Forward an agent's request and return the response. Only requests of the protocol are forwarded, because nodes are not trusted.

        Raises :class:`Refused` for any other request, and :class:`Unavailable` if there is no response.
        """
        # After the process has exited, another program may use its port.
        self.check()
        if request.method not in _METHODS or not _TARGET.fullmatch(request.target):
            raise Refused("a request that is not part of the protocol")
        if any(name not in _HEADERS or not _VALUE.fullmatch(value) for name, value in request.headers):
            raise Refused("a request with a header that is not part of the protocol")
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_WAIT_S)
        try:
            connection.request(request.method, request.target, request.body or None, dict(request.headers))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the coordinator does not respond: {error}") from error
        finally:
            connection.close()
        headers = [(name.lower(), value) for name, value in response.getheaders() if _is_told(name.lower())]
        return Answer(request.id, response.status, headers, body)

    def study(self, name: str | None) -> dict[str, Any]:
        """Return a study as shown by ``fedbo coordinator study show``. ``name`` is needed only if there are several studies."""
        if name is None:
            names = [str(each["study"]) for each in self._ask("ls")]
            if len(names) != 1:
                known = ", ".join(map(repr, names)) or "none"
                raise DefinitionError(f"name the study in the run's configuration, fedbo-study = \"..\"; {self._data} has {known}")
            name = names[0]
        shown = self._ask("show", name)
        assert isinstance(shown, dict)
        return shown

    def _ask(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "fedbo", "coordinator", "study", *arguments, "--data", os.fspath(self._data), "--json"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            raise Error(asked.stderr.strip())
        return json.loads(asked.stdout)

    def close(self) -> None:
        """Shut down the process gracefully."""
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._log.join()
        self._process.stdout.close()
        self._process.stderr.close()


def _is_told(name: str) -> bool:
    return name.startswith("fedbo-") or name in ("content-type", "retry-after")
