// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() { fs::remove_all(root_); }
  ~CheckpointFolder() override { fs::remove_all(root_); }

  fs::path write(std::int64_t step, std::int64_t keep = 3, const std::string& text = "some bytes") const {
    CheckpointWriter writer(root_, step);
    std::ofstream(writer.folder() / "model") << text;
    return writer.commit({.step = step,
                          .samples = 70,
                          .ranks = 2,
                          .settings = {"--seed 1"},
                          .evaluations = {{5, {{"f1", 0.1}, {"loss", 2.5}}}}},
                         keep);
  }
  // training.json with another word in it, and the checksum that belongs to it.
  static void rewrite(const fs::path& folder, const std::string& from, const std::string& to) {
    nlohmann::ordered_json json;
    std::ifstream(folder / "training.json") >> json;
    std::string text = json["training"].dump();
    const auto found = text.find(from);
    ASSERT_NE(found, std::string::npos) << text;
    text.replace(found, from.size(), to);
    const auto crc = crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    std::ofstream(folder / "training.json") << R"({"crc32": )" << crc << R"(, "training": )" << text << "}";
  }
  std::string damage_of(const fs::path& folder) const {
    try {
      check_checkpoint(folder);
    } catch (const DamagedCheckpoint& damage) {
      return damage.what();
    }
    return "none";
  }

  const fs::path root_ = fs::temp_directory_path() / ("rueda_checkpoints_" + std::to_string(::getpid()));
};

TEST_F(CheckpointFolder, SaysWhatItWasTold) {
  const fs::path folder = write(10);
  EXPECT_EQ(folder, root_ / "step-10");
  EXPECT_TRUE(is_checkpoint(folder));
  EXPECT_FALSE(is_checkpoint(root_));
  EXPECT_TRUE(is_checkpoint("absent/step-7/")) << "its name says so";
  const CheckpointFacts facts = check_checkpoint(folder);
  EXPECT_EQ(facts.step, 10);
  EXPECT_EQ(facts.samples, 70);
  EXPECT_EQ(facts.ranks, 2);
  EXPECT_THAT(facts.settings, ElementsAre("--seed 1"));
  ASSERT_EQ(facts.evaluations.size(), 1);
  EXPECT_EQ(facts.evaluations[0].step, 5);
  EXPECT_THAT(facts.evaluations[0].metrics, ElementsAre(std::pair{"f1", 0.1}, std::pair{"loss", 2.5}));
}

TEST_F(CheckpointFolder, NumbersNeedNotBeFinite) {
  {
    CheckpointWriter writer(root_, 1);
    writer.commit(
        {.evaluations = {{1, {{"perplexity", std::numeric_limits<double>::infinity()}, {"f1", 2}}}}}, 3);
  }
  const auto metrics = check_checkpoint(root_ / "step-1").evaluations.at(0).metrics;
  EXPECT_TRUE(std::isnan(metrics.at(0).second));
  EXPECT_EQ(metrics.at(1).second, 2);
}

TEST_F(CheckpointFolder, WhatItNamesIsNotBelieved) {
  const fs::path folder = write(1);
  rewrite(folder, "model", "../step-1/model");
  EXPECT_THAT(damage_of(folder), HasSubstr("names ../step-1/model, which is no file of this folder"));
  write(1);
  rewrite(folder, "model", "/dev/zero");
  EXPECT_THAT(damage_of(folder), HasSubstr("names /dev/zero"));
  write(1);
  fs::remove(folder / "model");
  fs::create_symlink("/dev/zero", folder / "model");
  EXPECT_THAT(damage_of(folder), HasSubstr("model: is not a file"));
  write(1);
  rewrite(folder, R"("samples":70)", R"("samples":"many")");
  EXPECT_THAT(damage_of(folder), HasSubstr("training.json: has not what a checkpoint has"));
  write(1);
  rewrite(folder, R"("ranks":2)", R"("ranks":0)");
  EXPECT_THAT(damage_of(folder), HasSubstr("has steps or ranks that cannot be"));
  fs::remove_all(folder);
  fs::create_directories(folder / "training.json");
  EXPECT_THAT(damage_of(folder), HasSubstr("training.json: is not a file"));
  write(1);
  rewrite(folder, R"("format":3)", R"("format":9)");
  EXPECT_THROW(check_checkpoint(folder), std::runtime_error);
  EXPECT_EQ(damage_of(write(1)), "none");
}

TEST_F(CheckpointFolder, DeepNestingIsDamageAndNoOverflowOfTheStack) {
  const fs::path folder = write(1);
  std::ofstream(folder / "training.json")
      << R"({"crc32": 1, "training": )" << std::string(2'000'000, '[') << std::string(2'000'000, ']') << "}";
  EXPECT_THAT(damage_of(folder), HasSubstr("training.json: its JSON is nested more than 16 levels deep"));
}

TEST_F(CheckpointFolder, TheNewestAreKept) {
  for (const std::int64_t step : {2, 10, 9, 100}) write(step);
  EXPECT_THAT(checkpoints_in(root_), ElementsAre(root_ / "step-100", root_ / "step-10", root_ / "step-9"));
  EXPECT_THAT(checkpoints_in(root_ / "absent"), ElementsAre());
}

TEST_F(CheckpointFolder, TheSameStepIsReplaced) {
  write(4);
  write(4, 3, "other");
  std::string text;
  std::ifstream(root_ / "step-4" / "model") >> text;
  EXPECT_EQ(text, "other");
  EXPECT_EQ(damage_of(root_ / "step-4"), "none");
}

TEST_F(CheckpointFolder, WhatWasNotCommittedIsNotThere) {
  write(1);
  {
    CheckpointWriter writer(root_, 2);
    std::ofstream(writer.folder() / "model") << "half";
  }
  fs::create_directories(root_ / ".step-3.new");  // as a process that was killed leaves it
  EXPECT_THAT(checkpoints_in(root_), ElementsAre(root_ / "step-1"));
  write(4);
  EXPECT_FALSE(fs::exists(root_ / ".step-3.new"));
}

TEST_F(CheckpointFolder, EveryDamageIsNamed) {
  const fs::path folder = write(1);
  const fs::path model = folder / "model", facts = folder / "training.json";
  std::ofstream(model) << "same bytes";
  EXPECT_THAT(damage_of(folder), HasSubstr(model.string() + ": its bytes are not those that were written"));
  fs::resize_file(model, 3);
  EXPECT_THAT(damage_of(folder), HasSubstr("has 3 bytes of 10"));
  fs::remove(model);
  EXPECT_THAT(damage_of(folder), HasSubstr("cannot read"));
  std::ofstream(model) << "some bytes";
  EXPECT_EQ(damage_of(folder), "none");
  std::string text;
  std::getline(std::ifstream(facts), text, '\0');
  std::ofstream(facts) << text.replace(text.find("70"), 2, "71");
  EXPECT_THAT(damage_of(folder), HasSubstr(facts.string() + ": is not what was written"));
  std::ofstream(facts) << "{";
  EXPECT_THAT(damage_of(folder), HasSubstr("is not what was written"));
  fs::remove(facts);
  EXPECT_THAT(damage_of(folder), HasSubstr("training.json: cannot read"));
}

}  // namespace
}  // namespace rueda::examples
