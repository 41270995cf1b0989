// SPDX-License-Identifier: Apache-2.0
// Archives as files that hold data only.
#include "rueda/torch/state/archive.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/files/safetensors.h"
#include "rueda/torch/state/stateful.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// The value after a way through a file.
c10::IValue after_file(const c10::IValue& value) {
  OutputArchive archive;
  archive.write("value", value);
  InputArchive back = read_archive(to_bytes(archive), at::kCPU);
  c10::IValue result;
  back.read("value", result);
  return result;
}

at::Tensor after_file(const at::Tensor& tensor) {
  OutputArchive archive;
  archive.write("value", tensor);
  InputArchive back = read_archive(to_bytes(archive), at::kCPU);
  at::Tensor result;
  back.read("value", result);
  return result;
}

// A file with these values, as an attacker may write it.
std::string file_of(const std::string& values, const std::vector<SafetensorEntry>& entries = {}) {
  std::string bytes;
  format_safetensors("a test", entries, {{"rueda.values", values}}, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

std::string refusal_of(const std::string& values) {
  return error_message([&] { read_archive(file_of(values), at::kCPU); });
}

TEST(ArchiveFile, KeepsEveryKindOfValue) {
  EXPECT_TRUE(after_file(c10::IValue()).isNone());
  EXPECT_EQ(after_file(c10::IValue(std::int64_t{-5})).toInt(), -5);
  EXPECT_TRUE(after_file(c10::IValue(true)).toBool());
  EXPECT_EQ(after_file(c10::IValue("tango \"e\" \\n")).toStringRef(), "tango \"e\" \\n");
  for (const double value : {0.1, 1.0, -1e300, 5e-324, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(after_file(c10::IValue(value)).toDouble(), value);
  EXPECT_TRUE(std::isnan(after_file(c10::IValue(std::nan(""))).toDouble()));
  const c10::IValue tuple = after_file(c10::ivalue::Tuple::create({c10::IValue(0.9), c10::IValue(0.999)}));
  EXPECT_EQ(tuple.toTupleRef().elements()[1].toDouble(), 0.999);
  EXPECT_EQ(after_file(c10::IValue(std::vector<std::int64_t>{3, 4})).toIntVector(),
            (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(after_file(c10::IValue(std::vector<std::int64_t>{})).toIntVector(), std::vector<std::int64_t>{});
  EXPECT_EQ(after_file(c10::IValue(std::vector<double>{0.5})).toDoubleVector(), std::vector<double>{0.5});
  EXPECT_EQ(after_file(c10::IValue(std::vector<at::Tensor>{at::ones({2})})).toTensorVector().at(0).numel(),
            2);
}

TEST(ArchiveFile, KeepsTensorsWithTheirTypesStridesAndGradients) {
  for (const at::ScalarType type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
        at::kByte, at::kBool, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor tensor = at::arange(6).reshape({2, 3}).to(type), back = after_file(tensor);
    EXPECT_EQ(back.scalar_type(), type);
    EXPECT_TRUE(at::equal(back, tensor)) << c10::toString(type);
  }
  const at::Tensor turned = at::arange(24).reshape({2, 3, 4}).permute({2, 0, 1});
  EXPECT_EQ(after_file(turned).strides(), turned.strides());
  EXPECT_TRUE(at::equal(after_file(turned), turned));
  EXPECT_TRUE(at::equal(after_file(at::ones({2, 2}).narrow(1, 0, 1)), at::ones({2, 1})));
  EXPECT_TRUE(at::equal(after_file(at::ones({1}).expand({4})), at::ones({4})));
  EXPECT_EQ(after_file(at::full({}, 3)).dim(), 0);
  EXPECT_EQ(after_file(at::empty({0, 3})).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_TRUE(after_file(at::ones({2}).requires_grad_()).requires_grad());
  EXPECT_FALSE(after_file(at::ones({2})).requires_grad());
}

TEST(ArchiveFile, KeepsModulesAndOptimizers) {
  torch::nn::Sequential model(torch::nn::Linear(2, 3), torch::nn::Linear(3, 1));
  torch::nn::Sequential other(torch::nn::Linear(2, 3), torch::nn::Linear(3, 1));
  const std::string bytes = to_bytes(model);
  EXPECT_THAT(bytes, HasSubstr("\"0.weight\""));
  from_bytes(bytes, other);
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(model->parameters()[i], other->parameters()[i]));
  torch::optim::RMSprop optimizer(model->parameters(), torch::optim::RMSpropOptions(0.5).momentum(0.9)),
      fresh(model->parameters(), torch::optim::RMSpropOptions(0.1));
  model->forward(at::ones({1, 2})).sum().backward();
  optimizer.step();
  from_bytes(to_bytes(optimizer), fresh);  // its state has an undefined tensor, grad_avg
  EXPECT_EQ(fresh.param_groups()[0].options().get_lr(), 0.5);
  EXPECT_EQ(to_bytes(fresh), to_bytes(optimizer));
  torch::optim::SGD plain(model->parameters(), torch::optim::SGDOptions(0.5)),
      plain_copy(model->parameters(), 0.1);
  plain.step();
  from_bytes(to_bytes(plain), plain_copy);
  EXPECT_EQ(to_bytes(plain_copy), to_bytes(plain));
}

TEST(ArchiveFile, WhatIsNoDataIsNotWritten) {
  OutputArchive sparse, quoted, typed;
  sparse.write("momentum", at::eye(2).to_sparse());
  EXPECT_THAT(error_message([&] { to_bytes(sparse); }),
              testing::AllOf(HasSubstr("'momentum' has layout Sparse"), HasSubstr("save a dense tensor")));
  typed.write("odd", c10::IValue(c10::Device(at::kCPU)));
  EXPECT_THAT(error_message([&] { to_bytes(typed); }),
              HasSubstr("'odd' is of type Device, which is not saved"));
}

TEST(ArchiveFile, NothingInAFileIsBelieved) {
  EXPECT_THAT(refusal_of("{"), HasSubstr("in its metadata is damaged"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("is no JSON object"));
  EXPECT_THAT(refusal_of(R"({"a":["int","text"]})"), HasSubstr("in its metadata is damaged"));
  EXPECT_THAT(refusal_of(R"({"a":[]})"), HasSubstr("in its metadata is damaged"));
  EXPECT_THAT(refusal_of(R"({"a":["code","import os"]})"), HasSubstr("no values of kind 'code'"));
  EXPECT_THAT(refusal_of(R"({"a":["tensor","gone",{}]})"), HasSubstr("the tensor 'gone' is missing"));
  EXPECT_THAT(refusal_of(R"({"a":["ints",[["real",0.5]]]})"), HasSubstr("in its metadata is damaged"));
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_THAT(refusal_of(R"({"a":["tuple",)" + deep + "]}"), HasSubstr("nested more than 128 levels deep"));
  EXPECT_THAT(error_message([] { read_archive("no archive", at::kCPU); }),
              HasSubstr("not a valid safetensors file"));
  const std::vector<float> numbers(4);
  const std::vector<SafetensorEntry> entries{{"t", "F32", {2, 2}, std::as_bytes(std::span(numbers))}};
  for (const std::string strides : {"[100,1]", "[-2,1]", "[1]", "[4611686018427387904,1]"}) {
    const std::string bytes = file_of(R"({"a":["tensor","t",{"strides":)" + strides + "}]}", entries);
    EXPECT_NE(error_message([&] { read_archive(bytes, at::kCPU); }), "") << strides;
  }
}

// LibTorch writes names into the text of a program, without quoting them.
TEST(ArchiveFile, ANameCannotBecomeCode) {
  for (const std::string name :
       {R"(a\"] : int\n  def f(self): return 1\n  x[\")", R"(a\nb)", R"(a'b)", R"(a\\b)", R"(a\u0000b)"}) {
    EXPECT_THAT(refusal_of("{\"" + name + R"(":["int",1]})"),
                HasSubstr("has quotes, a backslash or a control"));
    EXPECT_THAT(refusal_of("{\"" + name + R"(":{}})"), HasSubstr("has quotes, a backslash or a control"));
  }
}

}  // namespace
}  // namespace rueda
