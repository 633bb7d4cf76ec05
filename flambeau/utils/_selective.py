"""Selective checkpointing: of a checkpointed function's operations, the results of some are kept, and not computed again.

Two modes work together.  The first, around the forward computation, asks a policy about every operation, and keeps the results of
those that it names together with what the tape wanted to save of their call.  The second, around the computation in backward, answers
these operations with what was kept: it hands the region what the tape would have saved, so that nothing of them runs.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.call.custom import CustomOp
from ..core.call.operation import Op
from ..core.make.random import device_states, get_rng_state, set_device_states, set_rng_state
from ..operations.declare.registry import published
from ._python_dispatch import TorchDispatchMode
from ._trees import tree_leaves, tree_map


class CheckpointPolicy(enum.Enum):
    """What becomes of an operation's result: kept for backward, or computed again.  `MUST_…` and `PREFER_…` are the same here; a policy
    of `…_CPU_OFFLOAD`, which a compiler of graphs carries out, computes again, as PyTorch does without one.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy gets besides the operation and its arguments: `op_output`, its result.  `is_recompute` is False: policies are
    called in the forward computation alone.

    Raises:
        TypeError: `is_recompute` is not given

    >>> from flambeau.utils.checkpoint import SelectiveCheckpointContext
    >>> SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Current(threading.local):
    region: Any = None  # the checkpointed call that is being computed, for the first time or again


current = _Current()


# --- random numbers ------------------------------
def random_states() -> tuple[TensorBase, dict[str, TensorBase]]:
    """The states of the default generators, the host's and the devices'."""
    return get_rng_state(), device_states()


def set_random_states(states: tuple[TensorBase, dict[str, TensorBase]]) -> None:
    """Put the default generators where they were."""
    set_rng_state(states[0])
    set_device_states(states[1])


def _fingerprint(states: tuple[TensorBase, dict[str, TensorBase]]) -> list[tuple[str, bytes]]:
    everywhere = {"": states[0], **states[1]}
    return [(name, bytes(state.untyped_storage())) for name, state in sorted(everywhere.items())]


# --- operations as PyTorch counts them ------------------------------
def _named(name: str) -> Any:
    return published("").get(name)


_OF_PRODUCTS = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (1, 2): "mm"}


def as_aten(func: Any, args: tuple) -> tuple[Any, tuple]:
    """The operation of ATen that does a call's work, as policies name it, and its arguments: `matmul` and `linear` are `mm`, `bmm`,
    `addmm` … by their shapes; what has no other name is itself.
    """
    name = getattr(func, "__name__", "")
    if name in ("matmul", "__matmul__", "__rmatmul__") and len(args) == 2:
        a, b = args[0].dim(), args[1].dim()
        wanted = _OF_PRODUCTS.get((a, b)) or ("bmm" if b > 2 else "mv" if b == 1 else "mm")
        return _named(wanted) or func, args
    if name == "linear" and len(args) >= 2 and args[1].dim() == 2:
        turned = args[1].detach().t()
        bias = args[2] if len(args) > 2 else None
        if bias is None:
            return _named("mm") or func, (args[0], turned)
        return _named("addmm") or func, (bias, args[0], turned)
    return func, args


SAC_IGNORED_OPS = {op for op in (_named("detach"),) if op is not None}  # neither counted nor kept


# --- what is kept ------------------------------
def _memory(x: Any) -> int | None:
    """Where a tensor's elements are; None where it has none of its own."""
    if not isinstance(x, TensorBase) or x._is_wrapper or x.is_meta or x.layout is not formats.strided:
        return None
    return x.untyped_storage()._address() or None


class _CachedCall:
    """The result of a call, what the tape saved of it, and where the generators stood behind it."""

    def __init__(self, out: Any, saved: list[TensorBase], args: tuple, kwargs: dict) -> None:
        self.out = tree_map(_Value, out)
        self.random: Any = None
        inputs = tree_leaves((args, kwargs))
        self.saved = [self._recipe(t, inputs) for t in saved]

    @staticmethod
    def _recipe(t: TensorBase, inputs: list[Any]) -> tuple:
        """An argument, or a view of one, is taken from the arguments of the second call; only what the first one computed is kept."""
        for i, a in enumerate(inputs):
            if a is t:
                return i, None
            where = _memory(a)
            if where is not None and where == _memory(t) and a.dtype == t.dtype:
                return i, (t.shape, t.stride(), t.storage_offset() - a.storage_offset())
        return None, t.detach()

    def saved_with(self, args: tuple, kwargs: dict) -> list[TensorBase]:
        inputs = tree_leaves((args, kwargs))
        result = []
        for i, how in self.saved:
            if i is None:
                result.append(how)
            elif how is None:
                result.append(inputs[i])
            else:
                size, stride, ahead = how
                result.append(inputs[i].detach().as_strided(size, stride, inputs[i].storage_offset() + ahead))
        return result


