// SPDX-License-Identifier: Apache-2.0
// Control sequences in the output of a terminal program: no other text may stand inside of one.
#pragma once

#include <cstddef>
#include <string_view>

namespace rueda {

inline constexpr std::size_t kLongestSequence = 4096;  // bytes; nobody waits for the end of longer ones

// The length of the first part of `text` that ends neither inside of a control sequence (ESC [ 3 1 m, a
// title, an image) nor inside of a character of UTF-8. `text` begins outside of both.
std::size_t whole_sequences(std::string_view text);

// The length of the sequence or character at the begin of `text`. 0 if its end has not come.
std::size_t sequence_length(std::string_view text);

}  // namespace rueda
