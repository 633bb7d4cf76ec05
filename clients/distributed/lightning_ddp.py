"""lightning's Trainer on several processes, which it starts itself: "ddp" and "ddp_spawn", validation, checkpoints, early stopping.

torchrun --nproc-per-node N lightning_ddp.py N ddp
python lightning_ddp.py N ddp
python lightning_ddp.py N ddp_spawn
"""

import sys
import tempfile
import warnings

import lightning
import torch
from lightning.pytorch import callbacks
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


def data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return TensorDataset(x, x[:, :3].argmax(1))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        scores = self.network(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(scores, batch[1]), sync_dist=True)
        self.log("accuracy", (scores.argmax(1) == batch[1]).float().mean(), sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2)}


class Report(callbacks.Callback):
    def on_train_epoch_end(self, trainer, module):
        metrics = {name: f"{float(value):.5f}" for name, value in sorted(trainer.callback_metrics.items())}
        if trainer.is_global_zero:
            print("epoch", trainer.current_epoch, "of", trainer.world_size, metrics, flush=True)

    def on_fit_end(self, trainer, module):
        gathered = module.all_gather(torch.tensor(float(module.global_rank)))
        if trainer.is_global_zero:
            print(
                "gathered", gathered.reshape(-1).tolist(), type(trainer.strategy.model).__name__, flush=True
            )


def main(processes, strategy):
    lightning.seed_everything(5, verbose=False)
    train = DataLoader(data(64, 0), batch_size=8 // processes, shuffle=True)
    held_out = DataLoader(data(32, 1), batch_size=8 // processes)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = callbacks.ModelCheckpoint(folder, monitor="val_loss", filename="best", save_last=True)
        trainer = lightning.Trainer(
            strategy=strategy,
            devices=processes,
            accelerator="cpu",
            max_epochs=4,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            gradient_clip_val=1.0,
            callbacks=[Report(), checkpoint, callbacks.EarlyStopping("val_loss", patience=3)],
        )
        trainer.fit(Classifier(), train, held_out)
        if trainer.is_global_zero and strategy == "ddp":
            print(
                "best",
                checkpoint.best_model_path.endswith("best.ckpt"),
                f"{float(checkpoint.best_model_score):.5f}",
                flush=True,
            )
        if strategy == "ddp":
            trainer.strategy.barrier()
            metrics = trainer.test(ckpt_path=checkpoint.best_model_path, dataloaders=held_out, verbose=False)
            if trainer.is_global_zero:
                print(
                    "tested", {name: f"{value:.5f}" for name, value in sorted(metrics[0].items())}, flush=True
                )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
