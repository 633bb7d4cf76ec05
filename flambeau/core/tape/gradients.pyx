# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gradients that arrive: in the shape that is due, and added to a leaf's `.grad`."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from ..base.dtypes cimport dtype_of
from ..base.tensor cimport TENSOR, TensorBase, runtime, same_shape, OP_ADD, OP_IADD, operator_for

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)   # of an attribute given as `object`, one more than its owner has


cdef TensorBase fitted(TensorBase grad, object sizes, str who):
    """A gradient in the shape that is due after a change of geometry: its elements in that shape, else `summed`."""
    if [n for n in grad.shape if n != 1] == [n for n in sizes if n != 1]:
        return (<object>grad).reshape(sizes)
    return summed(grad, sizes, who, 0)


cdef TensorBase summed(TensorBase grad, object sizes, str who, int place):
    """A gradient in the shape that is due: summed over what that was broadcast to; RuntimeError where it was not."""
    given, wanted = tuple(grad.shape), tuple(sizes)
    ahead = (1,) * (len(given) - len(wanted)) + wanted
    if len(ahead) != len(given) or not all([a == b or a == 1 for a, b in zip(ahead, given)]):
        raise RuntimeError(f"Function {who} returned an invalid gradient at index {place} - got {list(given)} but expected shape "
                           f"compatible with {list(wanted)}")
    return grad if given == wanted else (<object>grad).sum_to_size(wanted)


cdef bint fills(TensorBase t) noexcept:
    """Whether the elements lie side by side, in whatever order."""
    cdef int64_t step = 1
    cdef int turn, d
    for turn in range(t.rank):
        for d in range(t.rank):
            if t.sizes[d] > 1 and t.strides[d] == step:
                step *= t.sizes[d]
                break
    return step == t.count


cdef bint lies_as(TensorBase grad, TensorBase leaf) noexcept:
    """Whether a gradient lies as its leaf's should: as the leaf, where that has no gaps, else row by row."""
    cdef int d
    if leaf.contiguous or not fills(leaf):
        return grad.contiguous
    for d in range(leaf.rank):
        if leaf.sizes[d] > 1 and leaf.strides[d] != grad.strides[d]:
            return False
    return True


cdef object copied_as(object grad, TensorBase leaf):
    """A copy of a gradient that lies as its leaf's should."""
    if (<PyObject*>grad).ob_type != TENSOR or lies_as(<TensorBase>grad, leaf):
        return grad.clone()
    if leaf.contiguous or not fills(leaf):
        return grad.contiguous()
    return grad.new_empty_strided(grad.shape, (<object>leaf).stride()).copy_(grad)


cdef int accumulate(TensorBase leaf, TensorBase grad, bint create_graph) except -1:
    """leaf.grad += grad, taking over the gradient's memory where nobody else has it.  It comes to lie as the leaf does, so that what
    optimisers read together lies alike.
    """
    if not same_shape(leaf, grad):
        return accumulate(leaf, fitted(grad, leaf.shape, "AccumulateGrad"), create_graph)
    if leaf.grad_ is None:
        if create_graph:
            leaf.grad_ = grad
        elif (<PyObject*>grad).ob_type == TENSOR and Py_REFCNT(<PyObject*>grad) == 1 and (
                Py_REFCNT(<PyObject*>grad.storage) == 1 and lies_as(grad, leaf) and grad.code == leaf.code
                and grad.fn is None and not grad.requires):
            leaf.grad_ = grad
        else:
            leaf.grad_ = copied_as((grad if grad.code == leaf.code else grad.to(dtype_of(leaf.code))).detach(), leaf)
    elif create_graph:
        leaf.grad_ = runtime.binary(operator_for(OP_ADD), leaf.grad_, grad)
    else:
        leaf.grad_ = runtime.binary(operator_for(OP_IADD), leaf.grad_, grad)  # another tensor where a sparse one becomes dense
    return 0
