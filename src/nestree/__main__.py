"""``python -m nestree``."""

import sys

from nestree.cli.main import main

sys.exit(main())
