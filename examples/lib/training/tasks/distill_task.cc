// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/distill_task.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include <rueda/torch.h>
#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/training/checkpoint_folder.h"
#include "examples/lib/training/job_start.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/tasks/lm_start.h"
#include "examples/lib/training/tasks/mlm_task.h"
#include "examples/lib/training/training_state.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda::examples {
namespace {

constexpr std::int64_t kTeacherLayers = 4;

// Written for one vocabulary, read by another: no error, but nonsense.
void check_same_vocabulary(const BertStart& teacher, const BertStart& student) {
  const auto count = static_cast<std::int32_t>(teacher.tokenizer.vocab_size());
  bool same = student.tokenizer.vocab_size() == teacher.tokenizer.vocab_size();
  for (std::int32_t id = 0; same && id < count; ++id)
    same = teacher.tokenizer.token(id) == student.tokenizer.token(id);
  if (same && hash_of(teacher.tokenizer) == hash_of(student.tokenizer)) return;
  throw std::runtime_error(
      fmt::format("{} and {} differ; teacher, student and a run that goes on need the same vocabulary, "
                  "read in the same way",
                  teacher.vocabulary.string(), student.vocabulary.string()));
}

BertStart small_teacher(const DistillOptions& options) {
  BertStart start = read_bert_start(StartOptions{
      .vocabulary = options.source.vocabulary, .max_length = options.max_length, .dropout = options.dropout});
  start.config.num_hidden_layers = kTeacherLayers;
  return start;
}

BertOptions teacher_options(const DistillOptions& options, const std::filesystem::path& folder) {
  BertOptions mlm;
  static_cast<TrainOptions&>(mlm) = options;
  mlm.task = "mlm";
  mlm.steps = options.teacher_steps;
  mlm.data = options.data;
  mlm.source = options.source;
  mlm.held_out = options.held_out;
  mlm.max_length = options.max_length;
  mlm.sync = TrainOptions::Sync::by_schedule;  // ranks that do not synchronise would teach different things
  mlm.schedule = {};
  mlm.evaluate_every = 0;
  mlm.checkpoint_every = 0;
  if (options.resume) mlm.resume.emplace();  // the teacher's own
  mlm.output = folder;
  mlm.summary = folder / "summary.json";
  mlm.tensorboard = folder / "tensorboard";
  mlm.log_losses.clear();
  mlm.dump_batches.clear();
  mlm.save = true;
  return mlm;
}

// Throws, naming the file, if a teacher has learned for another number of steps than the wanted one.
void check_teacher_steps(const std::filesystem::path& summary, std::int64_t wanted) {
  if (!std::filesystem::exists(summary)) return;
  const nlohmann::json json = read_json(summary);
  const nlohmann::json steps = json.value("steps", nlohmann::json());
  if (!json.value("stopped", nlohmann::json()).is_null() || steps == wanted) return;
  throw std::runtime_error(
      fmt::format("{}: the teacher learned for {} steps, and --teacher-steps is {}; give that, "
                  "or choose another --output",
                  summary.string(), steps.dump(), wanted));
}

// With --resume: whether an earlier run has trained a teacher, which all ranks have then. Rank 0 alone looks
// for it, so that no folder need be shared. Throws on all ranks where a teacher is to be trained over that of
// a run that is there. Collective.
bool has_earlier_teacher(MlmTask& task, const DistillOptions& options, const std::filesystem::path& folder) {
  begin_job();
  const std::string found = broadcast_made(
      [&] {
        if (!options.resume) check_nothing_is_in(options.checkpoints());
        const bool is_there = std::filesystem::exists(folder / "model.safetensors");
        if (options.resume && !is_there) {
          std::vector<std::filesystem::path> students = checkpoints_in(options.checkpoints());
          if (students.empty()) students = checkpoints_to_resume(options);
          if (!students.empty()) {
            throw std::runtime_error(
                fmt::format("{} is of a run whose teacher {} is missing: name it by --teacher, "
                            "or choose another --output",
                            students.front().string(), folder.string()));
          }
        }
        if (!options.resume || !is_there) return std::string();
        check_same_vocabulary(
            read_bert_start(StartOptions{.model = folder, .max_length = options.max_length}),
            small_teacher(options));
        check_teacher_steps(folder / "summary.json", options.teacher_steps);
        task.load(folder);
        return folder.string();
      },
      0, "distill.teacher", "the teacher", default_runtime());
  if (!found.empty()) broadcast_parameters(task.model().named_parameters(), 0);
  shutdown();
  return !found.empty();
}

}  // namespace

