"""What `compile` takes beside the function (`options={...}`): options of the library's own compiler, under PyTorch's names.

An option is a field of `Options`, and changes plans.  Others of PyTorch's are known, and change nothing here, for the reason that
stands beside them: what they choose among is not here, or what they ask for always holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.base.spelling import hint


class Options(NamedTuple):
    """How programs are planned.

    >>> from flambeau.graph.options import Options
    >>> Options().eager_numerics, Options().epilogue_fusion
    (False, True)
    """

    eager_numerics: bool = False  # each result has the bits of the calls one by one: sums keep their order
    use_fast_math: bool = False  # formulas that hold for numbers but change bits (`passes/algebra.py`)
    epilogue_fusion: bool = True  # products end in the elementwise operations that alone read them
    joint_graph_constant_folding: bool = True  # what follows from literals alone is computed when planned
    cudagraphs: bool = False  # on a CUDA device a run is one launch (`replayed.py`)


DEFAULT = Options()
NAMES = {name: name for name in Options._fields} | {
    "triton.cudagraphs": "cudagraphs"
}  # as programs give them
del NAMES["cudagraphs"]

_ONE_CHOICE = "kernels are chosen by shapes, and nothing is timed"
_ALWAYS = "it always holds"
_ONE_POOL = "each graph has memory of its own"
_NO_PADDING = "tiles take rows of any length"

ACCEPTED: dict[str, tuple[type, str]] = {
    "max_autotune": (bool, _ONE_CHOICE),
    "max_autotune_gemm": (bool, _ONE_CHOICE),
    "max_autotune_gemm_backends": (str, _ONE_CHOICE),
    "max_autotune_pointwise": (bool, _ONE_CHOICE),
    "coordinate_descent_tuning": (bool, _ONE_CHOICE),
    "fallback_random": (bool, "random numbers are those of eager calls"),
    "deterministic": (bool, _ALWAYS),
    "emulate_precision_casts": (bool, "results are rounded to their dtype between operations"),
    "eager_numerics.division_rounding": (bool, _ALWAYS),
    "eager_numerics.disable_ftz": (bool, _ALWAYS),
    "shape_padding": (bool, _NO_PADDING),
    "comprehensive_padding": (bool, _NO_PADDING),
    "triton.cudagraph_trees": (bool, _ONE_POOL),
    "triton.unique_kernel_names": (bool, "kernels are named by their operations"),
    "guard_filter_fn": (object, "guards are looked at by compiled code, all of them"),
    "trace.enabled": (bool, "the plans are logged, as with FLAMBEAU_LOG=+graph"),
    "trace.graph_diagram": (bool, "graph.picture draws a plan"),
}


MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "lite": {},
}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that a mode of `compile` sets, or those of each mode.

    Raises:
        RuntimeError: an unknown mode

    >>> from flambeau.graph.options import list_mode_options
    >>> list_mode_options("reduce-overhead"), len(list_mode_options())
    ({'triton.cudagraphs': True}, 5)
    """
    if mode is None:
        return {name: dict(own) for name, own in MODES.items()}
    if mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    return dict(MODES[mode])


def list_options() -> list[str]:
    """The names that `compile(options=...)` knows.

    >>> from flambeau.graph.options import list_options
    >>> [name for name in list_options() if "numerics" in name]
    ['eager_numerics', 'eager_numerics.disable_ftz', 'eager_numerics.division_rounding']
    """
    return sorted([*NAMES, *ACCEPTED])


def options_of(given: Mapping[str, Any] | None) -> Options:
    """The options that a program gives; "-" in a name stands for "_".

    Raises:
        TypeError: no mapping
        RuntimeError: an unknown name, a value of another class, or two options that exclude each other

    >>> from flambeau.graph.options import options_of
    >>> options_of({"eager-numerics": True}).eager_numerics
    True
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, Mapping):
        raise TypeError(f"compile(): options: expected a dict, got {type(given).__name__}")
    kinds: dict[str, type] = {
        **dict.fromkeys(NAMES, bool),
        **{name: kind for name, (kind, _) in ACCEPTED.items()},
    }
    result: dict[str, Any] = {}
    for key, value in given.items():
        name = str(key).replace("-", "_")
        if name not in kinds:
            raise RuntimeError(
                f"Unexpected optimization option {key}, known options are {list_options()}{hint(name, kinds)}"
            )
        if not isinstance(value, kinds[name]):
            raise RuntimeError(
                f"Unexpected type of attr {key}, got {type(value).__name__} should be {kinds[name].__name__}"
            )
        if name in NAMES:
            result[NAMES[name]] = value
        elif name == "trace.enabled" and value:
            from .logs import DEBUG, switch_on  # not at the start of programs, which need no logs

            switch_on(DEBUG)
    options = Options(**result)
    if options.eager_numerics and options.use_fast_math:
        raise RuntimeError(
            "compile(): eager_numerics keeps the bits that use_fast_math changes: give one of them"
        )
    return options
