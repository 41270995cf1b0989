// SPDX-License-Identifier: Apache-2.0
// Writes one well-formed message of each kind into a folder: where the fuzzer begins.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/support/worlds/message_samples.h"

int main(int count, char** arguments) {
  using namespace rueda;
  if (count != 2) {
    std::fprintf(stderr, "usage: message_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Message& message : message_samples()) {
    const Bytes bytes = encode(message);
    std::ofstream file(folder / std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "message_seeds: cannot write into %s\n", folder.c_str());
      return 1;
    }
  }
  return 0;
}
