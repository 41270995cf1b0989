# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel as a Compressor of the program's own makes them."""

import itertools
import time
import weakref

import torch

from rueda.torch.operations.allreduce import allreduce_async_
from rueda.torch.operations.handles import Average, Sum

_UNSET = {"schedule": "every_step", "groups": [], "measure_norm": False, "sharded": False}
_numbers = itertools.count()  # ranks make optimizers in one order


def _at_end_of_pass(action):
    """In a hook, or in such an action: `action` is called when the pass that runs ends, after all that it has to call by then."""
    torch.autograd.Variable._execution_engine.queue_callback(action)


class CompressedReducer:
    """What _torch.GradientReducer is for gradients that travel as they are, for those that a Compressor in Python makes smaller.

    Purpose: averages gradients while backward passes run; each is compressed when it is there, allreduced as what it then is, and made
    into .grad again. Used by the thread that steps. A rank without a gradient takes part with zeros. Its hooks end with it. Passes begin
    and end a step as in GradientSync of the C++ frontend.
    """

    def __init__(self, parameters, compression, process_set, options):
        for name, value in _UNSET.items():
            if options[name] != value:
                asked = "groups, or num_groups," if name == "groups" else name
                raise ValueError(f"{asked} is given, which compressors of Compression can do only; with one of your own leave it out")
        if options["op"] not in (Average, Sum):
            raise ValueError(f"op is {options['op'].name}, which compressors of Compression can do only; choose Average or Sum")
        if options["backward_passes_per_step"] < 1:
            raise ValueError(f"backward_passes_per_step is {options['backward_passes_per_step']}; it must be at least 1")
        names = {id(parameter): name for name, parameter in options["named_parameters"]}
        prefix = f"compressed.{next(_numbers)}"
        self._parameters = list({id(each): each for each in parameters}.values())
        self._names = [f"{prefix}.{names.get(id(each), i)}" for i, each in enumerate(self._parameters)]
        self._given = [id(each) for each in parameters]
        self._compression, self._process_set, self._op = compression, process_set, options["op"]
        self._passes, self._divisor = options["backward_passes_per_step"], options["gradient_predivide_factor"]
        self._in_backward, self._noted, self._failure = options["synchronize_in_backward"], set(), None
        self._flying, self._counts = {}, [0] * len(self._parameters)
        self._reduced, self._skips, self._pauses, self._wait_seconds = False, 0, 0, 0.0
        # What is reduced already, and alike on all ranks, shall be the same when it is reduced with a further pass.
        self._again = 1.0 if self._op == Average else 1.0 / process_set.size()
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
        if index in self._flying:
            raise ValueError(f"parameter '{self._names[index]}' receives a gradient in a backward pass after the last of its step "
                             f"(backward_passes_per_step is {self._passes}); call step() first, or raise it; after a pass that failed "
                             "call synchronize() and zero_grad()")
        self._counts[index] += 1
        number = torch._C._current_graph_task_id()
        if self._in_backward and number not in self._noted:
            self._noted.add(number)
            _at_end_of_pass(self._pass_ended)
        if self._counts[index] == self._passes:
            self._submit(index)

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
        for index, parameter in enumerate(self._parameters):
            if index not in self._flying and parameter.requires_grad:
                self._submit(index)

    def _submit(self, index):
        parameter = self._parameters[index]
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradient = gradient.to_dense() if gradient.is_sparse else gradient
        with torch.no_grad():
            packed, ctx = self._compression.compress(gradient)
        factor = 1.0 / self._divisor if self._op == Average else 1.0
        handle = allreduce_async_(packed, None, self._names[index], self._op, factor, 1.0 / factor, self._process_set)
        self._flying[index] = handle, ctx

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
        for index, (handle, ctx) in sorted(flying.items()):  # all of them: the next step uses their names again
            try:
                gradient = self._compression.decompress(handle.wait(), ctx)
                self._parameters[index].grad = gradient.view_as(self._parameters[index])
            except RuntimeError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        self._reduced = True
        self._wait_seconds += time.perf_counter() - begin
        return True

    def before_step(self):
        self._throw_failure()
        if not self._skips:
            self.synchronize()
        self._begin_step()
        return True

    def after_step(self):
        pass

    def before_zero_grad(self):
        if self._flying:
            raise ValueError("zero_grad() while gradients are being reduced; call step() or synchronize() first")
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

    def check_parameters(self, parameters):
        if [id(each) for each in parameters] != self._given:
            raise ValueError("this optimizer was made for other parameters; make it when all have been added")

    def check_flushed(self, action):
        pass

    def grad_norm(self):
        self.synchronize()
        return torch.nn.utils.get_total_norm([each.grad for each in self._parameters if each.grad is not None]).item()

    def clip_grad_norm_(self, max_norm):
        self.synchronize()
        return torch.nn.utils.clip_grad_norm_(self._parameters, max_norm).item()

    def flush(self, max_norm=None):
        return False

    def sync_interval(self):
        return 1

    def wait_seconds(self):
        return self._wait_seconds
