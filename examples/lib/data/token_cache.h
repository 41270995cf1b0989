// SPDX-License-Identifier: Apache-2.0
// Texts are tokenized once on each node, not once for every rank and run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "examples/lib/data/files/record_file.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

// Purpose: record files made from data files, in one folder of the node. A cache belongs to a data file, the
// kind of record, the vocabulary and the settings; when the data file has another size or time than when its
// cache was made, or the cache is damaged, it is made anew. Of several processes that need the same one, one
// makes it (to another name, then renamed) and the others wait for it; when that one dies, the next goes on.
// For this the folder must be one on which flock() works. A plain value; any thread.
class TokenCache {
 public:
  using Say = std::function<void(const std::string&)>;

  // Keeps nothing: the records lie in a temporary file that ends with the RecordFile.
  static TokenCache none();
  // The folder need not exist. `say` gets a text before each slow action: making a cache, and waiting for
  // another process.
  explicit TokenCache(std::filesystem::path folder, Say say = {});

  struct Key {
    std::filesystem::path source;
    std::string kind;      // of records, also a part of the file's name: letters, digits, dashes
    std::string settings;  // all that the records depend on beside source and tokenizer
  };
  using Build = std::function<void(RecordWriter&)>;

  // The cache, made by `build` if there is none. Throws the errors of `build`. Throws std::runtime_error
  // naming a file or folder that cannot be written, and the remedy.
  RecordFile get(const Key& key, const WordPieceTokenizer& tokenizer, const Build& build) const;

 private:
  TokenCache() = default;
  RecordFile make(const std::filesystem::path& file, const std::string& key, const Build& build) const;
  void tell(const std::string& line) const;

  std::optional<std::filesystem::path> folder_;
  Say say_;
};

// Of the tokens and of whether it lower-cases: another number, another tokenizer.
std::uint64_t hash_of(const WordPieceTokenizer& tokenizer);

// $TMPDIR, or else /var/tmp, which outlives a restart and is on the node; in it a folder of the user's own.
std::filesystem::path default_cache_folder();

}  // namespace rueda::examples
