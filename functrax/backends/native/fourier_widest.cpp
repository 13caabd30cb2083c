// The Fourier transforms for processors with vectors of 64 bytes (fourier_transforms.h).

#include "fourier_headers.h"

#ifdef FUNCTRAX_WIDEST_BEGIN
FUNCTRAX_WIDEST_BEGIN
#include "fourier_transforms.h"
FUNCTRAX_WIDEST_END

namespace functrax::library {

void add_widest_fourier_loops(std::vector<Named>& to) {
  to.emplace_back("transform_f64", transform<float, 64>);
  to.emplace_back("transform_d64", transform<double, 64>);
  to.emplace_back("long_columns_f64", transform_long_columns<float, 64>);
  to.emplace_back("long_columns_d64", transform_long_columns<double, 64>);
  to.emplace_back("long_rows_f64", transform_long_rows<float, 64>);
  to.emplace_back("long_rows_d64", transform_long_rows<double, 64>);
}

}  // namespace functrax::library
#endif
