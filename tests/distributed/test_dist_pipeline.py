"""Pipelines over processes: gradients, losses and results are those of one process on the whole batch, with every schedule."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pytest
from worlds import Ended, results, started, world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import PipelineStage, SplitPoint, pipeline
from flambeau.distributed.pipelining._utils import PipeliningMetadataError, generate_rank_to_stage_mapping
from flambeau.distributed.pipelining.schedules import get_schedule_class
from flambeau.nn.parallel import DistributedDataParallel as DDP
from flambeau.profiler import profile
from flambeau.utils._pytree import tree_leaves

CPU = torch.device("cpu")
SINGLE = ("GPipe", "1F1B")
MULTI = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
ROWS = 16


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def layers(kind: str, count: int) -> list[nn.Module]:
    """A model as `count` modules that follow each other."""
    torch.manual_seed(0)
    if kind == "images":
        made: list[nn.Module] = [nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())]
        made += [
            nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, bias=k % 2 == 0), nn.Tanh()) for k in range(count - 2)
        ]
        return [*made, nn.Sequential(nn.Flatten(), nn.Linear(6 * 25, 4))]
    return [nn.Embedding(11, 8), *[Encoder() for _ in range(count - 2)], nn.Linear(8, 11)]


def batch(kind: str, rows: int = ROWS):
    rng = np.random.default_rng(5)
    if kind == "images":
        x = rng.standard_normal((rows, 3, 5, 5)).astype("f")
        return torch.tensor(x), torch.tensor(rng.standard_normal((rows, 4)).astype("f"))
    tokens = rng.integers(0, 11, (rows, 6))
    return torch.tensor(tokens[:, :-1].copy()), torch.tensor(tokens[:, 1:].copy())


def loss(output, target):
    if output.dim() == 2:
        return ((output - target) ** 2).mean()
    return nn.functional.cross_entropy(output.reshape(-1, 11), target.reshape(-1))


def reference(kind: str, count: int):
    """One process: the results, the loss, and the gradients of each layer."""
    net = nn.Sequential(*layers(kind, count))
    x, y = batch(kind)
    out = net(x)
    whole = loss(out, y)
    whole.backward()
    grads = [{n: p.grad.numpy() for n, p in layer.named_parameters()} for layer in net]
    return out.detach().numpy(), whole.item(), grads


def compare(module: nn.Module, grads: dict, what: str) -> None:
    for name, p in module.named_parameters():
        np.testing.assert_allclose(
            p.grad.numpy(), grads[name], rtol=1e-5, atol=1e-6, err_msg=f"{what} {name}"
        )


def scheduled(name: str, stages: list, n: int, loss_fn=loss, **options):
    made = get_schedule_class(name)
    return made(stages[0] if name in SINGLE else stages, n, loss_fn, **options)


def stages_of(name: str, rank: int, size: int, modules: list[nn.Module], group=None) -> list[PipelineStage]:
    style = "v" if name in ("ZBVZeroBubble", "DualPipeV") else "loop"
    mine = generate_rank_to_stage_mapping(size, len(modules), style)[rank]
    return [PipelineStage(modules[k], k, len(modules), CPU, group=group) for k in mine]


def run(schedule, stages, x, y, **options):
    """A step as every process calls it: its results and losses."""
    first, last = any(s.is_first for s in stages), any(s.is_last for s in stages)
    losses: list = []
    out = schedule.step(*([x] if first else []), target=y if last else None, losses=losses, **options)
    return out, losses


def every_schedule(rank: int, size: int) -> list[str]:
    done = []
    for kind in ("images", "tokens"):
        for name in SINGLE + MULTI:
            count = size if name in SINGLE else 2 * size
            if count < 3:
                count = 3 if name not in SINGLE else 2
            if kind == "tokens" and count < 3:
                continue
            expected_out, expected_loss, grads = reference(kind, count)
            n = 8 if size == 4 else 4
            stages = stages_of(name, rank, size, layers(kind, count))
            options = {} if name in SINGLE else {"defer_pp_recv": kind == "tokens"}
            schedule = scheduled(name, stages, n, **options)
            x, y = batch(kind)
            for step in range(2):  # a second step has nothing left of the first
                for stage in stages:
                    stage.submod.zero_grad()
                out, losses = run(schedule, stages, x, y)
                for stage in stages:
                    compare(
                        stage.submod,
                        grads[stage.stage_index],
                        f"{kind} {name} step {step} {stage.stage_index}",
                    )
                    assert not stage.fwd_cache and not stage.dw_runner
                if any(s.is_last for s in stages):
                    np.testing.assert_allclose(out.numpy(), expected_out, rtol=1e-5, atol=1e-6)
                    assert len(losses) == n and not out.requires_grad
                    assert sum(v.item() for v in losses) / n == pytest.approx(expected_loss, rel=1e-5)
                else:
                    assert out is None and losses == []
            evaluated = schedule.eval(*([x[:n]] if any(s.is_first for s in stages) else []))  # another size
            if any(s.is_last for s in stages):
                np.testing.assert_allclose(evaluated.detach().numpy(), expected_out[:n], rtol=1e-5, atol=1e-6)
            done.append(f"{kind} {name}")
    return done


@pytest.mark.parametrize("size", [2, 4])
def test_every_schedule_gives_the_gradients_of_one_process(size):
    for done in world(size, every_schedule):
        assert len(done) >= 12


# --- a model that is cut along its graph ------------------------------
class Skipping(nn.Module):
    """Results that pass over stages, an argument that a late stage takes, two results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])
        self.register_buffer("shift", torch.arange(6.0))

    def forward(self, x, *, gate):
        first = self.blocks[0](x) + self.shift
        second = self.blocks[1](first).tanh()
        third = self.blocks[2](second) * gate + first
        return self.blocks[3](third) + x, second


