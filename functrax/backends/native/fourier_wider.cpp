// The Fourier transforms for processors with vectors of 32 bytes (fourier_transforms.h).

#include "fourier_headers.h"

#ifdef FUNCTRAX_WIDER_BEGIN
FUNCTRAX_WIDER_BEGIN
#include "fourier_transforms.h"
FUNCTRAX_WIDER_END

namespace functrax::library {

void add_wider_fourier_loops(std::vector<Named>& to) {
  to.emplace_back("transform_f32", transform<float, 32>);
  to.emplace_back("transform_d32", transform<double, 32>);
  to.emplace_back("long_columns_f32", transform_long_columns<float, 32>);
  to.emplace_back("long_columns_d32", transform_long_columns<double, 32>);
  to.emplace_back("long_rows_f32", transform_long_rows<float, 32>);
  to.emplace_back("long_rows_d32", transform_long_rows<double, 32>);
}

}  // namespace functrax::library
#endif
