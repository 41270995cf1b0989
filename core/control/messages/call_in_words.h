// SPDX-License-Identifier: Apache-2.0
// The words of a front end that has no names for its operations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/control/messages/request.h"

namespace rueda {

// Purpose: one rank's call as the program knows it. A plain value.
struct CallInWords {
  std::string operation;  // "all_reduce"
  std::string reduction;  // "BAND"; empty: none
  std::string type;       // "complex64"
  std::string shape;      // "[2, 3]"
};

// The bits of a signature in which ranks may differ: they are for words alone.
inline constexpr std::uint64_t kSignatureNotes = 0xff000000;

// A front end that signs requests (Request::signature) sets this before its first one. Any thread may.
using DescribeCall = CallInWords (*)(const Request&);
void describe_calls_by(DescribeCall describe);

// The call of a request, which has a signature. Nothing: no front end describes it.
std::optional<CallInWords> call_in_words(const Request& request);

}  // namespace rueda
