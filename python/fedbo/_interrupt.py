"""Message after Ctrl-C that explains how to resume the interrupted call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

logger = logging.getLogger("fedbo")


@contextlib.contextmanager
def resumable(how: str) -> Iterator[None]:
    """Log how to resume if Ctrl-C ends the block, then re-raise the interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        logger.warning("interrupted: %s", how)
        raise
