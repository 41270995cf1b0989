// SPDX-License-Identifier: Apache-2.0
// train_bert: trains a BERT, on one process or on all that ruedarun started.
#include <fmt/format.h>

#include <memory>

#include "examples/lib/training/job_start.h"
#include "examples/lib/training/options/bert_options.h"
#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/program.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/stop_request.h"
#include "examples/lib/training/tasks/mlm_task.h"
#include "examples/lib/training/tasks/nq_task.h"
#include "examples/lib/training/tasks/squad_task.h"

namespace rueda::examples {
namespace {

std::unique_ptr<Task> make_task(const BertOptions& options) {
  if (options.task == "nq") return std::make_unique<NqTask>(options);
  if (options.task == "mlm") return std::make_unique<MlmTask>(options);
  return std::make_unique<SquadTask>(options);
}

}  // namespace
}  // namespace rueda::examples

int main(int argument_count, char** arguments) {
  using namespace rueda::examples;
  return run_program([&] {
    const auto options = parse_bert_options(argument_count, arguments);
    if (!options) {
      fmt::print("{}", bert_help_text());
      return 0;
    }
    prepare_device(options->device);
    StopRequest::forget(options->stop_file);
    // All that can fail on reading fails before a rank waits in training.
    const std::unique_ptr<Task> task = make_on_all_ranks([&] { return make_task(*options); });
    run_training(*task, *options);
    return 0;
  });
}
