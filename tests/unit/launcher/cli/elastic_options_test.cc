// SPDX-License-Identifier: Apache-2.0
// The flags of elastic jobs, and the combinations that make no sense.
#include "launcher/cli/elastic_options.h"

#include <gmock/gmock.h>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

LaunchOptions parse_elastic(Words words) {
  words.push_back("prog");
  return parse_launch_options(words);
}

std::string elastic_error_of(const Words& words) {
  try {
    parse_elastic(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ElasticOptions, AJobIsElasticByItsLeastNumberOfRanks) {
  EXPECT_EQ(parse_elastic({"-np", "2"}).elastic.least, 0);
  const ElasticOptions elastic = parse_elastic({"-np", "2", "--min-np", "1"}).elastic;
  EXPECT_EQ(elastic.least, 1);
  EXPECT_EQ(elastic.most, 2);
  EXPECT_EQ(elastic.blacklist, Blacklist::slot);
  EXPECT_FALSE(elastic.cooldown);
  EXPECT_EQ(elastic.spares, 1);
  EXPECT_EQ(parse_elastic({"--min-np", "3"}).ranks, 3);
  EXPECT_EQ(parse_elastic({"--min-np", "3"}).elastic.spares, 0);
  EXPECT_EQ(parse_elastic({"-np", "2", "--min-np", "1", "--spares", "0"}).elastic.spares, 0);
}

TEST(ElasticOptions, OrByAScriptThatNamesHosts) {
  const LaunchOptions options = parse_elastic(
      {"-np", "2", "--host-discovery-script", "./hosts.sh", "--slots", "4", "--discovery-interval=5"});
  EXPECT_EQ(options.elastic.least, 2);
  EXPECT_EQ(options.elastic.discovery_script, "./hosts.sh");
  EXPECT_EQ(options.elastic.slots_per_host, 4);
  EXPECT_EQ(options.elastic.discovery_interval, 5s);
}

TEST(ElasticOptions, TheCooldownIsTwoNumbers) {
  const ElasticOptions elastic = parse_elastic({"-np", "2", "--blacklist-cooldown-range", "10", "60",
                                                "--min-np", "1", "--blacklist", "host"})
                                     .elastic;
  ASSERT_TRUE(elastic.cooldown);
  EXPECT_EQ(elastic.cooldown->least, 10s);
  EXPECT_EQ(elastic.cooldown->most, 60s);
  EXPECT_EQ(elastic.blacklist, Blacklist::host);
  EXPECT_EQ(
      parse_elastic({"-np", "2", "--min-np=1", "--blacklist-cooldown-range=1 2"}).elastic.cooldown->most, 2s);
}

TEST(ElasticOptions, WrongValuesAreNamed) {
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "60", "10"}),
              HasSubstr("the first number must not be above the second"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "60"}),
              HasSubstr("--blacklist-cooldown-range"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "1", "--blacklist-cooldown-range=60"}),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "1", "--blacklist", "all"}),
              HasSubstr("one of host, slot, never"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "3"}), HasSubstr("they must ascend"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--host-discovery-script", ""}), HasSubstr("is empty"));
}

TEST(ElasticOptions, WishesThatDoNotFitTogetherAreRefused) {
  EXPECT_THAT(elastic_error_of({"-np", "2", "--max-np", "3"}), HasSubstr("--min-np N"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--blacklist-cooldown-range", "1", "2"}),
              HasSubstr("--min-np N"));
  EXPECT_THAT(
      elastic_error_of({"-np", "2", "--blacklist", "never", "--elastic-timeout", "9", "--slots", "2"}),
      HasSubstr("--blacklist, --elastic-timeout, --slots-per-host do nothing here"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--spares", "0"}), HasSubstr("--spares does nothing here"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--min-np", "1", "--discovery-interval", "2"}),
              HasSubstr("give --host-discovery-script"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "-H", "a:2", "--host-discovery-script", "x"}),
              HasSubstr("leave -H"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--virtual-hosts", "2", "--host-discovery-script", "x"}),
              HasSubstr("leave -H"));
  EXPECT_THAT(elastic_error_of({"-np", "2", "--launcher", "hydra", "--host-discovery-script", "x"}),
              HasSubstr("leave --launcher hydra out"));
}

}  // namespace
}  // namespace rueda
