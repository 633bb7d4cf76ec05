"""Operations on operands that end, or begin, where memory does: what reads beyond them ends this program by a signal.

python guarded_reads.py end|begin
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import sys

import flambeau
from flambeau.nn import functional as F

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_mappings = []  # mapped until the program ends


def at_edge(where: str, value):
    """A copy of a tensor whose memory ends right before a page that cannot be read, or begins right after one."""
    size = value.nbytes
    pages = -(-size // PAGE) * PAGE
    mapping = mmap.mmap(-1, pages + 2 * PAGE)
    _mappings.append(mapping)
    base = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    for guard in (base, base + PAGE + pages):
        assert _libc.mprotect(guard, PAGE, 0) == 0
    begin = PAGE if where == "begin" else PAGE + pages - size
    part = memoryview(mapping)[begin : begin + size]
    result = flambeau.frombuffer(part, dtype=value.dtype).view(value.shape)
    result.copy_(value)
    return result


def products(at):
    for dtype in ("float32", "float64", "bfloat16", "float16", "complex64", "int64", "int8"):
        for m, k, n in (
            (1, 7, 5),
            (5, 640, 33),
            (17, 64, 16),
            (20, 64, 64),
            (33, 96, 40),
            (100, 33, 48),
            (129, 256, 129),
            (8203, 9, 35),
            (259, 9, 2051),
        ):
            a, b = (flambeau.randint(-1, 2, size).to(getattr(flambeau, dtype)) for size in ((m, k), (k, n)))
            wanted = a.to(flambeau.complex128) @ b.to(flambeau.complex128)
            left, right = (at(a), at(a.t().contiguous()).t()), (at(b), at(b.t().contiguous()).t())
            for x, y in itertools.product(left, right):
                close(x @ y, wanted)
            close(at(a[None].repeat(3, 1, 1)) @ at(b), wanted.expand(3, m, n))


def convolutions(at):
    for dtype in (flambeau.float32, flambeau.bfloat16, flambeau.float16):
        for dims, channels, filters, side, window, stride, groups in (
            (2, 64, 64, 14, 3, 1, 1),
            (2, 3, 32, 30, 3, 2, 1),
            (2, 1, 6, 28, 5, 1, 1),
            (2, 32, 48, 7, 1, 1, 1),
            (2, 16, 24, 9, 1, 2, 1),
            (2, 12, 12, 9, 3, 1, 12),
            (2, 6, 6, 43, 3, 2, 6),
            (1, 6, 6, 43, 4, 1, 6),
            (1, 5, 7, 31, 7, 1, 1),
            (3, 4, 5, 6, 3, 1, 1),
        ):
            x = flambeau.randint(-2, 3, (2, channels, *[side] * dims)).to(dtype)
            w = flambeau.randint(-2, 3, (filters, channels // groups, *[window] * dims)).to(dtype)
            call = getattr(F, f"conv{dims}d")
            options = {"stride": stride, "padding": window // 2, "groups": groups}
            wanted = call(x.double(), w.double(), **options)
            x, w = at(x).requires_grad_(), at(w).requires_grad_()
            result = call(x, w, **options)
            close(result, wanted)
            flambeau.autograd.grad(result, (x, w), at(flambeau.ones_like(result)))


def rows(at):
    for size in ((3, 1001), (17, 33), (5, 4096)):
        x = flambeau.randn(size)
        for call in (
            lambda x: x.sum(1),
            lambda x: x.sum(0),
            lambda x: x.softmax(1),
            lambda x: x.cumsum(1),
            lambda x: F.layer_norm(x, x.shape[1:]),
            lambda x: x.sort(1).values,
            lambda x: x.t().contiguous(),
            lambda x: x[:, ::3] + 1,
            lambda x: x.max(1).values,
            lambda x: x.bfloat16().float() * 1,
            lambda x: x.logcumsumexp(1),
        ):
            close(call(at(x)), call(x))


def layers(at):
    x = flambeau.randn(3, 2, 9, 11)
    for call in (
        lambda x: F.max_pool2d(x, 3, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.interpolate(x, size=(7, 13), mode="bilinear"),
        lambda x: F.interpolate(x, size=(7, 13), mode="bicubic"),
        lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: x.permute(0, 2, 3, 1).contiguous(),
        lambda x: flambeau.fft.rfft2(x).real,
    ):
        close(call(at(x)), call(x))
    for dtype in (flambeau.float32, flambeau.bfloat16, flambeau.float16):
        for width, queries, keys in ((24, 13, 37), (5, 13, 37), (24, 77, 131), (5, 77, 131)):
            q, k, v = (
                flambeau.randn(2, 3, n, width).to(dtype).requires_grad_() for n in (queries, keys, keys)
            )
            inputs, mask = (
                [at(x.detach()).requires_grad_() for x in (q, k, v)],
                flambeau.randn(queries, keys).to(dtype),
            )
            result = F.scaled_dot_product_attention(*inputs, attn_mask=at(mask))
            wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            close(result, wanted)
            grads = flambeau.autograd.grad(result, inputs, at(flambeau.ones_like(result)))
            for grad, true in zip(
                grads, flambeau.autograd.grad(wanted, (q, k, v), flambeau.ones_like(wanted))
            ):
                close(grad, true)
        image, affine = flambeau.randn(2, 6, 5, 7).to(dtype), (flambeau.randn(6), flambeau.randn(6))
        for call in (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
            lambda x, w, b: F.group_norm(x, 2, w, b),
            lambda x, w, b: F.instance_norm(x, None, None, w, b),
        ):
            given = affine if dtype != flambeau.float32 else [x.to(dtype) for x in affine]
            inputs = [at(x).requires_grad_() for x in (image, *given)]
            result = call(*inputs)
            close(result, call(image, *given))
            flambeau.autograd.grad(result, inputs, at(flambeau.ones_like(result)))
        table = flambeau.randn(11, 17).to(dtype)
        close(F.embedding(flambeau.tensor([10, 0, 3]), at(table)), table[[10, 0, 3]])
    for kind in (flambeau.nn.LSTM, flambeau.nn.GRU):
        for dtype, inputs, units in (
            (flambeau.float32, 13, 19),
            (flambeau.bfloat16, 13, 19),
            (flambeau.bfloat16, 24, 64),
        ):
            net = kind(inputs, units).to(dtype)
            x, h = flambeau.randn(5, 3, inputs).to(dtype), flambeau.randn(1, 3, units).to(dtype)
            state = [h, h] if kind is flambeau.nn.LSTM else [h]
            wanted = net(x, tuple(state) if len(state) > 1 else h)[0]
            for parameter in net.parameters():
                parameter.data = at(parameter.data)
            given = [at(x).requires_grad_(), *(at(h) for h in state)]
            result = net(given[0], tuple(given[1:]) if len(state) > 1 else given[1])[0]
            close(result, wanted)
            flambeau.autograd.grad(result, given[:1], at(flambeau.ones_like(result)))


def codes(at):
    for rows in (1, 5, 20):
        x, w = flambeau.randn(rows, 256), flambeau.randint(-8, 8, (48, 256)).to(flambeau.int8)
        scales = flambeau.rand(48)
        wanted = x @ (w.float() * scales[:, None]).t()
        close(flambeau._weight_int8pack_mm(at(x), at(w), at(scales)), wanted)


def close(result, wanted):
    error = (result.detach().to(flambeau.complex128) - wanted.detach().to(flambeau.complex128)).abs()
    most = 1 + (wanted.abs().max().item() if wanted.numel() else 0)
    bound = 0.02 if result.dtype in (flambeau.bfloat16, flambeau.float16) else 1e-4
    assert not error.numel() or (math.isfinite(error.max().item()) and error.max().item() <= bound * most), (
        error.max()
    )


def main() -> None:
    flambeau.manual_seed(0)
    for check in (products, convolutions, rows, layers, codes):
        print(check.__name__, flush=True)
        check(lambda value: at_edge(sys.argv[1], value))


if __name__ == "__main__":
    main()
