"""A network of one's own, trained, kept and read back."""

from __future__ import annotations

import io

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau import Tensor, optim


class Attention(nn.Module):
    scale: float

    def __init__(self, features: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (features // heads) ** -0.5
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.out = nn.Linear(features, features)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, features = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        mixed = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, length, features)
        return self.out(mixed)


class Net(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.attention = Attention(features)
        self.body = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, 8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x + self.attention(x))
        return self.head(hidden.mean(dim=1)), hidden


def train(net: Net, steps: int) -> float:
    optimiser = optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
    loss = torch.zeros(())
    net.train()
    for _ in range(steps):
        x, y = torch.randn(4, 5, 6), torch.randint(0, 3, (4,))
        optimiser.zero_grad(set_to_none=True)
        logits, _hidden = net(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        loss.backward()
        norm: Tensor = nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        assert norm.isfinite()
        optimiser.step()
        schedule.step()
    return float(loss)


@torch.no_grad()
def accuracy(net: Net, x: Tensor, y: Tensor) -> float:
    net.eval()
    logits, _ = net(x)
    right = (logits.argmax(dim=1) == y).float().mean()
    share: float = right.item()
    return share


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net(6, 3).to(device).to(torch.float32)
    assert train(net, 3) > 0
    assert 0 <= accuracy(net.cpu(), torch.randn(4, 5, 6), torch.zeros(4, dtype=torch.int64)) <= 1
    buffer = io.BytesIO()
    torch.save({"net": net.state_dict(), "step": 3}, buffer)
    buffer.seek(0)
    read = torch.load(buffer, weights_only=True)
    missing, unexpected = net.load_state_dict(read["net"], strict=True)
    assert not missing and not unexpected
    count = sum(p.numel() for p in net.parameters() if p.requires_grad)
    names = [name for name, p in net.named_parameters() if p.dim() > 1]
    assert count > 0 and "head.weight" in names
    for name, value in net.state_dict().items():
        assert name and value.shape


main()
