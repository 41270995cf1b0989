// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

#include "core/engine/memory/output_pool.h"
#include "core/engine/submissions/work_failure.h"

namespace rueda {

namespace {

void allocate(Entry& entry, const Shape& shape) {
  HandleState& handle = *entry.handle;
  const DataType dtype = entry.request().dtype;
  const Submission& submission = entry.submission();
  if (submission.into_output) {
    handle.output = {submission.output.data, dtype, shape, {}};
  } else if (submission.allocate) {
    handle.output = submission.allocate(dtype, shape);
  } else {
    handle.output = {nullptr, dtype, shape, {}};
    auto memory = OutputPool::of_process().allocate(static_cast<std::size_t>(handle.output.bytes()));
    handle.output.data = memory.get();
    handle.output_memory = std::move(memory);
  }
}

// Rows and elements that come have to fit into the output of the program.
void check_sizes(const Entry& entry, const Shape& shape) {
  const Submission& submission = entry.submission();
  const std::vector<std::int64_t>* expected = submission.expected_splits.get();
  const std::vector<std::int64_t>& received = entry.handle->received_splits;
  const std::string_view type = to_string(entry.request().dtype);
  if (expected != nullptr && !received.empty() && *expected != received) {
    throw WorkFailure{
        fmt::format("its output takes [{}] rows of {} from the ranks in their order, and [{}] come",
                    fmt::join(*expected, ", "), type, fmt::join(received, ", ")),
        true};
  }
  const std::int64_t given = submission.output.elements(), needed = element_count(shape);
  if (!submission.into_output || given == needed) return;
  throw WorkFailure{fmt::format("its output takes {} elements of {}, and {} come", given, type, needed),
                    true};
}

}  // namespace

std::vector<Entry> entries_of_group(std::vector<std::shared_ptr<HandleState>> states) {
  auto request = [](const std::shared_ptr<HandleState>& state) -> Request& {
    return state->submission.request;
  };
  std::ranges::stable_sort(states, precedes_in_group, request);
  if (std::ranges::any_of(states, [&](const auto& state) { return request(state).elsewhere; })) {
    for (const auto& state : states) request(state).elsewhere = may_use_window(request(state));
  }
  const std::shared_ptr<HandleState>& first = states.front();
  std::vector<Request>& others = request(first).others;
  for (std::size_t i = 1; i < states.size(); ++i) {
    others.push_back(std::move(request(states[i])));
    others.back().follows = request(first).name;
  }
  std::vector<Entry> entries;
  entries.emplace_back(first);
  for (std::size_t i = 1; i < states.size(); ++i)
    entries.emplace_back(SharedRequest(first, &others[i - 1]), states[i]);
  return entries;
}

void conclude(Entry& entry, const Status& status) {
  Submission& submission = entry.submission();
  std::shared_ptr<void> owner = std::move(submission.owner);
  if (submission.allocate) {  // the program's, too
    using Both = std::pair<Allocate, std::shared_ptr<void>>;
    owner = std::make_shared<Both>(std::exchange(submission.allocate, nullptr), std::move(owner));
  }
  entry.handle->complete(status, std::move(owner));
}

TensorView allocate_output(Entry& entry, const Shape& shape) {
  check_sizes(entry, shape);
  std::string reason = "an exception without words";
  try {
    allocate(entry, shape);
    return entry.handle->output;
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {  // it is the user's
  }
  throw WorkFailure{fmt::format("it could not allocate the output, {} of {}: {}", to_string(shape),
                                to_string(entry.request().dtype), reason)};
}

}  // namespace rueda
