// SPDX-License-Identifier: Apache-2.0
// The arithmetic of low-rank gradients that all ranks must do alike, to the bit, whatever machine and however
// many threads they have: which a library of linear algebra does not promise. Matrices are row after row.
#pragma once

#include <cstdint>
#include <string>

namespace rueda {

// Makes `count` rows of `length` values orthonormal, in order: Gram-Schmidt in float64, each row twice. A row
// that has nothing of its own becomes zero; after one that is not finite all are not. Cost: count^2 * length.
template <class T>
void make_orthonormal(T* rows, std::int64_t count, std::int64_t length);

// Gives each row the length 1; one that has none, or is not finite, becomes a direction that `seed` and its
// number determine.
template <class T>
void make_directions(T* rows, std::int64_t count, std::int64_t length, std::uint64_t seed);
std::uint64_t seed_of(const std::string& text);

// `factor` (rank x rows) and two second factors (rank x columns): this rank's own, and that of all ranks.
template <class T>
struct Factors {
  const T* first;
  const T* own;
  const T* all;
  std::int64_t rank, rows, columns;
};
// Of rows `begin` to `end` of a gradient (rows x columns), in one pass: `residual` becomes the gradient less
// first^T own (null: that is not wanted), and the gradient becomes first^T all.
template <class T>
void reconstruct(T* gradient, T* residual, const Factors<T>& factors, std::int64_t begin, std::int64_t end);

}  // namespace rueda
