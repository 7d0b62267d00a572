"""How kernels of chapters are ended."""

from jupyter_client.manager import AsyncKernelManager

__all__ = ["ChapterKernelManager"]


class ChapterKernelManager(AsyncKernelManager):
    """Asks a kernel to end without interrupting it first.

    The usual manager sends SIGINT before the request to shut down. An idle kernel answers that with
    "KeyboardInterrupt caught in kernel", or leaves its loop before the request is dealt with ("Task
    was destroyed but it is pending"): one in four kernels where several close at a time. One that
    does not answer the request is still terminated, then killed.
    """

    async def _async_interrupt_kernel(self) -> None:
        """Leave an idle kernel alone."""

    interrupt_kernel = _async_interrupt_kernel
