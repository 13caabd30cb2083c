"""Files with which CMake's ``find_package`` finds a program.

Start at :func:`cmake_files`.
"""

from __future__ import annotations

from typing import Final

_CONFIG: Final = """\
# find_package({name}) gives the target {name}::{name}.
if(NOT TARGET {name}::{name})
  add_library({name}::{name} {library} IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    {property} "${{CMAKE_CURRENT_LIST_DIR}}/{code}"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
endif()
"""
_LIBRARIES: Final = {
    "object": ("OBJECT", "IMPORTED_OBJECTS"),
    "static": ("STATIC", "IMPORTED_LOCATION"),
    "shared": ("SHARED", "IMPORTED_LOCATION"),
}
_VERSION: Final = """\
# The program has the version of whoever compiled it: any request is met.
set(PACKAGE_VERSION "0")
set(PACKAGE_VERSION_COMPATIBLE TRUE)
"""


def cmake_files(name: str, code: str, kind: str) -> dict[str, str]:
    """The names and texts of the files.

    Args:
      name: of the program.
      code: the file with its code.
      kind: what it is: an object file, a static or a shared library.
    """
    library, property_ = _LIBRARIES[kind]
    config = _CONFIG.format(name=name, code=code, library=library, property=property_)
    return {f"{name}-config.cmake": config, f"{name}-config-version.cmake": _VERSION}
