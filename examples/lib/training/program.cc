// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/program.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "examples/lib/training/job_start.h"
#include "examples/lib/training/options/flags.h"
#include "rueda/error.h"

namespace rueda::examples {
namespace {

// Gradients of many megabytes come and go at every step: keep their pages instead of giving them back to the
// system.
void keep_freed_memory() {
  constexpr int kLargest = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, kLargest);
}

int failed(const char* why, int status) {
  fmt::print(stderr, "error: {}\n", why);
  return status;
}

}  // namespace

int run_program(const std::function<int()>& body) {
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
  try {
    return body();
  } catch (const AlreadyTold&) {
    return 1;
  } catch (const LeftJob&) {  // the others train on
    return 0;
  } catch (const UsageError& error) {
    return failed(error.what(), 2);
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace(), 1);
  } catch (const std::exception& error) {
    return failed(error.what(), 1);
  }
}

}  // namespace rueda::examples
