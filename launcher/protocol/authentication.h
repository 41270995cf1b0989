// SPDX-License-Identifier: Apache-2.0
// How agents and ruedarun prove to each other that they belong to the same job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda {

// Both sides send a fresh Nonce and prove that they know the Token by a keyed hash over both; the Token
// itself never travels between them.
using Token = std::array<std::byte, 16>;
using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

enum class Role : std::uint8_t { agent = 1, supervisor = 2 };

Token random_token();
Nonce random_nonce();

// As it stands in the environment: 32 hexadecimal digits.
std::string to_text(const Token& token);
std::optional<Token> token_from(std::string_view text);

Proof prove(const Token& token, Role prover, std::int32_t rank, const Nonce& of_agent,
            const Nonce& of_supervisor);
bool same(const Proof& a, const Proof& b);  // in a time that does not tell where they differ

}  // namespace rueda
