"""Tensor parallel training: a feed-forward net cut by columns and rows, a Transformer with sequence parallel norms, and DTensors by hand.

torchrun --nproc-per-node N tensor_parallel.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(10, 32)
        self.relu = nn.ReLU()
        self.out_proj = nn.Linear(32, 5)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))


def feed_forward(mesh, rank):
    torch.manual_seed(0)
    model = parallelize_module(
        ToyModel(), mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=True)
    for step in range(5):
        torch.manual_seed(step)  # every rank of a tensor parallel group has the same input
        output = model(torch.rand(20, 10))
        loss = output.square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if rank == 0:
        print([tuple(p.placements) for p in model.parameters()])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_size = width // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            f(x).view(batch, length, -1, self.head_size).transpose(1, 2) for f in (self.wq, self.wk, self.wv)
        )
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(24, 16)
        self.layers = nn.ModuleList([Block(16, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(16)
        self.output = nn.Linear(16, 24)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


def sequence_parallel(mesh, rank):
    torch.manual_seed(1)
    model = parallelize_module(
        Transformer(),
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for block in model.layers:
        parallelize_module(
            block,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "feed_forward.0": ColwiseParallel(),
                "feed_forward.2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(4):
        torch.manual_seed(10 + step)
        tokens = torch.randint(24, (4, 9))
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step} loss {loss.item():.5f}")


def tensors(mesh, rank, size):
    torch.manual_seed(2)
    whole = torch.randn(8, 8)
    rows, columns = distribute_tensor(whole, mesh, [Shard(0)]), distribute_tensor(whole, mesh, [Shard(1)])
    product = (rows @ columns.redistribute(placements=[Replicate()])).full_tensor()
    partial = columns.sum(dim=1)
    agree = torch.allclose(product, whole @ whole, atol=1e-5)
    close = torch.allclose(partial.full_tensor(), whole.sum(1), atol=1e-5)
    local = DTensor.from_local(torch.full((2, 3), float(rank)), mesh, [Shard(0)])
    module = distribute_module(nn.Linear(8, 8), mesh)
    if rank == 0:
        print("agree", agree, close, tuple(local.shape) == (2 * size, 3), module.weight.placements)
        print(
            "local",
            tuple(rows.to_local().shape) == (8 // size, 8),
            tuple(columns.to_local().shape) == (8, 8 // size),
        )


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    feed_forward(mesh, rank)
    sequence_parallel(mesh, rank)
    tensors(mesh, rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
