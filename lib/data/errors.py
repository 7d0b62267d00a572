"""What can go wrong between a data file's name and its bytes."""


class RegistryError(ValueError):
    """The registry of data files is malformed."""


class UnknownData(ValueError):
    """No data file is registered under this name."""


class UndeclaredData(RuntimeError):
    """A chapter reads a file that the registry does not list for it."""


class DataUnavailable(RuntimeError):
    """A file is neither on this machine nor can it be downloaded."""


class DataCorrupted(ValueError):
    """A file's content is not what the registry says."""


class UnsafePickle(ValueError):
    """A pickle asks for more than plain containers and numeric arrays."""
