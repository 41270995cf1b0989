// SPDX-License-Identifier: Apache-2.0
// What a rank keeps of a BERT of 110 million parameters in training, and its losses:
// ruedarun --no-prefix -np 2 build/bin/sharded_model_bench distributed|sharded|gathered
//
// Three steps of AdamW on short rows of random words, without dropout. Memory is the proportional set size of
// each rank after the last step, less that before the model was made, both after malloc_trim: a page that k
// processes share counts for a k-th in each. The bound is an n-th of what parameters, gradients and two
// moments take, and the largest parameter.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "examples/lib/model/bert_model.h"
#include "rueda/torch.h"

namespace rueda::bench {
namespace {

using examples::BertForQuestionAnswering;
using examples::PaddedBatch;
using Options = torch::optim::AdamWOptions;

constexpr int kSteps = 3;

double proportional_set_size() {  // bytes
  malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kibibytes = 0;
    if (word == "Pss:" && file >> kibibytes) return kibibytes * 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup has no Pss");
}

PaddedBatch make_batch(int step, std::int64_t words) {
  PaddedBatch batch{.rows = 2, .columns = 16};
  std::uint64_t seed = examples::mix(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank()));
  for (std::int64_t i = 0; i < batch.rows * batch.columns; ++i) {
    seed = examples::mix(seed, 1);
    batch.input_ids.push_back(static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(words)));
    batch.token_types.push_back(0);
  }
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    batch.lengths.push_back(batch.columns);
    batch.starts.push_back(step + row);
    batch.ends.push_back(step + row + 2);
  }
  return batch;
}

double mean_loss(const at::Tensor& loss) {
  return allreduce(loss.detach().to(at::kDouble), "loss").item<double>();
}

at::Tensor loss_of(BertForQuestionAnswering& model, int step) {
  const PaddedBatch batch = make_batch(step, model.config().vocab_size);
  return examples::answer_loss(model.forward(examples::to_input(batch)), batch);
}

// Purpose: a model with its optimizer, kept until memory has been measured.
class Job {
 public:
  explicit Job(const std::string& mode) {
    examples::BertConfig config;
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
    model_ = std::make_unique<BertForQuestionAnswering>(config);
    std::int64_t elements = 0, largest = 0;
    for (const at::Tensor& parameter : model_->parameters()) {
      elements += parameter.numel();
      largest = std::max(largest, parameter.numel());
    }
    bytes_ = static_cast<double>(elements) * 16;
    bound_ = bytes_ / size() + static_cast<double>(largest) * 4;
    if (mode == "distributed") {
      whole_ = std::make_unique<DistributedOptimizer<FusedAdamW>>(model_->parameters(), Options(1e-4));
    } else {
      const ShardedModelOptions options{.units = model_->units(), .share = mode == "sharded"};
      sharded_ = std::make_unique<ShardedModel<FusedAdamW>>(*model_, options, Options(1e-4));
      model_->set_runner(sharded_->runner());
    }
  }

  double step(int number) {
    if (whole_) {
      whole_->zero_grad();
      const at::Tensor loss = loss_of(*model_, number);
      loss.backward();
      whole_->step();
      return mean_loss(loss);
    }
    sharded_->zero_grad();
    const at::Tensor loss = sharded_->run([&] { return loss_of(*model_, number); });
    loss.backward();
    sharded_->step();
    return mean_loss(loss);
  }
  double bytes() const { return bytes_; }
  double bound() const { return bound_; }

 private:
  std::unique_ptr<BertForQuestionAnswering> model_;
  std::unique_ptr<DistributedOptimizer<FusedAdamW>> whole_;
  std::unique_ptr<ShardedModel<FusedAdamW>> sharded_;
  double bytes_ = 0;
  double bound_ = 0;
};

void run(const std::string& mode) {
  at::set_num_threads(1);
  at::manual_seed(1);
  barrier();
  const double before = proportional_set_size();
  Job job(mode);
  std::string losses;
  for (int step = 0; step < kSteps; ++step) losses += fmt::format(" {:.6f}", job.step(step));
  barrier();
  std::vector<double> own{proportional_set_size() - before};
  const Handle sizes = allgather_async("sizes", view(own));
  sizes.wait();
  barrier();  // nobody gives memory back before all have looked
  if (rank() != 0) return;
  std::string each;
  for (int of = 0; of < size(); ++of)
    each += fmt::format(" {:.0f}", static_cast<const double*>(sizes.output().data)[of] / 1e6);
  fmt::print("{}, {} ranks: losses{}\n", mode, size(), losses);
  fmt::print("MB of each rank:{}; the whole {:.0f}, an n-th and the largest parameter {:.0f}\n", each,
             job.bytes() / 1e6, job.bound() / 1e6);
}

}  // namespace
}  // namespace rueda::bench

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode != "distributed" && mode != "sharded" && mode != "gathered") {
    fmt::print(stderr, "usage: sharded_model_bench distributed|sharded|gathered\n");
    return 2;
  }
  try {
    rueda::init();
    rueda::bench::run(mode);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
