// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/backward_errors.h"

namespace rueda {
namespace {

std::function<void()>& translation() {
  static std::function<void()> rethrow;
  return rethrow;
}

}  // namespace

void set_errors_of_backward_passes(std::function<void()> rethrow) { translation() = std::move(rethrow); }

void rethrow_from_backward_pass() {
  if (translation()) translation()();
  throw;
}

}  // namespace rueda
