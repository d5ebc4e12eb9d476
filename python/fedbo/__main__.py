"""``python -m fedbo``: the program ``fedbo``."""

import sys

from fedbo._program import main

sys.exit(main())
