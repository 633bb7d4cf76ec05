"""torchmetrics on several processes: states summed and concatenated over them, and values of each step.

torchrun --nproc-per-node N torchmetrics_sync.py
"""

import torch
import torch.distributed as dist
import torchmetrics
from torchmetrics import classification, regression


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 4, generator=generator).softmax(1)
    labels = torch.randint(4, (40,), generator=generator)
    collection = torchmetrics.MetricCollection(
        {
            "accuracy": classification.MulticlassAccuracy(4),
            "f1": classification.MulticlassF1Score(4, average="macro"),
            "auroc": classification.MulticlassAUROC(4),
            "confusion": classification.MulticlassConfusionMatrix(4),
        }
    )
    mean, spearman = torchmetrics.MeanMetric(), regression.SpearmanCorrCoef()
    squared = regression.MeanSquaredError(dist_sync_on_step=True)
    each = torchmetrics.CatMetric()
    for start in range(0, 40, 8):
        mine = slice(start + rank, start + 8, size)
        collection.update(scores[mine], labels[mine])
        mean.update(scores[mine, 0])
        spearman.update(scores[mine, 0], scores[mine, 1])
        step = squared(scores[mine, 0], scores[mine, 1])
        each.update(torch.full((rank + 1,), float(rank)))  # not the same number on each rank
        if rank == 0:
            print(f"step {start} squared {step.item():.6f}")
    values = collection.compute()
    rest = [m.compute() for m in (mean, spearman, squared)]
    lengths = each.compute().numel()
    if rank == 0:
        print({name: f"{v.item():.5f}" for name, v in sorted(values.items()) if v.dim() == 0})
        print(values["confusion"].tolist())
        print(*(f"{v.item():.5f}" for v in rest), lengths == 5 * size * (size + 1) // 2)
    collection.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
