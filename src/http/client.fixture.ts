import { createServer, type Socket } from 'node:net';
import type { BodyMode, HttpClientPort, HttpRequest } from './client-port.ts';
import type { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

/** How a request of a test ended. */
export interface Ended {
  readonly status: number;
  readonly headers: ResponseHeaders | null;
  readonly pieces: readonly string[];
  readonly body: string;
  readonly failure: HttpFailure | null;
}

const tasks: (() => void)[] = [];

/** For the test in hand; run by `closeAll`. */
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
