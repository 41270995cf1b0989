// SPDX-License-Identifier: Apache-2.0
// Taking mpiexec's output apart must not depend on how it was cut into pieces on its way.
#include "launcher/supervisor/output_demux.h"

#include <gtest/gtest.h>

#include <map>

namespace rueda {
namespace {

const std::string kToken = "0123abcd";

std::string label(int rank) {
  std::string pattern = OutputDemux::label_pattern(kToken);
  return pattern.replace(pattern.find("%r"), 2, std::to_string(rank));
}

std::map<int, std::string> take_apart(const std::string& stream, std::size_t piece) {
  std::map<int, std::string> by_rank;
  OutputDemux parser(kToken, [&](int rank, std::string_view text) { by_rank[rank] += text; });
  for (std::size_t at = 0; at < stream.size(); at += piece)
    parser.feed(std::string_view(stream).substr(at, piece));
  parser.finish();
  return by_rank;
}

TEST(OutputDemux, AnyCutGivesTheSame) {
  std::string stream = label(0) + "one\n" + label(11) + "par" + label(0) + "two\n" + label(11) + "tial\n" +
                       "own words\n" + label(2) + "cut off" + "\n=== more own words\n" + label(11) + "\x01" +
                       "0123 no label" + label(0) + "end";
  std::map<int, std::string> expected{{0, "one\ntwo\nend"},
                                      {11,
                                       "partial\n\x01"
                                       "0123 no label"},
                                      {2, "cut off\n"},
                                      {OutputDemux::kMpiexec, "own words\n=== more own words\n"}};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece)
    EXPECT_EQ(take_apart(stream, piece), expected) << piece;
}

TEST(OutputDemux, WhatIsThereIsPassedOnAtOnce) {
  std::string seen;
  OutputDemux parser(kToken, [&](int, std::string_view text) { seen += text; });
  parser.feed(label(0) + "no end of line yet");
  EXPECT_EQ(seen, "no end of line yet");
}

TEST(OutputDemux, ALabelCutOffByTheEndIsNotLost) {
  std::string half = label(3).substr(0, 5);
  EXPECT_EQ(take_apart(label(1) + "text" + half, 3)[1], "text" + half);
}

}  // namespace
}  // namespace rueda
