// See recorder.h. All of it happens under the GIL, but for the question whether it is on.

#include "recorder.h"

#include <time.h>

#include <utility>

#include "program.h"
#include "reference.h"
#include "tasks.h"

namespace functrax::recorder {

std::atomic<bool> recording{false};

namespace {

constexpr std::size_t kMost = 2'000'000;  // events and calls that are kept

struct Call {
  PyObject* function;  // owned
  unsigned long thread;
  std::int64_t begin, end;
};

struct Record {
  PyObject* program;  // owned
  unsigned long thread;
  std::int64_t begin, end;
  std::vector<Event> events;
};

std::vector<Call> calls;
std::vector<Record> runs;
std::size_t kept = 0, left_out = 0;

bool has_room(std::size_t more) {
  const bool fits = kept + more <= kMost;
  (fits ? kept : left_out) += more;
  return fits;
}

void forget() {
  for (const Call& call : std::exchange(calls, {})) Py_DECREF(call.function);
  for (const Record& run : std::exchange(runs, {})) Py_DECREF(run.program);
  kept = left_out = 0;
}

PyObject* as_tuple(const Call& call) {
  return Py_BuildValue("OkLL", call.function, call.thread, static_cast<long long>(call.begin),
                       static_cast<long long>(call.end));
}

PyObject* as_tuple(const Event& e) {
  return Py_BuildValue("iiLL", e.program, e.instruction, static_cast<long long>(e.begin),
                       static_cast<long long>(e.end));
}

PyObject* as_tuple(const Record& run);

template <typename Items>
PyObject* as_list(const Items& items) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (std::size_t k = 0; list && k < items.size(); ++k) {
    PyObject* item = as_tuple(items[k]);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), item);
  }
  return list.release();
}

PyObject* as_tuple(const Record& run) {
  Ref events(as_list(run.events));
  if (!events) return nullptr;
  return Py_BuildValue("OkLLO", run.program, run.thread, static_cast<long long>(run.begin),
                       static_cast<long long>(run.end), events.get());
}

}  // namespace

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

void add_call(PyObject* function, std::int64_t begin) {
  if (!is_on() || !has_room(1)) return;
  calls.push_back({Py_NewRef(function), PyThread_get_thread_ident(), begin, now()});
}

void add_run_of(unsigned long thread, PyObject* program, std::int64_t begin, std::int64_t end,
                std::vector<Event> events) {
  if (!is_on() || !has_room(events.size() + 1)) return;
  runs.push_back({Py_NewRef(program), thread, begin, end, std::move(events)});
}

void add_run_of(unsigned long thread, const program::Program& program, std::int64_t begin,
                std::int64_t end, std::vector<Event> events) {
  if (program.source != nullptr) {
    add_run_of(thread, program.source, begin, end, std::move(events));
    return;
  }
  if (program.origins.empty()) return;
  // Of each part a run, from the begin of its first instruction to the end of its last.
  std::vector<std::pair<PyObject*, std::vector<Event>>> parts;
  for (const Event& event : events) {
    const program::Origin& from = program.origins[event.instruction];
    if (parts.size() <= static_cast<std::size_t>(from.part)) parts.resize(from.part + 1);
    parts[from.part].first = from.source;
    parts[from.part].second.push_back({from.program, from.instruction, event.begin, event.end});
  }
  for (auto& [source, own] : parts) {
    if (source == nullptr) continue;
    const std::int64_t first = own.front().begin, last = own.back().end;
    add_run_of(thread, source, first, last, std::move(own));
  }
}

void add_run(const program::Program& program, std::int64_t begin, std::vector<Event> events) {
  add_run_of(PyThread_get_thread_ident(), program, begin, now(), std::move(events));
}

PyObject* start(PyObject*, PyObject*) {
  forget();
  recording.store(true);
  Py_RETURN_NONE;
}

PyObject* stop(PyObject*, PyObject*) {
  Ref drained(tasks::drain(nullptr, nullptr));  // which hands over what they have recorded
  if (!drained) return nullptr;
  recording.store(false);
  Ref call_list(as_list(calls)), run_list(as_list(runs));
  if (!call_list || !run_list) return nullptr;
  PyObject* result =
      Py_BuildValue("OOn", call_list.get(), run_list.get(), static_cast<Py_ssize_t>(left_out));
  forget();
  return result;
}

}  // namespace functrax::recorder
