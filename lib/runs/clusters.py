"""Clusters of Dask, by an address or started here: what ``COMPANION_CLUSTER`` may name."""

import contextlib
import importlib.util
import ipaddress
import os
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple

#: Environment variable: the cluster that :func:`lib.runs.run_all` sends jobs to.
CLUSTER = "COMPANION_CLUSTER"
_HERE = re.compile(r"local-cluster:([1-9][0-9]{0,2})(?:@(.+))?")


class _Cluster(NamedTuple):
    """A running scheduler's address, or how many workers to start here and where these listen."""

    address: str
    workers: int = 0
    host: str = "127.0.0.1"


@contextlib.contextmanager
def executor_for(scheduler: str | None = None) -> Iterator[Any]:
    """The executor that a text names, for :func:`run_all`.

    Parameters
    ----------
    scheduler : str, optional
        What the environment variable ``COMPANION_CLUSTER`` says if not given.  Nothing or
        ``"local"``: local processes (yields None).  ``"tcp://host:port"``: the Dask cluster with
        that scheduler (``tls://`` if it asks for certificates).  ``"local-cluster:2"``: a Dask
        cluster of so many processes here, at most 999, which listens on 127.0.0.1 alone;
        ``"local-cluster:2@10.0.0.5"`` listens on that address of this machine.  Whoever can reach
        it can run code as you: nothing is authenticated.

    Raises
    ------
    ValueError
        If the text has none of these forms.
    ImportError
        If Dask is asked for and not installed.
    ConnectionError
        If no scheduler answers at the address.
    """
    name, text = _said(scheduler)
    found = _read(name, text)
    if found is None:
        yield None
        return
    if not found.address:
        with _local_cluster(found.workers, found.host) as client:
            yield client
        return
    from distributed import Client

    try:
        client = Client(found.address)
    except OSError as error:
        raise ConnectionError(f"{name} = {text!r}: no scheduler answers there ({error})") from error
    with client:
        yield client


def check_cluster() -> None:
    """Raise what :func:`executor_for` raises of ``COMPANION_CLUSTER``, but connect to nothing."""
    _read(*_said(None))


def _said(scheduler: Any) -> tuple[str, Any]:
    """What has named a cluster, and the text."""
    if scheduler is None:
        return CLUSTER, os.environ.get(CLUSTER, "")
    return "scheduler", scheduler


def _read(name: str, text: Any) -> _Cluster | None:
    """The cluster that a text names, None for local processes."""
    if text in ("", "local"):
        return None
    cluster = None
    if isinstance(text, str):
        here = _HERE.fullmatch(text)
        if here and (here[2] is None or _is_address(here[2])):
            cluster = _Cluster("", int(here[1]), here[2] or "127.0.0.1")
        elif _is_url(text):
            cluster = _Cluster(text)
    if cluster is None:
        raise ValueError(
            f"{name} must be 'local', 'tcp://HOST:PORT', 'tls://HOST:PORT' or 'local-cluster:N', N"
            f" from 1 to 999 ('local-cluster:N@10.0.0.5' to listen on that address), got {text!r}"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ImportError(
            f"{name} = {text!r} needs Dask, which the extra 'cluster' installs:"
            ' pip install -e ".[cluster]"'
        )
    return cluster


def _is_address(text: str) -> bool:
    """Whether a text is an address of the internet protocol, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_url(text: str) -> bool:
    """Whether a text is a scheduler's address and nothing more."""
    try:
        parts = urllib.parse.urlsplit(text)
        known = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:  # no number, or none of a port
        return False
    return bool(known) and text == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc


@contextlib.contextmanager
def _local_cluster(count: int, host: str) -> Iterator[Any]:
    """The client of a Dask cluster of this machine whose every socket is bound to one address."""
    import dask
    from distributed import Client, LocalCluster

    before = dict(os.environ)  # Dask sets the numbers of threads in this process, too
    bound = f"[{host}]" if ":" in host else host
    options = {"threads_per_worker": 1, "host": host, "dashboard_address": f"{bound}:0"}
    options["scheduler_kwargs"] = {"dashboard": False}
    options["silence_logs"] = "ERROR"  # a replaced worker is no news for a page
    # Without the dashboard, too, pages would tell everybody what is being executed.
    pages = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker", "nanny")}
    try:
        with (
            dask.config.set(pages),
            LocalCluster(n_workers=count, **options) as cluster,
            Client(cluster) as client,
        ):
            yield client
    finally:
        for name in os.environ.keys() - before.keys():
            if name.endswith("_NUM_THREADS"):
                del os.environ[name]
        os.environ.update(before)
