// SPDX-License-Identifier: Apache-2.0
// One rank's request for an operation on one tensor. Every rank of a process set submits an equal Request
// under the same name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/bytes.h"
#include "rueda/rank_set.h"
#include "rueda/shape.h"
#include "rueda/types.h"

namespace rueda {

// A plain value. Fields that an operation does not use keep their defaults, so that == means "the same
// request". A group is one request, under the name of its first: ranks agree on all of it at once, and its
// operations are called together or fail together.
struct Request {
  std::string name;
  Operation operation = Operation::allreduce;
  DataType dtype = DataType::float32;
  Shape shape;
  ReduceOp reduce_op = ReduceOp::sum;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  ReductionOrder reduction_order = ReductionOrder::any;
  Compression compression = Compression::none;
  double compression_share = 1.0;  // topk: of the elements, how many travel
  bool measure = false;            // the squares of the result are summed up
  Rank root = 0;                   // join: the rank that joins; remove_process_set: the set's id
  ProcessSetId process_set = kWorld;
  DeviceKind device = DeviceKind::host;  // where its tensors are
  std::uint32_t capture = 0;             // the number of the graph that is to hold it; 0: none
  // A front end's own number for its operation, type and the like. All ranks must have the same. 0: none.
  // CallInWords has its meaning.
  std::uint64_t signature = 0;
  // An allreduce on a device that must not work in the tensor's slot in a window (DeviceWindow), where it
  // has one: the tensor lies elsewhere, and somebody may hold what is there. Ranks may differ: one is enough.
  // Such a request gets no cache id.
  bool elsewhere = false;
  RankSet members;              // add_process_set: of the new set
  std::vector<Request> others;  // of the first of a group: the rest of it, in the order of their names
  std::string follows;          // of one of these: the name of the first

  friend bool operator==(const Request&, const Request&) = default;
};

// Requests are passed round and kept for as long as their cache id lives, so they are shared and never
// change.
using SharedRequest = std::shared_ptr<const Request>;

// A Key whose name belongs to somebody else: for lookups, of which every tensor needs several.
struct KeyView {
  ProcessSetId process_set = kWorld;
  std::string_view name;
  friend bool operator==(const KeyView&, const KeyView&) = default;
};

// Identifies an operation: requests of several ranks with equal Keys belong to the same one.
struct Key {
  ProcessSetId process_set = kWorld;
  std::string name;
  friend auto operator<=>(const Key&, const Key&) = default;
  operator KeyView() const { return {process_set, name}; }
};
inline Key key_of(const Request& request) { return {request.process_set, request.name}; }
inline KeyView key_view_of(const Request& request) { return {request.process_set, request.name}; }

struct KeyHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): of the standard library
  // Names are short, and each is looked up several times on its way: std::hash takes 100 instructions.
  std::size_t operator()(KeyView key) const {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
    std::uint64_t hash = (key.process_set + 1) * kOdd + key.name.size();
    for (std::string_view rest = key.name; !rest.empty();
         rest.remove_prefix(std::min(rest.size(), sizeof hash))) {
      std::uint64_t part = 0;
      std::memcpy(&part, rest.data(), std::min(rest.size(), sizeof part));
      hash = (hash ^ part) * kOdd;
      hash ^= hash >> 32;
    }
    return hash;
  }
};
struct KeyEqual {
  using is_transparent = void;  // NOLINT(readability-identifier-naming)
  bool operator()(KeyView a, KeyView b) const { return a == b; }
};
template <class T>
using ByKey = std::unordered_map<Key, T, KeyHash, KeyEqual>;

// "allreduce 'layer.weight'", and of a set other than that of all ranks " in process set 3", or of a message
// " from rank 0 to rank 1".
std::string title(const Request& request);
// The same, and how many others are of its group.
std::string title_of_all(const Request& request);
// Returns true if `a` precedes `b` in a group, whatever the order of submission: "g.9" before "g.10".
bool precedes_in_group(const Request& a, const Request& b);
// Returns true if such requests may use a window.
bool may_use_window(const Request& request);
// Returns true if this request or another one of its group is `elsewhere`.
bool any_elsewhere(const Request& request);
// Bytes of the tensor.
std::int64_t bytes_of(const Request& request);
// Bytes of one row of the tensor.
std::size_t row_bytes(const Request& request);

// Whether two ranks' requests of one name can be carried out together (ragged operations may differ in the
// first dimension), and the others of their groups. When not, `difference` names the first field that differs
// and both values.
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
