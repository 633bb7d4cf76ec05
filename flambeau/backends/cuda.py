"""NVIDIA's devices: what is built for them and what programs allow."""

from __future__ import annotations


def is_built() -> bool:
    """True: support for NVIDIA's devices is part of every build; `cuda.is_available()` says whether there is one.

    >>> import flambeau
    >>> flambeau.backends.cuda.is_built()
    True
    """
    return True


class _Products:
    """Roundings that products may make; permissions of which nothing here makes use."""

    __slots__ = (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
        "allow_fp16_reduced_precision_reduction",
        "allow_tf32",
    )

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_accumulation = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True


matmul = _Products()
