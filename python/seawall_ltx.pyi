"""Reads and verifies LTX files, in which Litestream and LiteFS keep the history of SQLite databases."""

from collections.abc import Iterator
from os import PathLike
from typing import final

__all__ = ["Header", "LtxError", "LtxFile", "Pages", "open"]

class LtxError(ValueError):
    """The file is no LTX file, or a defective one. The message names the file, the place and the rule."""

@final
class Header:
    """The header of a file. Numbers are as in the file; a checksum of 0 means that there is none."""

    @property
    def page_size(self) -> int:
        """The page size of the database in bytes."""
    @property
    def commit(self) -> int:
        """The size of the database after the file, in pages. 0: the database is deleted."""
    @property
    def min_txid(self) -> int:
        """The first transaction in the file."""
    @property
    def max_txid(self) -> int:
        """The last transaction in the file."""
    @property
    def timestamp_ms(self) -> int:
        """When the last transaction was made, in milliseconds since 1970-01-01 UTC."""
    @property
    def pre_apply(self) -> int:
        """The database checksum before the file."""
    @property
    def wal_offset(self) -> int:
        """Where in the WAL the first frame was read, in bytes. 0: not from a WAL."""
    @property
    def wal_size(self) -> int:
        """How many bytes of the WAL were read."""
    @property
    def wal_salt1(self) -> int:
        """The first salt of the WAL."""
    @property
    def wal_salt2(self) -> int:
        """The second salt of the WAL."""
    @property
    def node_id(self) -> int:
        """The node that wrote the file, 0 when unset."""
    @property
    def no_checksum(self) -> bool:
        """The file has no database checksums. The file checksum is there nevertheless."""
    @property
    def is_snapshot(self) -> bool:
        """The file begins at transaction 1 and holds every page."""

@final
class Pages(Iterator[tuple[int, bytes]]):
    """The page numbers and the pages of a file, ascending."""

    def __iter__(self) -> Pages: ...
    def __next__(self) -> tuple[int, bytes]: ...

@final
class LtxFile:
    """A file that was read to its end and passed every check. Its length is the number of its pages."""

    @property
    def header(self) -> Header: ...
    @property
    def post_apply(self) -> int:
        """The database checksum after the file; 0 in files without checksums."""
    @property
    def file_checksum(self) -> int:
        """The checksum of the file."""
    @property
    def generation(self) -> str | None:
        """The generation of the format, if it is an older one: "1", "1 (compressed)" or "2"."""
    @property
    def size(self) -> int:
        """The bytes of the file."""
    def pages(self) -> Pages:
        """The page numbers with the pages, ascending. Reads and checks the file once more."""
    def __iter__(self) -> Pages: ...
    def __len__(self) -> int: ...

def open(path: str | PathLike[str]) -> LtxFile:
    """Opens an LTX file of any generation, reads it to its end and checks everything.

    Raises LtxError with the first defect, and OSError if the file can't be read.
    """
