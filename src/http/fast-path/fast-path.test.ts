import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { listenerRig, ODD, PLAIN, post, talk } from '../../../test/support/http-listener.ts';
import { BodyBudget } from '../context/body-budget.ts';
import type { RequestContext } from '../listener/request-context.ts';
import { FastPath } from './fast-path.ts';
import type { FastPathOptions } from './fast-path-connection.ts';
import type { FastPathContext } from './fast-path-context.ts';

const budget = new BodyBudget();

interface FastPathRig {
  /** `plain` or `node`, and the target and body, of each request in the order they came. */
  readonly seen: string[];
  /** Plain requests that wait for an answer, where `answers` is false. */
  readonly waiting: FastPathContext[];
  readonly over: string[];
  /** Connections that went to `node:http`. */
  handedOver(): number;
  open(): Client;
}

interface Client {
  readonly socket: Socket;
  text(): string;
  closed(): boolean;
}

/** A server with a fast path that records which path each request took. */
async function rig(t: TestContext, options: Partial<FastPathOptions> = {}, answers = true): Promise<FastPathRig> {
  const seen: string[] = [];
  const waiting: FastPathContext[] = [];
  const over: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    let body = '';
    request.on('data', (chunk) => void (body += chunk));
    request.on('end', () => {
      seen.push(`node ${request.url} ${body}`);
      response.end(`node ${request.url};`);
    });
  });
  let handedOver = 0;
  server.on('connection', () => handedOver++);
  const fastPath = new FastPath(server, {
    encrypted: false,
    tickMs: 5_000,
    keepAliveMs: 65_000,
    maxRequests: 100,
    bodies: budget,
    onMalformed: () => over.push('malformed'),
    serve: (http) => {
      http.readBody(0, budget, (body) => seen.push(`plain ${http.target} ${body}`));
      http.watch({ closed: () => over.push(`${http.target} ${http.finished ? 'out' : 'gone'}`) });
      if (answers) http.send(200, 'text/plain', [Buffer.from(`plain ${http.target};`)], []);
      else waiting.push(http);
    },
    ...options,
  });
  server.listen(0, '127.0.0.1');
  await until(() => server.listening);
  t.after(() => {
    fastPath.closeAll();
    server.closeAllConnections();
    server.close();
  });
  const open = (): Client => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    let text = '';
    let closed = false;
    socket.on('error', () => {});
    socket.on('data', (chunk) => void (text += chunk.toString('latin1')));
    socket.on('close', () => {
      closed = true;
    });
    t.after(() => socket.destroy());
    return { socket, text: () => text, closed: () => closed };
  };
  return { seen, waiting, over, handedOver: () => handedOver, open };
}

