# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The engine: a backward pass walks nodes with a queue ordered by age."""
from libc.stdlib cimport free, realloc
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.profiling cimport EVALUATION, NODE, begin, end, number, profiling
from ..base.dtypes cimport CATEGORY
from ..base.tensor cimport TensorBase, runtime, new_tensor_on, OP_ADD, operator_for
from .modes cimport FORWARD, REVERSE, casting, grad_enabled, set_casting, set_grad, wants_grad
from .nodes cimport Node, drain, swapped_error
from .hooks cimport replaced, run_post_hooks, run_pre_hooks
from .anomaly cimport anomaly_enabled, checked
from .gradients cimport accumulate
from .nodes import AccumulateGrad
import os
import threading
cimport cython

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    static __thread long flambeau_pass = 0;
    """
    long flambeau_pass            # the number of the pass that this thread runs, 0 outside of one


cdef object engine_lock = threading.RLock()


cdef list evaluated(Node node, list grads):
    """What a node's derivative and its hooks make of the gradients of its results."""
    cdef list results = checked(node, grads) if anomaly_enabled else node.run(grads)
    if node.post_hooks is not None:
        results = run_post_hooks(node, results, grads)
    return results


cdef list run_profiled(Node node, list grads):
    """The same, with entries for the profiler: the evaluation, and the derivative in it."""
    cdef object name = node.name()
    cdef int64_t whole = begin(name, EVALUATION), inner
    cdef list results
    number(whole, node.sequence)
    try:
        inner = begin(name, NODE)
        number(inner, node.sequence)
        try:
            results = checked(node, grads) if anomaly_enabled else node.run(grads)
        finally:
            end(inner)
        return results if node.post_hooks is None else run_post_hooks(node, results, grads)
    finally:
        end(whole)


cdef int accumulated(TensorBase leaf, TensorBase grad, bint create_graph) except -1:
    """leaf.grad += grad, with entries for the profiler."""
    cdef int64_t whole = begin("torch::autograd::AccumulateGrad", EVALUATION)
    cdef int64_t inner = begin("torch::autograd::AccumulateGrad", NODE)
    try:
        return accumulate(leaf, grad, create_graph)
    finally:
        end(inner)
        end(whole)


cdef struct Heap:
    PyObject** items          # borrowed: the task's list of visited nodes owns them
    Py_ssize_t count
    Py_ssize_t capacity


cdef int push(Heap* h, Node node) except -1:
    """Ready nodes, the youngest first."""
    cdef Py_ssize_t i, up
    cdef PyObject** larger
    if h.count == h.capacity:
        larger = <PyObject**>realloc(h.items, (h.capacity * 2 + 64) * sizeof(PyObject*))
        if larger == NULL:
            raise MemoryError
        h.items, h.capacity = larger, h.capacity * 2 + 64
    i = h.count
    h.count += 1
    while i > 0:
        up = (i - 1) // 2
        if (<Node>h.items[up]).sequence >= node.sequence:
            break
        h.items[i] = h.items[up]
        i = up
    h.items[i] = <PyObject*>node
    return 0


cdef Node pop(Heap* h):
    cdef Node top = <Node>h.items[0], last
    cdef Py_ssize_t i = 0, down
    h.count -= 1
    if h.count == 0:
        return top
    last = <Node>h.items[h.count]
    while True:
        down = 2 * i + 1
        if down >= h.count:
            break
        if down + 1 < h.count and (<Node>h.items[down + 1]).sequence > (<Node>h.items[down]).sequence:
            down += 1
        if (<Node>h.items[down]).sequence <= last.sequence:
            break
        h.items[i] = h.items[down]
        i = down
    h.items[i] = <PyObject*>last
    return top


