// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/ranks_of_launcher.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>

#include "core/base/number.h"
#include "core/control/messages/control_message.h"
#include "ops/link/peer_info.h"

namespace rueda {

std::string name_in_launcher(const AgentLine& line) {
  const char *job = std::getenv("RUEDA_JOB"), *rank = std::getenv("RUEDA_RANK");
  const bool elastic = std::getenv("RUEDA_WORKER") != nullptr;
  return line && !elastic && job != nullptr && rank != nullptr ? fmt::format("{} {}", job, rank) : "";
}

std::vector<Rank> ranks_of_launcher(const std::string& own, const std::vector<std::string>& members) {
  const std::string_view job = std::string_view(own).substr(0, own.find(' ') + 1);
  std::vector<Rank> ranks(members.size(), -1);
  if (job.empty()) return ranks;
  std::map<std::string_view, int> times;
  for (const std::string& member : members) ++times[member];
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].starts_with(job) && times[members[i]] == 1)
      ranks[i] = number_from<Rank>(std::string_view(members[i]).substr(job.size())).value_or(-1);
  return ranks;
}

void ask_agent_of_members(RuntimeComponents& components, AgentLine& line) {
  const std::string own = name_in_launcher(line);
  const auto ranks = std::make_shared<std::vector<Rank>>();
  add_peer_info(components, own, [own, ranks](const Welcome& welcome, const RuntimeComponents::Alive&) {
    *ranks = ranks_of_launcher(own, welcome.peer_infos);
  });
  if (own.empty()) return;
  components.how_it_ended = [ranks, &line](Rank rank) {
    const auto index = static_cast<std::size_t>(rank);
    const Rank number = index < ranks->size() ? (*ranks)[index] : -1;
    return number < 0 ? std::string() : line.how_it_ended(number);
  };
}

}  // namespace rueda
