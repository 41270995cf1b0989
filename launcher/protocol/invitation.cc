// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/invitation.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/number.h"
#include "core/base/system/hex.h"

namespace rueda {
namespace {

constexpr std::string_view kBegin = "rueda-agent-3 ";  // with the version of the line and of all messages
constexpr std::size_t kLongestHostName = 256;

}  // namespace

std::string to_text(const Invitation& invitation) {
  return fmt::format("{}{} {}", kBegin, to_hex(invitation.key), invitation.addresses);
}

std::optional<Invitation> invitation_from(std::string_view text) {
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  Invitation invitation;
  const std::size_t digits = 2 * invitation.key.size();
  if (text.size() <= digits || text[digits] != ' ') return std::nullopt;
  const std::optional<Bytes> key = from_hex(text.substr(0, digits));
  if (!key) return std::nullopt;
  std::ranges::copy(*key, invitation.key.begin());
  invitation.addresses = text.substr(digits + 1);
  return invitation;
}

std::string to_text(const AgentIntroduction& introduction) {
  return fmt::format("{} {}", introduction.host, introduction.name);
}

std::optional<AgentIntroduction> introduction_from(std::string_view text) {
  const std::size_t space = text.find(' ');
  AgentIntroduction introduction;
  if (space == std::string_view::npos || text.size() > kLongestHostName) return std::nullopt;
  introduction.host = number_from<int>(text.substr(0, space)).value_or(-1);
  if (introduction.host < 0) return std::nullopt;
  introduction.name = text.substr(space + 1);
  return introduction;
}

}  // namespace rueda
