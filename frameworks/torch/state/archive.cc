// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/archive.h"

#include <torch/serialize/archive.h>

#include <string_view>

#include "core/base/error.h"
#include "frameworks/torch/state/own_archive.h"
#include "frameworks/torch/state/value_tree.h"

namespace rueda {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

InputArchive reader_of(OutputArchive& written, std::optional<at::Device> device) {
  std::string bytes;
  written.save_to([&](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), device);
  return archive;
}

bool is_torch_archive(std::string_view bytes) { return bytes.starts_with("PK"); }

std::string to_bytes(OutputArchive& archive) {
  InputArchive written = reader_of(archive, std::nullopt);
  return to_bytes(tree_of(written));
}

InputArchive read_archive(const std::string& bytes, at::Device device, const LoadOptions& options) {
  if (is_torch_archive(bytes)) {
    if (!options.allow_code) {
      refuse(
          "this is an archive of torch::save, which can run code while it is loaded. If you trust its "
          "writer, load it with allow_code, and save it again by rueda::save");
    }
    InputArchive archive;
    archive.load_from(bytes.data(), bytes.size(), device);
    return archive;
  }
  OutputArchive written;
  write(written, value_tree_of(bytes));
  return reader_of(written, device);
}

}  // namespace rueda