@cython.binding(False)
cdef class Task:
    """One backward pass."""

    cdef uint64_t number
    cdef list visited
    cdef list overlaid        # scratch of an outer pass that this one met: (node, task, waiting, needed, arrived)
    cdef dict leaves          # leaves with hooks, or requested: leaf -> [edges still to come, gradient so far]
    cdef dict captures        # node -> [(number of the output, place in `captured`)]
    cdef list captured
    cdef list ends            # what runs when all nodes have: pairs (function, what runs instead if one has raised)
    cdef object collect       # called with a leaf and its gradient, in the place of adding to .grad; see StagedPass
    cdef bint accumulate      # add to leaves' .grad
    cdef bint selective       # only the leaves and nodes requested
    cdef bint create_graph
    cdef readonly bint retain
    cdef set wanted           # ids of the leaves requested
    cdef Node running         # whose edges in `hidden` are hidden
    cdef list hidden

    cdef int meet(self, Node node) except -1:
        """First sight of a node in this pass."""
        if node.task is not None:
            if (<Task>node.task).running is node:  # a derivative starts a pass through the node that it is of
                show(node, (<Task>node.task).hidden)
            if self.overlaid is None:
                self.overlaid = []
            self.overlaid.append((node, node.task, node.waiting, node.needed, node.arrived))
        node.task = self
        node.waiting = 0
        node.needed = False
        node.arrived = None
        self.visited.append(node)
        return 0

    cdef int explore(self, list roots) except -1:
        """Count the edges that will deliver a gradient to each node."""
        cdef Node node, target
        cdef Py_ssize_t position = 0
        cdef int k
        for root in roots:
            if isinstance(root, Node) and (<Node>root).task is not self:
                self.meet(<Node>root)
        while position < len(self.visited):
            node = <Node>self.visited[position]
            position += 1
            for k in range(node.edges):
                if node.targets[k] == NULL:
                    continue
                if isinstance(<object>node.targets[k], Node):
                    target = <Node>node.targets[k]
                    if target.task is not self:
                        self.meet(target)
                    target.waiting += 1
                else:
                    if (<TensorBase>node.targets[k]).swapped > node.sequence:
                        raise swapped_error("Trying to execute AccumulateGrad node of a leaf")
                    self.expect(<TensorBase>node.targets[k])
        return 0

    cdef int expect(self, TensorBase leaf) except -1:
        if leaf.hooks is not None or self.selective or self.collect is not None:
            if self.leaves is None:
                self.leaves = {}
            entry = self.leaves.get(leaf)
            if entry is None:
                self.leaves[leaf] = [1, None]
            else:
                entry[0] += 1
        return 0

    cdef bint leads(self, object target) except -1:
        """Whether an edge to there leads to something wanted."""
        if isinstance(target, Node):
            return (<Node>target).needed or target in self.captures
        return id(target) in self.wanted

    cdef int mark_needed(self) except -1:
        """Which nodes have to run, as they lead to something requested: the oldest first, so that targets are
        marked before their users.  A node whose own result is requested need not: nothing of it is read or freed.
        """
        cdef Node node
        cdef int k
        for node in sorted(self.visited, key=_age):
            node.needed = False
            for k in range(node.edges):
                if node.targets[k] != NULL and self.leads(<object>node.targets[k]):
                    node.needed = True
        return 0

    cdef list run_selected(self, Node node, list grads):
        """`evaluated` without the edges that lead to nothing wanted: the node computes what is read alone."""
        cdef int k
        cdef list hidden = None
        for k in range(node.edges):
            if node.targets[k] != NULL and not self.leads(<object>node.targets[k]):
                if hidden is None:
                    hidden = []
                hidden.append(k)
        if hidden is None:
            return run_profiled(node, grads) if profiling.on else evaluated(node, grads)
        return self.run_without(node, grads, hidden)

    cdef list run_without(self, Node node, list grads, list edges):
        """`evaluated` as if no gradient were wanted along some edges; what a node computes for them all the same goes nowhere."""
        cdef int k
        cdef list before = self.hidden
        cdef Node outer = self.running
        hidden = [] if isinstance(node, own_code) else [(k, <object>node.targets[k]) for k in edges]
        self.running, self.hidden = node, hidden
        for k, _ in hidden:
            node.targets[<int>k] = NULL    # `hidden` has another reference; that of the node comes back with `show`
        try:
            results = run_profiled(node, grads) if profiling.on else evaluated(node, grads)
        finally:
            show(node, hidden)
            self.running, self.hidden = outer, before
        for k in edges:
            if k < len(results):
                results[k] = None
        return results

    cdef int deliver(self, Heap* ready, object target, int number, object grad) except -1:
        """Hand a gradient (or None) to where it goes."""
        cdef Node node
        if not isinstance(target, Node):
            return self.deliver_leaf(<TensorBase>target, grad)
        node = <Node>target
        if grad is not None:
            if node.arrived is None:
                node.arrived = [None] * node.outputs
            before = node.arrived[number]
            if before is None:
                node.arrived[number] = grad
            else:
                node.arrived[number] = runtime.binary(operator_for(OP_ADD), before, grad)
        node.waiting -= 1
        if node.waiting == 0:
            push(ready, node)
        return 0

    cdef int deliver_leaf(self, TensorBase leaf, object grad) except -1:
        if leaf.hooks is None and not self.selective and self.collect is None:
            if grad is not None:
                # the reference that `execute` holds is the only one, unless somebody else has the gradient, too
                if profiling.on:
                    accumulated(leaf, <TensorBase>grad, self.create_graph)
                else:
                    accumulate(leaf, <TensorBase>grad, self.create_graph)
            return 0
        entry = self.leaves[leaf]
        if grad is not None:
            entry[1] = grad if entry[1] is None else runtime.binary(operator_for(OP_ADD), entry[1], grad)
        entry[0] -= 1
        if entry[0] == 0 and entry[1] is not None:
            whole, entry[1] = entry[1], None   # an argument that is assigned to would be held once more
            self.finish_leaf(leaf, whole)
        return 0

    cdef int finish_leaf(self, TensorBase leaf, object grad) except -1:
        """A leaf's whole gradient has arrived: hooks, then the caller's list or `.grad`."""
        if leaf.hooks is not None:
            for hook in list(leaf.hooks[0]):
                changed = hook(grad)
                if changed is not None:
                    grad = replaced(hook, grad, changed)
        if self.collect is not None:
            self.collect(leaf, grad)
            return 0
        places = self.captures.get(leaf) if self.captures is not None else None
        if places is not None and not self.accumulate:
            for _, place in places:
                self.captured[place] = grad
        elif self.accumulate and (not self.selective or places is not None):
            accumulate(leaf, <TensorBase>grad, self.create_graph)
            if leaf.hooks is not None:
                for hook in list(leaf.hooks[2]):
                    hook((), (grad,))
                for hook in list(leaf.hooks[1]):
                    hook(leaf)
        return 0

    cdef int execute(self, Heap* ready, Node node) except -1:
        cdef list grads = node.arrived, results
        cdef int k, n
        cdef object grad
        node.arrived = None
        if grads is not None and node.pre_hooks is not None:
            grads = run_pre_hooks(node, grads)
        if self.captures is not None and node in self.captures and grads is not None:
            for number, place in self.captures[node]:
                if not self.accumulate:
                    self.captured[place] = grads[number]
        if grads is None or (self.selective and not node.needed):
            results = None
            if grads is None and self.collect is not None:
                self.collect(node, None)
        else:
            if self.selective:
                results = self.run_selected(node, grads)
            else:
                results = run_profiled(node, grads) if profiling.on else evaluated(node, grads)
            grads = None
            if len(results) < node.edges:
                raise RuntimeError(f"{node.name()} returned {len(results)} gradients for its {node.edges} inputs")
        if not self.retain and results is not None:
            node.drop()
            drain()              # what it saved is free for the nodes that are still to run
            node.released = True
        for k in range(node.edges):
            if node.targets[k] != NULL:
                grad = None
                if results is not None:
                    grad = results[k]
                    results[k] = None
                self.deliver(ready, <object>node.targets[k], node.numbers[k], grad)
        return 0

    cdef int begin(self, list starts) except -1:
        """Meet what these targets lead to; each of them waits for one gradient more."""
        self.explore([target for target, _ in starts])
        for target, _ in starts:
            if isinstance(target, Node):
                (<Node>target).waiting += 1
            else:
                self.expect(<TensorBase>target)
        return 0

    cdef int work(self, list starts, list grads) except -1:
        """Deliver gradients to these targets, and run the nodes that wait for nothing else."""
        cdef Heap ready
        cdef object target, number, grad
        cdef int k
        ready.items, ready.count, ready.capacity = NULL, 0, 0
        try:
            for k in range(len(starts)):
                target, number = starts[k]
                grad = grads[k]
                grads[k] = None
                self.deliver(&ready, target, number, grad)
            grad = None
            while ready.count:
                PyErr_CheckSignals()
                self.execute(&ready, pop(&ready))
        finally:
            free(ready.items)
        return 0

    cdef int clean(self) except -1:
        cdef Node node
        for node in self.visited:
            node.task = None
            node.arrived = None
        if self.overlaid is not None:
            for node, task, waiting, needed, arrived in reversed(self.overlaid):
                node.task, node.waiting, node.needed, node.arrived = task, waiting, needed, arrived
        return 0


