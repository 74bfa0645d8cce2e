import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { until } from '../faults/fault-bench.ts';
import { type Rpc, resultOf } from '../fixtures/http/rpc.ts';
import { eventText, openEvents, sendJson } from '../fixtures/http/stage.ts';
import { StatelessServer } from '../fixtures/http/stateless.ts';
import { inLanes } from './lean-client.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const KIB = 1024;
const LANES = 16;
const URI = 'thing://1';
const UPDATED = 'notifications/resources/updated';

/** The scenario at any size; `npm test` runs it small. */
export async function listenToOne({ say }: Pick<Run, 'say'>, count: number): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const server = new Watched();
  await server.start();
  const listeners: Listener[] = [];
  try {
    await gateway.start(
      { one: { type: 'http' as const, url: server.url } },
      { sessions: { max: 2 * count, maxPerPrincipal: 2 * count }, log: { level: 'warn' } },
    );
    const first = new Listener(gateway.url);
    await first.open();
    await until('the server has the subscription', () => server.open === 1);
    const before = await gateway.probe();
    await inLanes(count, LANES, async () => {
      const listener = new Listener(gateway.url);
      listeners.push(listener);
      await listener.open();
    });
    say(`${count} listen`);
    const during = await gateway.probe();
    const mostOpen = server.mostOpen;
    const from = performance.now();
    server.update();
    await until('all listeners have the update', () => listeners.every(({ updates }) => updates > 0), 60_000);
    const took = performance.now() - from;
    const heard = listeners.filter(({ updates }) => updates === 1).length;
    for (const listener of [first, ...listeners]) listener.close();
    await until('the server has no subscription', () => server.open === 0, 60_000);
    const after = await gateway.probe();
    return {
      figures: [
        figure('listeners on one resource', count, ''),
        figure('subscriptions at the server, at most', mostOpen, '', 1),
        figure('subscriptions at the server when all have gone', server.open, '', 0),
        figure('listeners that did not get the update exactly once', count - heard, '', 0),
        figure('until the last listener had it', took, 'ms'),
        figure('resident memory of each', (during.rssBytes - before.rssBytes) / count / KIB, 'KiB'),
        figure('heap of each, after GC', (during.heapBytes - before.heapBytes) / count / KIB, 'KiB'),
        figure('timers more than before', Math.max(0, after.timers - before.timers), '', 0),
      ],
      broken: [],
    };
  } finally {
    for (const listener of listeners) listener.close();
    await gateway.bench.dispose();
    await server.stop();
  }
}

/** A stateless server with one resource, which counts the subscriptions to it. */
class Watched {
  #server!: StatelessServer;
  readonly #streams = new Map<ServerResponse, Rpc>();
  mostOpen = 0;

  get url(): string {
    return this.#server.url;
  }

  get open(): number {
    return this.#streams.size;
  }

  async start(): Promise<void> {
    this.#server = await StatelessServer.start({
      intercept: (message, { res }) => {
        if (message.method === 'server/discover') sendJson(res, 200, resultOf(message, DISCOVERED));
        else if (message.method === 'resources/list') sendJson(res, 200, resultOf(message, LISTED));
        else if (message.method === 'subscriptions/listen' && JSON.stringify(message.params).includes(URI)) {
          this.#listen(message, res);
        } else return false;
        return true;
      },
    });
  }

  update(): void {
    for (const [res, { id }] of this.#streams) {
      res.write(eventText({ data: notice(UPDATED, { uri: URI, _meta: tag(id) }) }));
    }
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  #listen(message: Rpc, res: ServerResponse): void {
    this.#streams.set(res, message);
    this.mostOpen = Math.max(this.mostOpen, this.open);
    res.on('close', () => this.#streams.delete(res));
    openEvents(res);
    const params = { notifications: { resourceSubscriptions: [URI] }, _meta: tag(message.id) };
    res.write(eventText({ data: notice('notifications/subscriptions/acknowledged', params) }));
  }
}

const HINTS = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' };
const DISCOVERED = {
  ...HINTS,
  supportedVersions: ['2026-07-28'],
  capabilities: { resources: { subscribe: true } },
  serverInfo: { name: 'watched', version: '1' },
};
const LISTED = { ...HINTS, resources: [{ uri: URI, name: 'thing' }] };

function tag(id: Rpc['id']): object {
  return { 'io.modelcontextprotocol/subscriptionId': id };
}

function notice(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', method, params });
}

/** A client that listens and keeps nothing but a count. */
class Listener {
  updates = 0;
  readonly #url: URL;
  #socket: Socket | null = null;

  constructor(url: URL) {
    this.#url = url;
  }

  /** Resolves when the acknowledgement is there. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(this.#url.port), this.#url.hostname);
      this.#socket = socket;
      socket.setEncoding('latin1').on('error', reject);
      socket.on('close', () => reject(new Error('the stream was closed before its acknowledgement')));
      socket.on('data', (text: unknown) => {
        if (String(text).includes('acknowledged')) resolve();
        this.updates += String(text).split(UPDATED).length - 1;
      });
      socket.write(listenRequest(this.#url));
    });
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = null;
  }
}

function listenRequest({ host, pathname }: URL): string {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'prover', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = { notifications: { resourceSubscriptions: [URI] }, _meta: meta };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params });
  return [
    `POST ${pathname} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    'accept: application/json, text/event-stream',
    'mcp-protocol-version: 2026-07-28',
    'mcp-method: subscriptions/listen',
    `content-length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
}

export const LISTENERS: Proof = {
  id: 'listeners',
  group: 'soak',
  claim:
    '10 000 listeners on one resource of a stateless server need at most one subscription there, and each gets the update once',
  shortened: null,
  run: (run) => listenToOne(run, 10_000),
};
