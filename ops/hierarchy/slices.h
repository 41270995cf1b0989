// SPDX-License-Identifier: Apache-2.0
// How chunks that go from host to host are cut, and who carries the pieces. Pure arithmetic.
//
// A chunk is cut into slices, and each slice belongs to one member on every host: its owner there. All owners
// of a slice are a group of their own, with one rank a host: they do among themselves what the operation
// does, while others do it with other slices. From chunk to chunk owners move on by the number of slices: so
// everybody has something to carry, also where slices are fewer than members. A host of few members has one
// carry several.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/link/host_groups.h"
#include "ops/link/link.h"

namespace rueda {

// Elements, or bytes, [begin, end) of something.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

// Part `part` of `parts` of so many bytes: whole lines of cache, but at the end.
Run even_part(std::size_t bytes, std::size_t part, std::size_t parts);

// Purpose: the slices of a Plan's chunks, the same on all ranks. A plain value.
class Slices {
 public:
  // For chunks of `chunk_bytes` of a whole of `total`; at most `most` slices, 0: as many as a host has
  // members, and so many only that what goes from host to host, an even part of a slice, is a message of some
  // size.
  Slices(const HostGroups& groups, std::size_t chunk_bytes, std::size_t total, std::size_t most);

  std::size_t count() const { return count_; }
  // The index of the owner among so many members of a host.
  std::size_t owner(std::size_t chunk, std::size_t slice, std::size_t members) const {
    return (chunk * count_ + slice) % members;
  }
  // All owners, in the order of hosts, as the one on `host` sees them.
  Group owners(const HostGroups& groups, std::size_t chunk, std::size_t slice, std::size_t host) const;

  static constexpr std::size_t kLeastMessage = std::size_t{16} << 10;
  static constexpr std::size_t kMost = 64;

 private:
  std::size_t count_;
};

}  // namespace rueda
