// SPDX-License-Identifier: Apache-2.0
// Which of two choices makes steps shorter.
#pragma once

#include <optional>
#include <vector>

namespace rueda {

// Purpose: samples of the base and of a candidate in alternation, the base first. The candidate wins if it is
// better by more than kBetter in the median of the alternations, and not by chance. Pure.
class Comparison {
 public:
  static constexpr double kBetter = 0.03;
  static constexpr int kAlternations = 5;  // at least

  struct Verdict {
    bool wins = false;
    double gain = 0;  // as a part of 1
    int better = 0;   // alternations
    int alternations = 0;
    double candidate_seconds = 0;  // the medians
    double base_seconds = 0;
  };

  bool of_base() const { return base_.size() == candidate_.size(); }  // the next sample
  // How many samples that choice has now.
  int add(double seconds);
  // Nothing while it is not clear.
  std::optional<Verdict> verdict() const;

 private:
  std::vector<double> base_;
  std::vector<double> candidate_;
};

}  // namespace rueda