cdef object own_code = ()      # the class of nodes of programs' own functions, whose results are computed and checked whole


def set_own_code(cls) -> None:
    """Say which nodes are those of `autograd.Function`."""
    global own_code
    own_code = cls


cdef int show(Node node, list hidden) except -1:
    """Undo the hiding of edges; a second time changes nothing."""
    for k, target in hidden:
        node.targets[<int>k] = <PyObject*>target
    return 0


def run_node(Node node, list grads, list edges) -> list:
    """The gradients that a node sends along some of its edges (None for the others), from those of its results; nothing is freed.

    RuntimeError where what the node saved has been freed.
    """
    cdef Task task = Task.__new__(Task)
    cdef int before = grad_enabled(), k
    cdef unsigned int cast = casting()
    engine_lock.acquire()
    outer = node.task
    try:
        node.task = task
        set_grad(before & FORWARD)
        set_casting(0)
        return task.run_without(node, grads, [k for k in range(node.edges) if node.targets[k] != NULL and k not in edges])
    finally:
        node.task = outer
        set_grad(before)
        set_casting(cast)
        engine_lock.release()


def free_saved(Node node) -> None:
    """Let go of what a node saved: a pass that comes to it raises from now on."""
    node.drop()
    drain()
    node.released = True


def _age(Node node):
    return node.sequence


