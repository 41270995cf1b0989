# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel as a Compressor of the program's own makes them."""

import time
import weakref

import torch

from rueda.common.exceptions import OutOfTurn
from rueda.torch.agreement import check_agreed, next_prefix
from rueda.torch.local_reducer import LocalReducer, check_passes
from rueda.torch.operations.allreduce import grouped_allreduce_async_
from rueda.torch.operations.handles import Average, Sum

_UNSET = {"schedule": ("sync_schedule", "every_step"), "measure_norm": ("measure_norm", False), "device_window": ("device_window", False),
          "sharded": ("sharded", False)}


def _at_end_of_pass(action):
    """In a hook, or in such an action: `action` is called when the pass that runs ends, after all that it has to call by then."""
    torch.autograd.Variable._execution_engine.queue_callback(action)


def _in_groups(parameters, groups):
    """The places of parameters that are reduced together, as tuples; those in none of `groups` by themselves."""
    places = {id(parameter): place for place, parameter in enumerate(parameters)}
    group_of = {}
    for number, group in enumerate(groups):
        for parameter in group:
            place = places.get(id(parameter))
            if place is None:
                raise ValueError(f"group {number} has a tensor that is no parameter of this optimizer; name only those that it was given")
            if place in group_of:
                raise ValueError(f"parameter {place} is in group {group_of[place]} and in group {number}; give each parameter one group")
            group_of[place] = number
    together = {}
    for place in range(len(parameters)):
        together.setdefault(group_of.get(place, (place,)), []).append(place)
    return [tuple(members) for members in together.values()]


def _check(compression, options):
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError(f"compression is {compression!r}; it must be one of hvd.Compression, or have compress() and decompress()")
    for option, (name, value) in _UNSET.items():
        if options[option] != value:
            raise ValueError(f"{name} is given, which compressors of Compression can do only; with one of your own leave it out")
    op, passes, divisor = options["op"], options["backward_passes_per_step"], options["gradient_predivide_factor"]
    if op not in (Average, Sum):
        raise ValueError(f"op is {op}, which compressors of Compression can do only; choose Average or Sum")
    check_passes(passes)
    if not divisor > 0 or (divisor != 1.0 and op == Sum):
        raise ValueError(f"gradient_predivide_factor is {divisor}; it must be greater than 0, and 1 but for Average")


