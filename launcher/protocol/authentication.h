// SPDX-License-Identifier: Apache-2.0
// How agents and ruedarun prove to each other that they belong to the same job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/system/authentication.h"

namespace rueda {

// Both sides send a fresh Nonce and prove that they know the Token by a keyed hash over both; the Token
// itself never travels between them.
using Token = AuthenticationKey;

enum class Role : std::uint8_t { agent = 1, supervisor = 2 };

inline Token random_token() { return random_key(); }

// As it stands in the environment: 32 hexadecimal digits.
std::string to_text(const Token& token);
std::optional<Token> token_from(std::string_view text);

Proof prove(const Token& token, Role prover, std::int32_t rank, const Nonce& of_agent,
            const Nonce& of_supervisor);

}  // namespace rueda
