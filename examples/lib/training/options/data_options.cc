// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/data_options.h"

#include <cstdio>

namespace rueda::examples {

namespace {

constexpr Choices<OnBadItems, 2> kOnBadItems{{{"refuse", OnBadItems::refuse}, {"skip", OnBadItems::skip}}};

}  // namespace

void add_data_flags(Flags& flags, DataOptions& options) {
  flags.section("data");
  flags.choice("dummy", options.dummy, kYesNo, "yes|no",
               "made-up samples of the usual shape, without any file [no]");
  flags.choice("bad-items", options.on_bad, kOnBadItems, "refuse|skip",
               "questions or lines that cannot be used end the run, or are left out and told [refuse]");
  flags.path(
      "vocabulary", options.vocabulary, "FILE",
      "word pieces, as build_vocab makes them, of a model that starts without a checkpoint [the sample's]");
  flags.path("cache", options.cache, "DIR",
             "of tokenized data, for all runs on this node; none: no cache [a folder of yours in $TMPDIR or "
             "/var/tmp]");
}

void check_data_flags(const Flags& flags, const DataOptions& options) {
  for (const char* checkpoint : {"model", "teacher"}) {
    if (flags.given("vocabulary") && flags.given(checkpoint)) {
      throw UsageError(fmt::format(
          "--vocabulary is for a model that starts at random, and --{} names a checkpoint with its own",
          checkpoint));
    }
  }
  if (!options.dummy) return;
  for (const char* other : {"data", "cache", "bad-items"}) {
    if (flags.given(other))
      throw UsageError(fmt::format("--dummy yes reads no file, and --{} is given", other));
  }
}

TokenCache cache_of(const DataOptions& options) {
  if (options.cache == "none") return TokenCache::none();
  return TokenCache(options.cache, [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  });
}

}  // namespace rueda::examples
