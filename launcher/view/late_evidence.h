// SPDX-License-Identifier: Apache-2.0
// Whether a rank is late by more than chance, and since when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

// The arrivals of all ranks in some milliseconds of steps, after the median rank's.
struct Delays {
  std::size_t first = 0;    // of its waits
  std::int64_t at_ns = 0;   // the first arrival there
  std::vector<double> sum;  // by rank, in ms; no number where it is not there
};

// Takes the waits from `first` on; `arrivals` are those of all waits. A pause of the machine makes a rank
// late in several short steps: these count as one.
std::vector<Delays> delays_of(const std::deque<CommonWait>& waits, std::span<const Middle> arrivals,
                              std::size_t first);

// A late rank: where it has been found.
struct Evidence {
  std::size_t first = 0;  // of the Delays that show it
  double cap = 0;         // so much of each counts
};

// By rank; nothing of those that may be late by chance. If ranks are alike, each of them may have any delay
// of the others. Then a rank has so much lateness as this asks for less than once in 8,000 looks, however
// long single pauses are. The delays since each wait in `begins` are looked at, until some show it. Lateness
// has to go on in their last quarter.
//
// Of long steps a spell is enough: at least eight Delays of one rank in a row, for 3 s, beyond all but a few
// of the 200 before. If moments are alike, chance has so many high ones at the end as seldom. Moments of a
// busy machine are alike in spells only: this one has to be four times as long as any before. At the start
// there are no such steps: then eight are enough if they are alike, and 10 % of a step. From 16 ranks on it
// takes more of them.
//
// Rare pauses count by their number: six at least, of 0.1 s and more. If they are four times as long as any
// other delay, chance gives nearly all of them to one rank once in 1,000 times, each
// time that they are counted.
std::vector<std::optional<Evidence>> evidence_of(const std::vector<Delays>& delays,
                                                 std::span<const std::size_t> begins);

// The first of the Delays with which the rank has become far later than before: three at least and for a
// second, without a break. 0: none.
std::size_t last_rise(std::size_t rank, std::span<const Delays> delays);

// The first number after the greatest rise of the mean, which is at least to threefold and is no matter of a
// few numbers; 0 where there is none. A number counts up to `cap`.
std::size_t change_point(std::span<const double> values, double cap);
// The same of any rise.
std::size_t best_split(std::span<const double> values, double cap);

// The last steps, one after another, that waited for one rank far longer than any of those before.
struct LongWaits {
  std::size_t rank = 0;
  std::size_t first = 0;  // the first one's number
};

// Two steps and 0.3 s of waiting at least: it may be chance. Pure.
std::optional<LongWaits> long_waits_of(const std::deque<CommonWait>& waits);

}  // namespace rueda
