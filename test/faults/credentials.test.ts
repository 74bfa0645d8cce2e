import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { FaultBench, until } from './fault-bench.ts';
import { executed } from './ledger/ledger-entry.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';

const TOKEN = 'canary-4f1c-of-the-operator';
const CHALLENGE = `Bearer realm="canary-realm", resource_metadata="https://canary.example/metadata", scope="canary:all", error="invalid_token", error_description="no good: ${TOKEN}"`;
const CANARY = /canary|resource_metadata|invalid_token/i;

for (const era of ['stateful', 'stateless'] as const) {
  test(`fault:F20 ${era}: 401 during the life of a connection leads to auth_required; no text of the challenge reaches a client or the log`, async (t) => {
    const bench = new FaultBench(t);
    const remote = await LedgerHttpProcess.start(bench.ledger('remote'), era);
    t.after(() => remote.kill());
    const door = await Door.start(t, remote.port);
    const remoteServer = (token: string): Record<string, unknown> => ({
      type: 'http',
      url: door.url,
      headers: { Authorization: `Bearer ${token}` },
    });
    const servers = (token: string): Record<string, Record<string, unknown>> => ({
      remote: remoteServer(token),
      good: bench.stdio('good'),
    });
    await bench.start(servers(TOKEN), { log: { level: 'debug' } });
    await bench.gateway.ready();
    const client = await bench.opened('one');
    assert.equal((await client.call('remote__unsafe')).ending, 'RESULT');
    door.says = 401;
    const before = door.refused;
    const all = await Promise.all(Array.from({ length: 32 }, () => client.call('remote__unsafe')));
    for (const { ending, reason, call } of all) {
      assert.equal(ending, 'REFUSED', reason);
      assert.match(reason, /AUTH_REQUIRED|53006/);
      assert.doesNotMatch(reason, CANARY);
      assert.equal(executed(bench.ledger('remote'), call), 0);
    }
    await until('the server is auth_required', async () => (await bench.status('remote')).state === 'auth_required');
    assert.ok(door.refused - before <= 3 * 32, `asked ${door.refused - before} times`);
    // The gateway sends the server no more requests, and no client receives a part of the challenge on any path.
    const knocked = door.refused;
    for (const path of [bench.gateway.mcpUrl, bench.gateway.serverUrl('remote')]) {
      const answer = await rawCall(path, path === bench.gateway.mcpUrl ? 'remote__unsafe' : 'unsafe');
      assert.equal(answer.headers.get('www-authenticate'), null);
      assert.doesNotMatch(JSON.stringify([...answer.headers]), CANARY);
      const text = await answer.text();
      assert.match(text, /credentials/);
      assert.doesNotMatch(text, CANARY);
    }
    assert.equal(door.refused, knocked);
    assert.equal((await client.call('good__unsafe')).ending, 'RESULT');
    assert.doesNotMatch(JSON.stringify(await bench.status('remote')), new RegExp(TOKEN));
    // New credentials are enough.
    door.says = 'other';
    bench.gateway.rewrite({ log: { level: 'debug' }, mcpServers: servers('another-one') });
    await until('a call succeeds again', async () => (await client.call('remote__unsafe')).ending === 'RESULT');
    assert.doesNotMatch(bench.gateway.stderr, CANARY);
    assert.match(bench.gateway.stderr, /auth_required/);
    assert.deepEqual(bench.violations(['remote', 'good']), []);
  });

  test(`fault:F20 ${era}: 401 and 403 at the first contact: auth_required, no crash loop, callers are REFUSED`, async (t) => {
    for (const status of [401, 403] as const) {
      const bench = new FaultBench(null);
      const remote = await LedgerHttpProcess.start(bench.ledger('remote'), era);
      t.after(() => remote.kill());
      t.after(() => bench.dispose());
      const door = await Door.start(t, remote.port);
      door.says = status;
      await bench.start({ remote: { type: 'http', url: door.url } }, { log: { level: 'debug' } });
      await until('the server is auth_required', async () => (await bench.status('remote')).state === 'auth_required');
      const knocked = door.refused;
      const client = await bench.opened('one');
      for (let i = 0; i < 5; i++) {
        const attempt = await client.call('remote__unsafe', {}, { own: 'unsafe' });
        assert.equal(attempt.ending, 'REFUSED', attempt.reason);
        assert.doesNotMatch(attempt.reason, CANARY);
      }
      assert.equal(door.refused, knocked);
      const { reason } = await bench.status('remote');
      assert.doesNotMatch(`${reason} ${bench.gateway.stderr}`, CANARY);
      assert.deepEqual(bench.violations(['remote']), []);
    }
  });
}

test('fault:F20 403 to one call refuses that call and no other', async (t) => {
  const bench = new FaultBench(t);
  const remote = await LedgerHttpProcess.start(bench.ledger('remote'), 'stateful');
  t.after(() => remote.kill());
  const door = await Door.start(t, remote.port);
  await bench.start({ remote: { type: 'http', url: door.url } });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  door.says = 'once 403';
  const refused = await client.call('remote__unsafe');
  assert.equal(refused.ending, 'REFUSED', refused.reason);
  assert.doesNotMatch(refused.reason, CANARY);
  assert.equal((await client.call('remote__unsafe')).ending, 'RESULT');
  assert.equal((await bench.status('remote')).state, 'connected');
  assert.doesNotMatch(bench.gateway.stderr, CANARY);
  assert.deepEqual(bench.violations(['remote']), []);
});

function rawCall(url: string, name: string): Promise<Response> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: { call: 'x' }, _meta },
    }),
  });
}

/** A proxy before a server; it refuses requests that do not have the right credentials. */
class Door {
  /** `open`; a status for every request; `other`: 401 to the old token; `once 403`: 403 to the next tool call. */
  says: 'open' | 401 | 403 | 'other' | 'once 403' = 'open';
  refused = 0;
  readonly #target: number;
  readonly #server = createServer((near, answer) => void this.#receive(near, answer));

  static async start(t: TestContext, target: number): Promise<Door> {
    const door = new Door(target);
    await new Promise<void>((resolve) => door.#server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      door.#server.close();
      door.#server.closeAllConnections();
    });
    return door;
  }

  private constructor(target: number) {
    this.#target = target;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  async #receive(near: IncomingMessage, answer: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of near) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const status = this.#judge(near, body.toString());
    if (status !== null) {
      this.refused++;
      answer.writeHead(status, { 'www-authenticate': CHALLENGE, 'content-type': 'text/plain' }).end('go away');
      return;
    }
    const { method, headers } = near;
    const far = request({ port: this.#target, host: '127.0.0.1', path: '/mcp', method, headers }, (reply) => {
      answer.writeHead(reply.statusCode!, reply.headers);
      reply.pipe(answer);
    });
    far.on('error', () => answer.destroy()).end(body);
  }

  #judge({ headers }: IncomingMessage, body: string): number | null {
    if (this.says === 'other') return headers.authorization?.includes(TOKEN) === true ? 401 : null;
    if (this.says === 'once 403') {
      if (!body.includes('"tools/call"')) return null;
      this.says = 'open';
      return 403;
    }
    return this.says === 'open' ? null : this.says;
  }
}
