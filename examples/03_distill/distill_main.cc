// SPDX-License-Identifier: Apache-2.0
// distill: a BERT learns from one of twice its layers, on one process or on all that ruedarun started.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "examples/lib/training/compute_device.h"
#include "examples/lib/training/distill_options.h"
#include "examples/lib/training/distill_task.h"
#include "examples/lib/training/program.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/stop_request.h"

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
    // All that can fail on reading fails before the ranks wait for one another.
    std::optional<Teacher> teacher = options->teacher ? read_teacher(*options) : train_teacher(*options);
    if (!teacher) return 0;
    DistillTask task(*options, *std::move(teacher));
    run_training(task, *options);
    return 0;
  });
}