cdef tuple target_of(given):
    """The node, or the leaf, that a tensor or a GradientEdge stands for, and which output of it."""
    if isinstance(given, TensorBase):
        target = (<TensorBase>given).grad_fn_now()
        return (given, 0) if target is None else (target, (<TensorBase>given).output_number)
    node, number = given
    return (node.variable, 0) if isinstance(node, AccumulateGrad) else (node, number)


cdef uint64_t passes = 0
cdef Task current = None       # the pass that the engine works on; guarded by engine_lock


def forget_other_threads() -> None:
    """In the child of a fork: passes of threads that are not here have ended in the middle."""
    global engine_lock, current
    if not engine_lock._is_owned():
        engine_lock, current = threading.RLock(), None


os.register_at_fork(after_in_child=forget_other_threads)


def run_backward(list roots, list grads, bint retain, bint create_graph, list inputs=None, bint accumulate=True):
    """Send `grads` back from `roots` (tensors, or edges: pairs of a node and the number of its output).

    With `inputs` (likewise), only what leads to them is computed, and their gradients are returned (None where
    nothing arrived) or, with `accumulate`, added to their `.grad`.
    """
    global current, flambeau_pass, passes
    cdef Task task = Task.__new__(Task), outer
    cdef bint before = grad_enabled()
    cdef unsigned int cast = casting()
    passes += 1
    task.number = passes
    task.visited = []
    task.accumulate, task.create_graph, task.retain = accumulate, create_graph, retain
    task.selective = inputs is not None
    if inputs is not None:
        task.wanted, task.captures = set(), {}
        task.captured = [None] * len(inputs)
        for place, given in enumerate(inputs):
            target, number = target_of(given)
            if not isinstance(target, Node):
                task.wanted.add(id(target))
            elif accumulate:
                if not isinstance(given, TensorBase):
                    raise RuntimeError("backward(): one of the inputs is the edge of a node, which has no .grad; use autograd.grad "
                                       "for its gradient")
                given.retain_grad()
            task.captures.setdefault(target, []).append((number, place))
    engine_lock.acquire()
    cdef long outer_pass = flambeau_pass
    outer, current, flambeau_pass = current, task, task.number
    try:
        set_grad((REVERSE if create_graph else 0) | (before & FORWARD))
        set_casting(0)  # gradients have the types of what they are gradients of
        starts = [target_of(r) for r in roots]
        task.begin(starts)
        if inputs is not None:
            task.mark_needed()
        task.work(starts, grads)
        while task.ends:  # which may add others
            task.ends.pop(0)[0]()
    finally:
        while task.ends:
            failed = task.ends.pop(0)[1]
            if failed is not None:
                failed()
        current, flambeau_pass = outer, outer_pass
        task.clean()
        set_grad(before)
        set_casting(cast)
        engine_lock.release()
    return task.captured


