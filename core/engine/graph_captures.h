// SPDX-License-Identifier: Apache-2.0
// Graphs into which operations are captured.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/control/messages/request.h"
#include "core/engine/submissions/handle_state.h"

namespace rueda {

// Purpose: which graphs this rank's program is capturing, one at a time of a process set, and what is in
// them. Part of a Runtime; any framework thread may call it, guarded by its mutex.
class GraphCaptures {
 public:
  // From now on operations of the set on streams that are being captured belong to its next graph. Returns
  // the number that it would have by what this rank has seen. Throws InvalidArgument where one is being
  // captured.
  std::uint32_t begin(ProcessSetId process_set);
  // The number that it has, the same on all ranks, which capture together; no other graph has it.
  void agree(ProcessSetId process_set, std::uint32_t number);
  bool capturing(ProcessSetId process_set) const;
  // The number of the graph that `request`, on such a stream, belongs to. Throws InvalidArgument where its
  // set is capturing none.
  std::uint32_t number_for(const Request& request) const;
  // It is a part of that graph, if it was captured.
  void add(const std::shared_ptr<const HandleState>& operation);
  // Ends it. The title of an operation for whose result no stream waits; empty if there is none.
  std::string end(ProcessSetId process_set);

 private:
  struct Graph {
    std::uint32_t number = 0;
    std::vector<std::pair<std::string, std::shared_ptr<const HandleState>>> operations;  // by title
  };
  mutable std::mutex mutex_;
  std::map<ProcessSetId, std::uint32_t> numbers_;  // guarded by mutex_
  std::map<ProcessSetId, Graph> open_;             // guarded by mutex_
};

}  // namespace rueda
