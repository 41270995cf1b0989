// SPDX-License-Identifier: Apache-2.0
// Reads an archive that this process has written.
#pragma once

#include <c10/core/Device.h>
#include <torch/serialize/archive.h>

#include <optional>
#include <string_view>

namespace rueda {

// Returns true if torch::save has written the bytes.
bool is_torch_archive(std::string_view bytes);

// Returns a reader of `written`. Its tensors are on `device`, or on their own devices. LibTorch reads an
// archive by running the program in it, so `written` must hold values of this process only.
torch::serialize::InputArchive reader_of(torch::serialize::OutputArchive& written,
                                         std::optional<at::Device> device);

}  // namespace rueda
