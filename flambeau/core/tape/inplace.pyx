# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Writes in place: what is refused, and the history that a written tensor gets."""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from ..base.dtypes cimport CATEGORY, size_from
from ..base.tensor cimport IN_FUNCTION, ON_TAPE, UNRECORDED, TensorBase, bump_version
from .modes cimport REVERSE, grad_enabled, wants_grad
from .nodes cimport Node, check_swapped
from .history cimport attach
cimport cython


cdef int check_in_place(TensorBase t, str who) except -1:
    """RuntimeError where writing to t would lose a leaf's value; called where operations are recorded."""
    if not grad_enabled() & REVERSE:
        return 0
    if wants_grad(t) and t.grad_fn_now() is None:
        raise RuntimeError(f"{who}(): a leaf Variable that requires grad is being used in an in-place operation." + INSTEAD)
    if t.base is None or t.silent:
        return 0
    check_swapped(t)
    if t.made == UNRECORDED and t.base.requires and CATEGORY[t.code] >= 2:
        raise RuntimeError(f"{who}(): A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
                           + AMBIGUOUS)
    if t.made == IN_FUNCTION and t.requires:
        raise RuntimeError(
            f"{who}(): Output {t.output_number} of {t.fn.name()} is a view and is being modified inplace. This view was created "
            "inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
            "override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
            "forbidden. You can fix this by cloning the output of the custom Function.")
    if t.base.requires and t.base.fn is None:
        raise RuntimeError(f"{who}(): a view of a leaf Variable that requires grad is being used in an in-place operation." + INSTEAD)
    return 0


INSTEAD = " Write to it under no_grad(), or make a new tensor."
AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and "
    "the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked).")


cdef int check_refresh(TensorBase t) except -1:
    """RuntimeError where the elements of a view were written to since it was made, and its history cannot tell of that."""
    if t.made == UNRECORDED:
        raise RuntimeError("A view was created in no_grad mode and its base or another view of its base has been modified inplace "
                           "with grad mode enabled. " + AMBIGUOUS)
    if t.made == IN_FUNCTION:
        raise RuntimeError(f"Output {t.output_number} of {t.fn.name()} is a view and its base or another view of its base has been "
                           "modified inplace. This view was created inside a custom Function (or because an input was returned "
                           "as-is) and the autograd logic to handle view+inplace would override the custom backward associated "
                           "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this "
                           "by cloning the output of the custom Function.")
    return 0


def _check_in_place(TensorBase t, str who):
    if grad_enabled():
        check_in_place(t, who)


def count_write(TensorBase t) -> None:
    """Count a write to t that no operation made."""
    bump_version(t)


cdef void before_write(TensorBase written) noexcept:
    """Let the histories of inputs be those from before the write; `after_write` ends that."""
    if not written.silent:
        written.storage.version -= 1


cdef void after_write(TensorBase written) noexcept:
    if not written.silent:
        written.storage.version += 1


cdef int rebase(TensorBase t, Node node, int number) except -1:
    """t was overwritten by `node`: give it, and the tensor it is a view of, their new history."""
    cdef TensorBase base = t.base
    cdef CopySlicesNode patch
    if base is None or t.silent:
        return attach(t, node, number)
    patch = CopySlicesNode.__new__(CopySlicesNode)
    patch.inner, patch.number = node, number
    patch.base_sizes, patch.base_strides = size_from(base.rank, base.sizes), tuple(size_from(base.rank, base.strides))
    patch.sizes, patch.strides = size_from(t.rank, t.sizes), tuple(size_from(t.rank, t.strides))
    patch.offset = (t.offset * t.width - base.offset * base.width) // t.width
    patch.code, patch.base_code = t.code, base.code
    patch.own = -1
    # the first edge is the base's own history, the others are the inner node's except the one to the old view
    cdef int k, n = node.edges
    patch.set_edges(n + 1)
    patch.connect(0, base)
    for k in range(n):
        if node.targets[k] != NULL:
            target = <object>node.targets[k]
            if patch.own < 0 and comes_from(target, node.numbers[k], t):
                patch.own = k
                continue
            Py_INCREF(target)
            patch.targets[k + 1] = <PyObject*>target
            patch.numbers[k + 1] = node.numbers[k]
    attach(base, patch, 0)
    t.fn_version = t.storage.version - 1  # stale: requested, it becomes a view of the new base
    t.requires, t.made = True, ON_TAPE
    return 0


cdef bint comes_from(object target, int number, TensorBase t):
    return target is t.fn and number == t.output_number


@cython.binding(False)
cdef class CopySlicesNode(Node):
    """History of a tensor after a part of it was overwritten: outside the part the gradient passes, inside it
    goes through the node that wrote.
    """

    cdef Node inner
    cdef int number, own, code, base_code
    cdef object base_sizes, base_strides, sizes, strides
    cdef int64_t offset

    def name(self) -> str:
        return "CopySlices"

    cdef list run(self, list grads):
        cdef TensorBase grad = <TensorBase>grads[0]
        cdef list inner
        if grad is None:
            return [None] * self.edges
        whole = grad.new_empty_strided(self.base_sizes, self.base_strides)
        whole.copy_(grad)
        part = part_of(whole, self.code, self.sizes, self.strides, self.offset)
        wanted = [None] * self.inner.outputs
        wanted[self.number] = part.clone()
        inner = self.inner.run(wanted)
        own = inner[self.own] if self.own >= 0 else None
        if own is None:
            part.zero_()
        else:
            part.copy_(own)
        result = [whole]
        for k in range(len(inner)):
            result.append(None if k == self.own else inner[k])
        return result

    cdef void drop(self):
        if self.inner is not None and self.inner.task is not self.task:  # else this pass runs it by itself, later
            self.inner.drop()


cdef object view_as_real = None, view_as_complex = None


def set_complex_views(as_real, as_complex) -> None:
    """The views of complex numbers as pairs of real ones, and back."""
    global view_as_real, view_as_complex
    view_as_real, view_as_complex = as_real, as_complex


cdef TensorBase part_of(object whole, int code, object sizes, object strides, int64_t offset):
    """The view of a tensor's storage with that geometry, which counts in elements of dtype `code`: `whole`'s own, or the complex
    or real one that belongs to it.
    """
    cdef int own = (<TensorBase?>whole).code
    if code == own:
        return whole.as_strided(sizes, strides, offset)
    if CATEGORY[own] == 3:
        return view_as_real(whole).as_strided(sizes, strides, offset)
    return view_as_complex(whole.as_strided((*sizes, 2), (*[2 * s for s in strides], 1), 2 * offset))
