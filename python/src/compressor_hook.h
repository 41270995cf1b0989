// SPDX-License-Identifier: Apache-2.0
// A Compressor in Python as a communication hook.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "rueda/torch/compression/communication_hook.h"

namespace rueda::python {

// Purpose: a Compressor (rueda/torch/compression.py) that any thread may hold, with or without Python's lock.
class Compressor {
 public:
  explicit Compressor(pybind11::object compressor) : compressor_(std::move(compressor)) {}
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // With Python's lock.
  const pybind11::object& get() const { return compressor_; }

 private:
  pybind11::object compressor_;
};

// Each gradient is compressed by it, allreduced in compressed form, and decompressed. Empty for null.
CommunicationHookOptions hook_of(std::shared_ptr<const Compressor> compressor);

void bind_compressor(pybind11::module_& module);

}  // namespace rueda::python
