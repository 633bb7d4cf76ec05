"""Programs that are wrong: each line with a comment is an error of that kind.  Nothing here runs."""

from __future__ import annotations

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn, optim
from flambeau.utils.data import DataLoader, Dataset


class Net(nn.Module):
    def forward(self, x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        return x, x * scale


class Words(Dataset[tuple[str, int]]):
    def __getitem__(self, index: int) -> tuple[str, int]:
        return "a", 1


def mistakes(x: Tensor, net: Net, p: list[nn.Parameter]) -> None:
    x.sum(dim="rows")  # call-overload | arg-type
    x.sofmax(dim=0)  # attr-defined
    torch.sofmax(x, dim=0)  # attr-defined
    torch.softmax("text", 0)  # arg-type
    torch.softmax(x, 0, keepdim=True)  # call-arg
    optim.Adam(p, learning_rate=0.1)  # call-arg
    optim.SGD(p, lr="fast")  # arg-type
    net("text")  # arg-type
    net(x, sclae=2.0)  # call-arg
    net(x).sum()  # attr-defined
    x.max(dim=0).sum()  # attr-defined | union-attr
    best: Tensor = x.topk(2).value  # attr-defined
    number: int = x.exp()  # assignment
    size: str = x.shape[0]  # assignment
    F.cross_entropy(x, x, reduce_by="mean")  # call-arg
    F.conv2d(x)  # call-arg
    torch.zeros("3")  # call-overload | arg-type
    torch.tensor([1.0], dtype="float32")  # arg-type
    nn.Linear(3)  # call-arg
    nn.Linear(3, 2)(x, x)  # call-arg
    x.item().sum()  # union-attr
    x.to(torch.flaot64)  # attr-defined
    torch.stack(x, dim="a")  # arg-type
    word: int = Words()[0][0]  # assignment
    for batch in DataLoader(Words(), btach_size=2):  # call-arg
        print(batch, number, size, word, best)
