// Bindings of functrax._native, and nothing else: every topic has a file of its own.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "blas_threads.h"
#include "boundary.h"
#include "buffer.h"
#include "buffer_exporter.h"
#include "cuda_array.h"
#include "cuda_driver.h"
#include "cuda_executable.h"
#include "cuda_gpu.h"
#include "eager_call.h"
#include "eager_gradient.h"
#include "eager_recipe.h"
#include "eager_record.h"
#include "eager_run.h"
#include "eager_state.h"
#include "eager_stress.h"
#include "eager_tape.h"
#include "eager_value.h"
#include "executable.h"
#include "explained.h"
#include "foreign.h"
#include "inputs.h"
#include "interpreter_exit.h"
#include "jit_caller.h"
#include "library.h"
#include "object_loader.h"
#include "pool.h"
#include "pytree.h"
#include "pytree_map.h"
#include "ready.h"
#include "recorder.h"
#include "subnormals.h"
#include "tasks.h"
#include "thread_pool.h"
#include "thread_state.h"

namespace py = pybind11;

namespace {

// Hot functions are bound through the C API: a pybind11 dispatcher costs as much as a small tree.
template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
constexpr PyMethodDef fast(const char* name, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, doc};
}

void add_type(py::module_& module, const char* name, PyObject* type) {
  if (type == nullptr) throw py::error_already_set();
  module.add_object(name, py::reinterpret_steal<py::object>(type));
}

py::tuple pool_stats() {
  const functrax::pool::Stats s = functrax::pool::stats();
  return py::make_tuple(s.in_use, s.cached, s.peak, s.allocations, s.hits);
}

std::uint64_t pool_limit(std::optional<std::uint64_t> nbytes) {
  if (nbytes) functrax::pool::set_limit(*nbytes);
  return functrax::pool::limit();
}

std::uint64_t pool_most(std::optional<std::uint64_t> nbytes) {
  if (nbytes) functrax::pool::set_most(*nbytes);
  return functrax::pool::most();
}

void add_pool(py::module_& module) {
  module.def("pool_stats", pool_stats, "(in_use, cached, peak, allocations, hits)");
  module.def("pool_reset_peak", functrax::pool::reset_peak, "Let the peak begin anew.");
  module.def("pool_trim", functrax::pool::trim, py::arg("keep") = 0,
             "Return cached memory to the system.");
  module.def("pool_limit", pool_limit, py::arg("nbytes") = py::none(),
             "The most bytes that are cached.");
  module.def("pool_most", pool_most, py::arg("nbytes") = py::none(),
             "The most bytes that there may be, in use and cached.");
}

void set_num_threads(int threads) {
  if (threads < 1) throw py::value_error("set_num_threads: at least one thread runs");
  functrax::thread_pool::set_num_threads(threads);
}

