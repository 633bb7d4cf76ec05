# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gradients that arrive: in the shape that is due, and added to a leaf's `.grad`."""
from cpython.object cimport PyObject
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


cdef int accumulate(TensorBase leaf, TensorBase grad, bint create_graph) except -1:
    """leaf.grad += grad, taking over the gradient's memory where nobody else has it."""
    if not same_shape(leaf, grad):
        return accumulate(leaf, fitted(grad, leaf.shape, "AccumulateGrad"), create_graph)
    if leaf.grad_ is None:
        if create_graph:
            leaf.grad_ = grad
        elif (<PyObject*>grad).ob_type == TENSOR and Py_REFCNT(<PyObject*>grad) == 1 and (
                Py_REFCNT(<PyObject*>grad.storage) == 1 and grad.contiguous and grad.code == leaf.code
                and grad.fn is None and not grad.requires):
            leaf.grad_ = grad
        else:
            leaf.grad_ = (grad if grad.code == leaf.code else grad.to(dtype_of(leaf.code))).detach().clone()
    elif create_graph:
        leaf.grad_ = runtime.binary(operator_for(OP_ADD), leaf.grad_, grad)
    else:
        leaf.grad_ = runtime.binary(operator_for(OP_IADD), leaf.grad_, grad)  # another tensor where a sparse one becomes dense
    return 0
