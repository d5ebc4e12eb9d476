"""Integrations of fedbo with other packages. Each module is imported only on demand.

    >>> from fedbo.integrations.optuna import FedboSampler  # doctest: +SKIP
"""

from __future__ import annotations


def missing(package: str, extra: str) -> ImportError:
    """Create the error for a missing package of an integration, with installation instructions."""
    return ImportError(
        f'fedbo.integrations.{extra} needs {package}, which is not installed; install it with: pip install "fedbo[{extra}]"',
        name=package,
    )