@cython.binding(False)
cdef class StagedPass:
    """A backward pass whose gradients arrive one after the other, as those of a graph that goes through several processes do.

    groups: lists of tensors or edges, whose gradients arrive together. A node runs when all that leads to it has arrived.  `collect(leaf,
    grad)` is called with the whole gradient of each leaf, after its hooks, and with None for each node that no gradient reaches.
    """

    cdef Task task
    cdef list groups          # of (node or leaf, number of its output); None where the gradients have arrived
    cdef list paused          # nodes that wait: (node, gradients to come, those that have arrived)
    cdef bint failed
    cdef readonly int waiting # groups whose gradients have not arrived

    def __init__(self, list groups, bint retain, collect):
        global passes
        self.task = Task.__new__(Task)
        self.task.visited = []
        self.task.retain, self.task.collect = retain, collect
        self.groups = [[target_of(one) for one in group] for group in groups]
        self.waiting = len(groups)
        engine_lock.acquire()
        try:
            passes += 1
            self.task.number = passes
            self.task.begin([start for group in self.groups for start in group])
        finally:
            try:
                self.pause()
            finally:
                engine_lock.release()

    cdef int pause(self) except -1:
        """Leave the nodes' scratch to other passes."""
        cdef Node node
        self.paused = []
        for node in self.task.visited:
            if node.waiting:
                self.paused.append((node, node.waiting, node.arrived))
        self.task.clean()
        self.task.visited, self.task.overlaid = [], None
        return 0

    cdef int proceed(self) except -1:
        cdef Node node
        for node, waiting, arrived in self.paused:
            self.task.meet(node)
            node.waiting, node.arrived = waiting, arrived
        self.paused = []
        return 0

    def deliver(self, int number, list grads):
        """Send a group's gradients back (None where there is none), as far as nothing else has to arrive.

        RuntimeError: they have arrived before, or an earlier delivery failed.
        """
        global current, flambeau_pass
        cdef Task outer
        cdef bint before = grad_enabled()
        cdef unsigned int cast = casting()
        engine_lock.acquire()
        cdef long outer_pass = flambeau_pass
        outer = current
        try:
            starts = self.groups[number]
            if starts is None or self.failed:
                raise RuntimeError("the pass has failed" if self.failed else f"the gradients of group {number} have arrived before")
            self.groups[number] = None
            self.waiting -= 1
            self.failed = True       # until the end is reached
            current, flambeau_pass = self.task, self.task.number
            set_grad(before & FORWARD)
            set_casting(0)
            try:
                self.proceed()
                self.task.work(starts, list(grads))
                self.failed = False
            finally:
                self.pause()
        finally:
            current, flambeau_pass = outer, outer_pass
            set_grad(before)
            set_casting(cast)
            engine_lock.release()


def tensor_backward(TensorBase self, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
    """Add this tensor's gradients to the `.grad` of the leaves it depends on; see `autograd.backward`.

    Shape:
        self: any with one element, or `gradient` has the same shape

    Raises:
        RuntimeError: the tensor does not depend on a leaf that requires a gradient; it has several elements and no `gradient`, or
            one of another shape; a value that is needed was freed by an earlier pass or changed in place

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    cdef TensorBase one
    if gradient is None and inputs is None and not create_graph and self.count == 1 and wants_grad(self) and (
            CATEGORY[self.code] <= 2) and not (
            self.storage.on is not None and self.storage.on.blank):     # what has no elements stands for something else
        one = new_tensor_on(self.storage.on, self.rank, self.sizes, self.code)
        (<object>one).fill_(1)
        run_backward([self], [one], bool(retain_graph), False)
    else:
        backward_from(self, gradient, retain_graph, create_graph, inputs)


cdef object backward_from = None


def set_backward(function) -> None:
    """What `Tensor.backward` does with more than a scalar, or with arguments."""
    global backward_from
    backward_from = function


def depends_beyond(outputs, inputs) -> bool:
    """Whether gradients of `outputs` (tensors) go anywhere but to `inputs` and what those come from."""
    cdef set known = set()
    cdef list front = []
    cdef Node node
    cdef int k
    for t in inputs:
        known.add(id(target_of(t)[0]))
    for t in outputs:
        if (<TensorBase?>t).requires:
            front.append(target_of(t)[0])
    while front:
        result = front.pop()
        if id(result) in known:
            continue
        known.add(id(result))
        if not isinstance(result, Node):
            return True
        node = <Node>result
        for k in range(node.edges):
            if node.targets[k] != NULL:
                front.append(<object>node.targets[k])
    return False


def current_pass():
    """The number of the backward pass that this thread runs, None outside of one."""
    return flambeau_pass or None


def at_end_of_pass(function, failed=None) -> None:
    """Run `function()` when all nodes of the running pass have run; `failed()` instead, where one of them raises.

    RuntimeError outside of a pass.
    """
    if current is None or not flambeau_pass:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if current.ends is None:
        current.ends = []
    current.ends.append((function, failed))


def will_reach(given) -> bool:
    """Whether the running pass computes the gradient of a tensor or an edge (of a leaf: one with hooks)."""
    if current is None:
        return False
    target, _ = target_of(given)
    if isinstance(target, Node):
        if (<Node>target).task is not current:
            return False
        return not current.selective or (<Node>target).needed or target in current.captures
    return current.leaves is not None and target in current.leaves and (
        not current.selective or target in current.captures)
