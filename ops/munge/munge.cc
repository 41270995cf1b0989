// SPDX-License-Identifier: Apache-2.0
#include "ops/munge/munge.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

namespace rueda {
namespace {

// As munge.h numbers them; the library's interface has kept these numbers since its version 2.
enum Option : int { kCipher = 0, kSocket = 8, kUidRestriction = 9 };
enum Failure : int {
  kNone = 0,
  kSocketError = 6,
  kExpired = 15,
  kRewound = 16,
  kReplayed = 17,
  kUnauthorized = 18
};
constexpr int kAes128 = 4;

using Context = void;

// Purpose: the functions of libmunge. Null where it is not installed.
struct Library {
  Context* (*create)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  int (*set)(Context*, int option, ...) = nullptr;
  const char* (*words)(int failure) = nullptr;
  int (*encode)(char** credential, Context*, const void* bytes, int count) = nullptr;
  int (*decode)(const char* credential, Context*, void** bytes, int* count, uid_t*, gid_t*) = nullptr;

  explicit operator bool() const {
    return create != nullptr && destroy != nullptr && set != nullptr && words != nullptr &&
           encode != nullptr && decode != nullptr;
  }
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

Library load_library() {
  Library library;
  void* const file = ::dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return library;
  find(file, "munge_ctx_create", library.create);
  find(file, "munge_ctx_destroy", library.destroy);
  find(file, "munge_ctx_set", library.set);
  find(file, "munge_strerror", library.words);
  find(file, "munge_encode", library.encode);
  find(file, "munge_decode", library.decode);
  return library;
}

const Library& library() {
  static const Library loaded = load_library();
  return loaded;
}

// Purpose: libmunge writes to a socket as if it were a file. While this object lives, a daemon that goes away
// meanwhile sends this thread no signal that would end the process.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending{};
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::sigpending(&pending);
    pending_before_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec no_time{};
    if (!pending_before_) ::sigtimedwait(&pipe_, nullptr, &no_time);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool pending_before_ = false;
};

using OwnedContext = std::unique_ptr<Context, void (*)(Context*)>;

// Null where there is no memory, or an option is refused.
OwnedContext context_for(const std::string& socket) {
  OwnedContext context(library().create(), library().destroy);
  if (context && !socket.empty() && library().set(context.get(), kSocket, socket.c_str()) != kNone)
    context.reset();
  return context;
}

MungeText no_munge(std::string why) { return {MungeText::Outcome::no_munge, "", std::move(why)}; }

}  // namespace

bool may_be_of_munge(const std::string& text) { return text.starts_with("MUNGE:") && text.ends_with(':'); }

MungeText seal_by_munge(const std::string& text, const std::string& socket) {
  if (!library()) return no_munge("libmunge.so.2 is not installed");
  const WithoutSigpipe no_signal;
  const OwnedContext context = context_for(socket);
  if (!context || library().set(context.get(), kUidRestriction, ::geteuid()) != kNone ||
      library().set(context.get(), kCipher, kAes128) != kNone)
    return no_munge("libmunge takes no options");
  char* credential = nullptr;
  const int failure =
      library().encode(&credential, context.get(), text.data(), static_cast<int>(text.size()));
  const std::unique_ptr<char, void (*)(void*)> owner(credential, std::free);
  if (failure != kNone || credential == nullptr) return no_munge(library().words(failure));
  return {MungeText::Outcome::good, credential, ""};
}

MungeText open_by_munge(const std::string& credential, const std::string& socket) {
  if (!library()) return no_munge("libmunge.so.2 is not installed");
  const WithoutSigpipe no_signal;
  const OwnedContext context = context_for(socket);
  if (!context) return no_munge("libmunge takes no options");
  void* bytes = nullptr;
  int count = 0;
  uid_t user = 0;
  gid_t group = 0;
  const int failure = library().decode(credential.c_str(), context.get(), &bytes, &count, &user, &group);
  const std::unique_ptr<void, void (*)(void*)> owner(bytes, std::free);
  if (failure == kSocketError) return no_munge(library().words(failure));
  if (failure == kUnauthorized) return {MungeText::Outcome::of_another_user, "", library().words(failure)};
  // Each host opens a credential once; its other ranks hear that it is used, and get what it carries.
  const bool opened = failure == kNone || failure == kExpired || failure == kRewound || failure == kReplayed;
  if (!opened || bytes == nullptr || count <= 0)
    return {MungeText::Outcome::unreadable, "", library().words(failure)};
  if (user != ::geteuid())
    return {MungeText::Outcome::of_another_user, "", fmt::format("it was made by user {}", user)};
  return {MungeText::Outcome::good,
          std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count)), ""};
}

}  // namespace rueda
