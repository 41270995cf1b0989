// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_hooks.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "frameworks/torch/reducer/backward_errors.h"

namespace rueda {
namespace {

namespace autograd = torch::autograd;

// Purpose: calls the listener before a gradient changes. Owned by the accumulation node.
class BeforeHook final : public autograd::FunctionPreHook {
 public:
  BeforeHook(GradientListener& listener, std::size_t index) : listener_(listener), index_(index) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    try {
      listener_.before_accumulation(index_);
    } catch (...) {
      rethrow_from_backward_pass();
    }
    return gradients;
  }

 private:
  GradientListener& listener_;
  std::size_t index_;
};

// Purpose: calls the listener after a gradient has changed. Owned by the accumulation node.
class AfterHook final : public autograd::FunctionPostHook {
 public:
  AfterHook(GradientListener& listener, std::size_t index) : listener_(listener), index_(index) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list&) override {
    try {
      listener_.after_accumulation(index_);
    } catch (...) {
      rethrow_from_backward_pass();
    }
    return outputs;
  }

 private:
  GradientListener& listener_;
  std::size_t index_;
};

// Purpose: runs an action once, at the first of several nodes that a pass reaches. Owned by those nodes.
class Once final : public autograd::FunctionPreHook {
 public:
  struct Action {
    std::weak_ptr<const void> owner;
    std::function<void()> run;
  };
  explicit Once(std::shared_ptr<Action> action) : action_(std::move(action)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    const std::function<void()> run = std::exchange(action_->run, nullptr);
    if (!run || action_->owner.expired()) return gradients;
    try {
      run();
    } catch (...) {
      rethrow_from_backward_pass();
    }
    return gradients;
  }
  bool spent() const { return action_->run == nullptr; }

 private:
  std::shared_ptr<Action> action_;
};

// Autograd has a node accumulate on the stream that was current when it was made: one that is held for long
// would take gradients, and our operations, out of the stream on which the program computes now, and out of a
// graph.
bool on_another_stream(autograd::Node& node, const at::Tensor& parameter) {
  if (parameter.device().is_cpu()) return false;
  const c10::impl::VirtualGuardImpl guard(parameter.device().type());
  return node.stream() != guard.getStream(parameter.device());
}

}  // namespace

GradientHooks::GradientHooks(GradientListener& listener, std::vector<at::Tensor> parameters)
    : listener_(listener) {
  attachments_.reserve(parameters.size());
  for (at::Tensor& parameter : parameters) attachments_.emplace_back().parameter = std::move(parameter);
  refresh();
}

GradientHooks::~GradientHooks() {
  for (Attachment& attachment : attachments_) detach(attachment);
}

std::size_t GradientHooks::refresh() {
  std::size_t unheard = 0;
  for (std::size_t index = 0; index < attachments_.size(); ++index) {
    Attachment& attachment = attachments_[index];
    if (!attachment.parameter.requires_grad()) continue;
    if (attachment.node) {
      const bool replaced = autograd::impl::try_get_grad_accumulator(attachment.parameter) != attachment.node;
      if (!replaced && !on_another_stream(*attachment.node, attachment.parameter)) continue;
      detach(attachment);
      if (replaced) ++unheard;
    } else if (attachment.parameter.grad().defined()) {
      ++unheard;
    }
    attach(index);
  }
  return unheard;
}

void GradientHooks::attach(std::size_t index) {
  Attachment& attachment = attachments_[index];
  attachment.node = autograd::impl::grad_accumulator(attachment.parameter);
  auto before = std::make_unique<BeforeHook>(listener_, index);
  attachment.before = before.get();
  attachment.node->add_pre_hook(std::move(before));
  attachment.after = attachment.node->add_post_hook(std::make_unique<AfterHook>(listener_, index));
}

void GradientHooks::detach(Attachment& attachment) {
  if (!attachment.node) return;
  std::erase_if(attachment.node->pre_hooks(),
                [&](const auto& hook) { return hook.get() == attachment.before; });
  attachment.node->del_post_hook(attachment.after);
  attachment.node.reset();
}

int current_backward_pass() { return autograd::get_current_graph_task_id(); }

void at_end_of_backward_pass(std::function<void()> action) {
  autograd::Engine::get_default_engine().queue_callback([action = std::move(action)] {
    try {
      action();
    } catch (...) {
      rethrow_from_backward_pass();
    }
  });
}

// The pass has evaluated all its nodes: one that is being evaluated belongs to a pass around it.
bool inside_another_backward_pass() { return autograd::get_current_node() != nullptr; }

void in_backward_pass_around(std::weak_ptr<const void> owner, std::function<void()> action) {
  const auto shared = std::make_shared<Once::Action>(std::move(owner), std::move(action));
  for (const autograd::Edge& edge : autograd::get_current_node()->next_edges()) {
    if (!edge.is_valid()) continue;
    // A node may live for many passes (a parameter's, a retained graph's). It does not run now.
    std::erase_if(edge.function->pre_hooks(), [](const auto& hook) {
      const auto* once = dynamic_cast<const Once*>(hook.get());
      return once != nullptr && once->spent();
    });
    edge.function->add_pre_hook(std::make_unique<Once>(shared));
  }
}

}  // namespace rueda
