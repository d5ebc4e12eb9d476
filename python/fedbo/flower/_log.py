"""The log of this package in an app's log."""

import logging


def show_log() -> None:
    """Shows what this package logs where nobody has said where it goes."""
    logger = logging.getLogger("fedbo")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("fedbo: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
