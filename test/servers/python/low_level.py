"""A server of the low level of the package mcp, version 1, over stdio."""

import json

import anyio
import mcp.server.stdio
from mcp import types
from mcp.server.lowlevel import Server

server = Server("python-low-level")


@server.list_tools()
async def tools() -> list[types.Tool]:
    return [types.Tool(name=name, inputSchema={"type": "object"}) for name in ("echo", "secret", "progress")]


@server.call_tool()
async def call(name: str, arguments: dict) -> list[types.TextContent]:
    text = json.dumps(arguments)
    if name == "secret":
        text = "the secret tool ran"
    if name == "progress":
        context = server.request_context
        for step in (1, 2):
            await context.session.send_progress_notification(context.meta.progressToken, step, 2)
        text = "done"
    return [types.TextContent(type="text", text=text)]


async def main() -> None:
    async with mcp.server.stdio.stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
