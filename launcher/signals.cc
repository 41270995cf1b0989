// SPDX-License-Identifier: Apache-2.0
#include "launcher/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace rueda {

Descriptor catch_signals(std::initializer_list<int> signals) {
  sigset_t caught;
  ::sigemptyset(&caught);
  for (int signal : signals) {
    ::signal(signal, SIG_DFL);  // whoever started us may have had them ignored
    ::sigaddset(&caught, signal);
  }
  ::sigprocmask(SIG_BLOCK, &caught, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Descriptor(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

int next_signal(const Descriptor& signals) {
  signalfd_siginfo came{};
  return ::read(signals.number(), &came, sizeof came) == sizeof came ? static_cast<int>(came.ssi_signo) : 0;
}

}  // namespace rueda
