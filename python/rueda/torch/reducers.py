# SPDX-License-Identifier: Apache-2.0
"""Which reducer an optimizer has, by its options."""

from __future__ import annotations

from typing import Any

import torch

from rueda import _torch
from rueda.common.process_sets import native
from rueda.common.util import split_list
from rueda.torch.adasum_reducer import AdasumReducer
from rueda.torch.compression import Compression, PowerSGD, TopkCompressor
from rueda.torch.local_reducer import LocalReducer, check_passes
from rueda.torch.operations.handles import Average, Sum

_TRAVELS_AS = {Compression.none: _torch.Compression.none, Compression.fp16: _torch.Compression.fp16,
               Compression.bf16: _torch.Compression.bf16}


def native_compression(compression: Any) -> dict[str, Any] | None:
    """The arguments of _torch.GradientReducer for a compression of Rueda's; None: it is none of these."""
    low_rank, without, share = 0, [], 1.0
    if compression is PowerSGD:
        compression = PowerSGD()
    if isinstance(compression, PowerSGD):
        low_rank, without, compression = compression.rank, compression.without, compression.factors
    if isinstance(compression, TopkCompressor):
        travels, share = _torch.Compression.topk, compression.share
    else:
        travels = _TRAVELS_AS.get(compression) if isinstance(compression, type) else None
    if travels is None:
        return None
    return {"compression": travels, "compression_share": share, "low_rank": low_rank, "without_low_rank": without, "compressor": None}


# Options that a Compressor of the program's own excludes, each with its neutral value.
_NOT_OF_COMPRESSORS = {"schedule": ("sync_schedule", "every_step"), "measure_norm": ("measure_norm", False),
                       "device_window": ("device_window", False), "sharded": ("sharded", False)}


def _hook_of(compression: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The same of a Compressor of the program's own, which becomes a communication hook of the C++ reducer."""
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError(f"compression is {compression!r}; it must be one of hvd.Compression, or have compress() and decompress()")
    for option, (name, value) in _NOT_OF_COMPRESSORS.items():
        if options[option] != value:
            raise ValueError(f"{name} is given, which compressors of Compression can do only; with one of your own leave it out")
    op, divisor = options["op"], options["gradient_predivide_factor"]
    if op not in (Average, Sum):
        raise ValueError(f"op is {op}, which compressors of Compression can do only; choose Average or Sum")
    check_passes(options["backward_passes_per_step"])
    if not divisor > 0 or (divisor != 1.0 and op == Sum):
        raise ValueError(f"gradient_predivide_factor is {divisor}; it must be greater than 0, and 1 but for Average")
    return {"compression": _torch.Compression.none, "compression_share": 1.0, "low_rank": 0, "without_low_rank": [],
            "compressor": _torch.Compressor(compression)}


def _sparse(sparse_as_dense, sharded):
    """How sparse gradients travel; shards are parts of dense ones."""
    kinds = {False: _torch.SparseGradients.as_sparse, True: _torch.SparseGradients.travels_dense,
             "by_density": _torch.SparseGradients.by_density}
    if sparse_as_dense not in kinds:
        raise ValueError(f"sparse_as_dense is {sparse_as_dense!r}; it must be False, True or \"by_density\"")
    return _torch.SparseGradients.as_dense if sharded else kinds[sparse_as_dense]


def _as_lists(groups, parameters):
    """Groups of parameters, from lists or from a number of them."""
    if isinstance(groups, int) and groups >= 0:
        count = min(groups, len(parameters))
        return split_list(parameters, count) if count else []
    try:
        lists = [list(group) for group in groups]
    except TypeError:  # no list of lists
        lists = [[None]]
    if not all(isinstance(each, torch.Tensor) for group in lists for each in group):
        raise ValueError(f"groups is {groups!r}; it must be a number, 0 (none) or more, or a list of lists of parameters")
    return lists


# Options that op=Adasum excludes, unless it is of gradients, each with its neutral value.
_NOT_OF_UPDATES = {"groups": 0, "schedule": "every_step", "measure_norm": False, "sharded": False, "device_window": False,
                   "gradient_predivide_factor": 1.0}


def _adasum_reducer(parameters, names, process_set, options):
    for option, value in _NOT_OF_UPDATES.items():
        if options[option] != value:
            raise ValueError(f"op=Adasum combines updates of parameters, for which {option} means nothing; leave {option} out, or give "
                             "adasum_gradients=True")
    passes = options["backward_passes_per_step"]
    check_passes(passes)
    if isinstance(options["compression"], (PowerSGD, TopkCompressor)) or options["compression"] is PowerSGD:
        raise ValueError(f"op=Adasum combines updates of parameters, and {options['compression']} is of gradients; choose none, fp16 or bf16")
    return AdasumReducer(parameters, names, options["compression"], process_set, passes)


def parameters_of(optimizer):
    """All of its groups."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def checked_names(optimizer, named_parameters):
    """A list of (name, parameter): all of the optimizer's, or empty."""
    named = list(named_parameters) if named_parameters is not None else []
    if not all(isinstance(each, tuple) and len(each) == 2 for each in named):
        raise ValueError("named_parameters must be a sequence of (name, parameter), as model.named_parameters() makes it")
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"named_parameters has names twice: {', '.join(twice)}")
    known = {id(parameter) for _, parameter in named}
    parameters = parameters_of(optimizer)
    unnamed = [i for i, parameter in enumerate(parameters) if id(parameter) not in known]
    if named and unnamed:
        shapes = ", ".join(f"number {i} of shape {list(parameters[i].shape)}" for i in unnamed[:8])
        raise ValueError(f"named_parameters was given, but {len(unnamed)} of the optimizer's {len(parameters)} parameters have no name in "
                         f"it: {shapes}; name all of them, or leave named_parameters out")
    mine = {id(parameter) for parameter in parameters}
    return [(name, parameter) for name, parameter in named if id(parameter) in mine]


def names_of(optimizer, named):
    """The name of each parameter; of one that has none, its index."""
    if named:
        return {parameter: name for name, parameter in named}
    return {parameter: f"allreduce.noname.{i}.{j}" for i, group in enumerate(optimizer.param_groups) for j, parameter in enumerate(group["params"])}


def make_reducer(parameters: list[torch.Tensor], names: dict[torch.Tensor, str], options: dict[str, Any]) -> Any:
    """The reducer of the gradients of `parameters`. Collective, for the ranks of the process set; on others it reduces nothing.

    names: of all parameters. options: of DistributedOptimizer(), by name.
    """
    options = dict(options)
    process_set, of_updates = options.pop("process_set"), options.pop("of_updates")
    del options["leave_unused"]  # the optimizer's own
    members = native(process_set)
    if process_set.included() is False:
        return LocalReducer(parameters)
    if of_updates:
        return _adasum_reducer(parameters, names, process_set, options)
    options["groups"] = _as_lists(options["groups"], parameters)
    compression, sparse = options.pop("compression"), _sparse(options.pop("sparse_as_dense"), options["sharded"])
    travels = native_compression(compression)
    if travels is None:
        travels, sparse = _hook_of(compression, options), _torch.SparseGradients.travels_dense
    return _torch.GradientReducer(parameters=parameters, sum_passes=True, sparse=sparse, process_set=members, **travels, **options)
