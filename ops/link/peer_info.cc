// SPDX-License-Identifier: Apache-2.0
#include "ops/link/peer_info.h"

#include <tuple>
#include <utility>

#include "core/base/bytes.h"
#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

// The info that was added last stands before those of others.
std::string joined(const std::string& info, const std::string& others) {
  Writer writer;
  writer.put_string(info);
  writer.put_string(others);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::pair<std::string, std::string> split(const std::string& infos) {
  Reader reader({reinterpret_cast<const std::byte*>(infos.data()), infos.size()});
  std::string info = reader.get_string(), others = reader.get_string();
  if (!reader.complete()) return {};
  return {std::move(info), std::move(others)};
}

}  // namespace

void add_peer_info(RuntimeComponents& components, const std::string& info,
                   decltype(RuntimeComponents::on_peers_known) on_peers_known) {
  components.peer_info = joined(info, components.peer_info);
  components.on_peers_known = [before = std::move(components.on_peers_known),
                               on_peers_known = std::move(on_peers_known)](
                                  const Welcome& welcome, const RuntimeComponents::Alive& alive) {
    Welcome mine = welcome, others = welcome;
    for (std::size_t i = 0; i < welcome.peer_infos.size(); ++i)
      std::tie(mine.peer_infos[i], others.peer_infos[i]) = split(welcome.peer_infos[i]);
    if (before) before(others, alive);
    on_peers_known(mine, alive);
  };
}

}  // namespace rueda
