# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after an operation has failed, and while workers come and go.

    state = hvd.elastic.TorchState(model, optimizer, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

In an elastic job (ruedarun --min-np) training goes on with the ranks that are left, and with workers that are added: no collective operation
comes before the decorated function, and objects with a collective constructor, but for DistributedOptimizer, are made inside of it. In other jobs
Rueda goes on with the ranks that the launcher has started: after a failure that no rank was lost in, all of them restore the last commit. When a
rank is lost there, the job has to be started again, from a checkpoint; run() then raises, and says so. torchrun --max-restarts does start it again,
and a TorchState then goes on from the last commit.
"""

from rueda.common.elastic import HostUpdateResult, run_fn
from rueda.torch.elastic.loop import run
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.elastic.handlers import ShardedOptimizerStateHandler
from rueda.torch.elastic.state import (ModelStateHandler, ObjectState, OptimizerStateHandler, SamplerStateHandler, State, StateHandler, TorchState,
                                       get_handler_registry, set_handler_registry)

__all__ = ["ElasticSampler", "HostUpdateResult", "ModelStateHandler", "ObjectState", "OptimizerStateHandler", "SamplerStateHandler",
           "ShardedOptimizerStateHandler", "State", "StateHandler", "TorchState", "get_handler_registry", "run", "run_fn", "set_handler_registry"]
