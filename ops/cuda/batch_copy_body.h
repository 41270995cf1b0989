// SPDX-License-Identifier: Apache-2.0
// The part of a BatchCopy that each thread of a device does. The tests compile it for the host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/base/error.h"
#include "ops/cuda/batch_copy.h"
#include "ops/kernels/half.h"

#ifdef __CUDACC__
#define RUEDA_ON_DEVICES __host__ __device__
#else
#define RUEDA_ON_DEVICES
#endif

namespace rueda {

// How elements are stored, and what is computed in.
struct Float16Element : kernels::Float16 {
  using Wide = float;
};
struct Bfloat16Element : kernels::Bfloat16 {
  using Wide = float;
};
template <class T>
struct PlainElement {
  using Stored = T;
  using Wide = T;
  RUEDA_ON_DEVICES static constexpr T widen(T value) { return value; }
  RUEDA_ON_DEVICES static constexpr T narrow(T value) { return value; }
};
using ByteElement = PlainElement<std::uint8_t>;

// 16 bytes at most, which a device loads and stores by one instruction.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Lanes {
  T values[kCount];
};

template <class From, class To, bool kConverts>
struct CopyByThreads {
  using A = typename From::Stored;
  using B = typename To::Stored;
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));
  using In = Lanes<A, kLanes>;
  using Out = Lanes<B, kLanes>;

  RUEDA_ON_DEVICES static B element(A value, double factor) {
    if constexpr (kConverts) {
      using Wide = typename From::Wide;
      return To::narrow(From::widen(value) * static_cast<Wide>(factor));
    } else {
      return value;
    }
  }

  // The share of thread number `thread` of `threads`. Elements that are not aligned go one by one.
  RUEDA_ON_DEVICES static void run(const CopyPiece& piece, double factor, std::int64_t thread,
                                   std::int64_t threads) {
    const A* from = static_cast<const A*>(piece.from);
    B* to = static_cast<B*>(piece.to);
    const bool aligned = reinterpret_cast<std::uintptr_t>(from) % alignof(In) == 0 &&
                         reinterpret_cast<std::uintptr_t>(to) % alignof(Out) == 0;
    const std::int64_t vectors = aligned ? piece.elements / kLanes : 0;
    for (std::int64_t i = thread; i < vectors; i += threads) {
      const In in = reinterpret_cast<const In*>(from)[i];
      Out out;
      for (int k = 0; k < kLanes; ++k) out.values[k] = element(in.values[k], factor);
      reinterpret_cast<Out*>(to)[i] = out;
    }
    for (std::int64_t i = vectors * kLanes + thread; i < piece.elements; i += threads)
      to[i] = element(from[i], factor);
  }
};

// Calls use.operator()<CopyByThreads<...>>(bytes) for what `copy` is. Of plain copies elements are bytes:
// so many of them make one of the copy's.
template <class Use>
void choose_copy(const BatchCopy& copy, Use use) {
  using Float = PlainElement<float>;
  using Double = PlainElement<double>;
  const DataType from = copy.from_type, to = copy.to_type;
  RUEDA_ASSERT(BatchCopy::possible(from, to, copy.factor));
  if (from == to && copy.factor == 1.0) {
    use.template operator()<CopyByThreads<ByteElement, ByteElement, false>>(
        static_cast<std::int64_t>(size_of(from)));
  } else if (from == DataType::float64) {
    use.template operator()<CopyByThreads<Double, Double, true>>(1);
  } else if (from == DataType::float32 && to == DataType::float32) {
    use.template operator()<CopyByThreads<Float, Float, true>>(1);
  } else if (from == DataType::float32 && to == DataType::float16) {
    use.template operator()<CopyByThreads<Float, Float16Element, true>>(1);
  } else if (from == DataType::float32) {
    use.template operator()<CopyByThreads<Float, Bfloat16Element, true>>(1);
  } else if (from == DataType::float16 && to == DataType::float32) {
    use.template operator()<CopyByThreads<Float16Element, Float, true>>(1);
  } else if (from == DataType::float16) {
    use.template operator()<CopyByThreads<Float16Element, Float16Element, true>>(1);
  } else if (to == DataType::float32) {
    use.template operator()<CopyByThreads<Bfloat16Element, Float, true>>(1);
  } else {
    use.template operator()<CopyByThreads<Bfloat16Element, Bfloat16Element, true>>(1);
  }
}

}  // namespace rueda
