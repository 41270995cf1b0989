# SPDX-License-Identifier: Apache-2.0
"""Any optimizer of torch, made to step on gradients that are reduced over all ranks."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from rueda.common import basics
from rueda.common.process_sets import ProcessSet, global_process_set
from rueda.torch.compression import Compression, Compressor, PowerSGD, TopkCompressor
from rueda.torch.functions import load_in_place, zero_gradient
from rueda.torch.generations import made_before_run
from rueda.torch.operations.handles import Adasum, Average, ReduceOp
from rueda.torch.reducers import checked_names, make_reducer, names_of, parameters_of
from rueda.torch.sharded import Sharded, check_sharded


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
                         compression: type[Compressor] | PowerSGD | TopkCompressor = Compression.none, backward_passes_per_step: int = 1,
                         op: ReduceOp = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: int | Sequence[Sequence[torch.nn.Parameter]] | None = None, sparse_as_dense: bool | str = False,
                         process_set: ProcessSet = global_process_set, *, sync_schedule: str = "every_step", measure_norm: bool = False,
                         synchronize_in_backward: bool = True, sharded: bool = False, device_window: bool = False,
                         adasum_gradients: bool = False, leave_unused: bool = False, part_copies: int = 1) -> _Distributed:
    """An optimizer of the class of `optimizer`, with its parameter groups and state. Its step() first reduces gradients over all ranks.

    Collective: every rank of the process set makes it, with the same arguments. Gradients are reduced, by a thread of C++, as soon as they
    are there, while the backward pass runs on. (In an elastic job it may be made before elastic.run(), which is then where the ranks meet.)

    optimizer: any torch.optim.Optimizer but LBFGS. Do not use it any more.
    named_parameters: model.named_parameters(), for names in messages; all parameters or none. None: they are numbered. The attribute
        _parameter_names maps each parameter to its name.
    compression: how gradients travel; of Compression (between hosts; topk(share) too), Compression.powersgd(rank=4), which makes them two
        thin factors, or a Compressor of your own (everywhere, and in Python).
    backward_passes_per_step: gradients of so many backward passes add up and are reduced at once: their sum; divide the loss for a mean.
    op: Average, Sum or Adasum. By Adasum the updates are combined: each rank steps on its own gradients, and parameters change by the Adasum
        of the ranks' changes. Then synchronize() does nothing, and groups, sync_schedule, measure_norm and sharded are not for it.
    leave_unused: a parameter that is trained, and of which no rank has a gradient, counts as one with a gradient of zeros, if there are
        several ranks: synchronize() and step() set it, so weight decay and momentum move the parameter. True: .grad stays None, and the
        optimizer leaves the parameter, as in torch.
    adasum_gradients: with op=Adasum the gradients are combined instead, before the step, as by other ops. Equal for plain SGD.
    gradient_predivide_factor: of an average over n ranks: gradients are divided by it before they are summed, and by n / it after.
    num_groups, groups: parameters whose gradients are reduced together: a number of groups of equal length, or lists of parameters.
    sparse_as_dense: how sparse gradients travel. False: as their elements, which are gathered. True: as dense ones; .grad is sparse
        afterwards all the same. "by_density": as elements, and .grad sparse, in steps in which the ranks together have less than a quarter
        of them, else as dense ones, and .grad dense: for optimizers that take both (SGD, Adagrad).
    process_set: the ranks that train together. On others this is an optimizer like any other: it reduces nothing.
    sync_schedule: when ranks synchronise: "every_step", "accumulate:N", "local_sgd:N", "diloco:N[:LR[:MOMENTUM]]",
        "adaptive[:TARGET[:MOST_STEPS[:MOST_STRETCH]]]" or "one_step_late" (frameworks/torch/README.md). With others than every_step call
        flush() at the end and before a checkpoint.
    measure_norm: the norm of all gradients is found while they are reduced (grad_norm(), clip_grad_norm_()), without a pass of its own.
    synchronize_in_backward: the last backward pass of a step returns when its gradients are reduced (and raises their error). GradScaler,
        clip_grad_norm_ and whatever else looks at .grad then need neither synchronize() nor skip_synchronize(), as with
        DistributedDataParallel; and as there backward() is collective: ranks run as many passes, over parameters of the same optimizers,
        and do the same between backward() and step(). A further pass before step() is reduced, too: its gradients add to the reduced ones.
        (With backward_passes_per_step > 1 when as many have come.) False: step() waits, or synchronize(): for programs in which a rank
        without a pass, or with one for another optimizer, reduces something else before step(). Schedules that part the ranks, or step
        one late, reduce in step() whatever is said here.
    sharded: each of n ranks steps an n-th of the parameters, and keeps an n-th of the state, with the bits of the unsharded optimizer.
        Inside a host the parameters become one copy for all ranks. param_groups, state and state_dict() are then of this rank's part. For
        optimizers that step each element by itself (all of torch.optim but Adafactor, LBFGS, Muon and SparseAdam), and for all ranks; not with a GradScaler.
    part_copies: of sharded=True in an elastic job: so many further ranks keep and step a copy of each part, and as many neighbours may be lost.
    device_window: gradients on devices get slots in memory that NCCL knows, from the second step on: they are reduced where they are,
        without packing. It takes as much device memory more as they do. Ranks call step() of several optimizers in one order.

    Raises ValueError for arguments that cannot mean anything, and HorovodInternalError where ranks differ in them.
    """
    if num_groups:
        warnings.warn("`num_groups` is deprecated: give groups", DeprecationWarning, stacklevel=2)
    distributed = _derived(optimizer, sharded, part_copies, process_set)
    distributed._distribute(dict(
        named_parameters=checked_names(optimizer, named_parameters), compression=compression, op=op, sharded=sharded,
        backward_passes_per_step=backward_passes_per_step, groups=num_groups if groups is None else groups, sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor, process_set=process_set, schedule=sync_schedule, measure_norm=measure_norm,
        synchronize_in_backward=synchronize_in_backward, device_window=device_window, leave_unused=leave_unused,
        of_updates=op == Adasum and not adasum_gradients and basics.size() > 1))
    return distributed


def _derived(optimizer, sharded, part_copies, process_set):
    """An optimizer that shares the attributes of `optimizer`, of a class that is derived from its class. Not distributed yet."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("torch.optim.LBFGS evaluates its closure several times in one step, which ranks would do a different number of times")
    if isinstance(optimizer, _Distributed):
        raise ValueError("this optimizer is distributed already")
    if sharded:
        check_sharded(optimizer, process_set)
    elif part_copies != 1:
        raise ValueError(f"part_copies is {part_copies}, and sharded is not given: without it each rank has everything; leave part_copies out")
    bases = (*([Sharded] if sharded else []), _Distributed, optimizer.__class__)
    cls: Any = type(optimizer.__class__.__name__, bases, {"__doc__": optimizer.__class__.__doc__})
    distributed = cls.__new__(cls)
    # A scheduler that was made before may have wrapped the old optimizer's step.
    distributed.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    distributed._undistributed, distributed._part_copies = optimizer, part_copies
    return distributed


