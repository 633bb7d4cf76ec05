"""Memory formats and layouts."""

from __future__ import annotations

from enum import Enum

from . import display


class _Public(Enum):
    """Enumerations whose members stand in the flat namespace, which is where their text and pickles find them."""

    def __repr__(self) -> str:
        return display.public(self.name)

    __str__ = __repr__

    def __reduce_ex__(self, protocol: object) -> str:  # type: ignore[override]  # a name is an answer, too
        return self.name


class memory_format(_Public):
    """In which order the dimensions of a result lie in memory.

    `contiguous_format` is row-major, `preserve_format` the input's own order, `channels_last` (four dimensions) and
    `channels_last_3d` (five) put the channels last: batch, height, width, channel.

    >>> import flambeau
    >>> flambeau.zeros(2, 3, 4, 5).contiguous(memory_format=flambeau.channels_last).stride()
    (60, 1, 15, 3)
    """

    contiguous_format = 1  # the numbers are those of core/make/factory.pxd
    preserve_format = 2
    channels_last = 3
    channels_last_3d = 4


class layout(_Public):
    """How elements are stored.

    `strided`: at places that are sums of indices times strides.  `sparse_coo`: those that are not zero, in a list, with
    another of their indices.  `sparse_csr` and `sparse_csc`: listed row by row or column by column; `sparse_bsr` and
    `sparse_bsc`: whole blocks, listed so.  `jagged`: sequences of different lengths one after another (see
    `flambeau.nested`).
    """

    strided = 1
    sparse_coo = 2
    sparse_csr = 3
    sparse_csc = 4
    sparse_bsr = 5
    sparse_bsc = 6
    jagged = 7


class qscheme(_Public):
    """How a quantised tensor's numbers are scaled: by one scale and zero point, or by one for each channel.

    Symmetric schemes are those of observers, whose zero point is the middle; `per_channel_affine_float_qparams` has floating-point zero
    points.
    """

    per_tensor_affine = 1
    per_channel_affine = 2
    per_tensor_symmetric = 3
    per_channel_symmetric = 4
    per_channel_affine_float_qparams = 5


contiguous_format = legacy_contiguous_format = memory_format.contiguous_format
preserve_format = memory_format.preserve_format
channels_last = memory_format.channels_last
channels_last_3d = memory_format.channels_last_3d
strided = layout.strided
sparse_coo = layout.sparse_coo
sparse_csr = layout.sparse_csr
sparse_csc = layout.sparse_csc
sparse_bsr = layout.sparse_bsr
sparse_bsc = layout.sparse_bsc
jagged = layout.jagged
