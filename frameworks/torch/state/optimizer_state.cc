// SPDX-License-Identifier: Apache-2.0
// The state of an optimizer goes to other ranks in two parts. Options, counters and the layouts of tensors go
// as one archive. The tensors go from memory to memory, without a copy.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/state/optimizer_tensors.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/state/archive.h"
#include "rueda/torch/state/objects.h"
#include "rueda/torch/state/parameter_groups.h"
#include "rueda/torch/state/parameters.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {
namespace {

using torch::optim::Optimizer;

constexpr const char* kLayouts = "layouts";  // of the tensors that the archive has without elements
constexpr const char* kSubject = "broadcast_optimizer_state";

bool can_move(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() && !tensor.is_neg() &&
         known_data_type(tensor.scalar_type());
}

// The tensors in all states, in the order of the parameters. Empty if Rueda does not know the class of each
// state, or cannot move each tensor.
std::vector<at::Tensor*> tensors_of_states(Optimizer& optimizer) {
  std::vector<at::Tensor*> all;
  for (const at::Tensor& parameter : parameters_of(optimizer.param_groups())) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto tensors = tensors_of(*found->second);
    if (!tensors) return {};
    std::ranges::copy_if(*tensors, std::back_inserter(all), &at::Tensor::defined);
  }
  const bool can = std::ranges::all_of(all, [](const at::Tensor* each) { return can_move(*each); });
  return can ? all : std::vector<at::Tensor*>{};
}

std::vector<at::Tensor> tensors_at(const std::vector<at::Tensor*>& pointers) {
  std::vector<at::Tensor> all;
  for (const at::Tensor* const each : pointers) all.push_back(*each);
  return all;
}

// Purpose: takes the tensors out of the states of an optimizer for its scope.
class WithoutElements {
 public:
  explicit WithoutElements(std::vector<at::Tensor*> tensors) : tensors_(std::move(tensors)) {
    for (at::Tensor* const each : tensors_)
      kept_.push_back(std::exchange(*each, at::empty({0}, each->options())));
  }
  ~WithoutElements() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) *tensors_[i] = std::move(kept_[i]);
  }
  WithoutElements(const WithoutElements&) = delete;
  WithoutElements& operator=(const WithoutElements&) = delete;

 private:
  const std::vector<at::Tensor*> tensors_;
  std::vector<at::Tensor> kept_;
};

struct Layout {
  std::vector<std::int64_t> sizes, strides;

  static Layout of(const at::Tensor& tensor) { return {tensor.sizes().vec(), tensor.strides().vec()}; }
  bool operator==(const Layout&) const = default;
};

// A row for each tensor: the number of its dimensions, its sizes, its strides.
at::Tensor table_of(const std::vector<at::Tensor*>& tensors) {
  std::vector<std::int64_t> numbers;
  for (const at::Tensor* const tensor : tensors) {
    const Layout layout = Layout::of(*tensor);
    numbers.push_back(tensor->dim());
    numbers.insert(numbers.end(), layout.sizes.begin(), layout.sizes.end());
    numbers.insert(numbers.end(), layout.strides.begin(), layout.strides.end());
  }
  return at::tensor(numbers, at::kLong);
}

std::vector<Layout> layouts_from(const at::Tensor& table) {
  const at::Tensor numbers = table.to(at::kCPU, at::kLong).contiguous();
  auto take = [&numbers, next = std::int64_t{0}](std::int64_t count) mutable {
    if (count < 0 || count > numbers.numel() - next) refuse("its table of layouts has been cut");
    const std::int64_t* const first =
        numbers.const_data_ptr<std::int64_t>() + std::exchange(next, next + count);
    return std::vector(first, first + count);
  };
  std::vector<Layout> layouts;
  for (std::int64_t left = numbers.numel(); left > 0;) {
    const std::int64_t dimensions = take(1).front();
    Layout layout{take(dimensions), take(dimensions)};
    layouts.push_back(std::move(layout));
    left -= 1 + 2 * dimensions;
  }
  return layouts;
}

std::string bytes_without_elements(Optimizer& optimizer) {
  const std::vector<at::Tensor*> tensors = tensors_of_states(optimizer);
  torch::serialize::OutputArchive archive;
  archive.write(kLayouts, table_of(tensors));
  const WithoutElements guard(tensors);
  optimizer.save(archive);
  return to_bytes(archive);
}

// Gives a tensor its elements, in memory that it had before, if that has the same layout.
void give_memory(at::Tensor& tensor, const Layout& layout, const at::Tensor& former) {
  const bool fits = former.defined() && former.dtype() == tensor.dtype() &&
                    former.device() == tensor.device() && Layout::of(former) == layout;
  tensor = fits ? former : at::empty_strided(layout.sizes, layout.strides, tensor.options());
}

// Returns the tensors that are to get their elements.
std::vector<at::Tensor> use_bytes(const std::string& bytes, Optimizer& optimizer) {
  const Stateful stateful(optimizer);
  std::vector<at::Tensor> former = tensors_at(tensors_of_states(optimizer));
  torch::serialize::InputArchive archive = read_archive(bytes, stateful.device());
  at::Tensor table;
  archive.read(kLayouts, table);
  const std::vector<Layout> layouts = layouts_from(table);
  stateful.load(archive);
  if (layouts.empty()) return {};
  const std::vector<at::Tensor*> tensors = tensors_of_states(optimizer);
  if (tensors.size() != layouts.size()) {
    refuse(fmt::format("the state has {} tensors here, and {} on the other rank; run the same program",
                       tensors.size(), layouts.size()));
  }
  former.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) give_memory(*tensors[i], layouts[i], former[i]);
  return tensors_at(tensors);
}

}  // namespace

void broadcast_optimizer_state(Optimizer& optimizer, Rank root, const Scope& scope) {
  check_members(root, scope, kSubject);
  const std::string name = scope.runtime().next_name(kSubject, scope.process_set());
  check_agreement(name, kSubject, {Stateful(optimizer).describe()}, scope);
  const bool is_root = scope.runtime().topology().rank == root;
  std::vector<at::Tensor> tensors;
  if (is_root) tensors = tensors_at(tensors_of_states(optimizer));
  const std::string bytes =
      broadcast_made([&] { return bytes_without_elements(optimizer); }, root, name, kSubject, scope);
  all_use(
      [&] {
        if (!is_root) tensors = use_bytes(bytes, optimizer);
      },
      name + ".use", kSubject, scope);
  std::vector<TensorHandle> handles;
  for (const at::Tensor& each : tensors)
    handles.push_back(broadcast_async_(each, root, fmt::format("{}.{}", name, handles.size()), scope));
  for (const TensorHandle& handle : handles) handle.wait();
}

}  // namespace rueda
