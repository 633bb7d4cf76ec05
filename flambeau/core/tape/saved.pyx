# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors that nodes save for backward.  A node that needs its own output keeps an alias of it without history."""
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from ..base.dtypes cimport dtype_of, CATEGORY
from ..base.tensor cimport TensorBase, alias, runtime
from ..base import display
from ..base.callbacks import callbacks
from .anomaly cimport anomaly_enabled
from .modes cimport grad_enabled, set_grad, wants_grad
from .nodes cimport NOT_SAVED, Node, decref_deferred, identity_node, swapped_error
from .nodes import set_saved_tensor
from .forward cimport primal_in_push
from .history cimport attach
import threading
cimport cython

cdef extern from *:
    """
    static __thread int flambeau_packing = 0;
    """
    int flambeau_packing          # whether saved tensors go through hooks in this thread


cdef int save_tensor(Slot* slot, TensorBase t, int output, TensorBase written=None) except -1:
    """Remember t for backward; `output` is -1 for an input of the node, else the number of the output it is.

    An input that lies in the storage of `written`, which the operation has overwritten, is no longer what the
    derivative reads: it is remembered at the version before, so that `unpack_tensor` refuses it.
    """
    cdef object held = t
    if t.storage.inference:
        raise RuntimeError("Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal "
                           "tensor and use it in autograd.")
    if flambeau_packing:
        held = packed(t, output)
    elif output >= 0:  # without its history: node -> output -> node would be a cycle
        held = alias(t, t.rank, t.sizes, t.strides, t.offset)
    Py_INCREF(held)
    slot.tensor = <PyObject*>held
    slot.version = t.storage.version
    if written is not None and output < 0 and t.storage is written.storage and not written.silent:
        slot.version -= 1
    slot.output = output
    return 0


cdef int refuse_freed() except -1:
    """Raise for a node whose operands were freed."""
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        "saved tensors after calling backward.")


cdef TensorBase unpack_tensor(Slot* slot, Node node):
    """The tensor again; RuntimeError when it has been written to since, or was freed."""
    cdef TensorBase t, again
    if slot.tensor == NULL:
        refuse_freed()
    if isinstance(<object>slot.tensor, Packed):
        return unpacked(<Packed>slot.tensor, slot.output, node)
    t = <TensorBase>slot.tensor
    if t.swapped > node.sequence:
        raise swapped_error(f"{node.name()} needs a tensor")
    if t.storage.version != slot.version and not t.silent:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{dtype_of(t.code)} {list(t.shape)}], which is "
            f"{'output ' + str(slot.output) if slot.output >= 0 else 'an input'} of {node.name()}, is at version "
            f"{t.storage.version}; expected version {slot.version} instead. Hint: clone() the tensor before changing it"
            + (written_by(t, node) if anomaly_enabled else f"; under {display.public('autograd.set_detect_anomaly(True)')} errors name the lines."))
    if slot.output >= 0 and grad_enabled() and CATEGORY[t.code] >= 2:
        again = alias(t, t.rank, t.sizes, t.strides, t.offset)
        attach(again, node, slot.output)
        return again
    return primal_in_push(t) if runtime.forward and t.requires else t


cdef str written_by(TensorBase t, Node node):
    """Which line wrote to a tensor after the node was recorded, as far as the tape knows."""
    writer = t.grad_fn_now()
    if isinstance(writer, Node) and (<Node>writer).sequence > node.sequence:
        return f". Written to since: {callbacks['recorded'](writer)}."
    return "."


# --- hooks on saved tensors ------------------------------
@cython.final
@cython.binding(False)
cdef class Packed:
    """What a pack hook made of a saved tensor, and where that tensor stood on the tape."""

    cdef object content, unpack
    cdef object source        # the node, or the leaf, that a gradient of the tensor goes to; None without one
    cdef int number


_saving = threading.local()  # .hooks: pairs (pack, unpack), the innermost last; .refused: why there may be none


cdef bint packing() noexcept:
    return flambeau_packing


