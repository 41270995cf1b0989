// SPDX-License-Identifier: Apache-2.0
// distill: a BERT learns from one of twice its layers, on one process or on all that ruedarun started.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "examples/lib/training/job_start.h"
#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/options/distill_options.h"
#include "examples/lib/training/program.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/stop_request.h"
#include "examples/lib/training/tasks/distill_task.h"

int main(int argument_count, char** arguments) {
  using namespace rueda::examples;
  return run_program([&] {
    auto options = parse_distill_options(argument_count, arguments);
    if (!options) {
      fmt::print("{}", distill_help_text());
      return 0;
    }
    prepare_device(options->device);
    StopRequest::forget(options->stop_file);
    std::optional<Teacher> trained;
    if (!options->teacher) {
      trained = train_teacher(*options);
      if (!trained) return 0;
    }
    const auto task = make_on_all_ranks([&] {
      return std::make_unique<DistillTask>(*options, trained ? *std::move(trained) : read_teacher(*options));
    });
    run_training(*task, *options);
    return 0;
  });
}