class _Value:
    """A part of a result, without its history."""

    def __init__(self, value: Any) -> None:
        self.is_tensor = isinstance(value, TensorBase)
        self.wanted = self.is_tensor and value.requires_grad
        self.value = value.detach() if self.is_tensor else value
        self.version = self.value._version if self.is_tensor and not value.is_inference() else None

    def again(self, allow_mutation: bool) -> Any:
        if self.version is not None and not allow_mutation and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value.detach().requires_grad_(self.wanted) if self.is_tensor else self.value


def _computes(out: Any, args: tuple, kwargs: dict) -> bool:
    """Whether a call made its result: a view, or what is written in place, is not worth keeping and is made again."""
    memory = {_memory(x) for x in tree_leaves((args, kwargs))} - {None}
    result = [x for x in tree_leaves(out) if isinstance(x, TensorBase)]
    return bool(result) and not any(_memory(x) in memory for x in result)


_RECOMPUTE, _CONSUMED = object(), object()
_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that changed "
    "between forward and backward."
)


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Around the first computation: keeps what the policy says."""

    def __init__(self, policy_fn: Callable, storage: dict[Any, dict[int, Any]]) -> None:
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage
        self.func_counter: dict[Any, int] = defaultdict(int)
        self._random: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        region = current.region
        saved: list[Any] = []
        if region is None:
            out = func(*args, **kwargs)
        else:
            before, region.watching = region.watching, saved
            try:
                out = func(*args, **kwargs)
            finally:
                region.watching = before
            if before is not None:  # another such mode is around this one
                before.extend(saved)
        number = self.func_counter[func]
        self.func_counter[func] += 1
        op, shown = as_aten(func, args)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = self.policy_fn(context, op, *shown, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        entry: Any = _RECOMPUTE
        if policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE) and _computes(
            out, args, kwargs
        ):
            entry = _CachedCall(out, saved, args, kwargs)
            if region is not None and region.random.states is not None:
                states = random_states()
                description = _fingerprint(states)
                if description != self._random:  # the call, or one before it, has drawn from them
                    entry.random, self._random = states, description
        self.storage[func][number] = entry
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Around the second computation: answers with what was kept."""

    def __init__(
        self, policy_fn: Any, storage: dict[Any, dict[int, Any]], allow_cache_entry_mutation: bool = False
    ) -> None:
        super().__init__()
        self.storage = storage
        self.allow_cache_entry_mutation = allow_cache_entry_mutation
        self.func_counter: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.func_counter.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        number = self.func_counter[func]
        self.func_counter[func] += 1
        calls = self.storage.get(func)
        if calls is None:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {_MISMATCH}")
        entry = calls.get(number)
        if entry is None:
            raise RuntimeError(
                f"{func} invocation index {number} encountered during backward but not found in storage. {_MISMATCH}"
            )
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective "
                "activation checkpoint."
            )
        if entry is _RECOMPUTE:
            return func(*args, **kwargs)
        calls[number] = _CONSUMED
        out = tree_map(lambda value: value.again(self.allow_cache_entry_mutation), entry.out)
        if entry.random is not None:
            set_random_states(entry.random)
        if current.region is not None:
            for t in entry.saved_with(args, kwargs):
                current.region.note(t)
        return out


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """Two contexts for `checkpoint(context_fn=…)`, by which some operations are not computed again.

    A policy is a function of a `SelectiveCheckpointContext`, the operation and its arguments, which returns a `CheckpointPolicy`, or
    True for one whose result is kept; a list of operations is that of those whose results are.  Operations come under the names of
    ATen that do their work: `x @ y` of matrices is `ops.aten.mm.default`, a linear layer with a bias `ops.aten.addmm.default`.
    Views and what is written in place are always made again.  Random numbers are the same the second time, whatever is kept.

    Backward can go through such a region once.  Changing a result that was kept is a RuntimeError then, unless
    `allow_cache_entry_mutation`.

    Raises:
        ValueError: the list holds something else than operations, such as `ops.aten.mm` in place of `ops.aten.mm.default`.
        TypeError: the policy is neither a function nor a list.

    >>> import functools
    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x, w = flambeau.ones(2, 2, requires_grad=True), flambeau.eye(2)
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [flambeau.ops.aten.mm.default])
    >>> out = checkpoint(lambda x: (x @ w).exp(), x, use_reentrant=False, context_fn=contexts)
    >>> out.sum().backward()
    >>> x.grad
    tensor([[2.7183, 2.7183],
            [2.7183, 2.7183]])
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, (Op, CustomOp)):
                more = ""
                if hasattr(op, "overloads"):
                    more = (
                        " Please update the OpOverloadPacket to a specific OpOverload. For example, if you have `ops.aten.mm`, "
                        "change it to `ops.aten.mm.default`."
                    )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{more}"
                )
        ops = list(policy_fn_or_list)

        def policy(
            context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any
        ) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in ops else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return (
        _CachingTorchDispatchMode(policy, storage),
        _CachedTorchDispatchMode(None, storage, allow_cache_entry_mutation),
    )