class CompressedReducer(LocalReducer):
    """What _torch.GradientReducer is for gradients that travel as they are, for those that a Compressor in Python makes smaller.

    Purpose: averages gradients while backward passes run; each is compressed when it is there, allreduced as what it then is, and made
    into .grad again; those of a group together. Used by the thread that steps. A rank without a gradient takes part with zeros; where
    no rank has one, .grad stays None. Its hooks end with it. Passes begin and end a step as in GradientSync of the C++ frontend.
    """

    def __init__(self, parameters, compression, process_set, options):
        _check(compression, options)
        super().__init__(parameters)
        names = {id(parameter): name for name, parameter in options["named_parameters"]}
        prefix = next_prefix("compressed", process_set)
        self._names = [f"{prefix}.{names.get(id(each), i)}" for i, each in enumerate(self._parameters)]
        self._groups = {place: group for group in _in_groups(self._parameters, options["groups"]) for place in group}
        self._compression, self._process_set, self._op = compression, process_set, options["op"]
        self._passes, self._divisor = options["backward_passes_per_step"], options["gradient_predivide_factor"]
        self._in_backward, self._noted, self._failure = options["synchronize_in_backward"], set(), None
        self._flying, self._counts = {}, [0] * len(self._parameters)
        self._reduced, self._skips, self._pauses = False, 0, 0
        self._sparse_dims = [0] * len(self._parameters)  # of the last gradient; 0: it was dense
        # What is reduced already, and alike on all ranks, shall be the same when it is reduced with a further pass.
        self._again = 1.0 if self._op == Average else 1.0 / process_set.size()
        described = [f"op {self._op.name}, backward_passes_per_step {self._passes}, gradient_predivide_factor {self._divisor}"]
        described += [f"'{names.get(id(each), i)}' {each.dtype} {list(each.shape)}, trained: {each.requires_grad}, reduced with "
                      f"{list(self._groups[i])}" for i, each in enumerate(self._parameters)]
        check_agreed(described, process_set)
        me = weakref.ref(self)
        trained = [(i, each) for i, each in enumerate(self._parameters) if each.requires_grad]
        self._hooks = [each.register_hook(lambda _: me() and me()._before_accumulation()) for _, each in trained]
        self._hooks += [each.register_post_accumulate_grad_hook(lambda _, i=i: me() and me()._accumulated(i)) for i, each in trained]

    def __del__(self):
        for hook in getattr(self, "_hooks", []):
            hook.remove()

    @torch.no_grad()
    def _before_accumulation(self):
        if not self._reduced:
            return
        self._begin_step()
        for parameter in self._parameters:
            if self._again != 1.0 and parameter.grad is not None:
                parameter.grad.mul_(self._again)

    def _accumulated(self, index):
        if self._pauses:
            return
        group = self._groups[index]
        if group in self._flying or self._counts[index] == self._passes:
            raise OutOfTurn(f"parameter '{self._names[index]}' receives a gradient in a backward pass after the last of its step "
                            f"(backward_passes_per_step is {self._passes}); call step() first, or raise it; after a pass that failed "
                            "call synchronize() and zero_grad()")
        self._counts[index] += 1
        number = torch._C._current_graph_task_id()
        if self._in_backward and number not in self._noted:
            self._noted.add(number)
            _at_end_of_pass(self._pass_ended)
        if all(self._counts[each] == self._passes for each in group if self._parameters[each].requires_grad):
            self._submit(group)

    def _pass_ended(self):
        inside_another = torch._C._current_autograd_node() is not None  # as those of reentrant checkpoints are
        if inside_another or max(self._counts) < self._passes:
            return
        self._failure = None  # of a step before, which nobody has asked for
        self._keep_failure_of(self._submit_rest)
        _at_end_of_pass(self._wait_in_backward)

    def _wait_in_backward(self):
        if self._failure is None:
            self._keep_failure_of(self.synchronize)
        if self._failure is not None:
            _at_end_of_pass(self._throw_failure)

    def _keep_failure_of(self, action):
        try:
            action()
        except Exception as error:
            self._failure = error

    def _submit_rest(self):
        for group in dict.fromkeys(self._groups.values()):
            if group not in self._flying and any(self._parameters[each].requires_grad for each in group):
                self._submit(group)

    def _submit(self, group):
        members = [each for each in group if self._parameters[each].requires_grad]
        with torch.no_grad():
            packed, contexts = zip(*(self._compression.compress(self._gradient(each)) for each in members))
        # Beside them, whether this rank has each at all.
        packed += torch.tensor([float(self._parameters[each].grad is not None) for each in members]),
        factor = 1.0 / self._divisor if self._op == Average else 1.0
        name = self._names[members[0]]
        handle = grouped_allreduce_async_(packed, None, name, self._op, factor, 1.0 / factor, self._process_set)
        self._flying[group] = handle, members, contexts

    def _gradient(self, index):
        parameter = self._parameters[index]
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if parameter.grad is not None:
            self._sparse_dims[index] = gradient.sparse_dim() if gradient.is_sparse else 0
        return gradient.to_dense() if gradient.is_sparse else gradient

    def _begin_step(self):
        self._reduced, self._counts = False, [0] * len(self._parameters)
        self._noted.clear()

    def _throw_failure(self):
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def synchronize(self):
        self._throw_failure()
        if self._reduced:
            return True
        begin = time.perf_counter()
        self._submit_rest()
        flying, self._flying = self._flying, {}
        failure = None
        for _, (handle, members, contexts) in sorted(flying.items()):  # all of them: the next step uses their names again
            try:
                *reduced, had = handle.wait()
                for index, each, ctx, exists in zip(members, reduced, contexts, had.tolist()):
                    if exists:
                        gradient = self._compression.decompress(each, ctx).view_as(self._parameters[index])
                        self._keep(index, gradient)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        self._reduced = True
        self._wait_seconds += time.perf_counter() - begin
        return True

    @torch.no_grad()
    def _keep(self, index, gradient):
        """In .grad, where the program may hold it, too."""
        parameter, sparse_dims = self._parameters[index], self._sparse_dims[index]
        if sparse_dims:
            parameter.grad = gradient.to_sparse(sparse_dims)
        elif parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad.copy_(gradient)

    def before_step(self):
        self._throw_failure()
        if not self._skips:
            self.synchronize()
        self._begin_step()
        return True

    def before_zero_grad(self):
        if self._flying:
            raise OutOfTurn("zero_grad() while gradients are being reduced; call step() or synchronize() first")
        self._failure = None
        self._begin_step()
        return True

    def enter_skip(self):
        self._skips += 1

    def leave_skip(self):
        self._skips -= 1

    def enter_no_sync(self):
        self._pauses += 1

    def leave_no_sync(self):
        self._pauses -= 1
