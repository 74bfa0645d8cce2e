import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { Listener, type ListenerOptions, type ListenerSettings } from '../../src/http/listener/listener.ts';

export interface ListenerRig {
  readonly listener: Listener;
  readonly port: number;
  /** Paths and bodies of the requests that reached a handler. */
  readonly reached: string[];
  readonly logged: string[];
  readonly refused: string[];
}

export const BASE_SETTINGS: ListenerSettings = {
  host: '127.0.0.1',
  port: 0,
  tls: null,
  allowedHosts: [],
  allowedOrigins: [],
  trustedProxies: [],
  maxBodyBytes: 64 * 1024,
  maxConnections: 1_000,
};

/** A listener with routes like the gateway's, whose handlers only record that they were reached. */
export async function listenerRig(
  t: TestContext,
  settings: Partial<ListenerSettings> = {},
  options: Partial<ListenerOptions> = {},
): Promise<ListenerRig> {
  const reached: string[] = [];
  const logged: string[] = [];
  const refused: string[] = [];
  const log = (event: string, fields?: Record<string, unknown>): void =>
    void logged.push(`${event} ${JSON.stringify(fields ?? {})}`);
  const listener = new Listener({
    settings: { ...BASE_SETTINGS, ...settings },
    log: { info: log, warn: log, error: log },
    onRefused: (code) => refused.push(code),
    ...options,
  });
  for (const path of ['/mcp', '/servers/{name}/mcp']) {
    listener.routes.add(path, {
      POST: (context) =>
        context.readJson((body) => {
          reached.push(`${context.path} ${context.param} ${body}`);
          context.json(200, '{"fine":true}');
        }),
      GET: (context) => {
        reached.push(context.path);
        context.json(200, '{"fine":true}');
      },
    });
  }
  const { port } = await listener.listen();
  t.after(() => listener.close());
  return { listener, port, reached, logged, refused };
}

export interface Talk {
  /** Everything that came back, as latin1. */
  readonly text: string;
  readonly statuses: number[];
  readonly closed: boolean;
}

/** The header lines that decide which lane a request is in. */
export const LANES = { 'the fast path for plain requests': '', 'node:http': 'X-Twice: 1\r\nX-Twice: 2\r\n' };

/** Sent first, and answered with 200, this request leaves the connection in the fast path for plain requests. */
export const PLAIN = post();
/** This request moves the connection to `node:http` permanently: a harmless header is in it twice. */
export const ODD = post(['X-Twice: 1', 'X-Twice: 2']);

/**
 * Sends bytes as they are and collects the bytes that come back until the server closes, or sends nothing more for `quietMs`
 * after an answer. `before` is sent first on the same connection; its answer is not in the result.
 */
export function talk(
  port: number,
  bytes: string | Buffer,
  quietMs = 150,
  limitMs = 8_000,
  before: string | null = null,
): Promise<Talk> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    let begun = before === null;
    let quiet: NodeJS.Timeout | undefined;
    const finish = (closed: boolean): void => {
      clearTimeout(limit);
      clearTimeout(quiet);
      socket.destroy();
      const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
      resolve({ text, statuses, closed });
    };
    const limit = setTimeout(() => {
      socket.destroy();
      clearTimeout(quiet);
      reject(new Error(`no end within ${limitMs} ms; got ${JSON.stringify(text.slice(0, 200))}`));
    }, limitMs);
    socket.on('error', () => {});
    socket.on('close', () => finish(true));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!begun) {
        if (!/\r\n\r\n\{"fine":true\}$/.test(text)) return;
        begun = true;
        text = '';
        socket.write(bytes as Buffer);
        return;
      }
      clearTimeout(quiet);
      if (!/HTTP\/1\.1 100/.test(text)) quiet = setTimeout(() => finish(false), quietMs);
    });
    socket.write((before ?? bytes) as Buffer);
  });
}

/** A request with the headers a proper client sends; `lines` more of them. */
export function post(lines: readonly string[] = [], body = '{"a":1}', path = '/mcp', host = 'localhost:1'): string {
  const all = [
    `POST ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${[...all, ...lines].join('\r\n')}\r\n\r\n${body}`;
}
