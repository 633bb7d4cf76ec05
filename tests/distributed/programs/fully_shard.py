"""A Transformer with `fully_shard`: parameters are DTensors, the state dict is read back whole, and precision is mixed by layers.

torchrun --nproc-per-node N fully_shard.py
"""

import copy
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        shape = (*x.shape[:2], self.heads, -1)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, words=30, width=32, heads=4, layers=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def shard(model, **options):
    for layer in model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def made(**options):
    torch.manual_seed(6)
    model = shard(Transformer(), **options)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def steps(model, optimizer, rank, size, numbers, places=5):
    for step in numbers:
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(30, (8, 10), generator=generator)[rank::size]
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / size:.{places}f} norm {norm.item():.{places - 1}f}")


def look(model, rank, size):
    assert isinstance(model, FSDPModule)
    weight = model.layers[0].attention.wq.weight
    assert isinstance(weight, DTensor) and weight.to_local().shape[0] == 32 // size
    if rank == 0:
        print(type(model).__name__, tuple(weight.shape), weight.placements, weight.device_mesh.size() == size)


def by_hand(model, path, rank):
    """Every parameter gathered on rank 0, saved there, and cut again for each rank."""
    whole = {}
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor()
        if rank == 0:
            whole[name] = full.cpu()
    if rank == 0:
        torch.save(whole, path)
    dist.barrier()
    loaded = torch.load(path, mmap=True, weights_only=True)
    again, _ = made()
    cut = {}
    for name, mine in again.state_dict().items():
        cut[name] = nn.Parameter(distribute_tensor(loaded[name], mine.device_mesh, mine.placements))
    again.load_state_dict(cut, assign=True)
    same = all(
        torch.equal(a.to_local(), b.to_local()) for a, b in zip(again.parameters(), model.parameters())
    )
    if rank == 0:
        print("read back by hand", len(loaded), same)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    model, optimizer = made(mesh=mesh)
    look(model, rank, size)
    steps(model, optimizer, rank, size, range(4))
    with tempfile.TemporaryDirectory() as folder:
        shared = [folder]
        dist.broadcast_object_list(shared)
        by_hand(model, os.path.join(shared[0], "whole.pt"), rank)
        dist.barrier()
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    states = (
        get_model_state_dict(model, options=whole),
        get_optimizer_state_dict(model, optimizer, options=whole),
    )
    if rank == 0:
        print("whole states", len(states[0]), len(states[1]["state"]))
    states = copy.deepcopy(states)  # as after a way through a file
    again, second = made(mesh=mesh, reshard_after_forward=False)
    broadcast = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(again, states[0], options=broadcast)
    set_optimizer_state_dict(again, second, states[1], options=broadcast)
    steps(model, optimizer, rank, size, range(4, 6))
    steps(again, second, rank, size, range(4, 6))

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    steps(*made(mp_policy=policy), rank, size, range(4), places=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
