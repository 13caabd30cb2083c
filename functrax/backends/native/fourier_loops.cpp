// The Fourier transforms that the processor of this process can run (fourier_transforms.h).
//
// Their names tell the dtype and the bytes of a vector.

#include "fourier_headers.h"
#include "fourier_transforms.h"

namespace functrax::library {

const std::vector<Named>& fourier_loops() {
  static const std::vector<Named> all = [] {
    std::vector<Named> found = {{"transform_f16", transform<float, 16>},
                                {"transform_d16", transform<double, 16>},
                                {"long_columns_f16", transform_long_columns<float, 16>},
                                {"long_columns_d16", transform_long_columns<double, 16>},
                                {"long_rows_f16", transform_long_rows<float, 16>},
                                {"long_rows_d16", transform_long_rows<double, 16>}};
#ifdef FUNCTRAX_WIDEST_BEGIN
    if (targets::FUNCTRAX_HOST::has_wider()) add_wider_fourier_loops(found);
    if (targets::FUNCTRAX_HOST::has_widest()) add_widest_fourier_loops(found);
#endif
    return found;
  }();
  return all;
}

}  // namespace functrax::library
