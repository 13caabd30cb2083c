// See cuda_array.h.

#include "cuda_array.h"

#include <structmember.h>

#include <utility>
#include <vector>

#include "numpy_arrays.h"
#include "reference.h"

namespace functrax::cuda {
namespace {

PyTypeObject* type = nullptr;

Array* as_array(PyObject* object) { return reinterpret_cast<Array*>(object); }

// Bytes of an array, or -1 with an error set.
Py_ssize_t count_bytes(PyObject* shape, PyObject* dtype) {
  Ref item(PyObject_GetAttrString(dtype, "itemsize"));
  if (!item) return -1;
  Py_ssize_t nbytes = PyLong_AsSsize_t(item.get());
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); ++k) {
    const Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
    if (size == -1 && PyErr_Occurred()) return -1;
    if (size < 0 || __builtin_mul_overflow(nbytes, size, &nbytes)) {
      PyErr_SetString(PyExc_ValueError, "DeviceArray: a shape has sizes that are not negative");
      return -1;
    }
  }
  return nbytes;
}

PyObject* construct(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"gpu", "shape", "dtype", nullptr};
  PyObject *gpu, *sizes, *spec;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO", const_cast<char**>(names), &gpu, &sizes,
                                   &spec)) {
    return nullptr;
  }
  if (!is_gpu(gpu)) return PyErr_Format(PyExc_TypeError, "DeviceArray: expected a GPU");
  Ref shape(PySequence_Tuple(sizes));
  Ref numpy(PyImport_ImportModule("numpy"));
  if (!shape || !numpy) return nullptr;
  Ref dtype(PyObject_CallMethod(numpy.get(), "dtype", "O", spec));
  if (!dtype) return nullptr;
  const Py_ssize_t nbytes = count_bytes(shape.get(), dtype.get());
  if (nbytes < 0) return nullptr;
  return reinterpret_cast<PyObject*>(
      make_array(reinterpret_cast<Gpu*>(gpu), shape.get(), dtype.get(), nbytes, nullptr));
}

// of(gpu, value): a copy of an array of the host.
PyObject* of(PyObject*, PyObject* args) {
  PyObject *gpu, *value;
  if (!PyArg_ParseTuple(args, "OO", &gpu, &value)) return nullptr;
  if (!is_gpu(gpu)) return PyErr_Format(PyExc_TypeError, "DeviceArray: expected a GPU");
  if (!numpy_arrays::load()) return nullptr;
  Ref numpy(PyImport_ImportModule("numpy"));
  if (!numpy) return nullptr;
  Ref dense(PyObject_CallMethod(numpy.get(), "require", "OOs", value, Py_None, "CA"));
  if (!dense) return nullptr;
  const numpy_arrays::Form form = numpy_arrays::form_of(dense.get());
  Ref shape(PyObject_GetAttrString(dense.get(), "shape"));
  const Py_ssize_t nbytes = shape ? count_bytes(shape.get(), form.dtype) : -1;
  if (nbytes < 0) return nullptr;
  Ref made(reinterpret_cast<PyObject*>(
      make_array(reinterpret_cast<Gpu*>(gpu), shape.get(), form.dtype, nbytes, nullptr)));
  const void* data = numpy_arrays::dense_data(dense.get(), form.dtype, form.rank, form.sizes);
  if (!made || !set_elements(as_array(made.get()), data)) return nullptr;
  return made.release();
}

// adopt(gpu, shape, dtype, address, owner): an array in memory of another library, which `owner`
// keeps. What that library asked for on the default stream is done before what comes next here.
PyObject* adopt(PyObject*, PyObject* args) {
  PyObject *gpu, *sizes, *spec, *owner;
  unsigned long long place;
  if (!PyArg_ParseTuple(args, "OOOKO", &gpu, &sizes, &spec, &place, &owner)) return nullptr;
  if (!is_gpu(gpu)) return PyErr_Format(PyExc_TypeError, "DeviceArray: expected a GPU");
  Ref shape(PySequence_Tuple(sizes));
  Ref numpy(PyImport_ImportModule("numpy"));
  Ref dtype(shape && numpy ? PyObject_CallMethod(numpy.get(), "dtype", "O", spec) : nullptr);
  const Py_ssize_t nbytes = dtype ? count_bytes(shape.get(), dtype.get()) : -1;
  if (nbytes < 0) return nullptr;
  auto* of = reinterpret_cast<Gpu*>(gpu);
  Block* block = nullptr;
  if (nbytes > 0) {
    block = new Block{place, static_cast<std::size_t>(nbytes), 0, 1, 0, nullptr, Py_NewRef(owner)};
  }
  Array* made = make_array(of, shape.get(), dtype.get(), nbytes, block);
  if (made != nullptr) made->mark = of->next_mark();
  return reinterpret_cast<PyObject*>(made);
}

