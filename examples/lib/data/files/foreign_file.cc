// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/files/foreign_file.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "examples/lib/data/files/json_file.h"

namespace rueda::examples {
namespace {

using namespace std::string_view_literals;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kKinds{{
    {"\x1f\x8b"sv, "compressed by gzip: unpack it with gunzip"},
    {"PK\x03\x04"sv, "a ZIP archive: unpack it with unzip"},
    {"\xfd\x37zXZ"sv, "compressed by xz: unpack it with unxz"},
    {"BZh91AY&SY"sv, "compressed by bzip2: unpack it with bunzip2"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by zstd: unpack it with unzstd"},
    {"PAR1\x15"sv, "a Parquet table: write it as JSON"},
    {"\xff\xfe\0\0"sv, "text in UTF-32: convert it with iconv -f UTF-32 -t UTF-8"},
    {"\xff\xfe"sv, "text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
}};

}  // namespace

void refuse_foreign_file(const std::filesystem::path& path, std::string_view beginning) {
  refuse_lfs_pointer(path, beginning);
  for (const auto& [bytes, words] : kKinds) {
    if (beginning.starts_with(bytes)) throw std::runtime_error(fmt::format("{} is {}", path.string(), words));
  }
}

bool is_web_page(std::string_view beginning) {
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != beginning.npos && beginning[first] == '<';
}

}  // namespace rueda::examples
