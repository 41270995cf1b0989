// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/nq_evaluation.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <rueda/torch.h>
#include "examples/lib/model/natural_questions.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kWindowsAtOnce = 16;

// The row of one example in the gathered table.
struct NqRow {
  double example;
  double type;
  double exact;
  double f1;
  double loss;  // sum over its windows
  double windows;
};
constexpr std::int64_t kCells = sizeof(NqRow) / sizeof(double);

// The output of the model for one window.
struct NqOutput {
  NqFeature feature;
  std::vector<float> start;
  std::vector<float> end;
  std::vector<float> types;
  double loss = 0;
};

std::vector<float> floats_of(const at::Tensor& row) {
  const at::Tensor values = row.to(at::kFloat).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

// Appends the outputs of some windows, which go through the model together.
void run_windows(BertForNaturalQuestions& model, std::vector<NqFeature> features,
                 std::vector<NqOutput>& outputs) {
  const PaddedBatch batch = pad(features, static_cast<std::int32_t>(model.config().pad_token_id));
  NaturalQuestionsLogits logits = model.forward(moved(to_input(batch), model.device()));
  logits = {on_host(logits.answer), logits.type.cpu()};
  const at::Tensor starts = int64_tensor(batch.starts), ends = int64_tensor(batch.ends);
  const at::Tensor types = int64_tensor(batch.answer_types);
  for (std::size_t i = 0; i < features.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const auto only = [row](const at::Tensor& all) { return all.narrow(0, row, 1); };
    const NaturalQuestionsLosses losses =
        natural_questions_losses({{only(logits.answer.start), only(logits.answer.end)}, only(logits.type)},
                                 only(starts), only(ends), only(types));
    outputs.push_back({std::move(features[i]), floats_of(logits.answer.start[row]),
                       floats_of(logits.answer.end[row]), floats_of(logits.type[row]),
                       losses.total().item<double>()});
  }
}

NqRow row_of(std::size_t example, std::span<const NqOutput> outputs, const NqCorpus& corpus) {
  std::vector<NqLogits> logits;
  double loss = 0;
  for (const NqOutput& output : outputs) {
    logits.push_back({{&output.feature.feature, output.start, output.end}, output.types});
    loss += output.loss;
  }
  const NqScore result = score(predict(logits), corpus[example]);
  return {static_cast<double>(example),       result.type, result.exact, result.f1, loss,
          static_cast<double>(outputs.size())};
}

// The rows of the examples of one list of windows.
void answer_list(BertForNaturalQuestions& model, const NqCorpus& corpus, const NqWindows& windows,
                 const std::vector<NqWindow>& list, std::vector<NqRow>& rows) {
  std::vector<NqOutput> outputs;
  for (std::size_t begin = 0; begin < list.size(); begin += kWindowsAtOnce) {
    std::vector<NqFeature> features;
    for (std::size_t i = begin; i < std::min(list.size(), begin + kWindowsAtOnce); ++i)
      features.push_back(windows.plain_feature(list[i]));
    run_windows(model, std::move(features), outputs);
  }
  for (std::size_t begin = 0; begin < list.size();) {
    std::size_t end = begin;
    while (end < list.size() && list[end].example == list[begin].example) ++end;
    rows.push_back(row_of(list[begin].example, std::span(outputs).subspan(begin, end - begin), corpus));
    begin = end;
  }
}

}  // namespace

NqEvaluation evaluate_nq(BertForNaturalQuestions& model, const NqCorpus& corpus, const NqWindows& windows) {
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const auto lists = windows.evaluation_batches(kWindowsAtOnce);
  std::vector<NqRow> rows;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (i % static_cast<std::size_t>(size()) == static_cast<std::size_t>(rank()))
      answer_list(model, corpus, windows, lists[i], rows);
  }
  model.train(was_training);

  const at::Tensor mine = at::from_blob(rows.data(), {static_cast<std::int64_t>(rows.size()), kCells},
                                        at::TensorOptions().dtype(at::kDouble));
  const at::Tensor all = allgather(mine, "evaluation.nq").contiguous();
  const auto* first = static_cast<const NqRow*>(all.const_data_ptr());
  std::vector<NqRow> in_order(first, first + all.size(0));
  std::ranges::sort(in_order, {}, &NqRow::example);  // added up in one order, however many ranks there are
  std::vector<NqScore> scores;
  double loss = 0, count = 0;
  for (const NqRow& row : in_order) {
    scores.push_back({row.type, row.exact, row.f1});
    loss += row.loss;
    count += row.windows;
  }
  return {mean_score(scores), count > 0 ? loss / count : 0.0};
}

}  // namespace rueda::examples