Teacher read_teacher(const DistillOptions& options) {
  BertStart start = read_bert_start(
      StartOptions{.model = options.teacher, .max_length = options.max_length, .dropout = options.dropout});
  ReadLm read = read_lm(start, options.seed, options.dtype);
  return {.start = std::move(start), .model = std::move(read.model), .words = std::move(read.words)};
}

std::optional<Teacher> train_teacher(DistillOptions& options) {
  const std::filesystem::path folder = options.output / "teacher";
  const BertOptions mlm = teacher_options(options, folder);
  const auto owned =
      make_on_all_ranks([&] { return std::make_unique<MlmTask>(mlm, small_teacher(options)); });
  MlmTask& task = *owned;
  const bool is_there = has_earlier_teacher(task, options, folder);
  if (!is_there) {
    options.resume.reset();
    if (!run_training(task, mlm)) return std::nullopt;
  }
  return Teacher{.start = small_teacher(options),
                 .model = task.masked_lm(),
                 .words = is_there ? "the model of " + folder.string() : "the model trained above"};
}

DistillTask::DistillTask(const DistillOptions& options, Teacher teacher)
    : options_(options),
      teacher_(std::move(teacher)),
      data_({.file = options.data,
             .data = options.source,
             .max_length = options.max_length,
             .held_out = options.held_out,
             .seed = options.seed},
            teacher_.start.tokenizer) {
  teacher_.model->eval();
  for (at::Tensor& parameter : teacher_.model->parameters()) parameter.requires_grad_(false);
  seed_parameters(options.seed);
  make_student();
  convert(*student_, options.dtype);
}

void DistillTask::make_student() {
  if (options_.student == StudentStart::checkpoint) {
    const BertStart start = read_bert_start(StartOptions{
        .model = options_.student_folder, .max_length = options_.max_length, .dropout = options_.dropout});
    check_same_vocabulary(teacher_.start, start);
    const ReadLm read = read_lm(start, options_.seed, options_.dtype);
    student_ = read.model;
    student_words_ = read.words;
    check_comparable(*teacher_.model, *student_);
    return;
  }
  const BertConfig config = student_config(teacher_.start.config);
  student_ = std::make_shared<BertForMaskedLM>(config);
  if (options_.student == StudentStart::every_second_layer)
    copy_every_second_layer(*teacher_.model, *student_);
  student_words_ =
      fmt::format("BERT of {} layers, {}", config.num_hidden_layers,
                  options_.student == StudentStart::random ? "at random" : "every second of the teacher's");
}

std::vector<std::string> DistillTask::settings() const {
  std::vector<std::string> lines = data_.settings();
  for (std::string& line : distill_settings(options_)) lines.push_back(std::move(line));
  lines.push_back(fmt::format("a teacher with parameters {:016x}", parameters_hash(*teacher_.model)));
  return lines;
}

std::vector<std::string> DistillTask::words() const {
  std::vector<std::string> lines{"teacher: " + teacher_.words, "student: " + student_words_};
  for (std::string& line : data_.words()) lines.push_back(std::move(line));
  return lines;
}

// Of mlm, ce and cos.
std::vector<double> DistillTask::counts(std::span<const Sample> chosen) const {
  const auto counts = data_.counts(chosen);
  if (!counts) return {};
  const bool all = options_.losses.compared == ComparedTokens::all;
  return {counts->masked, all ? counts->tokens : counts->masked, counts->tokens};
}

void DistillTask::move_to(at::Device device) {
  Task::move_to(device);
  teacher_.model->to(device);
}

TaskLoss DistillTask::losses(const TaskBatch& batch) {
  DistillationOptions weighed = options_.losses;
  weighed.alpha_mlm *= batch.weight(0);
  weighed.alpha_ce *= batch.weight(1);
  weighed.alpha_cos *= batch.weight(2);
  const DistillationLosses found = distillation_losses(
      *student_, *teacher_.model, input_of(batch),
      {.labels = batch["labels"], .masked = batch["masked"], .tokens = batch["tokens"]}, weighed);
  return {.total = found.total,
          .parts = {{"mlm", found.mlm.detach() * batch.weight(0)},
                    {"ce", found.ce.detach() * batch.weight(1)},
                    {"cos", found.cosine.detach() * batch.weight(2)}}};
}

void DistillTask::save(const std::filesystem::path& folder) const {
  save_checkpoint(folder, *student_, teacher_.start.tokenizer);
}

void DistillTask::load(const std::filesystem::path& folder) { load_parameters(*student_, folder); }

}  // namespace rueda::examples