def push_saved_hooks(pack, unpack) -> None:
    """Let tensors saved in this thread go through these hooks, until `pop_saved_hooks`."""
    global flambeau_packing
    if getattr(_saving, "refused", None) is not None:
        raise RuntimeError(_saving.refused)
    if not hasattr(_saving, "hooks"):
        _saving.hooks = []
    _saving.hooks.append((pack, unpack))
    flambeau_packing = True


def pop_saved_hooks() -> None:
    """End what the last `push_saved_hooks` began."""
    global flambeau_packing
    _saving.hooks.pop()
    flambeau_packing = len(_saving.hooks) > 0


def refuse_saved_hooks(message):
    """Let `push_saved_hooks` raise this message (None allows hooks again); returns what stood before."""
    before = getattr(_saving, "refused", None)
    if message is not None and flambeau_packing:
        raise RuntimeError(message)
    _saving.refused = message
    return before


cdef Packed packed(TensorBase t, int output):
    """t through the innermost pack hook."""
    pack, unpack = _saving.hooks[len(_saving.hooks) - 1]
    return packed_by(t, output, pack, unpack)


cdef Packed packed_by(TensorBase t, int output, object pack, object unpack):
    """t through a pack hook, which sees it without history and may not write to it."""
    global flambeau_packing
    cdef Packed p = Packed.__new__(Packed)
    cdef TensorBase shown = alias(t, t.rank, t.sizes, t.strides, t.offset)
    cdef bint before = grad_enabled(), packing = flambeau_packing
    cdef uint64_t version = t.storage.version
    if output < 0 and wants_grad(t):
        p.source, p.number = t.grad_fn_now(), t.output_number
        if p.source is None:
            p.source = t
    p.unpack = unpack
    set_grad(False)
    flambeau_packing = False
    try:
        p.content = pack(shown)
    finally:
        set_grad(before)
        flambeau_packing = packing
    if t.storage.version != version:
        raise RuntimeError("A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                           "not be modified by in-place operations as this can lead to unexpected side-effects.")
    return p


cdef TensorBase unpacked(Packed p, int output, Node node):
    """The saved tensor from its unpack hook, at its old place on the tape where that matters."""
    cdef TensorBase t, again
    result = p.unpack(p.content)
    if not isinstance(result, TensorBase):
        raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                        f"{type(result).__name__}")
    t = <TensorBase>result
    again = alias(t, t.rank, t.sizes, t.strides, t.offset)
    if not grad_enabled() or CATEGORY[again.code] < 2:
        return again
    if output >= 0:
        attach(again, node, output)
    elif isinstance(p.source, Node):
        again.fn, again.output_number, again.requires = p.source, p.number, True
    elif p.source is not None:
        if (<TensorBase>p.source).swapped > node.sequence:
            raise swapped_error(f"{node.name()} needs a tensor")
        again.fn, again.output_number, again.requires = identity_node(<TensorBase>p.source), 0, True
    return again


class SavedTensor:
    """A tensor that a node has saved (`grad_fn._raw_saved_self`), before it is unpacked: `register_hooks` packs it now."""

    def __init__(self, Node node not None, int place):
        self._node, self._place = node, place

    def register_hooks(self, pack_hook, unpack_hook) -> None:
        """Keep what `pack_hook(tensor)` returns in the tensor's place; backward reads `unpack_hook` of that.

        RuntimeError for a tensor that was not saved, was freed, has hooks or was overwritten.
        """
        cdef Node node = self._node
        cdef Slot* slot = NULL if self._place == NOT_SAVED else <Slot*>node.saved_slot(self._place)
        cdef Packed made
        cdef TensorBase t
        if slot == NULL:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if slot.tensor == NULL:
            raise RuntimeError("Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
                               "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
                               "through the graph a second time or if you need to access saved variables after calling backward.")
        if isinstance(<object>slot.tensor, Packed):
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
                               "allowed at a time.")
        unpack_tensor(slot, node)
        t = <TensorBase>slot.tensor
        made = packed_by(t, slot.output, pack_hook, unpack_hook)
        clear_slot(slot)
        Py_INCREF(made)
        slot.tensor = <PyObject*>made


set_saved_tensor(SavedTensor)
