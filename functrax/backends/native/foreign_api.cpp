// What the runtime offers handlers; see foreign.h. Start at api.

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "foreign.h"

struct functrax_ffi_error {
  std::int32_t code;
  std::string message;
};

// Who waits for it, and who finishes it, own it together.
struct functrax_ffi_future {
  std::mutex lock;
  std::condition_variable finishes;
  bool finished = false;
  functrax_ffi_error* error = nullptr;
  std::atomic<int> owners{2};
};

namespace functrax::foreign {
namespace {

functrax_ffi_error* failed(std::int32_t code, const char* message) {
  return new functrax_ffi_error{code, message};
}

functrax_ffi_error* new_error(functrax_ffi_new_error* args) {
  return failed(args->code, args->message == nullptr ? "" : args->message);
}

void error_message(functrax_ffi_error_message* args) {
  args->message = args->error->message.c_str();
}

void free_error(functrax_ffi_old_error* args) { delete args->error; }

functrax_ffi_error* register_handler(void*) {
  return failed(FUNCTRAX_FFI_UNIMPLEMENTED,
                "handlers are registered by functrax.ffi.register_ffi_target");
}

functrax_ffi_error* stream(functrax_ffi_stream* args) {
  args->stream = nullptr;
  return failed(FUNCTRAX_FFI_UNIMPLEMENTED, "the CPU has no stream");
}

struct Type {
  std::int64_t id;
  void (*destroy)(void*);
};

struct Types {
  std::mutex lock;
  std::map<std::string, Type> by_name;
  std::int64_t last = 0;
};

Types& types() {
  static auto* all = new Types;  // handlers may ask until the process has ended
  return *all;
}

functrax_ffi_error* new_type(functrax_ffi_new_type* args) {
  void (*destroy)(void*) = args->info == nullptr ? nullptr : args->info->destroy;
  try {
    args->id->id = register_type({args->name.data, args->name.size}, args->id->id, destroy);
  } catch (const std::invalid_argument& error) {
    return failed(FUNCTRAX_FFI_ALREADY_EXISTS, error.what());
  }
  return nullptr;
}

functrax_ffi_error* context_data(functrax_ffi_context_data* args) {
  args->data = nullptr;
  return failed(FUNCTRAX_FFI_NOT_FOUND, "the context has no data of this type");
}

// The place of a state; null, and an error, where there is none.
State* state_of(const functrax_ffi_state* args, functrax_ffi_error*& error) {
  if (args->size < FUNCTRAX_FFI_SIZE(functrax_ffi_state, state)) {
    error = failed(FUNCTRAX_FFI_UNIMPLEMENTED,
                   "states need a handler that is built with version 0.3 of the interface");
    return nullptr;
  }
  const bool known = args->stage >= 0 && args->stage < 3;
  State* found = known ? args->context->states[args->stage] : nullptr;
  if (found == nullptr) {
    error = failed(FUNCTRAX_FFI_FAILED_PRECONDITION, "there is no state of this stage");
  }
  return found;
}

functrax_ffi_error* set_state(functrax_ffi_state* args) {
  functrax_ffi_error* error = nullptr;
  State* state = state_of(args, error);
  if (state == nullptr) return error;
  if (state->object != nullptr) {
    return failed(FUNCTRAX_FFI_ALREADY_EXISTS, "the state is set already");
  }
  Types& all = types();
  std::lock_guard<std::mutex> lock(all.lock);
  for (const auto& [name, type] : all.by_name) {
    if (type.id != args->id->id || args->id->id == 0) continue;
    state->object = args->state;
    state->type = type.id;
    state->destroy = type.destroy;
    return nullptr;
  }
  return failed(FUNCTRAX_FFI_FAILED_PRECONDITION,
                "the type of the state is not registered: register_ffi_type");
}

functrax_ffi_error* get_state(functrax_ffi_state* args) {
  functrax_ffi_error* error = nullptr;
  const State* state = state_of(args, error);
  if (state == nullptr) return error;
  if (state->object == nullptr) return failed(FUNCTRAX_FFI_NOT_FOUND, "the state is not set");
  if (state->type != args->id->id) {
    return failed(FUNCTRAX_FFI_INVALID_ARGUMENT, "the state is of another type");
  }
  args->state = state->object;
  return nullptr;
}

functrax_ffi_error* allocate(functrax_ffi_new_memory* args) {
  std::size_t alignment = sizeof(void*);
  while (alignment < args->alignment) alignment *= 2;
  args->data = nullptr;
  if (posix_memalign(&args->data, alignment, args->bytes == 0 ? 1 : args->bytes) == 0) {
    return nullptr;
  }
  return failed(FUNCTRAX_FFI_RESOURCE_EXHAUSTED, "there is no memory");
}

functrax_ffi_error* deallocate(functrax_ffi_old_memory* args) {
  std::free(args->data);
  return nullptr;
}

// Tasks run in the calling thread, as the interface allows.
functrax_ffi_error* schedule(functrax_ffi_task* args) {
  args->task(args->data);
  return nullptr;
}

functrax_ffi_error* threads(functrax_ffi_threads* args) {
  *args->count = 1;
  return nullptr;
}

void release(functrax_ffi_future* future) {
  if (future->owners.fetch_sub(1) == 1) delete future;
}

functrax_ffi_error* new_future(functrax_ffi_future_args* args) {
  args->future = new functrax_ffi_future;
  return nullptr;
}

void finish(functrax_ffi_future* future, functrax_ffi_error* error) {
  {
    std::lock_guard<std::mutex> lock(future->lock);
    future->error = error;
    future->finished = true;
    future->finishes.notify_all();
  }
  release(future);
}

functrax_ffi_error* finish_future(functrax_ffi_future_args* args) {
  finish(args->future, nullptr);
  return nullptr;
}

functrax_ffi_error* fail_future(functrax_ffi_future_args* args) {
  finish(args->future, args->error);
  return nullptr;
}

functrax_ffi_error* run(functrax_ffi_run* args) {
  args->run = args->context->run;
  return nullptr;
}

functrax_ffi_error* device(functrax_ffi_device* args) {
  args->ordinal = 0;
  return nullptr;
}

functrax_ffi_error* unknown(void*) {
  return failed(FUNCTRAX_FFI_UNIMPLEMENTED,
                "a function of the interface that is newer than its version 0.3");
}

using Unknown = functrax_ffi_error*(void*);
constexpr int kNewer = 64;  // functions that a newer header may know

// Behind the functions that are known stand some that fail, for handlers that ask no version.
struct Known {
  functrax_ffi_api api;
  Unknown* newer[kNewer];
};

Known known() {
  Known all{{FUNCTRAX_FFI_SIZE(functrax_ffi_api, device),
             nullptr,
             {FUNCTRAX_FFI_SIZE(functrax_ffi_version, minor), nullptr, FUNCTRAX_FFI_MAJOR,
              FUNCTRAX_FFI_MINOR},
             nullptr,
             new_error,
             error_message,
             free_error,
             register_handler,
             stream,
             new_type,
             context_data,
             set_state,
             get_state,
             allocate,
             deallocate,
             schedule,
             threads,
             new_future,
             finish_future,
             fail_future,
             run,
             device},
            {}};
  for (Unknown*& function : all.newer) function = unknown;
  return all;
}

}  // namespace

const functrax_ffi_api& api() {
  static const Known all = known();
  return all.api;
}

std::pair<std::int32_t, std::string> take(functrax_ffi_error* error) {
  std::pair<std::int32_t, std::string> found(error->code, std::move(error->message));
  delete error;
  return found;
}

functrax_ffi_error* wait(functrax_ffi_future* future) {
  functrax_ffi_error* error;
  {
    std::unique_lock<std::mutex> lock(future->lock);
    future->finishes.wait(lock, [&] { return future->finished; });
    error = future->error;
  }
  release(future);
  return error;
}

std::int64_t register_type(const std::string& name, std::int64_t id, void (*destroy)(void*)) {
  Types& all = types();
  std::lock_guard<std::mutex> lock(all.lock);
  const auto found = all.by_name.find(name);
  if (found != all.by_name.end()) {
    if (id != 0 && id != found->second.id) {
      throw std::invalid_argument("the type " + name + " is registered with another number");
    }
    return found->second.id;
  }
  for (const auto& [other, type] : all.by_name) {
    if (id != 0 && type.id == id) {
      throw std::invalid_argument("the number of the type " + name + " is that of " + other);
    }
  }
  if (id == 0) id = all.last + 1;
  all.last = std::max(all.last, id);
  all.by_name[name] = {id, destroy};
  return id;
}

}  // namespace functrax::foreign
