"""Forwards the log of this package to the app's log."""

import logging


def show_log() -> None:
    """Add a log handler for this package, unless one is configured."""
    logger = logging.getLogger("fedbo")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("fedbo: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
