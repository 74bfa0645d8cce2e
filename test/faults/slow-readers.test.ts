import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ordinaryResult, parseRpc, type Rpc, resultOf } from '../fixtures/http/rpc.ts';
import { eventText, HttpStage, openEvents, sendJson } from '../fixtures/http/stage.ts';
import { until } from './fault-bench.ts';
import { InProcessGateway } from './in-process.ts';

const MIB = 1024 * 1024;
/** Far more than kernels buffer for two connections in a row. */
const EVENTS = 1_024;
const BYTES = 64 * 1024;

/** A server whose tool `flood` reports progress as fast as it is read, and `echo` answers at once. */
class FloodingServer {
  stage!: HttpStage;
  /** Events of the flood that were written, and how its stream ended. */
  written = 0;
  ended: 'answered' | 'cut' | null = null;

  async start(): Promise<void> {
    this.stage = await HttpStage.start(({ method, body, res }) => {
      if (method !== 'POST') sendJson(res, method === 'GET' ? 405 : 200, {});
      else this.#take(parseRpc(body), res);
    });
  }

  #take(message: Rpc, res: ServerResponse): void {
    if (message.id === undefined) res.writeHead(202).end();
    else if (message.method === 'server/discover') sendJson(res, 404, {});
    else if (message.method === 'initialize') {
      const serverInfo = { name: 'flooding', version: '1' };
      sendJson(res, 200, resultOf(message, { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }));
    } else if (message.method === 'tools/list') {
      const tools = ['flood', 'echo'].map((name) => ({ name, inputSchema: { type: 'object' } }));
      sendJson(res, 200, resultOf(message, { tools }));
    } else if (message.params?.name === 'flood') this.#flood(message, res);
    else sendJson(res, 200, resultOf(message, ordinaryResult(message)));
  }

  #flood(message: Rpc, res: ServerResponse): void {
    openEvents(res);
    const progressToken = message.params?._meta?.['progressToken'];
    const text = 'x'.repeat(BYTES);
    res.on('close', () => {
      this.ended ??= 'cut';
    });
    const go = (): void => {
      while (this.written < EVENTS) {
        const params = { progressToken, progress: ++this.written, message: text };
        const data = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params });
        if (res.write(eventText({ data }))) continue;
        res.once('drain', go);
        return;
      }
      this.ended = 'answered';
      res.end(eventText({ data: resultOf(message, { content: [] }) }));
    };
    go();
  }
}

interface Rig {
  readonly gateway: InProcessGateway;
  readonly server: FloodingServer;
  /** Sends a request on a connection of its own; the answer is not read. */
  send(message: object, headers: Readonly<Record<string, string>>): Socket;
}

async function rig(t: TestContext, stallMs: number): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-faults-'));
  const server = new FloodingServer();
  await server.start();
  const one = { type: 'http', url: `${server.stage.origin}/mcp`, isolation: 'shared' };
  const gateway = await InProcessGateway.start(folder, { mcpServers: { one } }, stallMs);
  const sockets: Socket[] = [];
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await gateway.close();
    await server.stage.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const { hostname, port, host } = new URL(gateway.url);
  const send = (message: object, headers: Readonly<Record<string, string>>): Socket => {
    const socket = connect(Number(port), hostname).on('error', () => {});
    socket.pause();
    sockets.push(socket);
    const body = JSON.stringify(message);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const accept = 'accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n';
    socket.write(
      `POST /mcp HTTP/1.1\r\nhost: ${host}\r\n${accept}${lines.join('')}content-length: ${body.length}\r\n\r\n${body}`,
    );
    return socket;
  };
  return { gateway, server, send };
}

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** A call of a stateless client; `token` asks for progress. */
function modern(name: string, token?: string): [message: object, headers: Record<string, string>] {
  const _meta = token === undefined ? META : { ...META, progressToken: token };
  const params = { name, arguments: { text: 'here' }, _meta };
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name };
  return [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, headers];
}

async function echoed(gateway: InProcessGateway): Promise<string> {
  const [message, headers] = modern('one__echo');
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(message),
  });
  return response.text();
}

/** Waits until all buffers between the client, which reads nothing, and the server are full. */
async function stalled({ gateway, server }: Rig): Promise<void> {
  await until('bytes are held for the client', () => gateway.wheel.heldBytes > 0, 60_000);
  for (let before = -1, same = 0; same < 20; await sleep(10)) {
    same = server.written === before ? same + 1 : 0;
    before = server.written;
  }
}

test('fault:F16 an unread stream stops the reading of its own call’s stream from the server, and of no other; nothing is lost', async (t) => {
  const own = await rig(t, 60_000);
  const { gateway, server, send } = own;
  let mostHeld = 0;
  const watch = setInterval(() => {
    mostHeld = Math.max(mostHeld, gateway.wheel.heldBytes);
  }, 1);
  t.after(() => clearInterval(watch));
  const socket = send(...modern('one__flood', 'token'));
  await stalled(own);
  assert.equal(server.ended, null);
  assert.ok(server.written < EVENTS, 'the server was read to the end');
  assert.ok(mostHeld < MIB, `${mostHeld} bytes were held`);
  assert.match(await echoed(gateway), /"here"/);
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += String(chunk).replace(/x{9,}/g, '');
  });
  socket.resume();
  await until('all events have arrived', () => text.includes('"content":[]'), 60_000);
  assert.deepEqual(
    [...text.matchAll(/"progress":(\d+)/g)].map(([, n]) => Number(n)),
    Array.from({ length: EVENTS }, (_, i) => i + 1),
  );
  assert.doesNotMatch(text, /dropped/);
  assert.match(await echoed(gateway), /"here"/);
});

test('fault:F16 a stateless client that is cut for not reading cancels its call', async (t) => {
  const own = await rig(t, 1_000);
  own.send(...modern('one__flood', 'token'));
  await until('the server’s stream has ended', () => own.server.ended !== null, 60_000);
  assert.equal(own.server.ended, 'cut');
  assert.deepEqual([own.gateway.wheel.open, own.gateway.wheel.heldBytes], [0, 0]);
  assert.match(await echoed(own.gateway), /"here"/);
});

test('fault:F16 after a session’s client is cut for not reading, its call is read on, into the log of the stream', async (t) => {
  const own = await rig(t, 1_000);
  const { gateway, server, send } = own;
  const clientInfo = { name: 'test', version: '1' };
  const handshake = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: handshake }),
  });
  await response.text();
  const session = { 'mcp-session-id': response.headers.get('mcp-session-id')!, 'mcp-protocol-version': '2025-11-25' };
  const params = { name: 'one__flood', arguments: {}, _meta: { progressToken: 'token' } };
  send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, session);
  await until('the stream stalls', () => gateway.wheel.heldBytes > 0, 60_000);
  await until('the stream is cut', () => gateway.wheel.open === 0, 60_000);
  await until('the server was read to the end', () => server.ended === 'answered', 60_000);
  assert.equal(gateway.wheel.heldBytes, 0);
});
