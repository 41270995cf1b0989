// SPDX-License-Identifier: Apache-2.0
// What one rank wants done with one tensor. Every rank of the job submits an equal Request under the same
// name.
#pragma once

#include <string>

#include "core/base/bytes.h"
#include "core/base/shape.h"
#include "core/base/types.h"

namespace rueda {

// A plain value. Fields that an operation does not use keep their defaults, so that == means "the same wish".
struct Request {
  std::string name;
  Operation operation = Operation::allreduce;
  DataType dtype = DataType::float32;
  Shape shape;
  ReduceOp reduce_op = ReduceOp::sum;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  Rank root = 0;

  friend bool operator==(const Request&, const Request&) = default;
};

// Whether two ranks' requests of one name can be carried out together (ragged operations may differ in the
// first dimension). When not, `difference` names the first field that differs and both values.
bool compatible(const Request& a, const Request& b);
struct Difference {
  std::string field;
  std::string first;
  std::string second;
};
Difference difference(const Request& a, const Request& b);

void write(Writer& writer, const Request& request);
Request read_request(Reader& reader);

}  // namespace rueda
