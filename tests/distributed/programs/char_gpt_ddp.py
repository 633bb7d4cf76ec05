"""A small GPT over characters, trained data parallel with clipped gradients, accumulation without synchronisation, and autocast.

torchrun --nproc-per-node N char_gpt_ddp.py
"""

import math
import os
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

TEXT = (
    "the sea was calm and the light came slowly over the hills while the boats went out one after another; "
    "nobody spoke, and the oars kept time, until the last of them had passed the point and was gone. "
) * 2


@dataclass
class GPTConfig:
    vocab_size: int
    block_size: int = 16
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    dropout: float = 0.0


class CharDataset(Dataset):
    def __init__(self, text, block_size):
        chars = sorted(set(text))
        self.codes = {c: i for i, c in enumerate(chars)}
        self.data = torch.tensor([self.codes[c] for c in text])
        self.block_size, self.vocab_size = block_size, len(chars)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        start = index * 5
        chunk = self.data[start : start + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        batch, length, width = x.size()
        q, k, v = (
            part.view(batch, length, self.n_head, width // self.n_head).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, width)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=nn.LayerNorm(config.n_embd),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def configure_optimizers(self, weight_decay, lr):
        decay = {n for n, p in self.named_parameters() if p.dim() >= 2}
        groups = [
            {"params": [p for n, p in self.named_parameters() if n in decay], "weight_decay": weight_decay},
            {"params": [p for n, p in self.named_parameters() if n not in decay], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))

    def forward(self, idx, targets=None):
        places = torch.arange(idx.size(1), device=idx.device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(places))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def averaged(loss):
    value = loss.detach().float().clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value.item() / dist.get_world_size()


def fit(mixed):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3407)
    data = CharDataset(TEXT, 16)
    raw = GPT(GPTConfig(data.vocab_size))
    if rank == 0:
        print(f"parameters {sum(p.numel() for p in raw.parameters())}")
    optimizer = raw.configure_optimizers(weight_decay=0.1, lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    model = DistributedDataParallel(raw)
    sampler = DistributedSampler(data, shuffle=True, seed=11)
    loader = DataLoader(data, batch_size=8 // world_size, sampler=sampler, drop_last=True)
    context = torch.autocast("cpu", dtype=torch.bfloat16) if mixed else nullcontext()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        losses = []
        for step, (x, y) in enumerate(loader):
            update = step % 2 == 1  # gradients of two batches make an update
            with nullcontext() if update else model.no_sync():
                with context:
                    _, loss = model(x, y)
                (loss / 2).backward()
            losses.append(averaged(loss))
            if update:
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                schedule.step()
        if rank == 0:
            digits = 2 if mixed else 5
            print(
                f"epoch {epoch} losses", *(f"{loss:.{digits}f}" for loss in losses), f"norm {norm:.{digits}f}"
            )


@torch.no_grad()
def generate(model, start, count):
    for _ in range(count):
        logits, _ = model(start[:, -model.config.block_size :])
        start = torch.cat((start, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
    return start


def main():
    dist.init_process_group(backend="gloo")
    fit(mixed=False)
    fit(mixed=True)
    torch.manual_seed(0)
    model = GPT(GPTConfig(20)).eval()
    if dist.get_rank() == 0:
        print("generated", generate(model, torch.zeros(1, 1, dtype=torch.long), 20).shape[1])
    dist.destroy_process_group()


if __name__ == "__main__":
    assert "RANK" in os.environ, "start this by torchrun"
    main()
