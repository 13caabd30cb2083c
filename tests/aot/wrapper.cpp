// Calls the gradient of a perceptron's loss by its wrapper; and what does not fit is refused.
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include HEADER_OF_CPP

#include "functrax_pool.h"

template <class T>
std::vector<T> taken(std::vector<char>& bytes, std::size_t count) {
  std::vector<T> found(count);
  std::memcpy(found.data(), bytes.data(), count * sizeof(T));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count * sizeof(T)));
  return found;
}

int main(int count, char** words) {
  if (count != 2) return 2;
  std::ifstream file(words[1], std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto b1 = taken<float>(bytes, SLOPES_PARAMS_B1_ELEMENTS);
  const auto b2 = taken<float>(bytes, SLOPES_PARAMS_B2_ELEMENTS);
  const auto w1 = taken<float>(bytes, SLOPES_PARAMS_W1_ELEMENTS);
  const auto w2 = taken<float>(bytes, SLOPES_PARAMS_W2_ELEMENTS);
  const auto x = taken<float>(bytes, SLOPES_X_ELEMENTS);
  const auto y = taken<float>(bytes, SLOPES_Y_ELEMENTS);

  functrax_pool* pool = functrax_pool_create(2);
  const functrax_threads threads = functrax_pool_threads(pool);
  functrax::program::slopes slopes(&threads);
  float loss = 0;
  std::array<float, SLOPES_OUT_1_B1_ELEMENTS> db1;
  std::vector<float> db2(SLOPES_OUT_1_B2_ELEMENTS), dw1(SLOPES_OUT_1_W1_ELEMENTS);
  float dw2[SLOPES_OUT_1_W2_ELEMENTS];
  slopes(b1, b2, {w1.data(), {16, 32}}, w2, x, y, loss, db1, db2, dw1, dw2);
  std::vector<float> all{loss};
  all.insert(all.end(), db1.begin(), db1.end());
  all.insert(all.end(), db2.begin(), db2.end());
  all.insert(all.end(), dw1.begin(), dw1.end());
  all.insert(all.end(), std::begin(dw2), std::end(dw2));
  const bool same = std::memcmp(all.data(), bytes.data(), bytes.size()) == 0;

  std::string said;
  try {
    slopes(b1, b2, w1, w2, x, y, loss, db1, db1, dw1, dw2);
  } catch (const std::invalid_argument& error) {
    said = error.what();
  }
  try {
    slopes(b1, b2, {w1.data(), {32, 16}}, w2, x, y, loss, db1, db2, dw1, dw2);
  } catch (const std::invalid_argument& error) {
    said += std::string("\n") + error.what();
  }
  functrax_pool_destroy(pool);
  std::printf("%d\n%s\n", same, said.c_str());
}
