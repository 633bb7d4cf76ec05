"""`import torch` means flambeau."""

import flambeau

flambeau.as_torch()
