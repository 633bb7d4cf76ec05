"""`PassManager`: passes in an order that fits, with checks between them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ....nn.modules.module import Module
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]


def pass_result_wrapper(fn: Pass) -> Callable[[Any], PassResult]:
    """A function that changes a module and returns nothing, as a pass.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.infra.pass_manager import pass_result_wrapper
    >>> pass_result_wrapper(lambda module: None)(torch.nn.ReLU()).modified
    True
    """

    @functools.wraps(fn)
    def run(module: Any) -> PassResult:
        result = fn(module)
        if isinstance(result, PassResult):
            return result
        return PassResult(result if isinstance(result, Module) else module, True)

    return run


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Callable[[Pass, Pass], bool]:
    """A constraint: of two passes in their order, whether it is not `that` before `this`.

    Raises nothing.

    >>> from flambeau.fx.passes.infra.pass_manager import this_before_that_pass_constraint
    >>> this_before_that_pass_constraint(len, max)(max, len)
    False
    """

    def holds(a: Pass, b: Pass) -> bool:
        return not (a is that and b is this)

    return holds


class PassManager:
    """Runs passes over a module, up to `steps` times as long as one changes it.

    `constraints` are functions of two passes that say whether the first may come before the second; passes that break them are put in
    another order, RuntimeError where none fits.  Checks, added by `add_checks`, run at both ends, or after each pass with
    `run_checks_after_each_pass`; with `suppress_check_failures` a check that raises only warns.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
    >>> clean = pass_result_wrapper(lambda module: module.graph.lint())
    >>> PassManager(passes=[clean])(torch.fx.symbolic_trace(lambda x: x)).modified
    True
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Callable[[Pass, Pass], bool]] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self.checks: list[Callable[[Any], Any]] = []
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[[Pass, Pass], bool]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable[[Any], Any]) -> None:
        """Add a function of the module that raises where something is wrong."""
        self.checks.append(check)

    def validate_constraints(self) -> None:
        """RuntimeError where the order of the passes breaks a constraint."""
        for k, first in enumerate(self.passes):
            for second in self.passes[k + 1 :]:
                if not all(holds(first, second) for holds in self.constraints):
                    raise RuntimeError(f"pass {first} must not come before {second}, by a constraint")
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that breaks no constraint; RuntimeError where there is none."""
        left, ordered = list(self.passes), []
        while left:
            free = next(
                (
                    p
                    for p in left
                    if all(holds(p, q) for q in left if q is not p for holds in self.constraints)
                ),
                None,
            )
            if free is None:
                raise RuntimeError(f"Circular dependency detected among the constraints of the passes {left}")
            ordered.append(free)
            left.remove(free)
        self.passes = ordered
        self._validated = True

    def check(self, module: Any) -> None:
        """Run the checks."""
        for check in self.checks:
            try:
                check(module)
            except Exception as error:
                if not self.suppress_check_failures:
                    raise
                warnings.warn(f"the check {check} failed: {error}", stacklevel=2)

    def __call__(self, module: Any) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            again = False
            for each in self.passes:
                try:
                    result = each(module)
                    if not isinstance(result, PassResult):
                        raise TypeError(f"The result of the pass {each} should be type PassResult")
                    module, again = result.graph_module, again or result.modified
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    error.add_note(f"in the pass {getattr(each, '__name__', type(each).__name__)}")
                    raise
            changed |= again
            if not again:
                break
        if not self.run_checks_after_each_pass:
            self.check(module)
        return PassResult(module, changed)
