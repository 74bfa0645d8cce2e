"""A server of the package mcp: FastMCP of version 1, MCPServer of version 2. Over stdio, or over HTTP at the port given."""

import json
import sys
from typing import Annotated, Any

import anyio
from pydantic import BaseModel

if sys.argv[1] == "1":
    from mcp.server.fastmcp import Context, FastMCP as Server
else:
    from mcp.server.mcpserver import Context, MCPServer as Server

waiting = 0
server = Server("python-high-level")


class Name(BaseModel):
    name: str


@server.tool()
def echo(value: Any) -> str:
    return json.dumps(value)


@server.tool()
def secret() -> str:
    return "the secret tool ran"


@server.tool()
async def progress(ctx: Context) -> str:
    for step in (1, 2):
        await ctx.report_progress(step, 2)
    return "done"


@server.tool()
async def wait() -> str:
    global waiting
    waiting += 1
    try:
        await anyio.sleep_forever()
    finally:
        waiting -= 1
    return "never"


@server.tool(name="waiting")
def count() -> str:
    return str(waiting)


if sys.argv[1] == "1":

    @server.tool()
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", Name)
        return f"{answer.action} {answer.data.name if answer.action == 'accept' else None}"

else:
    from mcp.server.mcpserver import Elicit, Resolve

    async def name_of() -> Elicit[Name]:
        return Elicit("Your name?", Name)

    @server.tool()
    async def ask(name: Annotated[Name, Resolve(name_of)]) -> str:
        return f"accept {name.name}"


@server.tool()
async def grow(ctx: Context) -> str:
    server.add_tool(lambda: "grown", name="grown")
    await ctx.session.send_tool_list_changed()
    return "grows"


if len(sys.argv) > 2:
    import uvicorn

    uvicorn.run(server.streamable_http_app(), port=int(sys.argv[2]), log_level="error")
else:
    server.run()
