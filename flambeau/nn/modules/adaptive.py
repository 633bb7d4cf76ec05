"""Softmax over many classes, the rare ones in clusters."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

from ..._tensor import Tensor
from ...core.places.join import cat
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

ASMoutput = namedtuple("ASMoutput", ("output", "loss"))


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets by a tree of two levels: frequent classes at the top, the others in clusters behind
    narrower layers (Grave et al., 2017).

    Classes are ordered by falling frequency.  A call gives the log-probability of each target and their negated mean.

    Args:
        in_features: the width of the input.
        n_classes: how many classes there are.
        cutoffs: after which classes the top and each cluster but the last end.
        div_value: by how much each cluster's layer is narrower than the one before.
        head_bias: whether the top has a bias.

    Raises:
        ValueError: `cutoffs` are not rising class numbers.

    >>> import flambeau
    >>> layer = flambeau.nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs=[3, 6])
    >>> output, loss = layer(flambeau.ones(2, 4), flambeau.tensor([0, 9]))
    >>> output.shape, loss.shape
    (flambeau.Size([2]), flambeau.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if not whole or cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
                "is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, bias=False), Linear(width, size, bias=False))
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: (N, n_classes)."""
        top = F.log_softmax(self.head(input), dim=1)
        parts = [top[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = F.log_softmax(cluster(input), dim=1)
            parts.append(inside + top[:, self.shortlist_size + i].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        return self.log_prob(input).argmax(dim=1)

    def forward(self, input: Tensor, target: Tensor) -> ASMoutput:
        single = target.ndim == 0
        if single:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] were found."
            )
        top = F.log_softmax(self.head(input), dim=1)
        place = target.clamp(max=self.shortlist_size - 1)
        output = top.gather(1, place.unsqueeze(1)).squeeze(1)
        for i, cluster in enumerate(self.tail):
            start, end = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= start) & (target < end)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            inside = F.log_softmax(cluster(input.index_select(0, rows)), dim=1)
            chosen = (target.index_select(0, rows) - start).unsqueeze(1)
            result = (
                inside.gather(1, chosen).squeeze(1) + top.index_select(0, rows)[:, self.shortlist_size + i]
            )
            output = output.index_copy(0, rows, result)
        loss = -output.mean()
        return ASMoutput(output.squeeze(0) if single else output, loss)
