// SPDX-License-Identifier: Apache-2.0
// A student that learns to guess as its teacher does.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/model/masked_lm.h"
#include "examples/lib/training/options/distill_options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/tasks/bert_start.h"
#include "examples/lib/training/tasks/lm_data.h"

namespace rueda::examples {

// A model that is not trained any more, and its start.
struct Teacher {
  BertStart start;
  std::shared_ptr<BertForMaskedLM> model;
  std::string words;  // for people
};

// From --teacher. Throws std::runtime_error naming the file at fault, also when it has no masked-LM head.
Teacher read_teacher(const DistillOptions& options);

// A small BERT of four layers that learns the data for --teacher-steps, on all ranks, and is written to
// OUTPUT/teacher; nothing if SIGTERM ended that. With --resume one that is there is read, and a training that
// was ended goes on; `options` then no longer asks to resume, as there is no student yet. Before
// rueda::init().
std::optional<Teacher> train_teacher(DistillOptions& options);

// Purpose, owner and lifetime are those of a Task.
class DistillTask final : public Task {
 public:
  // Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
  DistillTask(const DistillOptions& options, Teacher teacher);

  std::vector<std::string> settings() const override;
  std::vector<std::string> words() const override;
  std::size_t samples() const override { return data_.samples(); }
  TaskBatch make_batch(std::span<const Sample> chosen) const override { return data_.make_batch(chosen); }
  std::vector<double> counts(std::span<const Sample> chosen) const override;
  torch::nn::Module& model() override { return *student_; }
  void move_to(at::Device device) override;
  TaskLoss losses(const TaskBatch& batch) override;
  std::vector<std::string> metric_names() const override { return LmData::metric_names(); }
  std::vector<Metric> evaluate() override { return data_.evaluate(*student_, options_.autocast); }
  void save(const std::filesystem::path& folder) const override;
  void load(const std::filesystem::path& folder) override;

 private:
  void make_student();

  const DistillOptions options_;
  const Teacher teacher_;
  const LmData data_;
  std::shared_ptr<BertForMaskedLM> student_;
  std::string student_words_;
};

}  // namespace rueda::examples
