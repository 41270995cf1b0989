# SPDX-License-Identifier: Apache-2.0
"""Lightning over Rueda.

    torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/lightning_fit.py
"""

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        data, = batch
        return torch.nn.functional.mse_loss(self.layer(data), data.sum(1, keepdim=True))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(6400, 8)), batch_size=32)
model = Regression()
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="rueda"), max_epochs=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(model, data)
print(f"rank {trainer.global_rank}: sum of the weights {model.layer.weight.sum().item():.4f}", flush=True)
