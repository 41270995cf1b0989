// SPDX-License-Identifier: Apache-2.0
// LibTorch's archives as files that hold data only.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace rueda {

// Choices for the loading of files.
struct LoadOptions {
  // Also accept an archive of torch::save. Such an archive is a program: whoever wrote it decides the
  // actions of this process. Set this only for files of your own.
  bool allow_code = false;
};

// Returns the values of an archive as a safetensors file. Tensors have the names of the archives around
// them, joined by dots: "model.0.weight". All other values are text in its metadata. Throws InvalidArgument
// for values that are no data, such as a script module, and for tensors that are not strided.
std::string to_bytes(torch::serialize::OutputArchive& archive);
// Returns the archive of such a file, with its tensors on `device`. Never runs code from the file. Throws
// InvalidArgument for an archive of torch::save, unless options.allow_code is set.
torch::serialize::InputArchive read_archive(const std::string& bytes, c10::Device device,
                                            const LoadOptions& options = {});

}  // namespace rueda
