// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/invitation.h"

#include <fmt/format.h>

#include <charconv>

namespace rueda {
namespace {

constexpr std::string_view kBegin = "rueda-agent-1 ";  // with the version of the line
constexpr std::size_t kLongestHostName = 256;

template <class Number>
bool read_number(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  std::string text(kBegin);
  for (const std::byte byte : invitation.key) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text + " " + invitation.addresses;
}

std::optional<Invitation> invitation_from(std::string_view text) {
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  Invitation invitation;
  const std::size_t digits = 2 * invitation.key.size();
  if (text.size() <= digits || text[digits] != ' ') return std::nullopt;
  for (std::size_t i = 0; i < invitation.key.size(); ++i) {
    std::uint8_t value = 0;
    if (!read_number(text.substr(2 * i, 2), value, 16)) return std::nullopt;
    invitation.key[i] = std::byte{value};
  }
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
  if (!read_number(text.substr(0, space), introduction.host) || introduction.host < 0) return std::nullopt;
  introduction.name = text.substr(space + 1);
  return introduction;
}

}  // namespace rueda
