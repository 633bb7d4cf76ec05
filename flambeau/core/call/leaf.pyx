# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Leaf operations with a derivative: a function computes, a formula over operations gives the gradients.

The function runs with recording off.  What its formula reads, the names of its parameters say:

    grad            the gradient of the result (`grad_L` that of the result L, `grads` a tuple of all)
    needs           a tuple of bools: which inputs want a gradient
    an argument     by the name that the function has for it
    a result        by its name: `result` where there is one

It returns the gradients of the inputs, in their order, None where there is none.  Saved are tensors among what it names.
"""
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from ..base.labels import backward_name
from ..tape.formulas cimport GRAD, GRADS, NEEDS, Rule, record_leaf
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from .function cimport FunctionOp, call_function
from .operation cimport make_callable, prepare_op
from .signature cimport MAX_BOUND, TENSOR, Signature
import inspect

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)


cdef class LeafOp(FunctionOp):
    """A function that is one node on the tape."""

    cdef readonly tuple results     # their names
    cdef object formula
    cdef Rule rule                  # made of the formula when first needed
    cdef tuple inputs               # the places of the parameters that may want a gradient
    cdef tuple defaults
    cdef tuple wanted               # the names of those, where the declaration gives them

    def __cinit__(self, function, str name=None, bint owns=True, bint out=False):
        prepare_op(self, self.name, call_leaf)

    def describe(self, tuple results not None, inputs):
        """Name the results, and the parameters that may want a gradient (None: those that take tensors)."""
        self.results, self.wanted = results, inputs

    def derivative(self, formula):
        """Declare the gradients of the inputs (a decorator)."""
        self.formula, self.rule = formula, None
        return formula

    @property
    def is_differentiable(self):
        """Whether it has a derivative."""
        return self.formula is not None

    cdef Rule make_rule(self):
        """What the formula's parameters are, from their names."""
        cdef Signature signature
        cdef list sources = [], outputs = []
        if not self.learned:
            self.learn()
        signature = self.signature
        names = signature.names
        parameters = inspect.signature(self.function).parameters
        self.defaults = tuple([parameters[n].default if n in parameters else None for n in names])
        if self.wanted is None:
            self.inputs = tuple([k for k in range(signature.total) if signature.kinds[k] & TENSOR])
        else:
            self.inputs = tuple([names.index(n) for n in self.wanted])
        reads = list(inspect.signature(self.formula).parameters)
        if "grads" in reads:
            outputs = list(range(len(self.results)))
        elif "grad" in reads:
            outputs = [0]
        else:
            outputs = [k for k, n in enumerate(self.results) if f"grad_{n}" in reads]
        for n in reads:
            if n == "grad":
                sources.append(GRAD)
            elif n == "grads":
                sources.append(GRADS)
            elif n == "needs":
                sources.append(NEEDS)
            elif n.startswith("grad_") and n[5:] in self.results:
                sources.append(GRAD - outputs.index(self.results.index(n[5:])))
            elif n in self.results:
                sources.append(MAX_BOUND + self.results.index(n))
            elif n in names:
                sources.append(names.index(n))
            else:
                raise TypeError(f"{self.name}: its derivative reads '{n}', which is no argument, result or gradient: arguments are "
                                f"{', '.join(names)}, results {', '.join(self.results)}")
        self.rule = Rule(self.formula, self.label or backward_name(self.name), tuple(sources), tuple(outputs))
        return self.rule


cdef bint records(PyObject** args, Py_ssize_t n) except -1:
    """Whether a tensor among the arguments wants a gradient."""
    cdef Py_ssize_t k
    for k in range(n):
        if isinstance(<object>args[k], TensorBase) and wants_grad(<TensorBase>args[k]):
            return True
    return False


cdef object call_leaf(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef LeafOp op = <LeafOp>callable
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef Py_ssize_t given = nargs + (0 if names == NULL else len(<tuple>names))
    cdef bint before = grad_enabled()
    if not before or op.formula is None or not records(args, given) or (names != NULL and "out" in <tuple>names):
        return call_function(callable, args, flagged, names)
    if op.rule is None:
        op.make_rule()
    set_grad(0)
    try:
        found = call_function(callable, args, flagged, names)
    finally:
        set_grad(before)
    enter_leaf(op, args, nargs, names, found)
    return found


cdef int enter_leaf(LeafOp op, PyObject** args, Py_ssize_t nargs, PyObject* names, object found) except -1:
    """Record the call."""
    cdef PyObject* bound[MAX_BOUND]
    cdef Rule rule = op.rule
    cdef tuple results = <tuple>found if isinstance(found, tuple) else tuple(found) if isinstance(found, list) else (found,)
    cdef list inputs = [], values = []
    cdef TensorBase written = None
    cdef int k, source
    cdef bint wanted = False
    op.signature.arrange(op.name, args, nargs, names, bound)
    for k in op.inputs:
        t = <object>bound[k] if bound[k] != NULL else None
        wanted = wanted or (isinstance(t, TensorBase) and wants_grad(<TensorBase>t))
        inputs.append(t)
    if not wanted:
        return 0
    for source in rule.sources:
        if source < 0:
            values.append(None)
        elif source >= MAX_BOUND:
            values.append(results[source - MAX_BOUND])
        else:
            values.append(<object>bound[source] if bound[source] != NULL else op.defaults[source])
    if op.writes:
        written = <TensorBase?>results[0]
    return record_leaf(rule, inputs, results, values, written)


make_callable(LeafOp, LeafOp(lambda: None))
