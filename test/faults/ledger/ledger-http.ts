/** A ledger server behind a URL, as a process: `node ledger-http.ts <ledger file> <era> <port>`; prints its port. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Rpc } from '../../fixtures/http/rpc.ts';
import { LedgerFile } from './ledger-file.ts';
import { type LedgerEra, LedgerServer } from './ledger-server.ts';
import type { Wire } from './ledger-tools.ts';

const [path, era, port] = process.argv.slice(2);
const server = new LedgerServer(new LedgerFile(path!), era as LedgerEra);
const sessions = new Set<string>();

const http = createServer((request, response) => {
  if (request.method === 'DELETE') {
    sessions.delete(String(request.headers['mcp-session-id']));
    response.writeHead(200).end();
  } else if (request.method !== 'POST') response.writeHead(405, { allow: 'POST, DELETE' }).end();
  // A request that is cut off is discarded.
  else receive(request, response).catch(() => response.destroy());
});

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const message = JSON.parse(Buffer.concat(chunks).toString()) as Rpc;
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (era === 'stateful') {
    if (message.method === 'initialize') {
      const session = randomUUID();
      sessions.add(session);
      server.session(session);
      headers['mcp-session-id'] = session;
    } else if (message.method !== 'server/discover' && !sessions.has(String(request.headers['mcp-session-id']))) {
      response.writeHead(404).end();
      return;
    }
  }
  // Many gateways, and many sessions of each, count their requests from one.
  const scope = era === 'stateful' ? String(request.headers['mcp-session-id']) : randomUUID();
  if (message.id === undefined) {
    server.receive(message, { answer() {}, write() {}, stopReading() {} }, scope);
    response.writeHead(202).end();
    return;
  }
  const { id } = message;
  response.on('close', () => {
    if (!response.writableFinished) server.cancelled(id, scope);
  });
  const wire: Wire = {
    answer: (_message, result) =>
      response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result })),
    write: (bytes) => response.writeHead(era === 'stateless' ? 404 : 200, headers).end(bytes),
    stopReading() {},
  };
  server.receive(message, wire, scope);
}

// A process without CPU time sees a new request and its idle timeout at once, and handles the timeout first.
http.keepAliveTimeout = 60_000;

http.listen(Number(port ?? 0), '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ port: (http.address() as AddressInfo).port })}\n`);
});
// Exits with the process that started it.
process.stdin.on('end', () => process.exit(0)).resume();