void add_object_loader(py::module_& module) {
  namespace loader = functrax::object_loader;
  const py::metaclass plain(reinterpret_cast<PyObject*>(&PyType_Type));
  py::class_<loader::Code>(module, "ObjectCode", plain, "An object file as code in memory.")
      .def(py::init([](const py::bytes& object) {
        return std::make_unique<loader::Code>(std::string(object));
      }))
      .def_property_readonly("address", &loader::Code::address)
      .def_property_readonly("size", &loader::Code::size);
  module.def(
      "link_object",
      [](const py::bytes& object, std::uint16_t machine, std::size_t page_size) {
        const loader::Image image = loader::link(object, machine, page_size);
        const py::bytes bytes(reinterpret_cast<const char*>(image.bytes.data()),
                              image.bytes.size());
        py::list calls;
        for (const loader::Call& call : image.calls) {
          calls.append(py::make_tuple(call.place, py::bytes(call.name)));
        }
        return py::make_tuple(bytes, image.code_size, image.entry, py::tuple(calls));
      },
      "An object file's image: bytes, the size of its code, where it begins, and what it calls.");
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  namespace pytree = functrax::pytree;
  static PyMethodDef methods[] = {
      fast<pytree::configure>("pytree_configure", "Tells which class to build and what to call."),
      fast<pytree::flatten>("pytree_flatten", "The leaves and the structure of a tree."),
      fast<pytree::unflatten>("pytree_unflatten", "The tree of a structure and leaves."),
      fast<pytree::flatten_up_to>("pytree_flatten_up_to", "The subtrees at a structure's leaves."),
      fast<pytree::map>("pytree_map", "The tree of a function's results on leaves."),
      fast<pytree::equal>("pytree_equal", "Whether two structures are the same."),
      {"pytree_hash", pytree::hash, METH_O, "A hash that agrees with pytree_equal."},
      fast<functrax::inputs::as_value>("as_value", "What is given as an array."),
      fast<functrax::inputs::configure>("as_value_configure", "Tells what that needs."),
      fast<functrax::jit_caller::configure>("jit_configure", "Tells what jitted calls need."),
      fast<functrax::eager::configure>("eager_configure", "Tells what recording needs."),
      fast<functrax::eager::execute>("eager_execute", "Applies an operation, later."),
      fast<functrax::eager::node_of>("eager_node", "Records an operation."),
      {"eager_wrapper", functrax::eager::add_wrapper, METH_O, "Tells a class that holds an array."},
      {"eager_compute", functrax::eager::compute_values, METH_O, "Computes pending buffers."},
      {"eager_pending", functrax::eager::pending, METH_O, "What a pending buffer depends on."},
      {"eager_settle", functrax::eager::settle, METH_O, "Runs what reads a raw value."},
      {"eager_forget", functrax::eager::forget_programs, METH_NOARGS, "Forget programs."},
      {"eager_forget_recipes", functrax::eager::forget_recipes, METH_NOARGS, "Forget recipes."},
      {"eager_counts", functrax::eager::counts, METH_NOARGS, "How many operations ran."},
      fast<functrax::eager::stress::configure>("eager_stress", "Cuts at other places, as a test."),
      {"eager_line", functrax::eager::line, METH_NOARGS, "The line of a new operation."},
      fast<functrax::eager::apply_on_tape>("eager_tape_apply", "Applies an operation to tracers."),
      fast<functrax::eager::configure_tape>("eager_tape_configure", "Tells what tapes need."),
      fast<functrax::eager::gradient>("eager_gradient", "A value and its gradients."),
      {"eager_gradient_configure", functrax::eager::configure_gradient, METH_O,
       "Tells what gradients need."},
      {"explained_configure", functrax::explained::configure, METH_O,
       "Tells what is raised for handles."},
      {"boundary_configure", functrax::boundary::configure, METH_O,
       "Tells what shortens tracebacks."},
      {"recorder_start", functrax::recorder::start, METH_NOARGS, "Record what runs, and when."},
      {"recorder_stop", functrax::recorder::stop, METH_NOARGS, "What ran, and when."},
      {"block_until_ready", functrax::ready::block_until_ready, METH_O,
       "Waits for a tree's arrays."},
      {"cuda_empty_functions", functrax::cuda::empty_functions, METH_NOARGS,
       "Addresses of a driver's functions that do nothing."},
      {"tasks_drain", functrax::tasks::drain, METH_NOARGS, "Wait for all programs that run."},
      {"tasks_unfinished", functrax::tasks::unfinished, METH_NOARGS, "How many programs run."},
      {"flush_subnormals", functrax::subnormals::flush, METH_O,
       "Whether this thread flushes subnormal numbers to zero, and so far did."},
      {"options_changed", functrax::thread_state::options_changed, METH_NOARGS,
       "Options may have other values now."},
      {nullptr, nullptr, 0, nullptr},
  };
  module.doc() = "C++ halves of functrax's hot loops; each has a Python twin.";
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) throw py::error_already_set();
  add_type(module, "BufferExporter", functrax::buffer_exporter::make_type());
  add_type(module, "Buffer", functrax::buffer::make_type());
  add_type(module, "Executable", functrax::executable::make_type());
  add_type(module, "Gpu", functrax::cuda::make_gpu_type());
  add_type(module, "DeviceArray", functrax::cuda::make_array_type());
  add_type(module, "DeviceExecutable", functrax::cuda::make_executable_type());
  add_type(module, "ExplainedFunction", functrax::explained::make_type());
  add_type(module, "EagerValue", functrax::eager::make_value_type());
  add_type(module, "EagerMethod", functrax::eager::make_type());
  add_type(module, "EagerFunction", functrax::eager::make_function_type());
  add_type(module, "EagerSignature", functrax::eager::make_signature_type());
  add_type(module, "EagerTape", functrax::eager::make_tape_type());
  add_type(module, "ThreadState", functrax::thread_state::make_type());
  add_type(module, "Scopes", functrax::thread_state::make_scopes_type());
  add_type(module, "JitCaller", functrax::jit_caller::make_type());
  add_pool(module);
  if (!functrax::interpreter_exit::arrange()) throw py::error_already_set();
  module.def("num_threads", functrax::thread_pool::num_threads,
             "How many threads run a large kernel.");
  module.def("set_num_threads", set_num_threads, py::arg("threads"), "Choose how many.");
  module.def("library_functions", functrax::library::functions,
             "Names and addresses of the kernels that the extension holds.");
  module.def("configure_blas_threads", functrax::blas_threads::configure, py::arg("get"),
             py::arg("set"), "Addresses of functions that get and set a library's threads.");
  add_object_loader(module);
  functrax::foreign::bind(module);
}