// The same elements in memory of their own.
PyObject* copy(PyObject* self, PyObject*) {
  const Array* array = as_array(self);
  if (array->deleted) {
    set_deleted_error(array);
    return nullptr;
  }
  Ref owned(reinterpret_cast<PyObject*>(
      make_array(array->gpu, array->shape, array->dtype, array->nbytes, nullptr)));
  if (!owned || array->nbytes == 0) return owned.release();
  Array* made = as_array(owned.get());
  const bool asked =
      array->gpu->here() &&
      array->gpu->copy(place_of(made), place_of(array), static_cast<std::size_t>(array->nbytes));
  made->mark = array->gpu->position();
  return asked ? owned.release() : nullptr;
}

void unlink(Array* array) {
  Array*& first = array->gpu->arrays;
  (array->before == nullptr ? first : array->before->after) = array->after;
  if (array->after != nullptr) array->after->before = array->before;
}

void destroy(PyObject* self) {
  Array* array = as_array(self);
  unlink(array);
  array->gpu->give_back(array->block);
  Py_XDECREF(array->host);
  Py_DECREF(array->dtype);
  Py_DECREF(array->shape);
  Py_DECREF(reinterpret_cast<PyObject*>(array->gpu));
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* copied_to_host(Array* array) {
  if (!numpy_arrays::load()) return nullptr;
  Ref numpy(PyImport_ImportModule("numpy"));
  Ref host(numpy ? PyObject_CallMethod(numpy.get(), "empty", "OO", array->shape, array->dtype)
                 : nullptr);
  if (!host) return nullptr;
  if (array->nbytes > 0) {
    const numpy_arrays::Form form = numpy_arrays::form_of(host.get());
    void* data = numpy_arrays::dense_data(host.get(), form.dtype, form.rank, form.sizes);
    const auto nbytes = static_cast<std::size_t>(array->nbytes);
    Block* block = array->block;  // which another thread may give up while this waits
    ++block->owners;
    const bool done = array->gpu->download(block->place, data, nbytes, array->mark);
    array->gpu->give_back(block);
    if (!done) return nullptr;
  }
  Ref writes(PyObject_CallMethod(host.get(), "setflags", "O", Py_False));
  return writes ? host.release() : nullptr;
}

PyObject* materialize(PyObject* self, PyObject*) {
  Array* array = as_array(self);
  if (array->deleted) {
    set_deleted_error(array);
    return nullptr;
  }
  if (array->host == nullptr) {
    PyObject* host = copied_to_host(array);
    if (host == nullptr) return nullptr;
    Py_XSETREF(array->host, host);
  }
  return Py_NewRef(array->host);
}

PyObject* to_array(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", const_cast<char**>(names), &dtype, &copy))
    return nullptr;
  Ref value(materialize(self, nullptr));
  if (!value || (dtype == Py_None && copy != Py_True)) return value.release();
  Ref method(PyObject_GetAttrString(value.get(), "astype"));
  Ref options(Py_BuildValue("{s:O}", "copy", copy == Py_True ? Py_True : Py_False));
  Ref types(PyTuple_Pack(1, dtype == Py_None ? as_array(self)->dtype : dtype));
  if (!method || !options || !types) return nullptr;
  return PyObject_Call(method.get(), types.get(), options.get());
}

PyObject* remove(PyObject* self, PyObject*) {
  Array* array = as_array(self);
  array->gpu->give_back(take_block(array));
  Py_RETURN_NONE;
}

PyObject* wait_for(PyObject* self, PyObject*) {
  if (!as_array(self)->gpu->wait(as_array(self)->mark)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* is_ready(PyObject* self, PyObject*) {
  const int done = as_array(self)->gpu->is_done(as_array(self)->mark);
  return done < 0 ? nullptr : PyBool_FromLong(done);
}

PyObject* address(PyObject* self, void*) {
  if (!as_array(self)->deleted) return PyLong_FromUnsignedLongLong(place_of(as_array(self)));
  set_deleted_error(as_array(self));
  return nullptr;
}

PyObject* deleted(PyObject* self, void*) { return PyBool_FromLong(as_array(self)->deleted); }

PyObject* label(PyObject* self, void*) { return array_label(as_array(self)); }

PyObject* text(PyObject* self) {
  const Array* array = as_array(self);
  Ref sizes(PySequence_List(array->shape));
  if (!sizes) return nullptr;
  if (array->deleted) {
    return PyUnicode_FromFormat("DeviceArray(%S%S, deleted)", array->dtype, sizes.get());
  }
  return PyUnicode_FromFormat("DeviceArray(%S%S, %p)", array->dtype, sizes.get(),
                              reinterpret_cast<void*>(place_of(array)));
}

PyMethodDef methods[] = {
    {"of", of, METH_VARARGS | METH_CLASS, "A copy of an array of the host: (gpu, value)."},
    {"adopt", adopt, METH_VARARGS | METH_CLASS,
     "An array in another library's memory: (gpu, shape, dtype, address, owner)."},
    {"copy", copy, METH_NOARGS, "The same elements in memory of their own."},
    {"materialize", materialize, METH_NOARGS, "The elements as a read-only NumPy array."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_array)),
     METH_VARARGS | METH_KEYWORDS, "The elements as an array."},
    {"wait", wait_for, METH_NOARGS, "Wait until the elements are there."},
    {"is_ready", is_ready, METH_NOARGS, "Whether the elements are there."},
    {"delete", remove, METH_NOARGS, "Give the memory up."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"gpu", T_OBJECT_EX, offsetof(Array, gpu), READONLY, "Whose memory it is in."},
    {"dtype", T_OBJECT_EX, offsetof(Array, dtype), READONLY, "The dtype."},
    {"shape", T_OBJECT_EX, offsetof(Array, shape), READONLY, "The shape."},
    {"nbytes", T_PYSSIZET, offsetof(Array, nbytes), READONLY, "Bytes that the elements take."},
    {"mark", T_ULONGLONG, offsetof(Array, mark), READONLY, "After which the elements are there."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"address", address, nullptr, "Where the first element is; 0 if there are none.", nullptr},
    {"deleted", deleted, nullptr, "Whether the memory was given away.", nullptr},
    {"label", label, nullptr, "The type, for messages.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_repr, reinterpret_cast<void*>(text)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("An array in a GPU's memory: (gpu, shape, dtype).")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.DeviceArray", sizeof(Array), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyObject* make_array_type() {
  PyObject* made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject*>(made);
  return made;
}

bool is_array(PyObject* object) { return Py_TYPE(object) == type; }

Array* make_array(Gpu* gpu, PyObject* shape, PyObject* dtype, Py_ssize_t nbytes, Block* block) {
  auto* made = as_array(type->tp_alloc(type, 0));
  if (made == nullptr) {
    gpu->give_back(block);
    return nullptr;
  }
  made->gpu = gpu;
  Py_INCREF(reinterpret_cast<PyObject*>(gpu));
  made->dtype = Py_NewRef(dtype);
  made->shape = Py_NewRef(shape);
  made->nbytes = nbytes;
  made->after = gpu->arrays;
  if (made->after != nullptr) made->after->before = made;
  gpu->arrays = made;
  made->block = block;
  if (block == nullptr && nbytes > 0) {
    made->block = gpu->allocate(static_cast<std::size_t>(nbytes), made);
    if (made->block == nullptr) {
      Py_DECREF(reinterpret_cast<PyObject*>(made));
      return nullptr;
    }
  }
  return made;
}

PyObject* array_label(const Array* array) {
  Ref module(PyImport_ImportModule("functrax.core.types.aval"));
  if (!module) return nullptr;
  Ref aval(PyObject_CallMethod(module.get(), "ShapedArray", "OO", array->shape, array->dtype));
  return aval ? PyObject_CallMethod(aval.get(), "str_short", nullptr) : nullptr;
}

Block* take_block(Array* array) {
  array->deleted = true;
  Py_CLEAR(array->host);
  return std::exchange(array->block, nullptr);
}

bool set_elements(Array* array, const void* data) {
  if (array->nbytes == 0) return true;
  const auto nbytes = static_cast<std::size_t>(array->nbytes);
  if (!array->gpu->upload(array->block->place, data, nbytes, array->block->mark)) return false;
  array->mark = array->gpu->position();
  return true;
}

void set_deleted_error(const Array* array) {
  Ref module(PyImport_ImportModule("functrax.backends.executables.program_inputs"));
  if (!module) return;
  raise(PyObject_CallMethod(module.get(), "deleted_error", "OO", array->shape, array->dtype));
}

}  // namespace functrax::cuda
