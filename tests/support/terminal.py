"""A shell that types what a command advises, with an editor that makes one change."""

import asyncio
import json
import os
import re
import signal
import stat
import sys
from pathlib import Path
from typing import Final

from controller_runtime import JsonObject

_EDITOR: Final = """#!{python}
import json, os, sys, yaml

def merged(value, patch):
    if not isinstance(patch, dict):
        return patch
    old = value if isinstance(value, dict) else {{}}
    both = {{key: merged(old.get(key), one) for key, one in patch.items() if one is not None}}
    return {{**{{key: one for key, one in old.items() if key not in patch}}, **both}}

with open(sys.argv[1]) as file:
    document = yaml.safe_load(file)
with open(sys.argv[1], "w") as file:
    yaml.safe_dump(merged(document, json.loads(os.environ["AIM_EDIT"])), file)
"""


class Terminal:
    """A shell with a kubeconfig, and an editor that makes one change."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.editor = folder / "editor"
        self.editor.write_text(_EDITOR.format(python=sys.executable), "utf-8")
        self.editor.chmod(self.editor.stat().st_mode | stat.S_IXUSR)

    async def type(self, command: str, stdin: str = "", edit: JsonObject | None = None) -> str:
        """Run a command line; what it prints."""
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            start_new_session=True,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "KUBECONFIG": str(self.kubeconfig),
                "KUBE_EDITOR": str(self.editor),
                "AIM_EDIT": json.dumps(edit or {}),
            },
        )
        try:
            async with asyncio.timeout(60):
                out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                # The shell and what it started, such as a kubectl that waits for an hour.
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, (command, err.decode())
        return out.decode()

    async def ends(self, command: str, stdin: str) -> tuple[int, str]:
        """Run a command line that may fail; its code, and what it prints."""
        printed = await self.type(f"{command}; echo $?", stdin)
        answer, _, code = printed.rstrip().rpartition("\n")
        return int(code), answer

    async def apply(self, namespace: str, *manifests: str) -> None:
        """`kubectl apply` of what is not empty."""
        text = "\n---\n".join(one for one in manifests if one)
        if text:
            await self.type(f"kubectl apply -n {namespace} -f -", text.replace("{ns}", namespace))


def command_in(advice: str, beginning: str) -> str:
    """The command that begins so in what is advised.

    Two alternatives stand with a comma or a bracket between them.
    """
    assert beginning in advice, (beginning, advice)
    return re.split(r"(?:, or |\), |, kubectl )", advice[advice.index(beginning) :])[0]
