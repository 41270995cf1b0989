// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/lm_start.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>

#include "examples/lib/model/checkpoint.h"

namespace rueda::examples {

ReadLm read_lm(const BertStart& start, std::uint64_t seed, ParameterType type) {
  seed_parameters(seed);
  const auto model = std::make_shared<BertForMaskedLM>(start.config);
  std::optional<LoadReport> report;
  if (start.parameters) {
    report = load_parameters(*model, *start.parameters);
    if (!report->fresh.empty()) {
      throw std::runtime_error(fmt::format(
          "{} has no masked-LM head: {} is missing; train_bert --task mlm --model {} --data TEXT trains one",
          start.parameters->origin(), report->fresh.front(), start.origin));
    }
  }
  std::string words = words_of(*model, start, report ? &*report : nullptr);
  convert(*model, type);
  return {.model = model, .words = std::move(words)};
}

}  // namespace rueda::examples
