// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/lm_evaluation.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include <rueda/torch.h>
#include "examples/lib/data/masking.h"
#include "examples/lib/model/masked_lm.h"
#include "examples/lib/training/autocast.h"

namespace rueda::examples {
namespace {

// The row of one part in the gathered table: its number, the sum of its tokens' losses, and their
// number.
constexpr std::int64_t kColumns = 3;

// One or more forward passes over windows of similar length.
struct Part {
  std::vector<std::size_t> windows;
  bool pseudo = false;
  std::size_t cells = 0;  // tokens that go through the model
};

struct Sum {
  double loss = 0;
  std::int64_t tokens = 0;
  double mean() const { return tokens > 0 ? loss / static_cast<double>(tokens) : 0; }
};

// Purpose: the evaluation of one set of windows. Immutable once made, so that any number of threads may score
// parts at once. Lives on the stack of evaluate_lm().
class Scorer {
 public:
  Scorer(BertForMaskedLM& model, std::span<const NumberedWindow> windows, const WordPieceTokenizer& tokenizer,
         const LmEvaluationOptions& options)
      : model_(model), windows_(windows), tokenizer_(tokenizer), options_(options) {}

  // The largest first, so that ranks and threads end at about the same time.
  std::vector<Part> parts() const {
    std::vector<std::size_t> by_length(windows_.size());
    std::iota(by_length.begin(), by_length.end(), 0U);
    std::ranges::stable_sort(by_length, {}, [this](std::size_t i) { return windows_[i].ids.size(); });
    std::vector<Part> parts;
    const auto most = static_cast<std::size_t>(options_.batch);
    for (std::size_t begin = 0; begin < by_length.size(); begin += most) {
      Part& part = parts.emplace_back();
      const std::size_t end = std::min(begin + most, by_length.size());
      for (std::size_t i = begin; i < end; ++i) part.windows.push_back(by_length[i]);
      part.cells = part.windows.size() * windows_[part.windows.back()].ids.size();
    }
    for (std::size_t i = 0; options_.pseudo && i < windows_.size(); ++i) {
      const std::size_t length = windows_[i].ids.size();
      parts.push_back({.windows = {i}, .pseudo = true, .cells = length * length});
    }
    std::ranges::stable_sort(parts, std::greater<>(), &Part::cells);
    return parts;
  }

  at::Device device() const { return model_.device(); }

  Sum score(const Part& part) const {
    const at::NoGradGuard no_grad;
    const AutocastScope autocast(options_.autocast, model_.device().type());
    return part.pseudo ? each_in_turn(windows_[part.windows.front()].ids) : masked(part.windows);
  }

 private:
  Sum masked(std::span<const std::size_t> chosen) const {
    std::vector<MaskedWindow> rows;
    for (const std::size_t i : chosen)
      rows.push_back(mask(windows_[i].ids, tokenizer_, options_.seed, windows_[i].number));
    return forward(rows);
  }

  Sum each_in_turn(std::span<const std::int32_t> ids) const {
    Sum sum;
    std::vector<MaskedWindow> rows;
    const auto flush = [&] {
      const Sum some = forward(rows);
      sum.loss += some.loss;
      sum.tokens += some.tokens;
      rows.clear();
    };
    for (std::size_t position = 0; position < ids.size(); ++position) {
      if (!is_maskable(ids[position], tokenizer_)) continue;
      MaskedWindow& row = rows.emplace_back();
      row.input_ids.assign(ids.begin(), ids.end());
      row.input_ids[position] = tokenizer_.mask_id();
      row.labels.assign(ids.size(), kNoLabel);
      row.labels[position] = ids[position];
      if (rows.size() == static_cast<std::size_t>(options_.batch)) flush();
    }
    if (!rows.empty()) flush();
    return sum;
  }

