// SPDX-License-Identifier: Apache-2.0
// The task of a trainer, as the training loop sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace rueda::examples {

// One sample of a training: its index, and its position in the whole sequence of samples that is trained on.
// Random draws for a sample depend on its position. So they do not depend on the number of ranks, and every
// epoch draws anew.
struct Sample {
  std::size_t index;       // 0 .. Task::samples() - 1
  std::uint64_t position;  // from 0, over all epochs, ranks and passes
};

// The result of a worker thread for some samples: tensors by name.
struct TaskBatch {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  // By which the means of losses() are multiplied, one for each of Task::counts(); empty: all are 1.
  std::vector<double> weights;

  // The same there. From pinned memory the host does not wait for the copies.
  TaskBatch to(at::Device device) const;
  double weight(std::size_t mean) const { return weights.empty() ? 1.0 : weights.at(mean); }
  const at::Tensor& operator[](std::string_view name) const {
    for (const auto& [key, tensor] : tensors) {
      if (key == name) return tensor;
    }
    throw std::logic_error("a batch has no tensor '" + std::string(name) + "'");
  }
};

struct LossPart {
  std::string name;  // as TensorBoard and summary.json show it
  at::Tensor value;  // a scalar; no gradient is taken of it
};

// Of one batch. `total` is minimised: a scalar with its graph. `parts`: the terms of its sum, for the eye;
// empty if there is one term only.
struct TaskLoss {
  at::Tensor total;
  std::vector<LossPart> parts;
};

// A result of an evaluation. `loss` is summary.json's loss_held_out, others stand there by their names.
struct Metric {
  std::string name;
  double value;
  bool is_count = false;
};

// Purpose: everything that differs between trainers: data, model, losses and measures. Made before the ranks
// meet, so that unreadable data fails at once. Owner: the main thread, which calls everything but
// make_batch(); outlives the training loop.
class Task {
 public:
  virtual ~Task() = default;

  // In which all ranks must agree, besides the flags of any trainer; a line each. A run that is resumed must
  // have the same.
  virtual std::vector<std::string> settings() const = 0;
  // For people, before training starts: lines on the model and the data.
  virtual std::vector<std::string> words() const = 0;
  virtual std::string sample_name() const { return "windows"; }  // the name of a sample, in the plural

  // How many samples there are; at least 1.
  virtual std::size_t samples() const = 0;
  // The batch of these samples, and nothing else but them and the task's settings decides it. Runs on worker
  // threads, several at once.
  virtual TaskBatch make_batch(std::span<const Sample> chosen) const = 0;
  // If losses() takes means over something else than samples: the count of it in these samples, one count for
  // each mean. Ranks then weigh their means by it, so that a step is the same for any number of ranks. Cheap,
  // as each rank counts for all; any thread.
  virtual std::vector<double> counts(std::span<const Sample> /*chosen*/) const { return {}; }

  // The trained model: its parameters are reduced, stepped, hashed.
  virtual torch::nn::Module& model() = 0;
  // Moves all models there. Called once, before the functions below.
  virtual void move_to(at::Device device);
  // The mean over the batch, times its weights; the batch is on the model's device. Under autocast if
  // --autocast says so. On a device the host should not wait for it.
  virtual TaskLoss losses(const TaskBatch& batch) = 0;

  // The names of the results of evaluate(), the main one first.
  virtual std::vector<std::string> metric_names() const = 0;
  // The quality of the model now, on the held-out data; the same on every rank and for any number of them.
  // Collective.
  virtual std::vector<Metric> evaluate() = 0;

  // Rank 0 only, at the end of a run: the files of results that flags ask for. Throws std::runtime_error.
  virtual void write_results() const {}

  // Rank 0 only: writes the files that --model reads into `folder`, which exists. Throws std::runtime_error.
  virtual void save(const std::filesystem::path& folder) const = 0;
  // Rank 0 only: the parameters that save() wrote, bit for bit. Throws std::runtime_error naming the file.
  virtual void load(const std::filesystem::path& folder) = 0;
};

}  // namespace rueda::examples
