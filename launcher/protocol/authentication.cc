// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/authentication.h"

#include <fmt/format.h>

#include <charconv>
#include <span>

namespace rueda {

std::string to_text(const Token& token) {
  std::string text;
  for (std::byte byte : token) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::optional<Token> token_from(std::string_view text) {
  Token token{};
  if (text.size() != 2 * token.size()) return std::nullopt;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::uint8_t value = 0;
    const char* digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    token[i] = std::byte{value};
  }
  return token;
}

Proof prove(const Token& token, Role prover, std::int32_t rank, const Nonce& of_agent,
            const Nonce& of_supervisor) {
  const auto role = static_cast<std::byte>(prover);
  return prove(token, {std::span(&role, 1), std::as_bytes(std::span(&rank, 1)), of_agent, of_supervisor});
}

}  // namespace rueda
