// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/evaluation.h"

#include <ATen/ops/from_blob.h>

#include <numeric>
#include <vector>

#include <rueda/rueda_torch.h>
#include "examples/lib/model/bert_model.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kWindowsPerBatch = 16;
// What one question gives to the gathered table: its number, exact, f1, the sum of its windows' losses, and
// how many these are.
constexpr std::int64_t kRow = 5;

std::span<const float> row_of(const at::Tensor& logits, std::size_t row) {
  return {logits.const_data_ptr<float>() + static_cast<std::int64_t>(row) * logits.size(1),
          static_cast<std::size_t>(logits.size(1))};
}

// Appends a row per question of `chosen`, whose windows stand together.
void answer(BertForQuestionAnswering& model, const SquadData& data, std::span<const Feature> windows,
            const std::vector<std::size_t>& chosen, std::vector<double>& rows) {
  const PaddedBatch batch = pad(windows, chosen, static_cast<std::int32_t>(model.config().pad_token_id));
  AnswerLogits logits = on_host(model.forward(moved(to_input(batch), model.device())));
  const at::Tensor losses = answer_losses(logits, batch).to(at::kDouble).contiguous();
  logits.start = logits.start.to(at::kFloat).contiguous();
  logits.end = logits.end.to(at::kFloat).contiguous();
  for (std::size_t begin = 0; begin < chosen.size();) {
    const std::size_t index = windows[chosen[begin]].question;
    std::vector<WindowLogits> outputs;
    double loss = 0;
    for (; begin < chosen.size() && windows[chosen[begin]].question == index; ++begin) {
      outputs.push_back({&windows[chosen[begin]], row_of(logits.start, begin), row_of(logits.end, begin)});
      loss += losses.const_data_ptr<double>()[begin];
    }
    const Question& question = data.questions[index];
    std::vector<std::string> truths;
    for (const Answer& truth : question.answers) truths.push_back(truth.text);
    const Score result = score(best_span(data.paragraphs[question.paragraph].context, outputs), truths);
    rows.insert(rows.end(), {static_cast<double>(index), result.exact, result.f1, loss,
                             static_cast<double>(outputs.size())});
  }
}

}  // namespace

Evaluation evaluate(BertForQuestionAnswering& model, const SquadData& data,
                    std::span<const Feature> windows) {
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const auto batches = evaluation_batches(windows, kWindowsPerBatch);
  std::vector<double> rows;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i % static_cast<std::size_t>(size()) != static_cast<std::size_t>(rank())) continue;
    answer(model, data, windows, batches[i], rows);
  }
  model.train(was_training);

  const auto count = static_cast<std::int64_t>(rows.size()) / kRow;
  const at::Tensor mine = at::from_blob(rows.data(), {count, kRow}, at::TensorOptions().dtype(at::kDouble));
  const at::Tensor all = allgather(mine, "evaluation.scores").contiguous();
  std::vector<Score> scores(data.questions.size());
  std::vector<double> losses(data.questions.size());  // added in one order, however many ranks there are
  double count_of_windows = 0;
  const auto* values = all.const_data_ptr<double>();
  for (std::int64_t row = 0; row < all.size(0); ++row) {
    const double* cells = values + row * kRow;
    const auto question = static_cast<std::size_t>(cells[0]);
    scores.at(question) = {cells[1], cells[2]};
    losses.at(question) = cells[3];
    count_of_windows += cells[4];
  }
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  return {mean_score(scores), count_of_windows > 0 ? loss / count_of_windows : 0.0};
}

}  // namespace rueda::examples
