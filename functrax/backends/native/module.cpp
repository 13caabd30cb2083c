// Bindings of functrax._native, and nothing else: every topic has a file of its own.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>

#include "buffer_exporter.h"
#include "object_loader.h"
#include "pytree.h"

namespace {

// Hot functions are bound through the C API: a pybind11 dispatcher costs as much as a small tree.
template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
constexpr PyMethodDef fast(const char* name, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, doc};
}

void bind_object_loader(pybind11::module_& module) {
  namespace loader = functrax::object_loader;
  const pybind11::metaclass plain(reinterpret_cast<PyObject*>(&PyType_Type));
  pybind11::class_<loader::Code>(module, "ObjectCode", plain, "An object file as code in memory.")
      .def(pybind11::init([](const pybind11::bytes& object) {
        return std::make_unique<loader::Code>(std::string(object));
      }))
      .def_property_readonly("address", &loader::Code::address)
      .def_property_readonly("size", &loader::Code::size);
  module.def(
      "link_object",
      [](const pybind11::bytes& object, std::uint16_t machine, std::size_t page_size) {
        const loader::Image image = loader::link(object, machine, page_size);
        const pybind11::bytes bytes(reinterpret_cast<const char*>(image.bytes.data()),
                                    image.bytes.size());
        return pybind11::make_tuple(bytes, image.code_size, image.entry);
      },
      "The bytes of an object file's image, the size of its code, and where it begins.");
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  namespace pytree = functrax::pytree;
  static PyMethodDef methods[] = {
      fast<pytree::configure>("pytree_configure", "Tells which class to build and what to call."),
      fast<pytree::flatten>("pytree_flatten", "The leaves and the structure of a tree."),
      fast<pytree::unflatten>("pytree_unflatten", "The tree of a structure and leaves."),
      fast<pytree::flatten_up_to>("pytree_flatten_up_to", "The subtrees at a structure's leaves."),
      fast<pytree::equal>("pytree_equal", "Whether two structures are the same."),
      {"pytree_hash", pytree::hash, METH_O, "A hash that agrees with pytree_equal."},
      {nullptr, nullptr, 0, nullptr},
  };
  module.doc() = "C++ halves of functrax's hot loops; each has a Python twin.";
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) throw pybind11::error_already_set();
  PyObject* exporter = functrax::buffer_exporter::make_type();
  if (exporter == nullptr) throw pybind11::error_already_set();
  module.add_object("BufferExporter", pybind11::reinterpret_steal<pybind11::object>(exporter));
  bind_object_loader(module);
}
