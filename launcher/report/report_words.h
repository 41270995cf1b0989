// SPDX-License-Identifier: Apache-2.0
// Texts and numbers as the page shows them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rueda::report {

// Four significant digits, no zeros at the end, thousands apart: 0.2196, 47.1, 12,345, 1.5e-7.
std::string number_words(double value);
// With so many decimals, thousands apart.
std::string fixed_words(double value, int decimals);
// 85 -> "85 s", 200 -> "3:20 min", 4000 -> "1:06:40 h".
std::string duration_words(double seconds);
// 0.932 -> "93.2 %".
std::string percent_words(double share);

// The printed name of a measure: "f1" -> "F1 (%)"; words that are not known lose their underscores.
std::string metric_words(std::string_view key);
// The rank of a measure in the order of measures: known ones as they belong together, the others behind.
std::size_t metric_order(std::string_view key);
// The printed name of a task.
std::string task_words(std::string_view task);
// Whether more of it is better; losses, perplexities and times are better low.
bool higher_is_better(std::string_view key);

}  // namespace rueda::report
