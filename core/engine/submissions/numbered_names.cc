// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/numbered_names.h"

#include <fmt/format.h>

namespace rueda {

std::string NumberedNames::next(std::uint64_t job, std::string_view prefix, ProcessSetId process_set) {
  std::lock_guard lock(mutex_);
  const std::uint64_t restarts = restarts_[process_set];
  const std::uint64_t number = named_[{process_set, std::string(prefix)}]++;
  std::string name = job == 0 ? std::string(prefix) : fmt::format("{}.job{}", prefix, job);
  if (restarts != 0) name += fmt::format(".{}", restarts);
  return fmt::format("{}.{}", name, number);
}

void NumberedNames::restart(ProcessSetId process_set) {
  std::lock_guard lock(mutex_);
  ++restarts_[process_set];
  std::erase_if(named_, [&](const auto& item) { return item.first.first == process_set; });
}

}  // namespace rueda
