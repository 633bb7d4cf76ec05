# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Leaf operations with a derivative: a function computes, a formula over operations gives the gradients.

The function runs with recording off.  What its formula reads, the names of its parameters say:

    grad            the gradient of the result (`grad_L` that of the result L, `grads` a tuple of all)
    needs           a tuple of bools: which inputs want a gradient
    an argument     by the name that the function has for it
    a result        by its name: `result` where there is one
    shape_x         the shape of the argument x, None where that is no tensor; `dtype_x` its dtype
    before          a copy of the tensor that is written to, from before that

It returns the gradients of the inputs, in their order, None where there is none.  Saved are tensors among what it names, those in
lists, too.  Where a parameter says what has to be saved, its values may have formulas of their own (`derivative(reduce="sum")`).
An operation whose results have no names has any number of them, and its formula reads `grads`.
"""
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from ..base.labels import backward_name, saved_name
from ..base.parameters import described
from ..base.dtypes cimport dtype_of
from ..tape.formulas cimport BEFORE, DTYPE, GRAD, GRADS, NEEDS, RESULT, Rule, SHAPE, record_leaf
from ..tape.inplace cimport check_in_place
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from .function cimport FunctionOp, call_function, public_name_of
from .operation cimport make_callable, prepare_op
from .copies import clone
from .signature cimport MAX_BOUND, TENSOR, Signature

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)


cdef class LeafOp(FunctionOp):
    """A function that is one node on the tape."""

    cdef readonly tuple results     # their names
    cdef readonly object formula
    cdef str label_of_formula
    cdef Rule rule                  # made of the formula when first needed
    cdef int switch                 # the place of the parameter whose values have formulas of their own, -1 for none
    cdef str switched               # its name
    cdef dict formulas              # by value: the formula, and the label of its node
    cdef dict rules                 # made of them
    cdef tuple inputs               # the places of the parameters that may want a gradient
    cdef tuple defaults
    cdef tuple wanted               # the names of those, where the declaration gives them

    def __cinit__(self, function, str name=None, bint owns=True, bint out=False):
        prepare_op(self, self.name, call_leaf)

    def describe(self, tuple results not None, inputs):
        """Name the results, and the parameters that may want a gradient (None: those that take tensors)."""
        self.results, self.wanted = results, inputs

    def derivative(self, formula=None, *, label=None, **case):
        """Declare the gradients of the inputs (a decorator).

        `@op.derivative(reduce=("sum", "mean"))` is the formula where the parameter `reduce` is one of these; the node has that label.
        """
        if formula is None:
            return lambda given: self.declare(given, label, case)
        return self.declare(formula, label, case)

    def declare(self, formula, label, dict case):
        """The formula of the cases given, or of all others."""
        self.rule = self.rules = None
        if not case:
            self.formula, self.label_of_formula = formula, label
            return formula
        (self.switched, values), = case.items()
        self.formulas = dict(self.formulas or {})
        for value in values if isinstance(values, tuple) else (values,):
            self.formulas[value] = (formula, label)
        return formula

    def refuse(self):
        """Declare that it has no derivative: backward through it raises."""
        self.declare(lambda grads: refused(self), None, {})

    cdef int make_rules(self) except -1:
        """What the parameters of the formulas are, from their names."""
        cdef Signature signature
        if not self.has_signature:
            self.infer_signature()
        signature = self.signature
        names = signature.names
        known = {n: default for n, _, default, _ in described(self.function)}
        self.defaults = tuple([known.get(n) for n in names])
        if self.wanted is None:
            self.inputs = tuple([k for k in range(signature.total) if signature.kinds[k] & TENSOR])
        else:
            self.inputs = tuple([names.index(n) for n in self.wanted])
        if not self.inputs:
            raise TypeError(f"{self.name}: no parameter is annotated as a tensor: say which ones want gradients (inputs=)")
        self.switch = -1
        if self.formulas is not None:
            self.switch = names.index(self.switched)
            self.rules = {value: self.rule_of(formula, label) for value, (formula, label) in self.formulas.items()}
        self.rule = self.rule_of(self.formula, self.label_of_formula)
        return 0

    cdef Rule rule_of(self, formula, label):
        """The rule that a formula makes."""
        cdef list sources = [], outputs = []
        names = (<Signature>self.signature).names
        reads = [n for n, _, _, _ in described(formula)]
        if "grads" in reads:
            outputs = list(range(len(self.results)))
        elif "grad" in reads:
            outputs = [0]
        else:
            outputs = [k for k, n in enumerate(self.results) if f"grad_{n}" in reads]
        for n in reads:
            head, _, rest = n.partition("_")
            if n == "grad":
                sources.append(GRAD)
            elif n == "grads":
                sources.append(GRADS)
            elif n == "needs":
                sources.append(NEEDS)
            elif n in self.results:
                sources.append(RESULT + self.results.index(n))
            elif n in names:
                sources.append(names.index(n))
            elif n == "before" and self.writes:
                sources.append(BEFORE)
            elif head == "grad" and rest in self.results:
                sources.append(GRAD - outputs.index(self.results.index(rest)))
            elif head in ("shape", "dtype") and rest in names:
                sources.append((SHAPE if head == "shape" else DTYPE) + names.index(rest))
            else:
                raise TypeError(f"{self.name}: its derivative reads '{n}', which is no argument, result or gradient: arguments are "
                                f"{', '.join(names)}, results {', '.join(self.results)}")
        return Rule(formula, label or self.label or backward_name(self.name), tuple(sources), tuple(outputs), self.saved_names(reads, sources))

    cdef tuple saved_names(self, list reads, list sources):
        """What a node calls what its formula reads; None for gradients, and for what is no argument or result."""
        cdef list result = []
        # PyTorch's layers, those operations that take a bias, call their input so
        cdef bint layer = "bias" in (<Signature>self.signature).names
        for n, source in zip(reads, sources):
            if source < 0 or source == BEFORE:
                result.append(None)
            elif source >= SHAPE:
                n = n.partition("_")[2]
                n = n if layer else saved_name(n, source % RESULT == 0)
                result.append(f"{n}_{'sym_sizes' if source < DTYPE else 'scalar_type'}")
            elif source >= RESULT:
                result.append(n)
            else:
                result.append(n if layer else saved_name(n, source == 0))
        return tuple(result)

    cdef object given(self, PyObject** bound, int k):
        """An argument, or the default."""
        return <object>bound[k] if bound[k] != NULL else self.defaults[k]

    cdef Rule rule_for(self, PyObject** bound):
        """The rule of a call with these arguments."""
        if self.switch < 0:
            return self.rule
        return self.rules.get(self.given(bound, self.switch), self.rule)


cdef int refused(LeafOp op) except -1:
    """NotImplementedError, which names the operation: it has no derivative."""
    raise NotImplementedError(f"the derivative for '{public_name_of(op)}' is not implemented.")


cdef bint records(PyObject** args, Py_ssize_t n) except -1:
    """Whether a tensor among the arguments wants a gradient."""
    cdef Py_ssize_t k
    for k in range(n):
        if isinstance(<object>args[k], TensorBase) and wants_grad(<TensorBase>args[k]):
            return True
    return False


cdef bint out_given(PyObject** values, tuple names) except -1:
    """Whether a tensor is given for the result."""
    cdef Py_ssize_t k
    for k in range(len(names)):
        if names[k] == "out":
            return <object>values[k] is not None
    return False


cdef object call_leaf(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef LeafOp op = <LeafOp>callable
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef Py_ssize_t given = nargs + (0 if names == NULL else len(<tuple>names))
    cdef bint before = grad_enabled()
    cdef PyObject* bound[MAX_BOUND]
    cdef Rule rule
    if not before or op.formula is None or not records(args, given):
        return call_function(callable, args, flagged, names)
    if names != NULL and out_given(args + nargs, <tuple>names):
        raise RuntimeError(f"{public_name_of(op)}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad.")
    if op.rule is None:
        op.make_rules()
    op.signature.arrange(op.name, args, nargs, names, bound)
    rule = op.rule_for(bound)
    original = None
    if op.writes:
        check_in_place(<TensorBase?>op.given(bound, 0), op.name)
        if BEFORE in rule.sources:
            original = clone(<object>bound[0])     # recorded, for derivatives of the derivative
    set_grad(0)
    try:
        result = call_function(callable, args, flagged, names)
    finally:
        set_grad(before)
    enter_leaf(op, rule, bound, result, original)
    return result


cdef int enter_leaf(LeafOp op, Rule rule, PyObject** bound, object result, object original) except -1:
    """Record the call."""
    cdef tuple results = <tuple>result if isinstance(result, tuple) else tuple(result) if isinstance(result, list) else (result,)
    cdef list inputs = [], values = []
    cdef TensorBase written = None
    cdef int k, source
    cdef bint wanted = False
    for k in op.inputs:
        t = <object>bound[k] if bound[k] != NULL else None
        wanted = wanted or (isinstance(t, TensorBase) and wants_grad(<TensorBase>t))
        inputs.append(t)
    if not wanted:
        return 0
    if not rule.outputs:
        rule = Rule(rule.formula, rule.label, rule.sources, tuple(range(len(results))))
    for source in rule.sources:
        if source < 0:
            values.append(None)
        elif source == BEFORE:
            values.append(original)
        elif source >= SHAPE:
            t = op.given(bound, source % RESULT)
            values.append(None if not isinstance(t, TensorBase) else t.shape if source < DTYPE else dtype_of((<TensorBase>t).code))
        elif source >= RESULT:
            values.append(results[source - RESULT])
        else:
            values.append(op.given(bound, source))
    if op.writes:
        written = <TensorBase?>results[0]
    return record_leaf(rule, inputs, results, values, written)


make_callable(LeafOp, LeafOp(lambda: None))
