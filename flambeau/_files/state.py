"""What holds for the calls of a thread: whether `save` and `load` leave the data out."""

from __future__ import annotations

import threading


class _Local(threading.local):
    skip_data = False


local = _Local()


class skip_data:
    """A context in which `save` leaves room for the data without writing it, and `load` makes tensors without reading theirs.

    What was left out reads as zeros.  `materialize_fake_tensors` is PyTorch's; there are no fake tensors here.

    Raises nothing.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> with flambeau.serialization.skip_data():
    ...     flambeau.save(flambeau.ones(2), file)
    >>> _ = file.seek(0)
    >>> flambeau.load(file)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, local.skip_data = local.skip_data, True

    def __exit__(self, *error: object) -> None:
        local.skip_data = self._before
