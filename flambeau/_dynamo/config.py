"""Settings of `compile` under PyTorch's name for them: the module `graph/config.py` itself, so that what programs set is what is read."""

from __future__ import annotations

import sys

from ..graph import config

sys.modules[__name__] = config
