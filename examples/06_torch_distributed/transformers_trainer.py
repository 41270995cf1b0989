# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers over Rueda. The group is made before: the Trainer's own list of backends is fixed.

    torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/transformers_trainer.py
"""

import tempfile

import torch
from transformers import Trainer, TrainingArguments

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip


class Regression(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, values, labels=None):
        scores = self.layer(values)
        return {"loss": torch.nn.functional.mse_loss(scores, labels), "logits": scores}


torch.distributed.init_process_group("rueda")
torch.manual_seed(1)
values = torch.randn(6400, 8)
data = [{"values": row, "labels": row.sum().reshape(1)} for row in values]
model = Regression()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=32, num_train_epochs=1, learning_rate=0.1, optim="sgd",
                                  lr_scheduler_type="constant", save_strategy="no", report_to=[], disable_tqdm=True)
    Trainer(model, arguments, train_dataset=data).train()
print(f"rank {torch.distributed.get_rank()}: sum of the weights {model.layer.weight.sum().item():.4f}", flush=True)
torch.distributed.destroy_process_group()
