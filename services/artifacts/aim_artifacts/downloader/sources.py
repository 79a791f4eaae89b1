"""What can be downloaded: one interface over Hub repositories and S3 prefixes."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aim_artifacts.downloader import hub, s3
from aim_artifacts.downloader.environment import Environment
from aim_artifacts.downloader.error_mapping import download_error
from aim_artifacts.downloader.names import check_names
from aim_artifacts.downloader.s3_client import open_client
from aim_artifacts.downloader.s3_verification import verify
from aim_artifacts.downloader.transfer import Kind
from aim_artifacts.source import Scheme, Source
from controller_runtime import JsonObject

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


class ListedSource(Protocol):
    """A listed source: how large it is, how a child process gets it, and whether it arrived."""

    @property
    def size(self) -> int:
        """Bytes of everything selected."""

    def job(self, environment: Environment) -> JsonObject:
        """The arguments of the transfer process."""

    @property
    def commit(self) -> str:
        """Of a repository, the commit that everything comes from; empty for other sources."""

    async def verify(self, environment: Environment) -> None:
        """Compare what arrived with the source; raises `DownloadError`."""


@dataclass(frozen=True, slots=True)
class ListedRepository:
    """A Hugging Face repository."""

    repository: hub.Repository

    @property
    def size(self) -> int:
        """Bytes of the selected files."""
        return self.repository.size

    @property
    def commit(self) -> str:
        """The commit that the revision stood for (AR-729)."""
        return self.repository.commit

    def job(self, environment: Environment) -> JsonObject:
        """Files by name at one commit (AR-729)."""
        return {
            "kind": Kind.HUB,
            "repo": self.repository.repo_id,
            "commit": self.repository.commit,
            "files": self.repository.to_json()["files"],
            "target": str(environment.target),
            "workers": environment.max_workers,
        }

    async def verify(self, environment: Environment) -> None:
        """By checksum."""
        await asyncio.to_thread(hub.verify, self.repository, environment.target, environment.max_workers)


@dataclass(frozen=True, slots=True)
class ListedPrefix:
    """Objects below an S3 key."""

    client: "S3Client"
    bucket: str
    objects: tuple[s3.RemoteObject, ...]

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(item.size for item in self.objects)

    @property
    def commit(self) -> str:
        """There is none."""
        return ""

    def job(self, environment: Environment) -> JsonObject:
        """Objects with the versions that were listed."""
        return {
            "kind": Kind.S3,
            "bucket": self.bucket,
            "objects": s3.to_json(self.objects),
            "target": str(environment.target),
            "workers": environment.max_workers,
        }

    async def verify(self, environment: Environment) -> None:
        """By size, and checksum where the store has one."""
        target, workers = environment.target, environment.max_workers
        try:
            await asyncio.to_thread(verify, self.client, self.bucket, self.objects, target, workers)
        except Exception as error:
            raise download_error(error) from error


async def list_source(
    source: Source, environment: Environment, variables: Mapping[str, str] = os.environ
) -> ListedSource:
    """Ask the source what there is.

    Raises:
        DownloadError: it cannot be read, nothing is selected, or a name cannot become a file.
    """
    try:
        if source.scheme is Scheme.HUGGING_FACE:
            found = await asyncio.to_thread(hub.list_repository, source.path, source.revision, environment.selection)
            check_names((file.path for file in found.files), environment.target)
            return ListedRepository(found)
        client = open_client(variables, environment.max_workers)
        objects = await asyncio.to_thread(s3.list_objects, client, source)
        check_names((item.path for item in objects), environment.target)
        return ListedPrefix(client, source.bucket, objects)
    except Exception as error:
        raise download_error(error) from error
