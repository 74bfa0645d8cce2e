/**
 * The measured server over Streamable HTTP: does the least work that an answer needs. Arguments: era, tools. Each path is
 * a separate server, so that one process serves as fifty. Prints its port on standard output.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Asked, answerJson, resultJson, toolsJson } from './answers.ts';

const stateless = process.argv[2] === 'stateless';
const tools = toolsJson(Number(process.argv[3] ?? 2));
const EXTRA = stateless ? '"resultType":"complete",' : '';
const CACHE = stateless ? `${EXTRA}"ttlMs":3600000,"cacheScope":"public",` : '';
const DISCOVERED = `{${CACHE}"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`;
let sessions = 0;

const server = createServer((request, response) => {
  if (request.method === 'DELETE') {
    response.writeHead(200, { 'content-length': 0 }).end();
    return;
  }
  if (request.method !== 'POST') {
    response.writeHead(405, { allow: 'POST, DELETE', 'content-length': 0 }).end();
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => answer(request, response, JSON.parse(Buffer.concat(chunks).toString()) as Asked));
});

function answer(request: IncomingMessage, response: ServerResponse, asked: Asked): void {
  if (asked.id === undefined) {
    response.writeHead(202, { 'content-length': 0 }).end();
    return;
  }
  const otherEra = stateless && request.headers['mcp-protocol-version'] !== '2026-07-28';
  const result = otherEra ? null : resultOf(asked);
  const body = Buffer.from(answerJson(asked, result));
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': body.length,
  };
  if (!stateless && asked.method === 'initialize') headers['mcp-session-id'] = `bench-${++sessions}`;
  response.writeHead(result === null ? (stateless ? 404 : 400) : 200, headers).end(body);
}

function resultOf(asked: Asked): string | null {
  if (stateless && asked.method === 'server/discover') return DISCOVERED;
  if (stateless && asked.method === 'initialize') return null;
  return resultJson(asked, tools, asked.method === 'tools/list' ? CACHE : EXTRA);
}

server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
