// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace rueda::report {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr std::array<Words, 19> kMetrics{{{"loss", "Loss"},
                                          {"loss_first", "Loss, first steps"},
                                          {"loss_last", "Loss, last steps"},
                                          {"loss_mlm", "Masked-LM loss"},
                                          {"loss_ce", "Soft-target loss"},
                                          {"loss_cos", "Cosine loss"},
                                          {"loss_start", "Start loss"},
                                          {"loss_end", "End loss"},
                                          {"loss_type", "Answer type loss"},
                                          {"f1_first", "F1 before training (%)"},
                                          {"f1", "F1 (%)"},
                                          {"exact_match", "Exact match (%)"},
                                          {"loss_held_out", "Held-out loss"},
                                          {"perplexity", "Perplexity"},
                                          {"pseudo_perplexity", "Pseudo-perplexity"},
                                          {"tokens", "Tokens"},
                                          {"learning_rate", "Learning rate"},
                                          {"samples_per_s", "Samples per second"},
                                          {"gradient_norm", "Gradient norm"}}};

constexpr std::array<Words, 5> kTasks{{{"squad", "SQuAD: spans of answers"},
                                       {"nq", "Natural Questions"},
                                       {"mlm", "Masked language model"},
                                       {"distill", "Distillation"},
                                       {"evaluate_lm", "Evaluation of language models"}}};

// A comma after every three digits from the right, of the part before the point.
std::string grouped(std::string digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t begin = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = point; at > begin + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

void strip_zeros(std::string& digits) {
  if (digits.find('.') == digits.npos) return;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) digits.pop_back();
}

}  // namespace

std::string fixed_words(double value, int decimals) {
  std::string words = fmt::format("{:.{}f}", value, decimals);
  if (words.find_first_not_of("-0.") == words.npos && words.starts_with('-')) words.erase(0, 1);
  return grouped(std::move(words));
}

std::string number_words(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (size >= 1e9 || size < 1e-3) {
    const std::string words = fmt::format("{:.2e}", value);  // 1.50e-07
    const std::size_t letter = std::min(words.find('e'), words.size());
    std::string digits = words.substr(0, letter);
    strip_zeros(digits);
    return digits + "e" + std::to_string(std::atoi(words.c_str() + letter + 1));
  }
  const int decimals = std::max(0, 3 - static_cast<int>(std::floor(std::log10(size))));
  std::string digits = fmt::format("{:.{}f}", value, decimals);
  strip_zeros(digits);
  return grouped(std::move(digits));
}

std::string duration_words(double seconds) {
  if (seconds < 99.95) return number_words(std::round(seconds * 10) / 10) + " s";
  const double whole = std::floor(seconds + 0.5);
  const double minutes = std::floor(whole / 60);
  if (minutes < 60) return fmt::format("{:.0f}:{:02.0f} min", minutes, whole - minutes * 60);
  const double hours = std::floor(minutes / 60);
  return fmt::format("{:.0f}:{:02.0f}:{:02.0f} h", hours, minutes - hours * 60, whole - minutes * 60);
}

std::string percent_words(double share) {
  return (share < 9.995 ? fixed_words(share * 100, 1) : number_words(share * 100)) + "\u00a0%";
}

std::string metric_words(std::string_view key) {
  const auto* known = std::ranges::find(kMetrics, key, &Words::first);
  if (known != kMetrics.end()) return std::string(known->second);
  std::string words(key);
  std::ranges::replace(words, '_', ' ');
  if (!words.empty() && words[0] >= 'a' && words[0] <= 'z')
    words[0] = static_cast<char>(words[0] - 'a' + 'A');
  return words;
}

std::size_t metric_order(std::string_view key) {
  return static_cast<std::size_t>(std::ranges::find(kMetrics, key, &Words::first) - kMetrics.begin());
}

std::string task_words(std::string_view task) {
  const auto* known = std::ranges::find(kTasks, task, &Words::first);
  return std::string(known != kTasks.end() ? known->second : task);
}

bool higher_is_better(std::string_view key) {
  return key.find("loss") == key.npos && key.find("perplexity") == key.npos && !key.ends_with("_ms");
}

}  // namespace rueda::report
