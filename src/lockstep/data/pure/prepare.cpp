// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/prepare.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/data/pure/tokenizer.h"

namespace lockstep {

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

std::vector<MappedFile> open_all(const std::vector<std::string>& paths) {
  std::vector<MappedFile> files;
  for (const std::string& path : paths) {
    if (files.emplace_back(path).bytes().empty()) {
      throw Error({.fault = Fault::Storage,
                   .where = {.subject = path},
                   .problem = "the file is empty",
                   .next = "Leave it out or fill it"});
    }
  }
  return files;
}

void check(const PrepareOptions& options) {
  if (options.files.empty()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "data prepare"},
                 .problem = "no text file is named",
                 .next = "Name one file or more"});
  }
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1)) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "--valid-fraction"},
                 .problem = "the held-out part is not a fraction",
                 .expected = "0 or more, less than 1",
                 .found = cat(options.valid_fraction),
                 .next = "Use for example 0.1"});
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && std::filesystem::is_directory(folder))
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = folder.string()},
               .problem = "the folder cannot be made",
               .cause = error ? error.message() : "something else has this name",
               .next = "Name another folder with --out"});
}

void remove_stale(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::remove(file, error);
  if (!error)
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = file.string()},
               .problem = "a file of another text cannot be removed",
               .cause = error.message(),
               .next = "Remove it, or name another folder with --out"});
}

// An old valid.tokens goes first: wherever this stops, no validation file stands beside the training
// file of another text.
void put_in_place(const std::filesystem::path& out,
                  TokenWriter& train,
                  std::optional<TokenWriter>& valid) {
  remove_stale(out / "valid.tokens");
  sync_folder(out);
  train.commit();
  if (valid)
    valid->commit();
}

}  // namespace

double unigram_entropy(const std::vector<std::uint64_t>& counts) {
  double total = 0;
  for (const std::uint64_t count : counts)
    total += static_cast<double>(count);
  double entropy = 0;
  for (const std::uint64_t count : counts) {
    if (count == 0)
      continue;
    const double p = static_cast<double>(count) / total;
    entropy -= p * std::log(p);
  }
  return entropy;
}

Prepared prepare_tokens(const PrepareOptions& options) {
  check(options);
  const auto tokenizer = make_tokenizer(options.tokenizer);
  const std::vector<MappedFile> files = open_all(options.files);
  std::uint64_t all = 0;
  for (const MappedFile& file : files)
    all += file.bytes().size();

  // One byte is one token, so the cut is known before the first token is made.
  const auto held_out =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(all) * options.valid_fraction));
  const std::uint64_t cut = all - std::min(held_out, all - 1);
  make_folder(options.out);
  const TokenHeader header{.token_bytes = 1,
                           .vocab = static_cast<std::uint64_t>(tokenizer->vocab()),
                           .tokenizer = tokenizer->name()};
  Prepared prepared{.train_file = options.out / "train.tokens",
                    .train_tokens = cut,
                    .valid_tokens = all - cut,
                    .vocab = header.vocab};
  TokenWriter train(
      prepared.train_file, header, all);  // room for both, asked before either is written
  std::optional<TokenWriter> valid;
  if (cut < all) {
    prepared.valid_file = options.out / "valid.tokens";
    valid.emplace(prepared.valid_file, header, all - cut);
  }

  std::vector<std::uint64_t> counts(header.vocab, 0);
  std::uint64_t done = 0;
  for (const MappedFile& file : files) {
    for (auto rest = file.bytes(); !rest.empty();) {
      const std::uint64_t room = done < cut ? cut - done : kPieceBytes;
      const auto piece = rest.first(std::min<std::uint64_t>({rest.size(), kPieceBytes, room}));
      if (done < cut) {
        train.append(piece);
      } else {
        valid->append(piece);
        for (const std::byte token : piece)
          ++counts[static_cast<std::size_t>(token)];
      }
      rest = rest.subspan(piece.size());
      done += piece.size();
      if (options.progress)
        options.progress(done, all);
    }
  }
  // What can still fail is over before the first name changes: the two always are of one text.
  train.seal();
  if (valid)
    valid->seal();
  put_in_place(options.out, train, valid);
  prepared.valid_unigram_entropy = unigram_entropy(counts);
  return prepared;
}

}  // namespace lockstep
