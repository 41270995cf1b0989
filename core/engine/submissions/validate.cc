// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>

#include "core/base/operation_traits.h"

namespace rueda {

bool keeps_result(const Submission& submission, Rank rank) {
  const Request& request = submission.request;
  return request.operation != Operation::reduce || request.root == rank || request.device != DeviceKind::host;
}

namespace {

constexpr std::size_t kLongestName = 1024;

// Each check returns the words of what is wrong, or nothing.
using Words = std::string;

Words check_view(std::string_view role, const void* data, DataType dtype, const Shape& shape,
                 const Strides& strides) {
  if (!checked_byte_count(shape, dtype)) {
    return fmt::format("the {} has the impossible shape {}", role, to_string(shape));
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    return fmt::format("the {} has {} dimensions and {} strides; give one stride for each dimension, or none",
                       role, shape.size(), strides.size());
  }
  for (std::int64_t stride : strides) {
    if (stride < 0) return fmt::format("the {} has the negative stride {}; copy it first", role, stride);
  }
  if (data == nullptr && element_count(shape) > 0) return fmt::format("the {} has no memory", role);
  return {};
}

// The strides of a tensor, also where they are not given.
template <class View>
Strides laid_out(const View& view) {
  return view.strides.empty() ? contiguous_strides(view.shape) : view.strides;
}

// Of tensors of one shape.
bool same_layout(const TensorView& one, const ConstTensorView& other) {
  return one.strides == other.strides || laid_out(one) == laid_out(other);
}

// The bytes from the first to the last element of a tensor that is not empty.
template <class View>
std::size_t extent(const View& view) {
  if (view.strides.empty()) return view.bytes();
  std::int64_t last = 0;
  for (std::size_t i = 0; i < view.strides.size(); ++i) last += (view.shape[i] - 1) * view.strides[i];
  return static_cast<std::size_t>(last + 1) * size_of(view.dtype);
}

Words check_output(const Submission& submission) {
  const ConstTensorView& input = submission.input;
  const TensorView& output = submission.output;
  const bool in_place = output.data == input.data && output.dtype == input.dtype &&
                        output.shape == input.shape && output.strides == input.strides;
  if (in_place) return {};  // and has been checked
  if (Words words = check_view("output", output.data, output.dtype, output.shape, output.strides);
      !words.empty())
    return words;
  if (output.dtype != input.dtype) {
    return fmt::format("the input is {} and the output {}; give both one dtype", to_string(input.dtype),
                       to_string(output.dtype));
  }
  if (output.shape != input.shape) {
    return fmt::format("the input has shape {} and the output {}; give both one shape",
                       to_string(input.shape), to_string(output.shape));
  }
  if (input.elements() == 0 || (output.data == input.data && same_layout(output, input))) return {};
  const auto in = reinterpret_cast<std::uintptr_t>(input.data),
             out = reinterpret_cast<std::uintptr_t>(output.data);
  if (in < out + extent(output) && out < in + extent(input)) {
    return "input and output overlap without being one tensor; use the same view for both, or separate "
           "memory";
  }
  return {};
}

// The memory for the result of an operation that finds its own size.
Words check_output_memory(const Submission& submission) {
  const TensorView& output = submission.output;
  if (!submission.into_output) return {};
  if (Words words = check_view("output", output.data, output.dtype, output.shape, output.strides);
      !words.empty())
    return words;
  if (!output.contiguous()) return "the output has gaps; give a contiguous one, and copy it";
  if (output.dtype == submission.request.dtype) return {};
  return fmt::format("the input is {} and the output {}; give both one dtype",
                     to_string(submission.request.dtype), to_string(output.dtype));
}

Words check_on_device(const Submission& submission) {
  if (!submission.input.contiguous() || !submission.output.contiguous())
    return "a tensor on a device must be contiguous; copy it by contiguous() first";
  if (traits(submission.request.operation).makes_output && !submission.allocate && !submission.into_output)
    return "its output on a device is made by `allocate`, which is not given";
  return {};
}

Words check_reduction(const Request& request) {
  if (!std::isfinite(request.prescale_factor) || !std::isfinite(request.postscale_factor)) {
    return fmt::format("the factors {} (prescale) and {} (postscale) must be finite", request.prescale_factor,
                       request.postscale_factor);
  }
  if (request.compression == Compression::topk && !is_share(request.compression_share)) {
    return fmt::format(
        "compression_share is {}; it must be greater than 0 and at most 1: how many of the elements travel",
        request.compression_share);
  }
  if (request.reduce_op == ReduceOp::adasum && request.operation != Operation::allreduce)
    return "adasum is of whole tensors; use allreduce and take the rows, or another reduction";
  if (request.reduce_op == ReduceOp::adasum && !is_floating_point(request.dtype)) {
    return fmt::format("{} has no adasum; convert to a floating-point type, or use sum",
                       to_string(request.dtype));
  }
  if (request.dtype != DataType::boolean) return {};
  if (request.reduce_op == ReduceOp::average)
    return "bool has no average; use sum (logical or), or convert to a number";
  if (request.prescale_factor != 1.0 || request.postscale_factor != 1.0)
    return "bool cannot be scaled; leave the factors at 1";
  return {};
}

Words check_splits(const Submission& submission, Rank size) {
  const std::int64_t rows = submission.input.shape.front();
  if (submission.splits.empty()) {
    if (rows % size == 0) return {};
    return fmt::format("{} rows do not divide equally among {} ranks; give splits", rows, size);
  }
  if (submission.splits.size() != static_cast<std::size_t>(size)) {
    return fmt::format("{} splits for {} ranks; give one for each rank", submission.splits.size(), size);
  }
  std::int64_t sum = 0;
  for (std::int64_t split : submission.splits) {
    if (split < 0 || split > rows - sum)
      return fmt::format("the splits must be at least 0 and sum up to {} rows", rows);
    sum += split;
  }
  if (sum != rows) return fmt::format("the splits sum up to {}, but there are {} rows", sum, rows);
  return {};
}

// Of an operation that moves rows, and finds out how many come.
Words check_rows(const Submission& submission, Rank rank, const RankSet& members) {
  const Request& request = submission.request;
  if (submission.input.shape.empty())
    return "the input is a scalar and has no rows; give it at least one dimension";
  if (Words words = check_output_memory(submission); !words.empty()) return words;
  const bool scatters = request.operation == Operation::scatter;
  if (scatters && rank != request.root && submission.input.shape.front() > 0) {
    return fmt::format(
        "rank {} has {} rows to give, and only the root rank {} gives any; give a tensor without rows", rank,
        submission.input.shape.front(), request.root);
  }
  if (request.operation == Operation::alltoall || (scatters && rank == request.root))
    return check_splits(submission, members.count());
  if (submission.splits.empty()) return {};
  return fmt::format("there are splits on rank {}; {}", rank,
                     scatters ? "the root rank alone gives them" : "this operation has none");
}

Words check_root(const Request& request, const RankSet& members) {
  if (!traits(request.operation).has_root || !traits(request.operation).moves_data) return {};
  if (members.contains(request.root)) return {};
  return fmt::format("there is no root rank {}; it must be one of {}", request.root, to_string(members));
}

Words check_operation(const Submission& submission, Rank rank, const RankSet& members) {
  const Request& request = submission.request;
  if (Words words = check_root(request, members); !words.empty()) return words;
  switch (request.operation) {
    case Operation::allreduce:
    case Operation::broadcast:
    case Operation::message: return check_output(submission);
    case Operation::reduce: return keeps_result(submission, rank) ? check_output(submission) : Words{};
    case Operation::allgather:
    case Operation::reducescatter:
    case Operation::alltoall:
    case Operation::gather:
    case Operation::scatter: return check_rows(submission, rank, members);
    case Operation::add_process_set:
      if (!members.contains(request.members) || request.members.empty()) {
        return fmt::format("a process set of {} is impossible; its members must be some of {}",
                           to_string(request.members), to_string(members));
      }
      return {};
    case Operation::barrier:
    case Operation::join:
    case Operation::remove_process_set: return {};
  }
  return {};
}

Words check_membership(const Submission& submission, Rank rank, const RankSet& members) {
  if (members.contains(rank)) return {};
  return fmt::format("rank {} is not a member of process set {} ({}); only members take part", rank,
                     submission.request.process_set, to_string(members));
}

}  // namespace

Status validate(const Submission& submission, Rank rank, const RankSet& world) {
  const RankSet& members = submission.members ? *submission.members : world;
  const Request& request = submission.request;
  const ConstTensorView& input = submission.input;
  Words words;
  if (request.name.empty() || request.name.size() > kLongestName) {
    words = fmt::format("a name has 1 to {} bytes, not {}", kLongestName, request.name.size());
  } else if (input.dtype != request.dtype || input.shape != request.shape) {
    words = "the request and its input differ in dtype or shape";
  } else {
    words = check_view("input", input.data, input.dtype, input.shape, input.strides);
  }
  if (words.empty() && traits(request.operation).reduces) words = check_reduction(request);
  if (words.empty() && request.measure && !can_measure(request.operation, request.dtype)) {
    words = fmt::format("{} of {} is not measured, only allreduce of floating point; leave measure off",
                        to_string(request.operation), to_string(request.dtype));
  }
  if (words.empty()) words = check_membership(submission, rank, members);
  if (words.empty()) words = check_operation(submission, rank, members);
  if (words.empty() && request.device != DeviceKind::host) words = check_on_device(submission);
  if (words.empty()) return {};
  return Status::invalid_argument(
      fmt::format("{} '{}': {}.", to_string(request.operation), request.name.substr(0, 80), words));
}

namespace {

// Operations of one group work at the same time.
Words check_distinct_outputs(const std::vector<Submission>& group) {
  std::vector<const Submission*> sorted;
  for (const Submission& each : group) {
    if (each.output.data != nullptr && each.output.elements() > 0) sorted.push_back(&each);
  }
  auto memory = [](const Submission* each) { return each->output.data; };
  std::ranges::stable_sort(sorted, std::less<>(), memory);
  const auto twice = std::ranges::adjacent_find(sorted, {}, memory);
  if (twice == sorted.end()) return {};
  return fmt::format("'{}' and '{}' write to the same memory; give each tensor once", (*twice)->request.name,
                     (*std::next(twice))->request.name);
}

}  // namespace

Status validate_group(const std::vector<Submission>& group) {
  std::vector<const Request*> sorted;
  for (const Submission& each : group) sorted.push_back(&each.request);
  auto precedes = [](const Request* a, const Request* b) { return precedes_in_group(*a, *b); };
  if (!std::ranges::is_sorted(sorted, precedes)) std::ranges::sort(sorted, precedes);
  Words words;
  for (std::size_t i = 0; i < sorted.size() && words.empty(); ++i) {
    const Request& each = *sorted[i];
    if (i > 0 && each.name == sorted[i - 1]->name) {
      words = fmt::format("it has two operations named '{}'; give each a name of its own", each.name);
    } else if (each.process_set != sorted.front()->process_set) {
      words = "its operations are of several process sets; submit one group for each";
    } else if (!traits(each.operation).moves_data) {
      words = fmt::format("{} '{}' moves no data; submit it alone", to_string(each.operation), each.name);
    }
  }
  if (words.empty()) words = check_distinct_outputs(group);
  if (words.empty()) return {};
  return Status::invalid_argument(fmt::format("group of {} operations, '{}' and others: {}.", group.size(),
                                              sorted.front()->name.substr(0, 80), words));
}

}  // namespace rueda
