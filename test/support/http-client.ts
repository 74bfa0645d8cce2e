import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { BodyMode, HttpClientPort, HttpRequest } from '../../src/http/client/client-port.ts';
import type { HttpFailure } from '../../src/http/client/http-failure.ts';
import type { ResponseHeaders } from '../../src/http/client/response-headers.ts';

/** How a request of a test ended. */
export interface Ended {
  readonly status: number;
  readonly headers: ResponseHeaders | null;
  readonly pieces: readonly string[];
  readonly body: string;
  readonly failure: HttpFailure | null;
}

const tasks: (() => void)[] = [];

/** Adds a task for the end of the test, where `closeAll` runs it. */
export function onCleanUp(task: () => void): void {
  tasks.push(task);
}

export function closeAll(): void {
  for (const task of tasks.splice(0)) task();
}

/** A TCP server on a free port of loopback; it ends with the test. */
export async function listenRaw(onSocket: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onCleanUp(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as { port: number }).port;
}

export function send(
  client: HttpClientPort,
  request: HttpRequest = { method: 'GET', path: '/', headers: [], body: [] },
  mode: BodyMode = 'stream',
): Promise<Ended> {
  return new Promise((resolve) => {
    let status = 0;
    let headers: ResponseHeaders | null = null;
    const pieces: string[] = [];
    const ended = (failure: HttpFailure | null): void =>
      resolve({ status, headers, pieces, body: pieces.join(''), failure });
    client.request(request, {
      head: (code, all) => {
        status = code;
        headers = all;
        return mode;
      },
      data: (chunk) => void pieces.push(chunk.toString('latin1')),
      end: () => ended(null),
      error: ended,
    });
  });
}

export function failureOf(ended: Ended): HttpFailure {
  assert.ok(ended.failure !== null, `expected a failure, got ${ended.status} ${ended.body}`);
  return ended.failure;
}

/** Calls `answer` for every chunk of bytes; a request without a body arrives in one chunk. */
export async function answering(
  answer: (count: number, socket: Socket) => void,
): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  let count = 0;
  const port = await listenRaw((socket) => {
    sockets.push(socket);
    socket.on('data', () => answer(++count, socket));
  });
  return { port, sockets };
}

export async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!condition()) {
    assert.ok(performance.now() < end, 'did not happen within 20 s');
    await delay(5);
  }
}
