// SPDX-License-Identifier: Apache-2.0
// Adasum in float64, written plainly from its definition: what results are compared with.
#pragma once

#include <cstddef>
#include <vector>

namespace rueda {

using Vector = std::vector<double>;

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Vector adasum_of_two(const Vector& a, const Vector& b) {
  const double ab = dot(a, b), aa = dot(a, a), bb = dot(b, b);
  const double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa), of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = of_a * a[i] + of_b * b[i];
  return result;
}

// Of `count` vectors from `first` on, a power of two.
inline Vector adasum_tree(const std::vector<Vector>& vectors, std::size_t first, std::size_t count) {
  if (count == 1) return vectors[first];
  return adasum_of_two(adasum_tree(vectors, first, count / 2),
                       adasum_tree(vectors, first + count / 2, count / 2));
}

// Of any number of vectors: those beyond the largest power of two are folded into the first ones.
inline Vector adasum_of(std::vector<Vector> vectors) {
  std::size_t power = 1;
  while (power * 2 <= vectors.size()) power *= 2;
  for (std::size_t i = power; i < vectors.size(); ++i)
    vectors[i - power] = adasum_of_two(vectors[i - power], vectors[i]);
  return adasum_tree(vectors, 0, power);
}

}  // namespace rueda
