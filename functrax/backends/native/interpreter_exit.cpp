// See interpreter_exit.h.

#include "interpreter_exit.h"

#include <Python.h>
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

PyObject* end(PyObject*, PyObject*) {
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
  Ref module(PyImport_ImportModule("atexit"));
  Ref function(PyCFunction_New(&end_method, nullptr));
  if (!module || !function) return false;
  Ref result(PyObject_CallMethod(module.get(), "register", "O", function.get()));
  return static_cast<bool>(result);
}

}  // namespace functrax::interpreter_exit
