"""The program ``fedbo``, which the package carries."""

import signal
import sys

from fedbo import _fedbo


def main() -> int:
    """Run the program with the arguments of this process; return its exit status."""
    # Ctrl-C is the program's own: Python's handler would raise after it has ended in good order.
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:
        return _fedbo.run_program(["fedbo", *sys.argv[1:]])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return _fedbo.run_program(["fedbo", *sys.argv[1:]])
    finally:
        signal.signal(signal.SIGINT, handler)
