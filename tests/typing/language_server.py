"""A session with pyright's language server, as an editor has it: hovers over places of a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Session:
    """A running server, for one project; a context manager.

    Args:
      command: the server's program.
      root: the folder of the project.
      python: the interpreter whose packages the project uses.
    """

    def __init__(self, command: str, root: Path, python: str) -> None:
        self._command, self._root, self._python, self._last = command, root, python, 0

    def __enter__(self) -> Session:
        self._server = subprocess.Popen(
            [self._command, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        folder = {"uri": self._root.as_uri(), "name": self._root.name}
        hover = {"hover": {"contentFormat": ["markdown"]}}
        self._request(
            "initialize",
            processId=None,
            rootUri=self._root.as_uri(),
            workspaceFolders=[folder],
            capabilities={"textDocument": hover, "workspace": {"configuration": True}},
        )
        self._send({"method": "initialized", "params": {}})
        return self

    def __exit__(self, *_: object) -> None:
        self._request("shutdown")
        self._send({"method": "exit"})
        self._server.wait(timeout=60)
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()

    def hovers(self, path: Path, text: str, places: Iterable[tuple[int, int]]) -> list[str]:
        """What is shown at places of a file, each a line and a column from 0 on; "" for nothing.

        The file need not be there: the server takes it for one that is not saved yet.
        """
        document = {"uri": path.as_uri()}
        opened = {**document, "languageId": "python", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": opened}})
        found = []
        for line, character in places:
            place = {"line": line, "character": character}
            shown = self._request("textDocument/hover", textDocument=document, position=place)
            found.append(shown["contents"]["value"] if shown else "")
        return found

    def _request(self, method: str, **params: Any) -> Any:
        self._last += 1
        number = self._last
        self._send({"id": number, "method": method, "params": params or None})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                return message["result"]
            if "id" in message:  # the server asks
                self._send({"id": message["id"], "result": self._answer(message)})

    def _answer(self, message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        settings = {"python": {"pythonPath": self._python}}
        return [settings.get(item["section"]) for item in message["params"]["items"]]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        length = 0
        while (header := self._server.stdout.readline().strip()) != b"":
            name, value = header.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._server.stdout.read(length))
        return message
