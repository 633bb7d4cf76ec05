"""Backend "nccl" on a real card: one process, all collectives, against what one process alone must get.

    python tools/nccl_check.py

A group of one tells whether NCCL's functions take what they are given: types, counts, addresses, streams, configurations.  What several
cards exchange is left to a machine that has them.
"""

from __future__ import annotations

import tempfile

import flambeau
import flambeau.distributed as dist

DTYPES = "int8 uint8 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool".split()
MOVED = [*DTYPES, "int16", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def same(tensor: flambeau.Tensor, expected: flambeau.Tensor, what: str) -> None:
    """AssertionError where the bytes differ."""
    assert tensor.cpu().tolist() == expected.cpu().tolist(), (what, tensor, expected)


def reductions(dtype: str) -> None:
    """Every reduction that a dtype has leaves a lone process's tensor."""
    x = flambeau.arange(12).remainder(2).reshape(3, 4).to(getattr(flambeau, dtype)).to("cuda")
    is_wide = x.is_complex()
    for op in ("SUM",) if is_wide else ("SUM", "PRODUCT", "MIN", "MAX"):
        kind = getattr(dist.ReduceOp, op)
        for view in (x.clone(), x.clone().t()):
            dist.all_reduce(view, kind)
            same(view, x if view.shape == x.shape else x.t(), f"all_reduce {op} of {dtype}")
        y, out = x.clone(), flambeau.zeros_like(x)
        dist.reduce(y, 0, kind)
        dist.reduce_scatter_tensor(out, x, kind)
        same(y, x, f"reduce {op} of {dtype}")
        same(out, x, f"reduce_scatter_tensor {op} of {dtype}")
    if x.is_floating_point() or is_wide:
        y = x.clone()
        dist.all_reduce(y, dist.ReduceOp.AVG)
        same(y, x, f"all_reduce AVG of {dtype}")
        for factor in (0.5, flambeau.tensor(0.5, device="cuda")):
            y = x.clone()
            dist.all_reduce(y, dist._make_nccl_premul_sum(factor))
            same(y, x * 0.5, f"premultiplied sum of {dtype}")


def copies(dtype: str) -> None:
    """Copies between a process and itself."""
    x = flambeau.arange(12).remainder(2).reshape(3, 4).to(getattr(flambeau, dtype)).to("cuda")
    dist.broadcast(x, 0)
    for call, out in (
        ("all_gather_into_tensor", flambeau.zeros_like(x)),
        ("all_to_all_single", flambeau.zeros_like(x)),
        ("all_gather_into_tensor", flambeau.zeros_like(x.t()).t()),
    ):
        getattr(dist, call)(out, x)
        same(out, x, f"{call} of {dtype}")
    for call in (dist.all_gather, dist.all_to_all):
        out = flambeau.zeros_like(x)
        call([out], x if call is dist.all_gather else [x])
        same(out, x, f"{call.__name__} of {dtype}")
    out = flambeau.zeros_like(x)
    dist.gather(x, [out], 0)
    same(out, x, f"gather of {dtype}")
    dist.scatter(out, [x], 0)
    same(out, x, f"scatter of {dtype}")


def works() -> None:
    """Calls that are waited for on the device, together, and large enough to be seen under way."""
    x = flambeau.ones(1 << 26, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert x.sum().item() == x.numel() and work.is_completed()
    with dist._coalescing_manager() as manager:
        for _ in range(3):
            dist.all_reduce(x)
        assert len(manager.works) == 3
    dist.barrier()
    objects = [None]
    dist.all_gather_object(objects, {"of": "this process"})
    assert objects == [{"of": "this process"}]
    group = dist.new_group([0])
    dist.all_reduce(x, group=group)
    dist.destroy_process_group(group)


def main() -> None:
    """Run all checks."""
    try:
        print("NCCL", flambeau.cuda.nccl.version())
    except RuntimeError as error:
        print(f"nothing was checked: {error}")
        return
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
        for dtype in DTYPES:
            reductions(dtype)
        for dtype in MOVED:
            copies(dtype)
        works()
        dist.destroy_process_group()
    print("all collectives of one process: right")


if __name__ == "__main__":
    main()
