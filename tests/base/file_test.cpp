// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

#include "support/complaint.h"
#include "support/process.h"

namespace lockstep {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

int files_in(const std::filesystem::path& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(MappedFile, PipeOrDeviceIsRefusedAtOnce) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::filesystem::path& path : {folder / "pipe", std::filesystem::path("/dev/zero")}) {
    EXPECT_THAT(test::complaint(Fault::Storage, [&] { MappedFile file(path); }),
                testing::HasSubstr(cat(path.string(), ": this is not a regular file")));
  }
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string("x\0y", 3));
  const MappedFile file(folder / "a");
  EXPECT_TRUE(std::ranges::equal(file.bytes(), bytes_of(std::string("x\0y", 3))));
  write_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

TEST(MappedFile, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { MappedFile file(missing); }),
              HasSubstr(cat(missing, ": there is no such file")));
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { MappedFile file(folder.path()); }),
              HasSubstr("Is a directory"));
}

TEST(AtomicFile, AppearsOnlyWithCommit) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.append(bytes_of("new content"));
    file.overwrite(0, bytes_of("NEW"));
    EXPECT_EQ(read_file(folder / "a"), "old");
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "a"), "NEW content");
  {
    AtomicFile file(folder / "a");
    file.append(bytes_of("dropped"));
  }
  EXPECT_EQ(read_file(folder / "a"), "NEW content");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, ReusesWhatAKilledWriterLeft) {
  const TemporaryFolder folder;
  write_file(folder / "a.partial", "a long rest of another run");
  write_file_atomically(folder / "a", "short");
  EXPECT_EQ(read_file(folder / "a"), "short");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, RefusesASecondWriter) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a");
  first.append(bytes_of("first"));
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { AtomicFile second(folder / "a"); }),
              HasSubstr("another process is writing"));
  first.commit();
  EXPECT_EQ(read_file(folder / "a"), "first");
}

TEST(AtomicFile, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(test::complaint(Fault::Storage, [] { AtomicFile file("/nowhere/at/all"); }),
              HasSubstr("/nowhere/at: there is no such folder"));
}

TEST(AtomicFile, MoreThanTheDiskHoldsIsRefusedBeforeWriting) {
  const TemporaryFolder folder;
  const std::string text =
      test::complaint(Fault::Storage, [&] { AtomicFile file(folder / "a", 1ULL << 60); });
  EXPECT_THAT(text, HasSubstr("1152921504606846976 bytes"));
  EXPECT_THAT(text, HasSubstr("bytes free"));
  EXPECT_EQ(files_in(folder.path()), 0);
}

// Writes 3 MB over "old" where only about 1 MB fits.
void expect_nothing_half_written(const std::filesystem::path& folder,
                                 const std::string& part_of_message) {
  const std::string megabyte(1'000'000, 'x');
  const std::string text = test::complaint(Fault::Storage, [&] {
    AtomicFile file(folder / "a");
    for (int i = 0; i < 3; ++i)
      file.append(bytes_of(megabyte));
    file.commit();
  });
  EXPECT_THAT(text, HasSubstr((folder / "a").string()));
  EXPECT_THAT(text, HasSubstr(part_of_message));
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1500k") != 0) {
    GTEST_SKIP() << "mounting a small disk needs root; the next test covers the same path";
  }
  write_file(folder / "a", "old");
  expect_nothing_half_written(folder.path(), "the disk has no room for the file");
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(AtomicFile, AFileSizeLimitLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1'500'000, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_nothing_half_written(folder.path(), "File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
}

TEST(Checksum, IsXxh3AndDoesNotDependOnThePieces) {
  EXPECT_EQ(hex(checksum({})), "2d06800538d394c2");  // the empty input's published value
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    text += cat(i, ' ');
  Checksum pieces;
  for (std::size_t begin = 0, size = 1; begin < text.size(); begin += size, size = size * 3 + 1) {
    pieces.add(bytes_of(text).subspan(begin, std::min(size, text.size() - begin)));
  }
  EXPECT_EQ(pieces.value(), checksum(bytes_of(text)));
  std::string damaged = text;
  damaged[77'777] ^= 1;
  EXPECT_NE(checksum(bytes_of(damaged)), checksum(bytes_of(text)));
}

}  // namespace
}  // namespace lockstep
