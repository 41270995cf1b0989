// SPDX-License-Identifier: Apache-2.0
// A library that CUDA loads into a program where CUDA_INJECTION64_PATH names it. It counts the calls in which
// the host waits for the device, and writes the counts at the end to the file RUEDA_HOST_WAITS, with the
// process's number behind its name.
#include <cupti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Call {
  CUpti_CallbackId id;
  const char* name;
  std::atomic<long> count{0};
};

std::array<Call, 7> calls{{{CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize"},
                           {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz, "cuStreamSynchronize_ptsz"},
                           {CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, "cuEventSynchronize"},
                           {CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, "cuCtxSynchronize"},
                           {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2, "cuMemcpyDtoH"},
                           {CUPTI_DRIVER_TRACE_CBID_cuMemcpy, "cuMemcpy"},
                           {CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, "cuMemFree"}}};

void CUPTIAPI count(void* /*data*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId id, const void* about) {
  if (static_cast<const CUpti_CallbackData*>(about)->callbackSite != CUPTI_API_ENTER) return;
  for (Call& call : calls)
    if (call.id == id) ++call.count;
}

void write_counts() {
  const char* name = std::getenv("RUEDA_HOST_WAITS");
  if (name == nullptr) return;
  std::FILE* file = std::fopen((name + ("." + std::to_string(getpid()))).c_str(), "w");
  if (file == nullptr) return;
  std::fputs("{", file);
  for (const Call& call : calls)
    std::fprintf(file, "%s\"%s\": %ld", &call == calls.data() ? "" : ", ", call.name, call.count.load());
  std::fputs("}\n", file);
  std::fclose(file);
}

}  // namespace

// CUDA calls it when it starts; anything but 1 is an error.
extern "C" int InitializeInjection() {
  CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, &count, nullptr) != CUPTI_SUCCESS) return 0;
  for (const Call& call : calls)
    if (cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call.id) != CUPTI_SUCCESS) return 0;
  std::atexit(&write_counts);
  return 1;
}
