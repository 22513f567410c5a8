// The demo's text as batches of bytes, read with nothing but the standard library and libtorch.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <torch/torch.h>

struct Batch {
  torch::Tensor inputs, targets;  // [32 / of, 48]
};

class Text {
 public:
  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(128);  // past the header of a token file
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    TORCH_CHECK(bytes_.size() > 100'000, path, " is missing or small: run make demo first");
  }

  // Every `of`-th of the step's 32 sequences, from the `part`-th on.
  Batch batch(int step, int part = 0, int of = 1) const {
    std::vector<torch::Tensor> rows;
    for (int i = part; i < 32; i += of) {
      const std::size_t at = (std::size_t(step) * 32 + std::size_t(i)) * 48 % (bytes_.size() - 49);
      rows.push_back(torch::from_blob(const_cast<char*>(bytes_.data()) + at, {49}, torch::kUInt8)
                         .to(torch::kLong));
    }
    const torch::Tensor all = torch::stack(rows);
    return {all.slice(1, 0, 48), all.slice(1, 1, 49)};
  }

 private:
  std::vector<char> bytes_;
};
