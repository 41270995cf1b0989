// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/data_options.h"

#include <cstdio>

namespace rueda::examples {

namespace po = boost::program_options;

namespace {

constexpr Choices<OnBadItems, 2> kOnBadItems{{{"refuse", OnBadItems::refuse}, {"skip", OnBadItems::skip}}};

}  // namespace

po::options_description data_flags() {
  po::options_description flags("data", 110);
  // clang-format off
  flags.add_options()
      ("dummy", po::value<std::string>()->value_name("yes|no"), "made-up samples of the usual shape, without any file [no]")
      ("bad-items", po::value<std::string>()->value_name("refuse|skip"), "questions or lines that cannot be used end the run, or are left out and told [refuse]")
      ("vocabulary", po::value<std::string>()->value_name("FILE"), "word pieces, as build_vocab makes them, of a model that starts without a checkpoint [the sample's]")
      ("cache", po::value<std::string>()->value_name("DIR"), "of tokenized data, for all runs on this node; none: no cache [a folder of yours in $TMPDIR or /var/tmp]");
  // clang-format on
  return flags;
}

void read_data_flags(const Flags& flags, DataOptions& options) {
  flags.choice("dummy", options.dummy, kYesNo);
  flags.choice("bad-items", options.on_bad, kOnBadItems);
  flags.path("cache", options.cache);
  flags.path("vocabulary", options.vocabulary);
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
