"""The program ``fedbo`` as a child process that exits with its parent, when its standard input is closed.

The operating system closes the pipes of a process, no matter how the process ends. A coordinator that outlived its ServerApp would keep
its folder locked for the next one.
"""

import os
import signal
import sys
import threading

from fedbo._program import main


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=_watch, daemon=True).start()
sys.exit(main())
