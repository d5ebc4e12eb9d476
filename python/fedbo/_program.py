"""The ``fedbo`` program, which is bundled with the package."""

import signal
import sys

from fedbo import _fedbo


def main() -> int:
    """Run the program with the arguments of this process, and return its exit status."""
    # The program handles Ctrl-C itself. Python's handler would raise KeyboardInterrupt after the program has exited cleanly.
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:
        return _fedbo.run_program(["fedbo", *sys.argv[1:]])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return _fedbo.run_program(["fedbo", *sys.argv[1:]])
    finally:
        signal.signal(signal.SIGINT, handler)
