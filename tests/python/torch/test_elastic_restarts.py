# SPDX-License-Identifier: Apache-2.0
"""A commit that goes on in a process that takes the place of another, as when torchrun starts all ranks again. Each rank by itself."""

import io

import pytest
import torch
from test_elastic_state import CounterHandler, OwnSave, Trained, adamw, differing, fused, fused_sgd, light, sgd

import rueda.torch as hvd
from rueda.common.exceptions import InvalidOperation
from rueda.torch.elastic import handlers

OF_PROCESS = ("torch", "python", "numpy")  # random generators


def handed_over(trained):
    """committed(), as another process reads it."""
    file = io.BytesIO()
    torch.save(trained.state.committed(), file)
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=False)


def kept(trained):
    return {name: value for name, value in trained.everything().items() if name not in OF_PROCESS}


def begun(*args, **kwargs):
    trained = Trained(*args, **kwargs)
    trained.state._fresh = False  # as sync() leaves it
    return trained


@pytest.mark.parametrize("distribute", [False, True])
@pytest.mark.parametrize("make", [adamw, fused, sgd, fused_sgd])
@pytest.mark.parametrize("steps", [1, 6])  # a full commit, and a light one
def test_another_process_goes_on_from_the_commit(make, steps, distribute):
    old = begun(make, distribute=distribute).train(steps)
    assert light(old) == (steps == 6)
    committed = kept(old)
    old.backward()  # buffers of the model change
    old.scheduler.step()  # and the learning rate
    old.state.batch = 99
    given = handed_over(old)
    new = Trained(make, seed=7, distribute=distribute)
    new.state.load_committed(given)
    assert differing(committed, kept(new)) is None
    assert new.state._commits == old.state._commits == steps and old.state.batch == 99
    new.train(3)
    new.state.committed()


def test_training_goes_on_with_the_same_bits():
    one, old = begun().train(9), begun().train(5)
    states = torch.get_rng_state()
    new = Trained(seed=7)
    new.state.load_committed(handed_over(old))
    torch.set_rng_state(states)
    new.train(4)
    assert differing(kept(one), kept(new)) is None


def test_restore_goes_back_to_the_commit_of_the_other_process():
    old = begun().train(4)
    new = Trained(seed=7)
    new.state.load_committed(handed_over(old))
    new.step()
    new.state.restore()
    assert differing(kept(old), kept(new)) is None


def test_a_step_after_a_full_commit_is_not_handed_over():
    old = begun().train(1)
    committed = kept(old)
    old.step()
    new = Trained(seed=7)
    new.state.load_committed(handed_over(old))
    assert differing(committed, kept(new)) is None


@pytest.mark.parametrize("make", [adamw, fused_sgd])
def test_a_step_after_a_light_commit_leaves_nothing_to_hand_over(make):
    old = begun(make).train(6)
    old.step()
    with pytest.raises(InvalidOperation, match="an optimizer has stepped since the last commit"):
        old.state.committed()


def test_a_rank_that_has_not_been_given_the_state_has_nothing_to_hand_over():
    with pytest.raises(InvalidOperation, match="has not been given the state"):
        Trained().train(1).state.committed()


def test_handlers_of_the_program_cannot_be_handed_over(monkeypatch):
    monkeypatch.setattr(handlers, "_handler_registry", [(torch.nn.Module, OwnSave), (dict, CounterHandler), *handlers._handler_registry])
    for state in (hvd.elastic.TorchState(torch.nn.Linear(1, 1)), hvd.elastic.TorchState(counter={})):
        state._fresh = False
        with pytest.raises(InvalidOperation, match=r"state\.(model|counter) is sharded, or has a handler of the program's"):
            state.committed()
