// SPDX-License-Identifier: Apache-2.0
// train_bert: trains a BERT, on one process or on all that ruedarun started.
#include <fmt/format.h>

#include "examples/lib/training/bert_options.h"
#include "examples/lib/training/program.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/squad_task.h"

int main(int argument_count, char** arguments) {
  using namespace rueda::examples;
  return run_program([&] {
    const auto options = parse_bert_options(argument_count, arguments);
    if (!options) {
      fmt::print("{}", bert_help_text());
      return 0;
    }
    // All that can fail on reading fails before the ranks wait for one another.
    SquadTask task(*options);
    run_training(task, *options);
    return 0;
  });
}
