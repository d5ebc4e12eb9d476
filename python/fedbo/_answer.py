"""JSON documents of commands without side effects."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedbo import _fedbo
from fedbo._errors import Error
from fedbo._space import plain
from fedbo._space import text as checked_text

# A command-line option in a message, with or without its argument, such as '--agents N' or '--sampling-rate <Q>'.
_OPTION = re.compile(r"'?--([a-z][a-z-]*[a-z])(?: (?:<[A-Z]+>|[A-Z]+(?![\w-])))?'?")
_NAMES = {"runs": "n_runs", "resume": "resume=True", "overwrite": "overwrite=True", "spend-again": "spend_again=True"}


def in_python(text: str) -> str:
    """Replace command-line options in a message of the program by Python arguments."""
    return _OPTION.sub(lambda found: _NAMES.get(found[1], found[1].replace("-", "_")), text)


def translated(error: Error) -> Error:
    """Copy an error, with command-line options in its message replaced by Python arguments."""
    return type(error)(in_python(str(error)))


def answer(command: str, options: Mapping[str, object], place: str | os.PathLike[str] | None = None) -> Any:
    """Run a command and parse its JSON document. Options that are None are omitted."""
    words = ["fedbo", *command.split()]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(checked_text(name, f"{flag}={_text(value)}"))
    if place is not None:
        words += ["--", checked_text("the path", os.fspath(place))]
    try:
        return json.loads(_fedbo.answer(words))
    except Error as error:
        raise translated(error) from None


def _text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_text, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(plain(value))
