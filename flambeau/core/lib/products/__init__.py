"""Products of matrices: BLAS, our own tiles, and what both share."""

from ...base.callbacks import callbacks_in

callbacks_in(f"{__name__}.widened", "products.widened")