SPEC = {f"blocks.{k}": SplitPoint.BEGINNING for k in (1, 2, 3)}


def both(output, target):
    return ((output[0] - target) ** 2).mean() + output[1].square().mean()


def cut(rank: int, size: int) -> str:
    rng = np.random.default_rng(0)
    x, gate, y = (torch.tensor(rng.standard_normal((8, 6)).astype("f")) for _ in range(3))
    net = Skipping()
    both(net(x, gate=gate), y).backward()
    expected = {n: p.grad.numpy() for n, p in net.named_parameters()}
    for name in (
        ("GPipe", "1F1B") if size == 4 else ("Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
    ):
        model = Skipping()
        pipe = pipeline(model, (x[:2],), {"gate": gate[:2]}, split_spec=SPEC)
        assert pipe.num_stages == 4
        assert pipe.info().sources[3] == ((2, 0), (0, 2)) or len(pipe.info().sources[3]) == 3
        style = "v" if name == "ZBVZeroBubble" else "loop"
        mine = generate_rank_to_stage_mapping(size, 4, style)[rank]
        stages = [pipe.build_stage(k, CPU) for k in mine]
        schedule = scheduled(name, stages, 4, both)
        args = {"gate": gate} if 0 in mine else {}
        out = schedule.step(*([x] if 0 in mine else []), target=y if 3 in mine else None, **args)
        for stage in stages:
            names = dict(stage.submod.named_parameters())
            assert names and set(names) <= set(expected)
            compare(stage.submod, expected, name)
        if 3 in mine:
            for one, other in zip(out, net(x, gate=gate)):
                np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
    return "done"


@pytest.mark.parametrize("size", [2, 4])
def test_a_cut_graph_with_skips_and_late_arguments(size):
    assert world(size, cut) == ["done"] * size


class Tied(nn.Module):
    """An embedding that is the output layer, too, two stages later."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.middle = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.output = nn.Linear(4, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.output(self.middle(self.embedding(x)))


class Named(nn.Module):
    """A dictionary of results, an argument that is one of them, a write in place, buffers that change."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x, *, k, flag=True):
        h = self.first(x)
        y = h.clone().add_(1)
        return {"y": self.norm(self.second(y)) * k, "h": h, "k": k}


def named_loss(output, target):
    y, h = (output["y"], output["h"]) if isinstance(output, dict) else output[:2]
    return (y - target).square().mean() + h.mean()


def by_policy(module):
    """Cut after the second call."""
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    with module.graph.inserting_after(calls[1]):
        module.graph.call_function(pipelining.pipe_split)
    module.recompile()
    return module


TOKENS, ROWS_OF_3 = torch.arange(12).view(4, 3) % 7, torch.linspace(-1, 1, 12).view(4, 3)
CUTS = {
    "tied": (Tied, {}, TOKENS, {"middle": SplitPoint.BEGINNING, "output": SplitPoint.BEGINNING}, None, 3),
    "named": (Named, {"k": ROWS_OF_3.exp()}, ROWS_OF_3, {"second": SplitPoint.END}, None, 2),
    "policy": (lambda: layers("images", 3), {}, batch("images", 4)[0], None, by_policy, 2),
}


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_graph_in_one_process(kind):
    make, kwargs, x, spec, policy, count = CUTS[kind]
    net, reference_net = (
        nn.Sequential(*made) if isinstance(made, list) else made for made in (make(), make())
    )
    y = batch("images", 4)[1] if kind == "policy" else x
    loss_fn = (
        named_loss
        if kind == "named"
        else loss
        if kind == "policy"
        else lambda o, t: nn.functional.cross_entropy(o.flatten(0, 1), t.flatten())
    )
    dist.init_process_group("fake", rank=0, world_size=1)
    try:
        few = {name: value[:2] for name, value in kwargs.items()}
        pipe = pipeline(net, (x[:2],), few, split_spec=spec, split_policy=policy)
        assert pipe.num_stages == count
        before = {name: b.clone() for name, b in net.named_buffers()}
        whole = reference_net(x[:2], **few)
        one = pipe(x[:2], **few)
        assert type(one) is type(whole)
        for a, b in zip(tree_leaves(one), tree_leaves(whole), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
        for name, b in net.named_buffers():  # those of the model itself
            assert not torch.equal(b, before[name]) and torch.equal(
                b, dict(reference_net.named_buffers())[name]
            )
        for at in (slice(0, 2), slice(2, 4)):
            (loss_fn(reference_net(x[at], **{n: v[at] for n, v in kwargs.items()}), y[at]) / 2).backward()
        stages = [pipe.build_stage(k, CPU) for k in range(count)]
        pipelining.ScheduleInterleavedZeroBubble(stages, 2, loss_fn).step(x, target=y, **kwargs)
        for (name, p), q in zip(net.named_parameters(), reference_net.parameters()):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
        with pytest.raises(TypeError, match="was made for arguments of structure"):
            pipe(x, x, **kwargs)
        with pytest.raises(ValueError, match="Invalid stage index"):
            pipe.get_stage_module(count)
    finally:
        dist.destroy_process_group()


def test_what_cannot_be_cut_says_so():
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    x = torch.ones(2, 3)
    for make, error, text in (
        (
            lambda: pipeline(nn.ReLU(), (x,), split_spec={}, split_policy=by_policy),
            ValueError,
            "Please use only one",
        ),
        (
            lambda: pipeline(nn.ReLU(), (x,), split_spec={"q": SplitPoint.END}),
            AttributeError,
            "target q referenced",
        ),
        (
            lambda: pipeline(nn.Sequential(nn.ReLU()), (x,), split_spec={"0": 1}),
            ValueError,
            "Unknown split point",
        ),
        (lambda: pipeline(Branching(), (x,)), RuntimeError, "make stages by hand with PipelineStage"),
    ):
        with pytest.raises(error, match=text):
            make()
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    assert pipeline(net, (x,), split_spec={"0": SplitPoint.BEGINNING, "1": SplitPoint.END}).num_stages == 1
    assert not net[0]._forward_pre_hooks and not net[1]._forward_hooks


# --- together with data parallel ------------------------------
def with_ddp(rank: int, size: int) -> str:
    pipes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    copies = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    place, part = rank % 2, rank // 2
    for name in ("1F1B", "Interleaved1F1B", "InterleavedZeroBubble"):
        count = 2 if name == "1F1B" else 4
        grads = reference("images", count)[2]
        modules = layers("images", count)
        mine = range(place, count, 2)
        wrapped = [DDP(modules[k], process_group=copies[place]) for k in mine]
        stages = [PipelineStage(m, k, count, CPU, group=pipes[part]) for m, k in zip(wrapped, mine)]
        schedule = scheduled(name, stages, 4)
        x, y = (t[part * 8 : part * 8 + 8] for t in batch("images"))
        for _ in range(2):
            for stage in stages:
                stage.submod.zero_grad()
            run(schedule, stages, x, y)
            for stage in stages:
                compare(stage.submod.module, grads[stage.stage_index], f"{name} {stage.stage_index}")
    return "done"


def test_two_pipelines_of_two_with_averaged_gradients():
    assert world(4, with_ddp) == ["done"] * 4


# --- memory ------------------------------
class Counting(nn.Module):
    """How many of its results are alive at most."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.alive, self.most = nn.Linear(6, 6), weakref.WeakSet(), 0

    def forward(self, x):
        hidden = self.linear(x)
        self.alive.add(hidden)
        self.most = max(self.most, len(self.alive))
        return hidden.sin()  # saves `hidden`


def memory(rank: int, size: int) -> dict[str, tuple[int, int]]:
    results = {}
    for name in SINGLE:
        stage = PipelineStage(Counting(), rank, size, CPU)
        schedule = scheduled(name, [stage], 12, lambda out, y: (out - y).square().mean())
        x = torch.ones(12, 6)
        cached: list[int] = []
        stage.submod.register_forward_hook(lambda *_, c=cached, s=stage: c.append(len(s.fwd_cache) + 1))
        run(schedule, [stage], x, x)
        results[name] = (stage.submod.most, max(cached))
        assert len(stage.submod.alive) == 0, "a step leaves activations behind"
    return results


def test_one_forward_one_backward_holds_no_more_microbatches_than_stages():
    for rank, result in enumerate(world(4, memory)):
        assert result["1F1B"] == (4 - rank, 4 - rank)
        assert result["GPipe"] == (12, 12)


# --- arguments, results, errors ------------------------------
class Two(nn.Module):
    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.linear = nn.Linear(6, 6).requires_grad_(not frozen)

    def forward(self, x, ids=None, scale=1.0):
        return self.linear(x) * scale, torch.arange(x.shape[0]) if ids is None else ids + 1


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(6, 6)

    def forward(self, x, ids, scale=1.0):
        return {"out": self.linear(x) * scale, "ids": ids}


def odd_ones(rank: int, size: int) -> list[str]:
    x, y = torch.ones(8, 6) * torch.arange(8.0)[:, None], torch.ones(8, 6)
    said = []

    def fn(output, target, power=1):
        return (output["out"] - target).abs().pow(power).mean()

    for frozen in (
        False,
        True,
    ):  # integers between stages, keywords of each process, a stage without gradients
        modules = [Two(frozen), Two(), Last()][:size] if size == 3 else [Two(frozen), Last()]
        stage = PipelineStage(modules[rank], rank, len(modules), CPU)
        schedule = scheduled("1F1B", [stage], 4, fn, scale_grads=False)
        out = schedule.step(
            *([x] if rank == 0 else []),
            target=y if stage.is_last else None,
            loss_kwargs={"power": 2} if stage.is_last else None,
            scale=2.0,
        )
        whole = [Two(frozen), Last()]
        for rows in range(0, 8, 2):
            fn(
                whole[1](*whole[0](x[rows : rows + 2], scale=2.0), scale=2.0), y[rows : rows + 2], power=2
            ).backward()
        for p, q in zip(stage.submod.parameters(), whole[rank].parameters()):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-6)
        if stage.is_last:
            assert out["ids"].tolist() == [0, 1] * 4 and out["out"].shape == (8, 6)
            assert schedule.eval(scale=2.0)["ids"].tolist() == [0, 1] * 4
        else:
            schedule.eval(x, scale=2.0)
    before = stage.submod.linear.weight.grad
    with torch.no_grad(), pytest.raises(RuntimeError, match="requires gradients to be enabled"):
        schedule.step(x)
    if rank == 0:
        for wrong, error, text in (
            (
                x[:7],
                PipeliningMetadataError,
                "argument 0 cannot be split into 4 microbatches of the same size: microbatch 3 is float32",
            ),
            (x[:3], ValueError, "4 microbatches of a batch that can be split into 3 only"),
        ):
            with pytest.raises(error, match=text):
                schedule.step(wrong)
            said.append(text)
    else:
        with pytest.raises(ValueError, match="target is missing"):
            schedule.step()
    with pytest.raises(TypeError, match="losses must be a list"):
        schedule.step(x, losses=())
    assert stage.submod.linear.weight.grad is before
    for wrong in (
        lambda: PipelineStage(Two(), 2, 2, CPU),
        lambda: get_schedule_class("1f1b")(PipelineStage(Two(), 1 - rank, 2, CPU), 4),
        lambda: get_schedule_class("1f1b")(PipelineStage(Two(), rank, 2, CPU), 1),
        lambda: get_schedule_class("GPipe")(PipelineStage(Two(), rank, 4, CPU), 4),
        lambda: pipelining.ScheduleZBVZeroBubble([PipelineStage(Two(), rank, 2, CPU)], 4),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(NotImplementedError, match="backwards of one's own"):
        pipelining.ScheduleLoopedBFS(
            [PipelineStage(Two(), rank, 2, CPU)], 4, backward_requires_autograd=False
        )
    with pytest.warns(FutureWarning, match="use_full_backward is deprecated"):
        pipelining.ScheduleLoopedBFS([PipelineStage(Two(), rank, 2, CPU)], 4, use_full_backward=True)
    with pytest.raises(RuntimeError, match="cannot be larger than number of stages"):
        PipelineStage(Two(), 0, 1, CPU)
    # What stages say of their tensors is checked, on the process that has them.
    stage = PipelineStage(Two(), rank, 2, CPU, input_args=torch.ones(3, 6))
    if rank == 0:
        with pytest.raises(
            PipeliningMetadataError, match=r"stage 0: input 0: float32\[3, 6\] was announced"
        ) as raised:
            get_schedule_class("GPipe")(stage, 4).eval(x)
        assert raised.value.__notes__ == ["in action 0F0 of the pipeline, on rank 0 of its group"]
    return said


def test_keywords_integers_frozen_stages_and_errors():
    assert len(world(2, odd_ones)[0]) == 2


class Dying(nn.Module):
    """A stage whose process is killed at its third microbatch."""

    def __init__(self, dies: bool) -> None:
        super().__init__()
        self.linear, self.dies, self.calls = nn.Linear(6, 6), dies, 0

    def forward(self, x):
        self.calls += 1
        if self.dies and self.calls == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.linear(x)


def killed(rank: int, size: int) -> str:
    stage = PipelineStage(Dying(rank == 1), rank, size, CPU)
    schedule = scheduled("1F1B", [stage], 6, lambda out, y: (out - y).square().mean())
    with pytest.raises(dist.DistBackendError, match="rank 1 died"):
        run(schedule, [stage], torch.ones(12, 6), torch.ones(12, 6))
    assert not stage.fwd_cache
    return "raised"


def test_a_killed_process_is_named_by_the_others():
    with started(3, killed) as (processes, pipes):
        said = results(processes, pipes)
    assert said[0] == said[2] == "raised" and isinstance(said[1], Ended) and said[1].code == -signal.SIGKILL


def lone(rank: int, size: int) -> int:
    """Activations between stages of one process, and a list of a user's own."""
    modules = layers("images", 4)
    stages = [PipelineStage(m, k, 4, CPU) for k, m in enumerate(modules)]
    schedule = pipelining.schedules.PipelineScheduleMulti(stages, 2, loss)
    with pytest.raises(RuntimeError, match="has no order"):
        schedule.step(batch("images")[0])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/order.csv"
        with open(path, "w") as file:
            file.write("0F0,1F0,0F1,1F1,2F1,3F1,,3I1,2F0,3F0,3B0,2I0,2I1,2W1,1B1,0B1,3W1,1I0,0B0,2W0,1W0\n")
        schedule._load_csv(path)
        schedule._dump_csv(path)
        schedule._load_csv(path)
    x, y = batch("images")
    with profile() as prof:
        schedule.step(x, target=y)
    assert {"PP:0F0", "PP:3I1", "PP:1W0"} <= {event.name for event in prof.events()}
    for module, grads in zip(modules, reference("images", 4)[2]):
        compare(module, grads, "a list of one's own")
    return len(schedule.pipeline_order[0])


def test_stages_of_one_process_and_an_order_from_a_file():
    assert world(1, lone) == [21]


PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"


def program(rank: int, size: int, text: str, port: int) -> str:
    """What a program prints on a process that a launcher has started."""
    os.environ |= dict(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
    return said.getvalue()


def test_programs_of_the_page():
    stages, context = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    said = world(4, program, stages, port, form=False)
    assert said == ["", "", "", "".join(f"step {k}: 8 microbatches\n" for k in range(3))]
    assert world(4, program, context, port, form=False) == ["(1, 2, 8, 8) True\n", "", "", ""]


def test_the_pages_figures():
    table = {
        row[0].strip("` "): row[2]
        for row in re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \| (.*?) \|", PAGE.read_text(), re.M)
    }
    ranks, n, checked = 4, 8, 0
    for name, row in table.items():
        for kind in re.findall(r"Schedule\w+", name):
            local = 2 if "v = 2" in name else 1
            style = "v" if kind.endswith("V") or "ZBV" in kind else "loop"
            dist.init_process_group("fake", rank=0, world_size=ranks)
            try:
                mine = generate_rank_to_stage_mapping(ranks, ranks * local, style)[0]
                stages = [PipelineStage(nn.Linear(1, 1), k, ranks * local, CPU) for k in mine]
                made = getattr(pipelining, kind)(stages if kind[8:] not in SINGLE else stages[0], n)
            finally:
                dist.destroy_process_group()
            assert row == f"{made.timeline().bubble:.0%}".replace("%", " %"), kind
            checked += 1
    assert checked == 7
