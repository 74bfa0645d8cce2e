import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { type FakeServer, transportContract } from '../../../test/contracts/transport.contract.ts';
import { makeTransport } from '../../../test/fixtures/http/bench.ts';
import { parseRpc } from '../../../test/fixtures/http/rpc.ts';
import { eventText, HttpStage, openEvents, type StageRequest, sendJson } from '../../../test/fixtures/http/stage.ts';
import type { TransportReceiver } from './transport.ts';

type Wire = 'http with event streams' | 'http with JSON' | 'sse' | 'json';

/** The server that the contract controls, behind each transport over HTTP. */
class PlayedServer implements FakeServer {
  readonly #wire: Wire;
  readonly #bodies: Buffer[] = [];
  readonly #takers: ((body: Buffer) => void)[] = [];
  readonly #replies = new Map<number, ServerResponse>();
  #common: ServerResponse | null = null;
  #stage: HttpStage | null = null;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  async start(): Promise<HttpStage> {
    this.#stage = await HttpStage.start((request) => this.#handle(request));
    return this.#stage;
  }

  next(): Promise<Buffer> {
    const body = this.#bodies.shift();
    if (body !== undefined) return Promise.resolve(body);
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  answer(request: number, message: Buffer): void {
    if (this.#wire === 'sse') {
      this.push(message);
      return;
    }
    const res = this.#replies.get(request)!;
    if (this.#wire === 'http with event streams') res.end(event(message));
    else res.writeHead(200, { 'content-type': 'application/json' }).end(message);
  }

  emit(request: number, message: Buffer): void {
    if (this.#wire === 'sse') this.push(message);
    else this.#replies.get(request)!.write(event(message));
  }

  push(message: Buffer): void {
    assert.ok(this.#common !== null);
    this.#common.write(event(message));
  }

  die(): void {
    this.#stage?.die();
  }

  #handle(request: StageRequest): void {
    const { method, res, body } = request;
    if (method === 'GET') {
      openEvents(res);
      if (this.#wire === 'sse') res.write(eventText({ name: 'endpoint', data: '/message?sessionId=contract' }));
      this.#common = res;
      return;
    }
    if (method !== 'POST') {
      sendJson(res, 405, {});
      return;
    }
    const { id } = parseRpc(body);
    if (this.#wire === 'sse' || id === undefined) res.writeHead(202).end();
    else {
      this.#replies.set(Number(id), res);
      if (this.#wire === 'http with event streams') openEvents(res);
    }
    const take = this.#takers.shift();
    if (take === undefined) this.#bodies.push(body);
    else take(body);
  }
}

/** The odd bytes of the contract have no line break in them, so one `data` line carries each. */
function event(message: Buffer): Buffer {
  return Buffer.concat([Buffer.from('data: '), message, Buffer.from('\n\n')]);
}

for (const wire of ['http with event streams', 'http with JSON', 'sse', 'json'] as const) {
  const streams = wire === 'http with event streams' || wire === 'sse';
  transportContract({
    name: wire,
    pushes: streams,
    emits: streams,
    endsWithServer: wire === 'sse',
    async start(receiver: TransportReceiver) {
      const server = new PlayedServer(wire);
      const stage = await server.start();
      const type = wire === 'sse' || wire === 'json' ? wire : 'http';
      const transport = makeTransport(type, `${stage.origin}/mcp`);
      await transport.open(receiver);
      if (wire === 'http with event streams') {
        transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId: 'contract' });
        await stage.until(() => stage.of('GET').length === 1);
      }
      return { transport, server, dispose: () => stage.stop() };
    },
  });
}
