// SPDX-License-Identifier: Apache-2.0
// train_bert: fine-tunes a BERT for question answering, on one process or on all that ruedarun started.
#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <exception>
#include <memory>

#include <rueda/rueda_torch.h>
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/show/event_file.h"
#include "examples/lib/show/progress.h"
#include "examples/lib/show/run_report.h"
#include "examples/lib/training/evaluation.h"
#include "examples/lib/training/options.h"
#include "examples/lib/training/squad_task.h"
#include "examples/lib/training/trainer.h"
#include "frameworks/torch/agreement.h"

namespace rueda::examples {
namespace {

at::ScalarType scalar_type(ParameterType type) {
  switch (type) {
    case ParameterType::float32: return at::kFloat;
    case ParameterType::bfloat16: return at::kBFloat16;
    case ParameterType::float64: return at::kDouble;
  }
  throw std::logic_error("no such parameter type");
}

// Gradients of many megabytes come and go at every step: keep their pages instead of giving them back to the
// system.
void keep_freed_memory() {
  constexpr int kLargest = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, kLargest);
}

// The model as it starts, and words on where it came from.
std::shared_ptr<BertForQuestionAnswering> make_model(const SquadTask& task, const TrainOptions& options,
                                                     std::string& words) {
  at::manual_seed(options.seed);
  auto model = std::make_shared<BertForQuestionAnswering>(task.config);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  words = fmt::format("BERT of {} layers, {:.1f} million parameters", task.config.num_hidden_layers,
                      static_cast<double>(count) / 1e6);
  if (task.parameters) {
    const LoadReport report = load_parameters(*model, *task.parameters, task.parameters_file->string());
    words += " from " + options.model->string();
    if (!report.fresh.empty()) words += fmt::format("\nnew, at random: {}", fmt::join(report.fresh, ", "));
    if (!report.unused.empty())
      words += fmt::format("\nin the file but not used: {}", fmt::join(report.unused, ", "));
  } else {
    words += ", at random";
  }
  model->to(scalar_type(options.dtype));
  return model;
}

// Shows the steps and writes TensorBoard's file on rank 0; does nothing on the others. Lives during one run.
class Reporter {
 public:
  explicit Reporter(const TrainOptions& options) {
    if (rank() != 0) return;
    events_ = std::make_unique<EventFile>(options.tensorboard);
    if (options.steps > 0) {
      progress_ = std::make_unique<Progress>(options.steps,
                                             options.batch * options.backward_passes_per_step * size());
    }
  }

  void step(const StepReport& report) {
    if (rank() != 0) return;
    progress_->step_done(report.loss);
    events_->add_scalar("train/loss_of_rank_0", report.loss, report.step + 1);
    events_->add_scalar("train/learning_rate", report.learning_rate, report.step + 1);
    events_->add_scalar("train/gradient_norm", report.gradient_norm, report.step + 1);
    events_->add_scalar("train/sync_interval", static_cast<double>(report.sync_interval), report.step + 1);
    events_->add_scalar("train/drift", report.drift, report.step + 1);
  }

  void evaluation(const Evaluation& found, std::int64_t step) {
    const Score& score = found.score;
    if (rank() != 0) return;
    if (progress_) progress_->finish();
    events_->add_scalar("held_out/f1", score.f1, step);
    events_->add_scalar("held_out/exact_match", score.exact, step);
    events_->add_scalar("held_out/loss", found.loss, step);
    say(fmt::format("held-out questions after {} steps: F1 {:.2f}, exact match {:.2f}, loss {:.4f}", step,
                    score.f1, score.exact, found.loss));
  }

  static void say(const std::string& line) {
    if (rank() != 0) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<Progress> progress_;
};

void write_results(const TrainOptions& options, const SquadTask& task, const BertForQuestionAnswering& model,
                   const RunSummary& summary, const std::vector<double>& losses) {
  if (rank() != 0) return;
  if (options.save) save_checkpoint(options.output, model, task.vocabulary, task.lower_case);
  if (!options.log_losses.empty()) write_losses(options.log_losses, losses);
  write_summary(options.summary, summary);
}

// Everything after rueda::init().
void run(const TrainOptions& options, const SquadTask& task, BertForQuestionAnswering& model) {
  std::vector<std::string> settings = shared_settings(options);
  settings.push_back(fmt::format("{} training windows and {} held-out questions",
                                 task.training_windows.size(), task.held_out.questions.size()));
  check_agreement("train_bert.settings", "settings of train_bert", settings, default_runtime());
  if (options.synchronize()) broadcast_parameters(model.named_parameters(), 0);
  RunSummary summary{
      .task = options.task, .ranks = size(), .steps = options.steps, .sync = sync_words(options)};
  Reporter reporter(options);
  if (options.evaluate_first) {
    const Evaluation before = evaluate(model, task.held_out, task.held_out_windows);
    reporter.evaluation(before, 0);
    summary.f1_first = before.score.f1;
  }

  const TrainingResult result =
      train(model, task.training_windows, options, [&](const StepReport& report) { reporter.step(report); });
  summary.loss_first = first_mean(result.losses);
  summary.loss_last = last_mean(result.losses);
  if (options.steps > 0) {
    summary.samples_per_s = result.samples_per_second;
    summary.step_ms = result.step_ms;
    summary.compute_ms = result.compute_ms;
    summary.wait_ms = result.wait_ms;
    summary.cpu_ms = result.cpu_ms;
    summary.reduced_mb = result.reduced_mb;
  }

  const Evaluation after = evaluate(model, task.held_out, task.held_out_windows);
  reporter.evaluation(after, options.steps);
  summary.f1 = after.score.f1;
  summary.exact_match = after.score.exact;
  summary.loss_held_out = after.loss;
  const std::uint64_t hash = parameters_hash(model);
  summary.parameters_hash = fmt::format("{:016x}", hash);
  if (options.synchronize()) check_equal_on_all_ranks(hash);
  write_results(options, task, model, summary, result.losses);
  if (options.steps > 0) {
    Reporter::say(fmt::format(
        "loss {:.4f} -> {:.4f}, {:.1f} windows/s, step {:.1f} ms of which {:.1f} ms waiting",
        *summary.loss_first, *summary.loss_last, *summary.samples_per_s, *summary.step_ms, *summary.wait_ms));
  }
  Reporter::say(fmt::format("results in {}", options.summary.string()));
}

int main_or_throw(int argument_count, char** arguments) {
  const auto options = parse_options(argument_count, arguments);
  if (!options) {
    fmt::print("{}", help_text());
    return 0;
  }
  keep_freed_memory();
  // All that can fail on reading fails before the ranks wait for one another.
  const SquadTask task = load_squad_task(*options);
  std::string words;
  const auto model = make_model(task, *options, words);
  make_folder(options->output);
  check_writable(options->summary);
  if (!options->log_losses.empty()) check_writable(options->log_losses);

  init();
  Reporter::say(words);
  Reporter::say(fmt::format("{} ranks, {} training windows, {} held-out questions", size(),
                            task.training_windows.size(), task.held_out.questions.size()));
  run(*options, task, *model);
  shutdown();
  return 0;
}

}  // namespace
}  // namespace rueda::examples

int main(int argument_count, char** arguments) {
  try {
    return rueda::examples::main_or_throw(argument_count, arguments);
  } catch (const rueda::examples::UsageError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const c10::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
