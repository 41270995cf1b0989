// SPDX-License-Identifier: Apache-2.0
// Parameters in one file, in parts, under the names of torch's wrappers, and what is in their place.
#include "examples/lib/model/model_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class ModelTensorFiles : public testing::Test {
 protected:
  // Tensors of one float, which is their index in the list.
  void write(const std::string& file, const std::vector<std::string>& names) {
    std::vector<SafetensorEntry> entries;
    for (std::size_t i = 0; i < names.size(); ++i)
      entries.push_back({names[i], "F32", {1}, std::as_bytes(std::span(numbers_)).subspan(4 * i, 4)});
    write_safetensors(scratch_.path() / file, entries, {});
  }
  void write_index(const std::string& map) {
    scratch_.write("model.safetensors.index.json",
                   R"({"metadata": {"total_size": 8}, "weight_map": )" + map + "}");
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    const ModelTensors tensors = ModelTensors::open(scratch_.path());
    for (const SafetensorEntry& entry : tensors.entries()) names.push_back(entry.name);
    return names;
  }
  std::string error() {
    return error_message([&] { ModelTensors::open(scratch_.path()); });
  }

  ScratchFolder scratch_;
  std::array<float, 4> numbers_ = {0, 1, 2, 3};
};

TEST_F(ModelTensorFiles, PartsAreReadAsOne) {
  write("a.safetensors", {"x", "y"});
  write("b.safetensors", {"z"});
  write_index(R"({"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"})");
  EXPECT_THAT(names(), UnorderedElementsAre("x", "y", "z"));
  const ModelTensors tensors = ModelTensors::open(scratch_.path());
  ASSERT_NE(tensors.find("y"), nullptr);
  EXPECT_EQ(*reinterpret_cast<const float*>(tensors.find("y")->data.data()), 1);
  EXPECT_EQ(tensors.find("w"), nullptr);
  EXPECT_THAT(tensors.origin(), HasSubstr("model.safetensors.index.json"));
}

TEST_F(ModelTensorFiles, OneFileCountsBeforeParts) {
  write("model.safetensors", {"x"});
  write_index(R"({"y": "gone.safetensors"})");
  EXPECT_THAT(names(), UnorderedElementsAre("x"));
}

TEST_F(ModelTensorFiles, BadIndexesAreNamed) {
  write("a.safetensors", {"x"});
  write_index(R"({"x": "a.safetensors", "y": "b.safetensors"})");
  EXPECT_THAT(error(), AllOf(HasSubstr("b.safetensors is missing"), HasSubstr("one of 2 parts")));
  for (const char* name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ""}) {
    write_index(R"({"x": ")" + std::string(name) + "\"}");
    EXPECT_THAT(error(),
                AllOf(HasSubstr("weight_map.x"), HasSubstr("not the name of a file in the same folder")));
  }
  write_index(R"({"x": "a.safetensors", "y": "a.safetensors"})");
  EXPECT_THAT(error(), AllOf(HasSubstr("a.safetensors: the tensor y is missing"), HasSubstr("index.json")));
  write_index("[]");
  EXPECT_THAT(error(), HasSubstr("weight_map: an object of tensors"));
  write_index("{}");
  EXPECT_THAT(error(), HasSubstr("no tensor is named"));
  write_index(R"({"x": 1})");
  EXPECT_THAT(error(), HasSubstr("weight_map.x: a string is needed"));
  write("b.safetensors", {"x"});
  write_index(R"({"x": "a.safetensors", "y": "b.safetensors"})");
  EXPECT_THAT(error(), HasSubstr("b.safetensors: the tensor x is there a second time"));
}

TEST_F(ModelTensorFiles, NamesOfWrappersAreTakenOff) {
  write("model.safetensors", {"module.bert.a", "_orig_mod.b", "module._orig_mod.module.c", "d.module.e"});
  EXPECT_THAT(names(), UnorderedElementsAre("bert.a", "b", "c", "d.module.e"));
  write("model.safetensors", {"module.a", "a"});
  EXPECT_THAT(error(), HasSubstr("the tensor a is there a second time"));
}

TEST_F(ModelTensorFiles, OtherFormatsAreNamedWithTheCommandThatConvertsThem) {
  EXPECT_THAT(error(), HasSubstr("cannot open"));
  scratch_.write("flax_model.msgpack", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("has flax_model.msgpack and no model.safetensors"),
                             HasSubstr("from_flax=True")));
  scratch_.write("tf_model.h5", "");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("has tf_model.h5 and no model.safetensors"), HasSubstr("from_tf=True")));
  scratch_.write("pytorch_model.bin", "");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("has pytorch_model.bin and no model.safetensors"), HasSubstr("torch.load")));
}

TEST_F(ModelTensorFiles, APointerOfGitLfsIsNamed) {
  scratch_.write("model.safetensors",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90868376\n");
  EXPECT_THAT(
      error(),
      HasSubstr("model.safetensors is a pointer of Git LFS, not the file itself; run `git lfs pull`"));
}

}  // namespace
}  // namespace rueda::examples
