# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after an operation has failed.

    state = hvd.elastic.TorchState(model, optimizer, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

Rueda goes on with the ranks that the launcher has started: after a failure that no rank was lost in, all of them restore what they last
committed. When a rank is lost, or ranks are to be added, the job has to be started again, from a checkpoint; run() then raises, and says so.
"""

from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.elastic.state import ObjectState, State, TorchState, run

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
