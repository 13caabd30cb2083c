// See interpreter_exit.h.

#include "interpreter_exit.h"

#include <Python.h>
#include <frameobject.h>  // PyFrame_GetBack, in Python 3.10
#include <pthread.h>

#include <chrono>
#include <thread>

#include "reference.h"
#include "tasks.h"

namespace functrax::interpreter_exit {

std::atomic<bool> ending{false};

namespace {

constexpr int kMostWaits = 2000;  // of a millisecond each

std::atomic<int> active{0};      // runs that have begun and not ended, nor gone to sleep
thread_local int of_thread = 0;  // those of this thread
std::atomic<std::thread::id> ending_thread;

void after_fork() { active.store(of_thread); }

bool called_at_end();

// Called when the frame `caller` may have come back from `atexit._run_exitfuncs`: what is
// registered before that is forgotten with the rest.
int look_again(void* caller) {
  auto* wanted = static_cast<PyObject*>(caller);
  Ref frame = Ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  bool within = false;
  while (frame && frame.get() != wanted && !within) {
    auto* inner = reinterpret_cast<PyFrameObject*>(frame.get());
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(inner)));
    within = frame.get() == wanted;
  }
  if (within && Py_AddPendingCall(look_again, caller) == 0) return 0;
  Py_DECREF(wanted);
  return called_at_end() ? 0 : -1;
}

PyObject* end(PyObject*, PyObject*) {
  // The interpreter calls this outside of Python code. Where Python code does, the end is to come.
  if (PyFrameObject* caller = PyEval_GetFrame()) {
    if (Py_AddPendingCall(look_again, Py_NewRef(reinterpret_cast<PyObject*>(caller))) != 0) {
      Py_DECREF(caller);
      PyErr_SetString(PyExc_RuntimeError, "functrax: too many calls are pending");
      return nullptr;
    }
    Py_RETURN_NONE;
  }
  tasks::stop();
  ending_thread.store(std::this_thread::get_id());
  ending.store(true);
  PyThreadState* saved = PyEval_SaveThread();
  for (int k = 0; k < kMostWaits && active.load() > of_thread; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(saved);
  Py_RETURN_NONE;
}

PyMethodDef end_method = {"end", end, METH_NOARGS, "Stop the runs in other threads."};

// Has `end` called at the end; false with an error set.
bool called_at_end() {
  Ref module(PyImport_ImportModule("atexit"));
  Ref function(PyCFunction_New(&end_method, nullptr));
  if (!module || !function) return false;
  Ref result(PyObject_CallMethod(module.get(), "register", "O", function.get()));
  return static_cast<bool>(result);
}

}  // namespace

Active::Active() {
  ++of_thread;
  active.fetch_add(1, std::memory_order_relaxed);
}

Active::~Active() {
  active.fetch_sub(1, std::memory_order_relaxed);
  --of_thread;
}

bool must_stop() {
  return ending.load(std::memory_order_relaxed) &&
         ending_thread.load() != std::this_thread::get_id();
}

void sleep_for_good() {
  active.fetch_sub(of_thread);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

bool arrange() {
  pthread_atfork(nullptr, nullptr, after_fork);
  return called_at_end();
}

}  // namespace functrax::interpreter_exit
