// SPDX-License-Identifier: Apache-2.0
// The parameters of one unit of a sharded model, of which each rank has a part.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {

// Purpose: the parameters of a unit (a layer, say) one after another in one flat memory, of which each of n
// ranks has an n-th for good: its values, its gradients, and the optimizer's state for them. In an elastic
// job it has copies of the parts of the ranks before it, too, which it steps as their owners do. The module's
// parameters are views of one storage, while it has memory. It either holds the whole at all times (resident:
// one copy for the ranks of a host, or a single rank), or has memory only between gather() and release():
// views that autograd keeps find their values again when it is gathered again. On a device all of that is in
// the order of streams, and the host waits for none of it. Belongs to UnitScheduler, whose thread uses it.
class FlatParameter {
 public:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::int64_t offset = 0;    // elements of the flat memory
    at::Tensor here{};          // where it is when it is there
    at::Tensor absent{};        // the tensor while it has no memory: reading it throws
    bool has_gradient = false;  // in this step
  };
  // This rank's piece of a parameter: its elements from `begin` to `end`, in the order of memory.
  struct Piece {
    std::size_t part;  // 0: of this rank's own; else a copy
    std::size_t parameter;
    std::int64_t begin;
    std::int64_t end;
    at::Tensor leaf;  // the tensor that an optimizer steps
  };
  // Every parameter and every part begins at a multiple of so many elements.
  static constexpr std::int64_t kGrain = 16;

  // Among whom the parameters are divided.
  struct Division {
    Rank rank = 0;
    Rank ranks = 1;
    Rank copies = 0;  // of each part, on the ranks after its owner
  };

  // The parameters are dense, of one type and on one device, each in a storage of its own. A part has
  // `least_part` elements or more.
  FlatParameter(std::string name, std::vector<Parameter> parameters, std::int64_t least_part,
                const Division& division);
  FlatParameter(const FlatParameter&) = delete;
  FlatParameter& operator=(const FlatParameter&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  bool empty() const { return parameters_.empty(); }
  std::int64_t part_elements() const { return part_elements_; }  // another number for each unit
  std::size_t flat_bytes() const;

  // One of the three, once: the parameters move to `memory` of the host (null: they stay in their own), which
  // holds flat_bytes() and keeps the values that it has (`write`: gets those of the parameters).
  void make_resident(std::shared_ptr<std::byte> memory, bool write);
  // Each rank keeps its part of the values of rank 0. Collective, under `name`.
  void make_parts(const std::string& name, Runtime& runtime);
  // The parts have memory, but no values yet.
  void make_room();
  // The parameters get memory of their own, with their values. For one that is resident.
  void leave();

  bool resident() const { return resident_; }
  // Whether the parameters have memory now.
  bool present() const { return storage_.data() != nullptr; }
  bool gathering() const { return gathering_.has_value(); }
  // Collective, under `name`: begins to gather; of one that is not present and not gathering.
  void begin_gather(const std::string& name, Runtime& runtime);
  void end_gather();
  // It is present, and later work of this thread on its current stream uses it.
  void note_use() const;
  // Whatever comes of it.
  void forget_gather() { gathering_.reset(); }
  // The memory is free again, unless it is resident; on a device, for later work of the streams that use
  // it.
  void release();
  // Whether the module still has its parameters here; else the index of one that has moved.
  std::optional<std::size_t> moved_parameter() const;

  // The gradients in the flat layout, zeros where there is none; takes them from the parameters.
  at::Tensor take_gradients();
  // Adds the reduced part to the sum of earlier passes.
  void add_gradient(at::Tensor part);
  // Gives the pieces of parameter `index` their gradient.
  void show_gradient(std::size_t index);
  void scale_gradient(const at::Scalar& factor);
  void scale_gradient(const at::Tensor& factor);
  at::Tensor gradient_square() const;  // the sum of its squares, [1] of float64; undefined: no gradient
  void forget_gradients();

  // Whether its own pieces have the gradients that it gave them; else the index of a parameter that has not.
  std::optional<std::size_t> replaced_gradient() const;
  // Copies beside the one memory of all ranks get their values from there.
  void renew_copies();
  // Before a step, of one with copies. Sends the gradient of this rank's part to those that have copies of
  // it, and gives this rank's copies theirs. Both are collective, under `name`.
  void begin_to_copy_gradients(const std::string& name, Runtime& runtime);
  void end_to_copy_gradients();
  // After the step: the copies have none.
  void forget_copied_gradients();

 private:
  // An n-th of the flat memory.
  struct Part {
    Rank number;  // of its owner
    at::Tensor values{};
    at::Tensor original{};  // of a copy beside the one memory of all ranks: the same part in there
    at::Tensor gradient{};  // undefined: none yet
  };

  // A tensor of the parameter's shape and memory order in the flat memory of `flat`.
  static at::Tensor view_in(const at::Tensor& flat, const Parameter& parameter);
  void fill(const at::Tensor& flat) const;
  void adopt(const at::Tensor& flat);
  at::Tensor gradient_of(const Piece& piece) const;
  void prepare_absence();
  at::DataPtr no_memory() const { return {nullptr, options_.device()}; }

  const std::string name_;
  std::vector<Parameter> parameters_;
  const Division division_;
  at::TensorOptions options_{at::kFloat};  // type and device
  std::int64_t part_elements_ = 0;
  std::int64_t flat_elements_ = 0;
  bool resident_ = false;
  c10::Storage storage_;
  std::vector<Part> parts_;    // this rank's own, then the copies
  std::vector<Piece> pieces_;  // in the same order
  std::optional<TensorHandle> gathering_;
  std::optional<TensorHandle> copying_;  // gradients
};

}  // namespace rueda
