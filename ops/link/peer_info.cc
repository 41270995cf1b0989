// SPDX-License-Identifier: Apache-2.0
#include "ops/link/peer_info.h"

#include <tuple>
#include <utility>

#include "core/base/bytes.h"
#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

// The card that was added last stands before those of others.
std::string joined(const std::string& card, const std::string& others) {
  Writer writer;
  writer.put_string(card);
  writer.put_string(others);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::pair<std::string, std::string> split(const std::string& cards) {
  Reader reader({reinterpret_cast<const std::byte*>(cards.data()), cards.size()});
  std::string card = reader.get_string(), others = reader.get_string();
  if (!reader.complete()) return {};
  return {std::move(card), std::move(others)};
}

}  // namespace

void add_peer_info(RuntimeComponents& components, const std::string& card,
                   decltype(RuntimeComponents::meet) meet) {
  components.card = joined(card, components.card);
  components.meet = [before = std::move(components.meet), meet = std::move(meet)](
                        const Welcome& welcome, const RuntimeComponents::Alive& alive) {
    Welcome mine = welcome, others = welcome;
    for (std::size_t i = 0; i < welcome.cards.size(); ++i)
      std::tie(mine.cards[i], others.cards[i]) = split(welcome.cards[i]);
    if (before) before(others, alive);
    meet(mine, alive);
  };
}

}  // namespace rueda
