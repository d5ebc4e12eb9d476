"""The program ``fedbo`` as a child that ends with whoever started it: when its standard input is closed.

The end of a process, however it comes, closes its pipes; a coordinator that outlived its ServerApp would keep its folder from the next.
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
