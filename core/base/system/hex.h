// SPDX-License-Identifier: Apache-2.0
// Bytes as a text of hexadecimal digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"

namespace rueda {

std::string to_hex(ConstBytes bytes);
// Nothing where `text` is not whole bytes in hexadecimal digits.
std::optional<Bytes> from_hex(std::string_view text);

}  // namespace rueda
