"""Lua Torch's optimisers, as PyTorch had them in `torch.legacy.optim`: functions of `opfunc, x, config, state`, where `opfunc`
takes a vector and returns a value and its gradient.  They change the vector in place and return it with the value before
the step; those that evaluate more than once (`cg`, `lbfgs`, `rprop`) return the list of values.

>>> import flambeau
>>> from flambeau.legacy import optim
>>> x, config = flambeau.tensor([3.0]), {"learningRate": 0.1}
>>> for step in range(50):
...     x, value = optim.sgd(lambda x: ((x * x).item(), 2 * x), x, config)
>>> value < 1e-6, config["evalCounter"]
(True, 50)
"""

from ._lines import cg, lbfgs
from ._steps import adadelta, adagrad, adam, adamax, asgd, nag, rmsprop, rprop, sgd

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "asgd",
    "cg",
    "lbfgs",
    "nag",
    "rmsprop",
    "rprop",
    "sgd",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # where programs and pickles find it
del _name
