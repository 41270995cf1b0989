// SPDX-License-Identifier: Apache-2.0
// Work that may crash or take for ever, in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace rueda {

// What `body` writes to its descriptor in a forked child, up to `most` bytes and for `limit` at most. Then
// the child is killed. Another thread may wait for all children of this process meanwhile. The child has
// no other descriptor, and dies with the calling thread. Empty where there is no child to be had.
std::string output_of_child(const std::function<void(int descriptor)>& body, std::size_t most,
                            std::chrono::milliseconds limit);

}  // namespace rueda
