// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/evaluation.h"

#include <ATen/ops/from_blob.h>

#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <rueda/torch.h>
#include "examples/lib/model/bert_model.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kWindowsPerBatch = 16;

// The row of one question in the gathered table.
struct Row {
  double question;  // its number
  double exact;
  double f1;
  double loss;     // sum over its windows
  double windows;  // how many these are
  double begin;    // of the answer, in bytes of the context
  double end;
};
constexpr std::int64_t kCells = sizeof(Row) / sizeof(double);

std::span<const float> row_of(const at::Tensor& logits, std::size_t row) {
  return {logits.const_data_ptr<float>() + static_cast<std::int64_t>(row) * logits.size(1),
          static_cast<std::size_t>(logits.size(1))};
}

// The answer to one question, by the model's output for its windows; these have `loss` together.
Row answer(const SquadData& data, std::size_t index, std::span<const WindowLogits> outputs, double loss,
           double null_threshold) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Question& question = data.questions[index];
  const std::string_view context = data.paragraphs[question.paragraph].context;
  const AnswerSpan span = span_or_null(outputs, data.may_lack_answers ? null_threshold : kNever);
  std::vector<std::string> truths;
  for (const Answer& truth : question.answers) truths.push_back(truth.text);
  const auto scored = data.may_lack_answers ? score_with_null : score;
  const Score result = scored(span.in(context), truths);
  return {static_cast<double>(index),
          result.exact,
          result.f1,
          loss,
          static_cast<double>(outputs.size()),
          static_cast<double>(span.begin),
          static_cast<double>(span.end)};
}

// Appends a row per question of `chosen`. The windows of a question stand together.
void answer_windows(BertForQuestionAnswering& model, const SquadData& data, std::span<const Feature> windows,
                    const std::vector<std::size_t>& chosen, double null_threshold, std::vector<Row>& rows) {
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
    rows.push_back(answer(data, index, outputs, loss, null_threshold));
  }
}

// Of the rows of all ranks. Everything is added up in the order of the questions, however many ranks there
// are.
Evaluation evaluation_of(std::span<const Row> rows, const SquadData& data) {
  std::vector<Score> scores(data.questions.size());
  std::vector<double> losses(data.questions.size());
  std::vector<bool> answered(data.questions.size());
  Evaluation found{.predictions = std::vector<std::string>(data.questions.size())};
  double windows = 0;
  for (const Row& row : rows) {
    const auto index = static_cast<std::size_t>(row.question);
    const Question& question = data.questions.at(index);
    const AnswerSpan span{static_cast<std::int32_t>(row.begin), static_cast<std::int32_t>(row.end)};
    scores[index] = {row.exact, row.f1};
    losses[index] = row.loss;
    answered[index] = !question.answers.empty();
    found.predictions[index] = span.in(data.paragraphs[question.paragraph].context);
    windows += row.windows;
  }
  found.score = split_score(scores, answered);
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  found.loss = windows > 0 ? loss / windows : 0.0;
  return found;
}

}  // namespace

Evaluation evaluate(BertForQuestionAnswering& model, const SquadData& data, std::span<const Feature> windows,
                    double null_threshold) {
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const auto batches = evaluation_batches(windows, kWindowsPerBatch);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i % static_cast<std::size_t>(size()) != static_cast<std::size_t>(rank())) continue;
    answer_windows(model, data, windows, batches[i], null_threshold, rows);
  }
  model.train(was_training);

  const at::Tensor mine = at::from_blob(rows.data(), {static_cast<std::int64_t>(rows.size()), kCells},
                                        at::TensorOptions().dtype(at::kDouble));
  const at::Tensor all = allgather(mine, "evaluation.scores").contiguous();
  const auto* first = static_cast<const Row*>(all.const_data_ptr());
  return evaluation_of({first, static_cast<std::size_t>(all.size(0))}, data);
}

}  // namespace rueda::examples