  Sum forward(std::span<const MaskedWindow> rows) const {
    const LmBatch batch = pad(rows, tokenizer_.pad_id());
    const at::Tensor labels = labels_of(batch);
    const at::Tensor indices = indices_of(labels.ne(kNoLabel));
    const at::Tensor wanted = labels.flatten().index_select(0, indices).to(model_.device());
    const at::Tensor hidden = model_.encode(moved(to_input(batch), model_.device()));
    const at::Tensor logits = model_.predict(rows_at(hidden, indices.to(model_.device())));
    const at::Tensor losses = at::cross_entropy_loss(logits, wanted, {}, at::Reduction::None);
    return {.loss = losses.to(at::kDouble).sum().item<double>(), .tokens = losses.size(0)};
  }

  BertForMaskedLM& model_;
  std::span<const NumberedWindow> windows_;
  const WordPieceTokenizer& tokenizer_;
  const LmEvaluationOptions& options_;
};

// Calls `work` with 0 .. count - 1, each once, on so many threads, on each of which torch has one. Throws the
// first error of a call; the others still waiting are left out.
void on_threads(int count_of_threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  const int threads = at::get_num_threads();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    at::set_num_threads(1);
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < count_of_threads; ++i) others.emplace_back(run);
    run();
  }
  at::set_num_threads(threads);
  if (failure) std::rethrow_exception(failure);
}

// This rank's sums, a row for each of its parts.
std::vector<double> score_share(const Scorer& scorer, std::span<const Part> parts,
                                const LmProgress& progress) {
  std::vector<std::size_t> mine;
  for (std::size_t i = static_cast<std::size_t>(rank()); i < parts.size();
       i += static_cast<std::size_t>(size()))
    mine.push_back(i);
  std::vector<Sum> sums(mine.size());
  std::mutex mutex;
  std::int64_t done = 0;
  // On a device passes follow one another anyway.
  const int threads = scorer.device().is_cpu() ? at::get_num_threads() : 1;
  on_threads(threads, mine.size(), [&](std::size_t i) {
    sums[i] = scorer.score(parts[mine[i]]);
    const std::lock_guard lock(mutex);
    if (progress && rank() == 0) progress(++done, static_cast<std::int64_t>(mine.size()), sums[i].mean());
  });
  std::vector<double> rows;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    rows.insert(rows.end(),
                {static_cast<double>(mine[i]), sums[i].loss, static_cast<double>(sums[i].tokens)});
  }
  return rows;
}

// Of masked windows, and of tokens masked in turn: added up part by part, whoever scored them.
std::pair<Sum, Sum> total(std::span<const Part> parts, std::vector<double> rows) {
  const at::Tensor mine =
      at::tensor(rows, at::kDouble).view({static_cast<std::int64_t>(rows.size()) / kColumns, kColumns});
  const at::Tensor all = allgather(mine, "lm_evaluation.sums").contiguous();
  std::vector<Sum> sums(parts.size());
  const auto* cells = all.const_data_ptr<double>();
  for (std::int64_t row = 0; row < all.size(0); ++row, cells += kColumns)
    sums.at(static_cast<std::size_t>(cells[0])) = {cells[1], static_cast<std::int64_t>(cells[2])};
  Sum masked;
  Sum pseudo;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Sum& sum = parts[i].pseudo ? pseudo : masked;
    sum.loss += sums[i].loss;
    sum.tokens += sums[i].tokens;
  }
  return {masked, pseudo};
}

}  // namespace

LmEvaluation evaluate_lm(BertForMaskedLM& model, std::span<const NumberedWindow> windows,
                         const WordPieceTokenizer& tokenizer, const LmEvaluationOptions& options,
                         const LmProgress& progress) {
  const bool was_training = model.is_training();
  model.eval();
  const Scorer scorer(model, windows, tokenizer, options);
  const std::vector<Part> parts = scorer.parts();
  const auto [masked, pseudo] = total(parts, score_share(scorer, parts, progress));
  model.train(was_training);
  LmEvaluation found{
      .loss = masked.mean(), .perplexity = std::exp(masked.mean()), .masked_tokens = masked.tokens};
  if (options.pseudo) found.pseudo_perplexity = std::exp(pseudo.mean());
  for (const NumberedWindow& window : windows)
    found.tokens +=
        std::ranges::count_if(window.ids, [&](std::int32_t id) { return is_maskable(id, tokenizer); });
  return found;
}

}  // namespace rueda::examples
