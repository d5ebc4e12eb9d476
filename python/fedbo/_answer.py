"""Answers of the program's commands that only compute something."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedbo import _fedbo
from fedbo._errors import Error

# An option of the program in a text, with or without what it takes: '--agents N', '--sampling-rate <Q>'.
_OPTION = re.compile(r"'?--([a-z][a-z-]*[a-z])(?: (?:<[A-Z]+>|[A-Z]+(?![\w-])))?'?")
_NAMES = {"runs": "n_runs", "resume": "resume=True", "overwrite": "overwrite=True", "spend-again": "spend_again=True"}


def in_python(text: str) -> str:
    """A text of the program with arguments of Python in place of its options."""
    return _OPTION.sub(lambda found: _NAMES.get(found[1], found[1].replace("-", "_")), text)


def translated(error: Error) -> Error:
    """The same error with arguments of Python in place of options of the program."""
    return type(error)(in_python(str(error)))


def answer(command: str, options: Mapping[str, object], place: str | os.PathLike[str] | None = None) -> Any:
    """The JSON document of a command; options that are None are left out."""
    words = ["fedbo", *command.split()]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(f"{flag}={_text(value)}")
    if place is not None:
        words += ["--", os.fspath(place)]
    try:
        return json.loads(_fedbo.answer(words))
    except Error as error:
        raise translated(error) from None


def _text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_text, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
