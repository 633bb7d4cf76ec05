"""A Transformer with FullyShardedDataParallel, wrapped by its layers, recomputed in backward, and gone on with from a checkpoint.

torchrun --nproc-per-node N fsdp_transformer.py
"""

import functools
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy


class Summariser(nn.Module):
    def __init__(self, words=40, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def made(size):
    torch.manual_seed(4)
    policy = functools.partial(
        transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer}
    )
    model = FSDP(
        Summariser(),
        auto_wrap_policy=policy,
        device_id=torch.device("cpu"),
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        limit_all_gathers=True,
    )
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=functools.partial(
            checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT
        ),
        check_fn=lambda module: isinstance(module, nn.TransformerEncoderLayer),
    )
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def steps(model, optimizer, rank, size, numbers):
    for step in numbers:
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(40, (8, 9), generator=generator)[rank::size]
        optimizer.zero_grad()
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / size:.5f} norm {norm.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = made(size)
    if rank == 0:
        print(model.encoder.layers[0].__class__.__name__)
    steps(model, optimizer, rank, size, range(4))
    kinds = (
        StateDictType.FULL_STATE_DICT,
        FullStateDictConfig(rank0_only=False),
        FullOptimStateDictConfig(rank0_only=False),
    )
    with tempfile.TemporaryDirectory() as folder, FSDP.state_dict_type(model, *kinds):
        path = os.path.join(folder, "all.pt")
        states = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
        torch.save(states, f"{path}.{rank}")
        steps(model, optimizer, rank, size, range(4, 6))
        states = torch.load(f"{path}.{rank}")
        again, optimizer = made(size)
        with FSDP.state_dict_type(again, *kinds):
            again.load_state_dict(states["model"])
            optimizer.load_state_dict(FSDP.optim_state_dict_to_load(again, optimizer, states["optim"]))
        if rank == 0:
            print("resumed", len(states["model"]), "tensors", len(states["optim"]["state"]), "states")
        steps(again, optimizer, rank, size, range(4, 8))
        with FSDP.summon_full_params(again):
            total = sum(p.detach().double().abs().sum() for p in again.parameters())
        if rank == 0:
            print(f"parameters {total:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