# The class that the methods below extend.
_Base: Any = torch.optim.Optimizer if TYPE_CHECKING else object


# Attributes that Horovod's have, too.
_SHOWN_OPTIONS = ("backward_passes_per_step", "op", "gradient_predivide_factor", "sparse_as_dense", "process_set")


class _Distributed(_Base):
    """The methods that DistributedOptimizer() puts before those of an optimizer's class."""

    def _distribute(self, options):
        self._options = options
        self._parameter_names = names_of(self, options["named_parameters"])
        self._skips, self._synchronized, self._warned = 0, False, False
        for name in _SHOWN_OPTIONS:
            self.__dict__.setdefault(name, options[name])
        self._own_reducer = None
        if not made_before_run(self):
            self._begin_reducing()

    @property
    def _reducer(self):
        """The reducer. In an elastic job it may be made at its first use, in step() at the latest."""
        if self._own_reducer is None:
            self._begin_reducing()
        return self._own_reducer

    def _begin_reducing(self):
        self._own_reducer = self._make_reducer()

    def _forget_reducer(self):
        if self._own_reducer is not None:
            self._own_reducer.end_generation()
        self._own_reducer = None
        self._synchronized = False

    def _reduced_parameters(self):
        return parameters_of(self)

    def _step_on_reduced(self):
        super().step()

    def _make_reducer(self):
        # Horovod asks once: one that is frozen later counts as one without a gradient.
        self._trained = [parameter for parameter in self._reduced_parameters() if parameter.requires_grad]
        return make_reducer(self._reduced_parameters(), self._parameter_names, self._options)

    def synchronize(self) -> bool:
        """Waits for all reductions of this step: afterwards .grad holds the reduced gradients; step() knows. False: the schedule has none
        for this step, so there is nothing to clip."""
        reduced = self._reducer.synchronize()
        self._fill_gradients()
        self._synchronized = True
        return reduced

    def _fill_gradients(self):
        """A parameter of which no rank has a gradient counts as one with zeros."""
        options = self._options
        alone = basics.size() == 1 or not options["process_set"].included()
        if alone or options["leave_unused"] or options["of_updates"] or options["schedule"] != "every_step":
            return
        for parameter in self._trained:
            if parameter.grad is None:
                parameter.grad = zero_gradient(self, parameter)

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In this context step() does not reduce: for gradients that have been, or, with no_sync() around backward(), for a step of this
        rank's own."""
        reducer = self._reducer  # set_backward_passes_per_step() makes another
        reducer.enter_skip()
        self._skips += 1
        try:
            yield
        finally:
            self._skips -= 1
            reducer.leave_skip()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in this context only add to .grad; the sum there is reduced with the next pass outside of it."""
        reducer = self._reducer
        reducer.enter_no_sync()
        try:
            yield
        finally:
            reducer.leave_no_sync()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From the next step on gradients of `passes` backward passes add up. Collective, between steps."""
        before, self._options["backward_passes_per_step"] = self._options["backward_passes_per_step"], passes
        try:
            self._begin_reducing()
        except (ValueError, RuntimeError):
            self._options["backward_passes_per_step"] = before
            raise
        self.backward_passes_per_step = passes

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's; the new parameters are reduced from the next step on. Collective, between steps."""
        super().add_param_group(param_group)
        if "_own_reducer" not in self.__dict__:
            return
        new = {each: f"allreduce.noname.{len(self.param_groups) - 1}.{i}" for i, each in enumerate(self.param_groups[-1]["params"])}
        self._parameter_names.update(new)
        if self._options["named_parameters"]:
            self._options["named_parameters"] += [(name, each) for each, name in new.items()]
        if self._own_reducer is not None:
            self._begin_reducing()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Runs `closure` once, with gradients on; reduces the rest of the gradients; then steps, if the schedule has a step now."""
        self._reducer.check_parameters(self._reduced_parameters())
        # A scheduler looks at this in the optimizer that it was made for.
        self._opt_called = self._undistributed._opt_called = True
        self._warn_of_synchronize()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._reducer.before_step():
            if not self._skips:
                self._fill_gradients()
            self._step_on_reduced()
        self._reducer.after_step()
        self._synchronized = False
        return loss

    def _warn_of_synchronize(self):
        unneeded = self._synchronized and not self._skips and not self._options["synchronize_in_backward"]
        if not unneeded or self._warned:
            return
        self._warned = True
        warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). It does not reduce "
                      "again; under Horovod it would.", stacklevel=3)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's. Raises OutOfTurn, an AssertionError, while gradients are being reduced; does nothing where the schedule adds them up."""
        if self._own_reducer is None or self._own_reducer.before_zero_grad():
            super().zero_grad(**({} if set_to_none else {"set_to_none": False}))  # an optimizer's own may take no argument

    def state_dict(self) -> dict[str, Any]:
        """As torch's, and, under "sync_schedule", the state that a schedule needs when training is resumed (the outer momentum of
        diloco, the interval of adaptive). Raises ValueError in the middle of a schedule's interval: flush() first."""
        if self._own_reducer is not None:
            self._own_reducer.check_flushed("state_dict()")
        state = super().state_dict()
        if self._schedule_remembers() and self._own_reducer is not None:
            state["sync_schedule"] = torch.frombuffer(bytearray(self._own_reducer.save()), dtype=torch.uint8)
        return state

    def load_state_dict(self, state_dict: dict[str, Any], *, allow_code: bool = False) -> None:
        """As torch's; of an optimizer without that schedule, too: it then begins anew.

        allow_code: also take the "sync_schedule" of an older version, which can run code of whoever wrote it. Without it such a state
        raises ValueError."""
        load_in_place(self, super().load_state_dict, state_dict)
        if self._schedule_remembers() and "sync_schedule" in state_dict and self._own_reducer is not None:
            self._own_reducer.load(state_dict["sync_schedule"].numpy().tobytes(), allow_code)

    def _schedule_remembers(self):
        return self._options["schedule"].split(":")[0] in ("diloco", "adaptive")

    def __deepcopy__(self, memo):
        raise TypeError("a distributed optimizer cannot be copied: making one is collective. Copy the model, and make an optimizer for it")

    def __reduce_ex__(self, protocol):
        raise TypeError("a distributed optimizer cannot be pickled; save its state_dict()")

    def grad_norm(self) -> float:
        """synchronize(), then the 2-norm of all gradients. 0 where synchronize() is False."""
        return self._reducer.grad_norm()

    def clip_grad_norm_(self, max_norm: float) -> float:
        """grad_norm(), and gradients scaled so that it is at most `max_norm`, unless it is not finite. Returns the norm before.

        A number: with gradients on a device the host waits for it. torch.nn.utils.clip_grad_norm_ after synchronize() does not."""
        return self._reducer.clip_grad_norm_(max_norm)

    def flush(self, max_norm: float | None = None) -> None:
        """Ends the schedule's interval, with a step if gradients were kept or on their way; afterwards all ranks have the same
        parameters. Collective; for the end, and before a checkpoint."""
        if self._reducer.flush(max_norm):
            self._step_on_reduced()
            self.zero_grad()

    def sync_interval(self) -> int:
        """Steps from one synchronisation to the next, as the schedule has it now."""
        return self._reducer.sync_interval()

    def wait_seconds(self) -> float:
        """Time that this rank has spent waiting for others in this optimizer, in seconds, in all."""
        return self._reducer.wait_seconds()


# Hooks of optimizers run in the step of the class that it is derived from.
setattr(_Distributed.step, "hooked", True)
# It marks by itself that it was called, so schedulers need not wrap it.
setattr(_Distributed.step, "_wrapped_by_lr_sched", True)
