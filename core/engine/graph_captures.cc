// SPDX-License-Identifier: Apache-2.0
#include "core/engine/graph_captures.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace rueda {

std::uint32_t GraphCaptures::begin(ProcessSetId process_set) {
  const std::lock_guard lock(mutex_);
  if (open_.contains(process_set)) {
    refuse(fmt::format("capture: process set {} is capturing graph {}; let that end first.", process_set,
                       open_[process_set].number));
  }
  return open_[process_set].number = numbers_[process_set] + 1;
}

void GraphCaptures::agree(ProcessSetId process_set, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  open_[process_set].number = numbers_[process_set] = number;
}

bool GraphCaptures::capturing(ProcessSetId process_set) const {
  const std::lock_guard lock(mutex_);
  return open_.contains(process_set);
}

std::uint32_t GraphCaptures::number_for(const Request& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(request.process_set);
  if (found == open_.end()) {
    refuse(
        fmt::format("{}: its stream is being captured into a graph, which takes an agreement of the ranks "
                    "first: capture inside of rueda::capture(), with this process set.",
                    title(request)));
  }
  return found->second.number;
}

void GraphCaptures::add(const std::shared_ptr<const HandleState>& operation) {
  const Submission& submission = operation->submission;
  if (!operation->captured()) return;
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(submission.request.process_set);
  if (found != open_.end()) found->second.operations.emplace_back(title(submission.request), operation);
}

std::string GraphCaptures::end(ProcessSetId process_set) {
  Graph graph;
  {
    const std::lock_guard lock(mutex_);
    graph = std::move(open_[process_set]);
    open_.erase(process_set);
  }
  for (const auto& [title, operation] : graph.operations) {
    if (!operation->joined()) return title;
  }
  return {};
}

}  // namespace rueda
