"""fedbo beside other packages: a module for each, imported only when it is asked for.

    >>> from fedbo.integrations.optuna import FedboSampler  # doctest: +SKIP
"""

from __future__ import annotations


def missing(package: str, extra: str) -> ImportError:
    """The error that says how to install a package that an integration needs."""
    return ImportError(
        f'fedbo.integrations.{extra} needs {package}, which is not installed; install it with: pip install "fedbo[{extra}]"',
        name=package,
    )
