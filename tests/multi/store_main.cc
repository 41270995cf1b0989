// SPDX-License-Identifier: Apache-2.0
// A rank that finds the others by a store of its own: store FOLDER RANK SIZE [null|broken]
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/store.h"
#include "tests/support/process_watchdog.h"

namespace {

// Purpose: a file for each key.
class Folder : public rueda::Store {
 public:
  explicit Folder(std::filesystem::path path, bool broken) : path_(std::move(path)), broken_(broken) {}

  void set(const std::string& key, const std::string& value) override {
    const std::filesystem::path fresh = path_ / (key + ".new");
    std::ofstream(fresh) << value;
    std::filesystem::rename(fresh, path_ / key);
  }
  std::optional<std::string> get(const std::string& key) override {
    if (broken_) throw std::runtime_error("the disk is full");
    std::ifstream file(path_ / key);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string in_words() const override { return "the folder " + path_.string(); }

 private:
  std::filesystem::path path_;
  bool broken_;
};

int number(const char* text) {
  int value = -1;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  const std::string mode = argc > 4 ? argv[4] : "";
  std::shared_ptr<rueda::Store> store;
  if (mode != "null") store = std::make_shared<Folder>(argv[1], mode == "broken");
  try {
    for (int job = 0; job < 3; ++job) {
      rueda::init(store, number(argv[2]), number(argv[3]), {{0}});
      std::vector<float> values(1000, static_cast<float>(rueda::rank() + 1));
      const rueda::Reduction sum{rueda::ReduceOp::sum};
      rueda::allreduce_async("values", rueda::view(values), rueda::view(values), sum).wait();
      std::printf("%d %d %g\n", rueda::rank(), rueda::size(), values[0]);
      rueda::shutdown();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
