// SPDX-License-Identifier: Apache-2.0
// evaluate_lm: how well a BERT guesses masked tokens of a text, on one process or on all that ruedarun
// started.
#include <fmt/format.h>

#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/options/evaluate_lm_options.h"
#include "examples/lib/training/program.h"
#include "examples/lib/training/tasks/lm_evaluation_run.h"

int main(int argument_count, char** arguments) {
  using namespace rueda::examples;
  return run_program([&] {
    const auto options = parse_evaluate_lm_options(argument_count, arguments);
    if (!options) {
      fmt::print("{}", evaluate_lm_help_text());
      return 0;
    }
    prepare_device(options->device);
    run_lm_evaluation(*options);
    return 0;
  });
}
