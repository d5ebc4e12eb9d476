"""Integrations of fedbo with other packages. The modules are only imported on demand.

    >>> from fedbo.integrations.optuna import FedboSampler  # doctest: +SKIP
"""

from __future__ import annotations


def missing(package: str, extra: str) -> ImportError:
    """Create the error for the missing package of an integration, with installation instructions."""
    return ImportError(
        f'fedbo.integrations.{extra} needs {package}, which is not installed; install it with: pip install "fedbo[{extra}]"',
        name=package,
    )
