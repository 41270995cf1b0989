// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/job_start.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <rueda/torch.h>
#include "core/byte_exchange.h"
#include "examples/lib/training/options/flags.h"
#include "rueda/rank_set.h"

namespace rueda::examples {
namespace {

// Ends the job on all ranks where some say why they cannot go on. Collective.
void end_if_any_failed(const std::string& failure) {
  const std::vector<std::string> all = allgather_bytes(failure, "training.failures", default_runtime());
  RankSet alike, failed;
  for (std::size_t other = 0; other < all.size(); ++other) {
    const RankSet one = RankSet::of(static_cast<Rank>(other));
    if (all[other] == failure) alike.add(one);
    if (!all[other].empty()) failed.add(one);
  }
  if (failed.empty()) return;
  if (!failure.empty() && alike.first() == rank()) {
    fmt::print(stderr, "error: {}{}\n", alike.count() == size() ? "" : to_string(alike) + ": ", failure);
    std::fflush(stderr);
  }
  barrier();  // a rank that has ended may be the end of those that have not told it yet
  throw AlreadyTold();
}

}  // namespace

void prepare_on_all_ranks(const std::function<void()>& prepare) {
  std::string failure;
  try {
    return prepare();
  } catch (const UsageError&) {
    throw;
  } catch (const AlreadyTold&) {
    throw;
  } catch (const c10::Error& error) {
    failure = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (is_elastic()) throw std::runtime_error(failure);  // others may be in the midst of the training
  try {
    init();
  } catch (const std::exception&) {  // the ranks cannot meet, and each tells its own
    throw std::runtime_error(failure);
  }
  end_job(failure);
}

void end_job(const std::string& failure) {
  try {
    end_if_any_failed(failure);
  } catch (const AlreadyTold&) {
    throw;
  } catch (const std::exception&) {  // some rank is lost, and each tells its own
  }
  throw std::runtime_error(failure);
}

void begin_job() {
  init();
  if (!is_elastic()) end_if_any_failed("");
}

}  // namespace rueda::examples
