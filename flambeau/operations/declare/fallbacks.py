"""What happens where an operation takes tensors of an accelerator to the CPU and its results back.

The declaration says why (`by_host=` of `registry.register`).  The first call of each operation warns; FLAMBEAU_CPU_FALLBACK, or
`flambeau.accelerator.set_cpu_fallback`, chooses another answer for all of them.
"""

from __future__ import annotations

import warnings

from ...core.base import display
from ...core.base.settings import choice

ANSWERS = ("warn", "allow", "error")


class CpuFallbackWarning(UserWarning):
    """An operation takes tensors of an accelerator to the CPU, computes there, and takes the results back."""


_answer = choice("FLAMBEAU_CPU_FALLBACK", ANSWERS) or "warn"
_warned: set[str] = set()


def set_cpu_fallback(answer: str) -> str:
    """Choose what an operation does that takes tensors of an accelerator to the CPU, for all threads; the choice before.

    "warn", the default, gives a `CpuFallbackWarning` at the first call of each operation, "allow" says nothing, "error" raises a
    NotImplementedError before anything is copied.  The environment's FLAMBEAU_CPU_FALLBACK is the choice at the start.

    Raises:
        ValueError: `answer` is none of these

    >>> import flambeau
    >>> before = flambeau.accelerator.set_cpu_fallback("error")
    >>> flambeau.accelerator.set_cpu_fallback(before)
    'error'
    """
    global _answer
    if answer not in ANSWERS:
        raise ValueError(f"set_cpu_fallback(): answer must be one of {', '.join(ANSWERS)}, got {answer!r}")
    before, _answer = _answer, answer
    return before


def meet(name: str, place: str, why: str) -> None:
    """Warn of an operation that goes to the CPU, once, or raise."""
    if _answer == "allow":
        return
    if _answer == "error":
        raise NotImplementedError(
            f"{name}(): the CPU computes it for tensors on '{place}', which is switched off: {why}"
        )
    if name in _warned:
        return
    _warned.add(name)
    warnings.warn(
        f"{name}(): the CPU computes it for tensors on '{place}', which are copied there and back: {why}. "
        f"{display.NAME}.accelerator.set_cpu_fallback chooses an error in place of this warning, or neither",
        CpuFallbackWarning,
        stacklevel=4,
    )
