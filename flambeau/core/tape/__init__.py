"""The tape.  Its files, each of which uses only those named before it:

`modes` (what this thread records), `nodes` (recorded operations, and how chains of them are freed), `hooks`, `anomaly`,
`gradients` (what arrives at a leaf), `engine` (the backward pass), `forward` (dual tensors), `history` (what a tensor knows of
the tape), `saved` (what nodes keep), `inplace`, `formulas` (derivatives written in Python), `functions` (`autograd.Function`).
Here are the names for those who use it from Python.
"""

# isort: off

from .modes import _set_grad_enabled, _set_tracking, is_forward_open, is_grad_enabled, tracked
from .nodes import AccumulateGrad, Node
from .hooks import register_hook, register_post_accumulate_grad_hook, retain_grad
from .anomaly import is_anomaly_on, set_anomaly_recorders, switch_anomaly
from .engine import (
    StagedPass,
    at_end_of_pass,
    current_pass,
    depends_beyond,
    free_saved,
    run_backward,
    run_node,
    set_backward,
    tensor_backward,
    will_reach,
)
from .forward import close_forward_level, make_dual, open_forward_level, open_levels, unpack_dual
from .saved import pop_saved_hooks, push_saved_hooks, refuse_saved_hooks
from .inplace import _check_in_place, count_write
from .formulas import record
from .functions import record_function

__all__ = [
    "AccumulateGrad",
    "Node",
    "StagedPass",
    "_check_in_place",
    "_set_grad_enabled",
    "_set_tracking",
    "close_forward_level",
    "count_write",
    "at_end_of_pass",
    "current_pass",
    "depends_beyond",
    "free_saved",
    "is_forward_open",
    "is_grad_enabled",
    "is_anomaly_on",
    "make_dual",
    "open_forward_level",
    "open_levels",
    "pop_saved_hooks",
    "push_saved_hooks",
    "record",
    "record_function",
    "tracked",
    "refuse_saved_hooks",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
    "run_backward",
    "run_node",
    "set_backward",
    "set_anomaly_recorders",
    "switch_anomaly",
    "tensor_backward",
    "unpack_dual",
    "will_reach",
]
