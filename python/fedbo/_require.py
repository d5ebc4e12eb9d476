"""Optional dependencies of some functions."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, package: str, purpose: str) -> Any:
    """Import a module of an optional package. If it is missing, raise an ImportError that names the package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs the package {package}, which is not installed: pip install {package}", name=module
        ) from error
