"""How kernels of chapters are ended."""

from jupyter_client.manager import AsyncKernelManager

__all__ = ["ChapterKernelManager"]


class ChapterKernelManager(AsyncKernelManager):
    """Kills an idle kernel without interrupting it first.

    The usual manager sends SIGINT before all else. An idle kernel answers that with
    "KeyboardInterrupt caught in kernel", or leaves its loop while a task of it is pending, and says
    so: one in four kernels where several close at a time. Asked politely, one whose chapter had
    worker processes waits for multiprocessing's resource tracker, which ignores SIGTERM, until its
    time is up. All that a chapter gives has arrived by then.
    """

    async def _async_interrupt_kernel(self) -> None:
        """Leave an idle kernel alone."""

    interrupt_kernel = _async_interrupt_kernel
