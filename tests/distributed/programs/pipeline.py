"""A Transformer in stages, one a rank, whose micro-batches go through them by the schedule of GPipe and by 1F1B.

torchrun --nproc-per-node N pipeline.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

WORDS, WIDTH, LAYERS, MICRO_BATCHES = 24, 16, 4, 4


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleDict(
            {str(k): nn.TransformerDecoderLayer(WIDTH, 2, 32, dropout=0.0) for k in range(LAYERS)}
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens) if self.tok_embeddings else tokens
        for layer in self.layers.values():
            h = layer(h, h).contiguous()
        h = self.norm(h) if self.norm else h
        return self.output(h) if self.output else h


def stage_of(rank, size):
    """The part of the model that this rank has."""
    torch.manual_seed(3)
    model = Transformer()
    mine = range(rank * LAYERS // size, (rank + 1) * LAYERS // size)
    for k in range(LAYERS):
        if k not in mine:
            del model.layers[str(k)]
    if rank != 0:
        model.tok_embeddings = None
    if rank != size - 1:
        model.norm = model.output = None
    return model, PipelineStage(model, rank, size, torch.device("cpu"))


def loss_fn(output, target):
    return nn.functional.cross_entropy(output.reshape(-1, WORDS), target.reshape(-1))


def train(schedule_class, rank, size):
    model, stage = stage_of(rank, size)
    schedule = schedule_class(stage, n_microbatches=MICRO_BATCHES, loss_fn=loss_fn)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(4):
        torch.manual_seed(step)
        tokens = torch.randint(WORDS, (8, 7))
        x, y, losses = tokens[:, :-1], tokens[:, 1:], []
        optimizer.zero_grad()
        arguments = (x,) if rank == 0 else ()
        output = schedule.step(*arguments, **({"target": y, "losses": losses} if rank == size - 1 else {}))
        optimizer.step()
        told = torch.zeros(1)
        if rank == size - 1:
            assert output.shape == (8, 6, WORDS)
            told = torch.stack(losses).mean().detach().reshape(1)
        dist.broadcast(told, src=size - 1)
        if rank == 0:
            print(f"{schedule_class.__name__} step {step} loss {told.item():.5f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        train(schedule_class, rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
