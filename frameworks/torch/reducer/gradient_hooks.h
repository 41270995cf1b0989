// SPDX-License-Identifier: Apache-2.0
// The hooks by which autograd tells that a parameter's gradient is there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace rueda {

// A node of autograd's graph, shared: a std::shared_ptr in torch 2.11, a c10::intrusive_ptr in torch 2.15.
using NodePointer = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

// The hooks call this, on whatever thread runs the backward pass. An exception comes out of backward().
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void before_accumulation(
      std::size_t index) = 0;  // parameter `index` is about to change its gradient
  virtual void after_accumulation(std::size_t index) = 0;  // it has changed it
};

// Purpose: hooks on the gradient accumulation of a list of parameters. Autograd keeps an accumulation node
// only while a graph uses it, so the nodes are kept here. Made, refreshed and destroyed by the thread that
// owns the optimizer, never during a backward pass over these parameters. Removes its hooks when destroyed.
class GradientHooks {
 public:
  GradientHooks(GradientListener& listener, std::vector<at::Tensor> parameters);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Hooks parameters that have come to require a gradient, those with a node that autograd has replaced (a
  // module converted to another dtype), and, unless some graph holds it, those with a node of another stream
  // of the device than is current. Returns the number of backward passes that may have gone unheard: of the
  // replaced, and of the new ones that have a gradient already.
  std::size_t refresh();

 private:
  struct Attachment {
    at::Tensor parameter;
    NodePointer node;
    const void* before = nullptr;  // identifies the hook, to remove it
    std::uintptr_t after = 0;
  };
  void attach(std::size_t index);
  static void detach(Attachment& attachment);

  GradientListener& listener_;
  std::vector<Attachment> attachments_;
};

// In a hook: the number of the backward pass that called it, unique in the process.
int current_backward_pass();
// In a hook: have `action` run when that pass ends, before backward() returns; in such an action: after all
// others that it has by then. Not run when the pass fails.
void at_end_of_backward_pass(std::function<void()> action);
// In such an action: whether that pass runs inside of another, as those of reentrant checkpoints do.
bool inside_another_backward_pass();
// Call it from an action of an inner pass. A hook of the outer pass runs `action` once if `owner` still
// lives. Without a further hook it never runs.
void in_backward_pass_around(std::weak_ptr<const void> owner, std::function<void()> action);

}  // namespace rueda
