// SPDX-License-Identifier: Apache-2.0
#include "core/engine/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>

#include "core/base/host_buffer.h"
#include "core/engine/work.h"

namespace rueda {

namespace {

void allocate(Entry& entry, const Shape& shape) {
  HandleState& handle = *entry.handle;
  const DataType dtype = entry.request().dtype;
  if (entry.submission.allocate) {
    handle.output = entry.submission.allocate(dtype, shape);
  } else {
    handle.output = {nullptr, dtype, shape, {}};
    auto memory = std::make_shared<HostBuffer>(handle.output.bytes());
    handle.output.data = memory->data();
    handle.output_memory = std::move(memory);
  }
}

}  // namespace

std::vector<Entry> entries_of_group(std::vector<Submission>&& group,
                                    const std::vector<std::shared_ptr<HandleState>>& handles) {
  std::vector<std::size_t> order(group.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return precedes_in_group(group[a].request, group[b].request);
  });
  const auto first = std::make_shared<Request>(std::move(group[order.front()].request));
  for (std::size_t i = 1; i < order.size(); ++i) {
    first->others.push_back(std::move(group[order[i]].request));
    first->others.back().follows = true;
  }
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < order.size(); ++i) {
    SharedRequest request(first, i == 0 ? first.get() : &first->others[i - 1]);
    entries.emplace_back(std::move(request), std::move(group[order[i]]), handles[order[i]]);
  }
  return entries;
}

TensorView allocate_output(Entry& entry, const Shape& shape) {
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
