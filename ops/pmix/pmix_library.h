// SPDX-License-Identifier: Apache-2.0
// The few types and functions of PMIx that Rueda uses. libpmix is loaded when it is needed first; nothing of
// it is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rueda {

// As pmix_common.h declares them; they have been the same since version 2 of the library.
using PmixStatus = int;
inline constexpr PmixStatus kPmixSuccess = 0;

struct PmixProcess {
  static constexpr std::uint32_t kAll = UINT32_MAX - 1;
  char job[256] = {};
  std::uint32_t rank = 0;
};

struct PmixValue {
  static constexpr std::uint16_t kString = 3, kUint32 = 14;
  std::uint16_t type = 0;
  union {
    char* string;
    std::uint32_t number;
    std::byte room[24];  // for the largest of its types
  };
  PmixValue() : room{} {}
};
static_assert(offsetof(PmixValue, string) == 8 && sizeof(PmixValue) == 32);

inline constexpr std::uint8_t kPmixGlobal = 3;  // a value is for all processes of the job
inline constexpr const char* kPmixJobSize = "pmix.job.size";
inline constexpr const char* kPmixLocalSize = "pmix.local.size";

// Options of a call; none is ever given.
struct PmixOption;

// On a thread of libpmix. The value is gone when it returns.
using PmixTold = void (*)(PmixStatus status, PmixValue* value, void* context);

// Purpose: the functions of libpmix. A plain table.
struct PmixLibrary {
  PmixStatus (*init)(PmixProcess* self, PmixOption*, std::size_t) = nullptr;
  PmixStatus (*finalize)(const PmixOption*, std::size_t) = nullptr;
  PmixStatus (*put)(std::uint8_t scope, const char* key, PmixValue*) = nullptr;
  PmixStatus (*commit)() = nullptr;
  // The value is the caller's, to be freed.
  PmixStatus (*get)(const PmixProcess*, const char* key, const PmixOption*, std::size_t,
                    PmixValue**) = nullptr;
  PmixStatus (*get_later)(const PmixProcess*, const char* key, const PmixOption*, std::size_t, PmixTold,
                          void* context) = nullptr;
  const char* (*words)(PmixStatus) = nullptr;
};

// Throws BackendError where libpmix is not installed.
const PmixLibrary& pmix_library();

}  // namespace rueda
