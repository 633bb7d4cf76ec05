"""An observer of a histogram, which leaves rare large numbers out where the others are nearer to their codes then."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..core.base.dtypes import by_name
from ..core.make.create import zeros
from ..core.make.literal import tensor
from ..operations.declare.registry import published
from ..operations.rows.reductions import aminmax
from ._observers import (
    EPSILON,
    PER_TENSOR,
    UniformQuantizationObserverBase,
    limits,
    per_tensor_affine,
    quint8,
)

_histc = published("")["histc"]
STEP = 1e-5  # of the share of numbers that is left out at each step of the search
FINER = 16  # bins that one is cut into before it is moved to others
_f4 = np.float32


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of all numbers that went through; the scale is that of the range whose codes have the least squared error.

    The search cuts 1e-5 of the numbers from the end that loses more bins, while the error of the codes falls, as if numbers were
    spread evenly within a bin (norm minimisation).  Where the range grows, the old bins are cut into 16 and moved.

    Args:
        bins: of the histogram; the rest as of `MinMaxObserver`.

    Shape:
        input: any; the result is the input. Infinite numbers are not counted.

    Raises:
        NotImplementedError: a scheme per channel, or `is_dynamic`.

    >>> import flambeau
    >>> from flambeau.ao.quantization import HistogramObserver
    >>> observer = HistogramObserver(bins=4)
    >>> _ = observer(flambeau.tensor([0.0, 1.0, 1.0, 2.0, 4.0]))
    >>> observer.histogram
    tensor([1., 2., 1., 1.])
    """

    histogram: Tensor

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = quint8,
        qscheme: Any = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if qscheme not in PER_TENSOR:
            raise NotImplementedError(f"HistogramObserver: qscheme must be per tensor, got {qscheme}")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        given = factory_kwargs or {}
        self.bins = bins
        self.register_buffer("histogram", zeros(bins, **given))
        self.register_buffer("min_val", tensor(float("inf"), **given))
        self.register_buffer("max_val", tensor(-float("inf"), **given))
        low, high = limits(dtype)
        self.dst_nbins = high - low + 1

    def forward(self, x_orig: Tensor) -> Tensor:
        x = x_orig.detach()
        if not x.numel():
            return x_orig
        least, most = aminmax(x)
        if bool(least == -float("inf")) or bool(most == float("inf")):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if not x.numel():
                return x_orig
            least, most = aminmax(x)
        least, most = (t.to(self.min_val.dtype).to(self.min_val.device) for t in (least, most))
        known = not (bool(self.min_val == float("inf")) or bool(self.max_val == -float("inf")))
        if known:
            least, most = least.minimum(self.min_val), most.maximum(self.max_val)
        counts = _histc(x.to(by_name["float32"]), self.bins, least.item(), most.item()).to(
            self.histogram.device
        )
        if known:
            counts = counts + self._moved(least, most)
        for buffer, new in ((self.histogram, counts), (self.min_val, least), (self.max_val, most)):
            buffer.resize_(new.shape).copy_(new)
        return x_orig

    def _moved(self, least: Tensor, most: Tensor) -> Tensor:
        """The histogram in the bins of a larger range."""
        if bool(least == self.min_val) and bool(most == self.max_val):
            return self.histogram
        if bool(self.min_val == self.max_val):  # all in one place
            where = _histc(self.min_val.reshape(1), self.bins, least.item(), most.item())
            return where * self.histogram.sum()
        old, begin, end = self.histogram.cpu().numpy(), self.min_val.cpu().numpy(), self.max_val.cpu().numpy()
        count = self.bins * FINER
        width = _f4(end - begin) / _f4(count)
        middles = np.linspace(begin, end, count + 1, dtype="f4")[:-1] + _f4(0.5) * width
        edges = np.linspace(least.cpu().numpy(), most.cpu().numpy(), self.bins + 1, dtype="f4")
        at = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, self.bins - 1)
        moved = np.bincount(at, weights=np.repeat(old, FINER) / FINER, minlength=self.bins)
        return tensor(moved.astype("f4"), device=self.histogram.device)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Scale, float32, and zero point, of one element."""
        if bool(self.min_val == float("inf")) and bool(self.max_val == -float("inf")):
            return self._calculate_qparams(self.min_val, self.max_val)  # which warns
        least, most = self._search()
        return self._calculate_qparams(least, most)

    def _search(self) -> tuple[Tensor, Tensor]:
        """The ends of the range whose codes have the least squared error."""
        counts = self.histogram.cpu().numpy()
        sums = np.cumsum(counts, dtype="f4")
        total = float(counts.sum(dtype="f4"))
        low, high = 0, self.bins - 1
        alpha, beta, best = 0.0, 1.0, float("inf")
        while alpha < beta:
            next_alpha, next_beta = alpha + STEP, beta - STEP
            left = max(low, min(high, int(np.searchsorted(sums, _f4(next_alpha * total), side="left"))))
            right = min(high, max(low, int(np.searchsorted(sums, _f4(next_beta * total), side="right")) - 1))
            next_low, next_high = low, high
            if left - low > high - right:
                next_low, alpha = left, next_alpha
            else:
                next_high, beta = right, next_beta
            if (next_low, next_high) == (low, high):
                continue
            error = self._error(counts, next_low, next_high)
            if error > best:
                break
            best, low, high = error, next_low, next_high
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * low, self.min_val + width * (high + 1)

    def _error(self, counts: np.ndarray, low: int, high: int) -> float:
        """The squared error of codes for bins `low` to `high`, of numbers that are spread evenly within each bin."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        code = width * (high - low + 1) / self.dst_nbins
        if code == 0.0:
            return 0.0
        begin = (np.arange(self.bins, dtype="f4") - _f4(low)) * _f4(width)
        end = begin + _f4(width)
        first, last = (np.clip(np.floor(t / _f4(code)), 0, self.dst_nbins - 1) for t in (begin, end))
        density = counts / _f4(width)

        def squares(a: Any, b: Any) -> Any:
            return (b * b * b - a * a * a) / _f4(3) * density

        half = _f4(code / 2)
        norm = squares(begin - (first + _f4(0.5)) * _f4(code), half)
        norm += (last - first - 1) * squares(-half, half)
        norm += squares(-half, end - (last * _f4(code) + half))
        return float(norm.sum(dtype="f4"))


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
