// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/pmi_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/system/pmi_line.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {
namespace {

constexpr std::string_view kPrefix = "pmi/";                         // of keys, beside those of Rueda
constexpr std::string_view kValue = " value=";                       // the last field of a line
constexpr std::size_t kLongestPmiKey = 64, kLongestPmiValue = 1024;  // told to ranks
static_assert(kPrefix.size() + kLongestPmiKey <= agents::kLongestKey);

// Commands with the same answer for every rank.
std::string fixed_answer(std::string_view command) {
  if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
  if (command == "get_maxes")
    return fmt::format("cmd=maxes rc=0 kvsname_max=256 keylen_max={} vallen_max={}", kLongestPmiKey,
                       kLongestPmiValue);
  if (command == "get_appnum") return "cmd=appnum rc=0 appnum=0";
  if (command == "finalize") return "cmd=finalize_ack rc=0";
  if (command == "publish_name") return "cmd=publish_result rc=-1 msg=not_supported";
  if (command == "unpublish_name") return "cmd=unpublish_result rc=-1 msg=not_supported";
  if (command == "lookup_name") return "cmd=lookup_result rc=-1 msg=not_supported";
  return "";
}

// As a shell shows it; 1 where it would be none of a failure.
int exit_status_in(std::string_view abort) {
  const std::string_view text = pmi_field(abort, "exitcode");
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return (status & 0xff) == 0 ? 1 : status & 0xff;
}

}  // namespace

PmiServer::PmiServer(Job job)
    : job_(std::move(job)),
      in_barrier_(static_cast<std::size_t>(job_.ranks_here)),
      in_mpi_(static_cast<std::size_t>(job_.ranks_here)),
      aborted_(static_cast<std::size_t>(job_.ranks_here)),
      spawning_(static_cast<std::size_t>(job_.ranks_here)) {}

std::vector<PmiServer::Answer> PmiServer::hear(int local_rank, std::string_view line,
                                               const SharedValues& values) {
  const auto answered = [&](std::string text) {
    return std::vector<Answer>{{local_rank, std::move(text) + "\n"}};
  };
  const auto rank = static_cast<std::size_t>(local_rank);
  if (spawning_[rank] || line.starts_with("mcmd=")) {
    spawning_[rank] = line != "endcmd";
    if (spawning_[rank]) return {};
    return answered("cmd=spawn_result rc=-1 msg=not_supported");
  }
  const std::string_view command = pmi_field(line, "cmd");
  if (command == "init") in_mpi_[rank] = true;
  if (command == "finalize") in_mpi_[rank] = false;
  if (command == "abort") return aborted_[rank] = exit_status_in(line), std::vector<Answer>{};
  if (command == "barrier_in") return enter(local_rank), std::vector<Answer>{};
  if (command == "get") return answered(answer_to_get(pmi_field(line, "key"), values));
  if (command == "get_my_kvsname") return answered("cmd=my_kvsname rc=0 kvsname=" + job_.name);
  if (command == "get_universe_size")
    return answered(fmt::format("cmd=universe_size rc=0 size={}", job_.size));
  if (command == "put") {
    const std::string_view key = pmi_field(line, "key");
    const std::size_t value = line.find(kValue);  // the rest of the line
    const bool fits = !key.empty() && key.size() <= kLongestPmiKey && value != std::string_view::npos &&
                      line.size() - value - kValue.size() <= kLongestPmiValue;
    if (!fits) return answered("cmd=put_result rc=-1 msg=too_long");
    put(key, line.substr(value + kValue.size()));
    return answered("cmd=put_result rc=0 msg=success");
  }
  const std::string fixed = fixed_answer(command);
  return answered(fixed.empty() ? fmt::format("cmd={} rc=-1 msg=unknown_command", command) : fixed);
}

void PmiServer::put(std::string_view key, std::string_view value) {
  job_.put(std::string(kPrefix) + std::string(key), std::string(value));
}

std::string PmiServer::answer_to_get(std::string_view key, const SharedValues& values) const {
  if (key == "PMI_process_mapping") return "cmd=get_result rc=0 msg=success value=" + job_.process_mapping;
  if (key == "PMI_dead_processes") return "cmd=get_result rc=0 msg=success value=" + dead_;
  const auto found = values.find(std::string(kPrefix) + std::string(key));
  if (found == values.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
  return "cmd=get_result rc=0 msg=success value=" + found->second;
}

void PmiServer::enter(int local_rank) {
  if (in_barrier_[static_cast<std::size_t>(local_rank)]) return;
  in_barrier_[static_cast<std::size_t>(local_rank)] = true;
  if (++waiting_ == job_.ranks_here) job_.enter_barrier();
}

std::vector<PmiServer::Answer> PmiServer::leave_barrier() {
  std::vector<Answer> answers;
  for (int rank = 0; rank < job_.ranks_here; ++rank) answers.push_back({rank, "cmd=barrier_out rc=0\n"});
  in_barrier_.assign(in_barrier_.size(), false);
  waiting_ = 0;
  return answers;
}

void PmiServer::note_dead(int rank) { dead_ += (dead_.empty() ? "" : ",") + std::to_string(rank); }

}  // namespace rueda
