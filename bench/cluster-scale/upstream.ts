/**
 * The servers of `cluster-scale`: one process in which any path is an MCP server of its own with two tools. Those whose name
 * begins with `live` announce changes of their lists on a GET stream; `POST /change/NAME` adds a tool to one. Prints its port.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Asked, answerJson, resultJson, toolsJson } from '../upstream/answers.ts';
import { LIVE, TOOLS_EACH } from './sizes.ts';

const LIVE_CAPABILITIES = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}`;
const CHANGED = 'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n';
/** Short: each of fifty nodes opens thousands of connections, which must not all stay open. */
const KEEP_ALIVE_MS = 2_000;

const lists = new Map<number, string>();
const tools = new Map<string, number>();
const streams = new Map<string, Set<ServerResponse>>();
let sessions = 0;

const server = createServer((request, response) => {
  const path = request.url ?? '';
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (path.startsWith('/change/')) {
    tools.set(name, toolsOf(name) + 1);
    const listening = streams.get(name) ?? new Set();
    for (const stream of listening) stream.write(CHANGED);
    response.end(JSON.stringify({ listening: listening.size }));
    return;
  }
  if (request.method === 'GET' && name.startsWith(LIVE)) {
    const listening = streams.get(name) ?? new Set();
    streams.set(name, listening.add(response));
    response.once('close', () => listening.delete(response));
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    return;
  }
  if (request.method !== 'POST') {
    response.writeHead(request.method === 'DELETE' ? 200 : 405, { 'content-length': 0 }).end();
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => answer(name, response, JSON.parse(Buffer.concat(chunks).toString()) as Asked));
});

function answer(name: string, response: ServerResponse, asked: Asked): void {
  if (asked.id === undefined) {
    response.writeHead(202, { 'content-length': 0 }).end();
    return;
  }
  const live = name.startsWith(LIVE) && asked.method === 'initialize';
  const result = live ? LIVE_CAPABILITIES : resultJson(asked, listOf(toolsOf(name)), '');
  const body = Buffer.from(answerJson(asked, result));
  response.setHeader('content-type', 'application/json');
  if (asked.method === 'initialize') response.setHeader('mcp-session-id', `bench-${++sessions}`);
  response.writeHead(result === null ? 400 : 200, { 'content-length': body.length }).end(body);
}

function toolsOf(name: string): number {
  return tools.get(name) ?? TOOLS_EACH;
}

function listOf(count: number): string {
  const list = lists.get(count) ?? toolsJson(count);
  lists.set(count, list);
  return list;
}

server.keepAliveTimeout = KEEP_ALIVE_MS;
server.listen(0, '127.0.0.1', 4_096, () => console.log((server.address() as AddressInfo).port));
