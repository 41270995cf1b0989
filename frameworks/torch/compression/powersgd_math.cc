// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/compression/powersgd_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace rueda {
namespace {

constexpr std::int64_t kLanes = 8;     // sums that go on side by side
constexpr double kRounding = 1e-12;    // of a length: the most that rounding leaves of nothing
constexpr std::int64_t kBlock = 1024;  // columns with sums that stay in the first cache

// In an order that is the same everywhere.
template <class T>
double dot(const T* a, const T* b, std::int64_t length) {
  std::array<double, kLanes> sums{};
  const std::int64_t whole = length - length % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      sums[static_cast<std::size_t>(lane)] +=
          static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  for (std::int64_t i = whole; i < length; ++i)
    sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0.0;
  for (const double each : sums) sum += each;
  return sum;
}

// Takes from `row` its part in the direction of `unit`.
void project_out(double* row, const double* unit, std::int64_t length) {
  const double part = dot(row, unit, length);
  for (std::int64_t i = 0; i < length; ++i) row[i] -= part * unit[i];
}

// The next of a sequence of numbers that look random (splitmix64), from -1 to 1.
double next_value(std::uint64_t& state) {
  std::uint64_t bits = state += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

// sums[0, size) = one row of first^T second, from column `column`.
template <class T>
void product(T* sums, const Factors<T>& factors, const T* second, std::int64_t row, std::int64_t column,
             std::int64_t size) {
  std::fill(sums, sums + size, T{0});
  for (std::int64_t k = 0; k < factors.rank; ++k) {
    const T factor = factors.first[k * factors.rows + row];
    const T* const values = second + k * factors.columns + column;
    for (std::int64_t j = 0; j < size; ++j) sums[j] += factor * values[j];
  }
}

}  // namespace

template <class T>
void make_orthonormal(T* rows, std::int64_t count, std::int64_t length) {
  std::vector<double> exact(rows, rows + count * length);
  for (std::int64_t i = 0; i < count; ++i) {
    double* const row = exact.data() + i * length;
    const double before = std::sqrt(dot(row, row, length));
    for (int turn = 0; turn < 2; ++turn) {
      for (std::int64_t other = 0; other < i; ++other)
        project_out(row, exact.data() + other * length, length);
    }
    const double norm = std::sqrt(dot(row, row, length));
    const bool none_left = std::isfinite(norm) && norm <= kRounding * before;
    for (std::int64_t j = 0; j < length; ++j) row[j] = none_left ? 0.0 : row[j] / norm;
  }
  std::transform(exact.begin(), exact.end(), rows, [](double each) { return static_cast<T>(each); });
}

template <class T>
void make_directions(T* rows, std::int64_t count, std::int64_t length, std::uint64_t seed) {
  for (std::int64_t i = 0; i < count; ++i) {
    T* const row = rows + i * length;
    double norm = std::sqrt(dot(row, row, length));
    if (!(norm > 0.0) || !std::isfinite(norm)) {
      std::uint64_t state = seed + static_cast<std::uint64_t>(i) * 0xd1342543de82ef95;
      std::generate(row, row + length, [&] { return static_cast<T>(next_value(state)); });
      norm = std::sqrt(dot(row, row, length));
    }
    for (std::int64_t j = 0; j < length; ++j) row[j] = static_cast<T>(row[j] / norm);
  }
}

// FNV-1a.
std::uint64_t seed_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return hash;
}

template <class T>
void reconstruct(T* gradient, T* residual, const Factors<T>& factors, std::int64_t begin, std::int64_t end) {
  std::array<T, kBlock> sums;
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < factors.columns; column += kBlock) {
      const std::int64_t size = std::min(kBlock, factors.columns - column);
      T* const values = gradient + row * factors.columns + column;
      if (residual != nullptr) {
        product(sums.data(), factors, factors.own, row, column, size);
        T* const rest = residual + row * factors.columns + column;
        for (std::int64_t j = 0; j < size; ++j) rest[j] = values[j] - sums[static_cast<std::size_t>(j)];
      }
      product(sums.data(), factors, factors.all, row, column, size);
      std::copy(sums.begin(), sums.begin() + size, values);
    }
  }
}

template void make_orthonormal(float*, std::int64_t, std::int64_t);
template void make_orthonormal(double*, std::int64_t, std::int64_t);
template void make_directions(float*, std::int64_t, std::int64_t, std::uint64_t);
template void make_directions(double*, std::int64_t, std::int64_t, std::uint64_t);
template void reconstruct(float*, float*, const Factors<float>&, std::int64_t, std::int64_t);
template void reconstruct(double*, double*, const Factors<double>&, std::int64_t, std::int64_t);

}  // namespace rueda