const bodies = (text: string): string[] => text.match(/(?:plain|node) [^;\r\n]*;/g) ?? [];
const chunked = (path: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`;

describe('the fast path for plain requests', () => {
  test('answers like node:http, to the last header', async (t) => {
    const { listener, port } = await listenerRig(t);
    listener.routes.add('/empty', { POST: (context) => context.empty(202, ['X-A', 'b']) });
    listener.routes.add('/none', { POST: (context) => context.empty(204) });
    listener.routes.add('/parts', {
      POST: (context) => context.answer(200, 'text/plain', [Buffer.alloc(9_000, 'x'), Buffer.alloc(9_000, 'y')]),
    });
    listener.routes.add('/events', {
      POST: (context) => {
        const stream = context.openSse();
        stream.retry(1);
        stream.end();
      },
    });
    const parts = (text: string): [Set<string>, string] => {
      const end = text.indexOf('\r\n\r\n');
      const lines = text.slice(0, end).replace(/Date: [^\r]*/, 'Date: now');
      return [new Set(lines.split('\r\n')), text.slice(end)];
    };
    for (const path of ['/mcp', '/nothing', '/empty', '/none', '/parts', '/events']) {
      const [plain, odd] = await Promise.all(
        [PLAIN, ODD].map((before) => talk(port, post([], '{}', path), 100, 8_000, before)),
      );
      assert.deepEqual(parts(plain!.text), parts(odd!.text), path);
    }
  });

  test('keeps a connection while its requests are plain, and hands it to node:http with the first other request', async (t) => {
    const { seen, handedOver, open } = await rig(t);
    const client = open();
    client.socket.write(post([], '{1}', '/1'));
    await until(() => seen.length === 1);
    client.socket.write(post([], '{2}', '/2') + chunked('/3') + post([], '{4}', '/4'));
    await until(() => bodies(client.text()).length === 4);
    client.socket.write(post([], '{5}', '/5'));
    await until(() => seen.length === 5);
    assert.deepEqual(seen, ['plain /1 {1}', 'plain /2 {2}', 'node /3 {}', 'node /4 {4}', 'node /5 {5}']);
    assert.equal(handedOver(), 1);
    await until(() => bodies(client.text()).length === 5);
    assert.deepEqual(bodies(client.text()), ['plain /1;', 'plain /2;', 'node /3;', 'node /4;', 'node /5;']);
  });

  test('reads a request the same wherever it is cut in two', async (t) => {
    const { seen, open } = await rig(t);
    const whole = post([], '{"long":true}', '/cut');
    const cut = async (at: number): Promise<void> => {
      const client = open();
      client.socket.setNoDelay(true);
      client.socket.write(whole.slice(0, at));
      await new Promise((resolve) => setTimeout(resolve, 5));
      client.socket.write(whole.slice(at) + whole);
      await until(() => bodies(client.text()).length === 2);
      client.socket.destroy();
    };
    for (let at = 1; at < whole.length; at += 16) {
      await Promise.all(Array.from({ length: 16 }, (_, i) => (at + i < whole.length ? cut(at + i) : undefined)));
    }
    assert.equal(seen.length, 2 * (whole.length - 1));
    assert.deepEqual(new Set(seen.map((each) => each.split(' ').slice(1).join(' '))), new Set(['/cut {"long":true}']));
  });

  test('a request that arrives too slowly is handed to node:http, with every byte', async (t) => {
    const { seen, handedOver, open } = await rig(t, { tickMs: 10 });
    const [silent, late] = [open(), open()];
    const whole = post([], '{"a":"b"}', '/late');
    late.socket.write(whole.slice(0, -4));
    await until(() => handedOver() === 2);
    late.socket.write(whole.slice(-4));
    silent.socket.write(post([], '{}', '/silent'));
    await until(() => seen.length === 2);
    assert.deepEqual(seen.sort(), ['node /late {"a":"b"}', 'node /silent {}']);
  });

  test('a small body keeps no large read alive', async (t) => {
    const { seen, open } = await rig(t, {
      serve: (http) =>
        http.readBody(0, budget, (body) => {
          seen.push(`${body!.length} of ${body!.buffer.byteLength}`);
          http.send(200, 'text/plain', [Buffer.from(`plain ${http.target};`)], []);
        }),
    });
    const client = open();
    client.socket.write(post([], '{}', '/small') + post([], `"${'x'.repeat(50_000)}"`, '/large'));
    await until(() => bodies(client.text()).length === 2);
    assert.ok(Number(seen[0]!.split(' ').at(-1)) <= Buffer.poolSize, seen[0]);
  });

  test('fault:F18 bytes that a client does not read take at most four times their size in memory', async (t) => {
    const { waiting, open } = await rig(t, {}, false);
    const count = 20;
    const clients = Array.from({ length: count }, open);
    for (const { socket } of clients) {
      socket.pause();
      socket.write(post([], '{}', '/stream'));
    }
    await until(() => waiting.length === count);
    const block = Buffer.alloc(256 * 1024, 'x');
    const event = [Buffer.alloc(100, 'y')];
    for (const http of waiting) {
      http.open([]);
      while (http.pendingBytes === 0) http.write([block]);
    }
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 300; i++) for (const http of waiting) http.write(event);
    const grown = process.memoryUsage().arrayBuffers - before;
    // 110 bytes each on the wire, and the unused rest of the buffer pool.
    assert.ok(grown < count * 300 * 110 * 4, `${grown} bytes`);
    for (const http of waiting) http.destroy();
  });

  test('one request at a time: a pipelined one waits, and no more of it is read than fits', async (t) => {
    const { waiting, seen, open } = await rig(t, { maxRequests: 10_000 }, false);
    const client = open();
    const body = `{"x":"${'x'.repeat(30_000)}"}`;
    const count = 600;
    client.socket.write(Array.from({ length: count }, (_, i) => post([], body, `/${i}`)).join(''));
    await until(() => waiting.length === 1);
    // 18 MB: the kernel and the fast path each buffer a part; the rest stays at the client.
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.ok(client.socket.writableLength > 0, 'everything was read');
    let answered = 0;
    await until(() => {
      while (answered < waiting.length) {
        assert.equal(waiting.length, answered + 1);
        const http = waiting[answered++]!;
        http.send(200, 'text/plain', [Buffer.from(`plain ${http.target};`)], []);
      }
      return bodies(client.text()).length === count;
    });
    // Where a read ended within a head, node:http served the rest.
    const order = bodies(client.text()).map((each) => each.replace(/^node/, 'plain'));
    assert.deepEqual(
      order,
      Array.from({ length: count }, (_, i) => `plain /${i};`),
    );
    assert.equal(seen.length, count);
  });

  test('reports to each request once how it ended; a client that has gone gets nothing', async (t) => {
    const { waiting, over, open } = await rig(t, {}, false);
    const [reset, closing] = [open(), open()];
    reset.socket.write(post([], '{}', '/reset'));
    closing.socket.write(post([], '{}', '/closing'));
    await until(() => waiting.length === 2);
    reset.socket.resetAndDestroy();
    closing.socket.end();
    await until(() => over.length === 2);
    assert.deepEqual(over.sort(), ['/closing gone', '/reset gone']);
    for (const http of waiting) {
      assert.equal(http.destroyed, true);
      http.send(200, 'text/plain', [Buffer.from('late')], []);
      http.open([]);
      http.write([Buffer.from('late')]);
      http.end();
    }
    await until(() => closing.closed());
    assert.equal(closing.text(), '');
    assert.equal(over.length, 2);
  });

  test('a late answer to one request cannot reach the next on the connection', async (t) => {
    const { waiting, open } = await rig(t, {}, false);
    const client = open();
    client.socket.write(post([], '{}', '/1') + post([], '{}', '/2'));
    await until(() => waiting.length === 1);
    waiting[0]!.send(200, 'text/plain', [Buffer.from('plain 1;')], []);
    await until(() => waiting.length === 2);
    waiting[0]!.send(500, 'text/plain', [Buffer.from('plain again;')], []);
    waiting[0]!.write([Buffer.from('plain again;')]);
    waiting[0]!.end();
    waiting[0]!.destroy();
    waiting[1]!.send(200, 'text/plain', [Buffer.from('plain 2;')], []);
    await until(() => bodies(client.text()).length === 2);
    assert.deepEqual(bodies(client.text()), ['plain 1;', 'plain 2;']);
  });

  test('a connection ends with an answer marked as the last, after a number of requests, and when idle for long', async (t) => {
    const last = await rig(t, { maxRequests: 2 });
    const client = last.open();
    client.socket.write(post([], '{}', '/1') + post([], '{}', '/2') + post([], '{}', '/3'));
    await until(() => client.closed());
    assert.deepEqual(last.seen, ['plain /1 {}', 'plain /2 {}']);
    assert.match(
      client.text(),
      /Connection: keep-alive\r\nKeep-Alive: timeout=65, max=2\r\n[\s\S]*Connection: close\r\n/,
    );
    const idle = await rig(t, { tickMs: 10, keepAliveMs: 50 });
    const quiet = idle.open();
    quiet.socket.write(post([], '{}', '/1'));
    await until(() => quiet.closed());
    assert.deepEqual(bodies(quiet.text()), ['plain /1;']);
  });

  test('a request that was cut short by its client is malformed', async (t) => {
    const { over, seen, open } = await rig(t);
    const client = open();
    client.socket.end(post([], '{"a":1}').slice(0, -2));
    await until(() => client.closed());
    assert.match(client.text(), /^HTTP\/1\.1 400 /);
    assert.deepEqual([over, seen], [['malformed'], []]);
  });

  test('fault:F16 a client that reads none of its answers is closed, also if they have no body', async (t) => {
    const { listener, port } = await listenerRig(t, {}, { stallMs: 100 });
    let came = 0;
    let gone = false;
    listener.routes.add('/told', {
      POST: (context) => {
        came++;
        context.onDisconnect(() => {
          gone = true;
        });
        context.empty(202, ['X-Pad', 'x'.repeat(8_000)]);
      },
    });
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('error', () => {});
    socket.pause();
    // More than the kernel takes on either side of a connection.
    const count = 8_000;
    socket.write(post([], '{}', '/told').repeat(count));
    await until(() => gone);
    assert.ok(came < count, `${came}`);
  });

  test('a defect behind a finished answer does not end later requests on the connection', async (t) => {
    for (const way of ['plain', 'node']) {
      const { listener, port } = await listenerRig(t);
      const contexts: RequestContext[] = [];
      const hold = (context: RequestContext) => void contexts.push(context);
      listener.routes.add('/first', { POST: hold });
      listener.routes.add('/second', { POST: hold });
      const defect = { status: 500, code: 'internal', message: 'a defect' };
      const extra = way === 'plain' ? [] : ['X-Twice: 1', 'X-Twice: 2'];
      const socket = connect(port, '127.0.0.1');
      t.after(() => socket.destroy());
      let text = '';
      socket.on('data', (chunk) => void (text += chunk.toString('latin1')));
      socket.write(post(extra, '{}', '/first'));
      await until(() => contexts.length === 1);
      contexts[0]!.json(200, '{"first":true}');
      await until(() => text.includes('{"first":true}'));
      socket.write(post(extra, '{}', '/second'));
      await until(() => contexts.length === 2);
      contexts[0]!.fail(defect);
      await new Promise((resolve) => setImmediate(resolve));
      contexts[1]!.json(200, '{"second":true}');
      await until(() => text.includes('{"second":true}') || socket.destroyed);
      assert.ok(text.includes('{"second":true}'), way);
    }
  });

  test('a request that is not plain waits behind a plain request for its answer', async (t) => {
    const { listener, port } = await listenerRig(t);
    const contexts: RequestContext[] = [];
    listener.routes.add('/slow', { POST: (context) => void contexts.push(context) });
    const both = talk(port, post([], '{}', '/slow') + ODD, 150, 8_000, PLAIN);
    await until(() => contexts.length === 1);
    contexts[0]!.json(200, '{"slow":true}');
    const { text, statuses } = await both;
    assert.deepEqual(statuses, [200, 200]);
    assert.ok(text.indexOf('{"slow":true}') < text.indexOf('{"fine":true}'));
  });
});
