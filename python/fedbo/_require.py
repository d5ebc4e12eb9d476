"""Packages that only some functions need."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, package: str, purpose: str) -> Any:
    """The module of an optional package; an ImportError that names the package if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs the package {package}, which is not installed: pip install {package}", name=module
        ) from error
