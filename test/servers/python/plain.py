"""A server of nothing but the standard library, whose json writes NaN and Infinity where it finds them."""

import json
import sys

TOOLS = [
    {"name": "sound", "inputSchema": {"type": "object"}},
    {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": {"type": "number", "default": float("nan")}}}},
]

for line in sys.stdin:
    request = json.loads(line)
    result = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "python-plain", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "called"}]},
    }.get(request.get("method"))
    if "id" not in request or "method" not in request:
        continue
    answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
