"""The older name of `flambeau.hub.load_state_dict_from_url`."""

from __future__ import annotations

from ..core.base.lazily import lazily
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]

__getattr__, __dir__ = lazily(__name__, names={"tqdm": "..hub"})
