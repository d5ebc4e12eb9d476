"""``python -m fedbo`` runs the program ``fedbo``."""

import sys

from fedbo._program import main

sys.exit(main())
