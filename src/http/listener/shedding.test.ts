import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { listenerRig } from '../../../test/support/http-listener.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import type { RequestContext } from './request-context.ts';

/** A limiter for which every turn is too long; it always admits `floor` requests at once. */
const overloaded = (floor: number): ConcurrencyLimiter =>
  new ConcurrencyLimiter({ floor, turnMs: -1, patienceMs: 0, spanMs: 0, utilization: () => 1 });

/** Writes requests that arrive together; `statuses` are those of the answers so far. */
function client(port: number) {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  return {
    socket,
    send: (request: string, count = 1) =>
      void socket.write(`${request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n`.repeat(count)),
    text: () => text,
    statuses: () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status!),
  };
}

test('goal:G20 in overload requests above the limit get 503 with Retry-After; probes and other methods never do', async (t) => {
  const refused: string[] = [];
  const limiter = overloaded(2);
  const { listener, port } = await listenerRig(t, {}, { limiter, onRefused: (code) => void refused.push(code) });
  const waiting: RequestContext[] = [];
  listener.routes.add(
    '/calls',
    { GET: (context) => context.empty(204), POST: (context) => void waiting.push(context) },
    { sheds: true },
  );
  listener.routes.add('/probe', { POST: (context) => context.empty(202) });
  const clients = Array.from({ length: 6 }, () => client(port));
  t.after(() => {
    for (const { socket } of clients) socket.destroy();
  });
  // The turn of the first request sets the limit; the first and the second stay in progress.
  clients[0]!.send('POST /calls');
  await until(() => waiting.length === 1 && limiter.limit === 2);
  clients[1]!.send('POST /calls');
  await until(() => waiting.length === 2);
  for (const one of clients.slice(2)) one.send('POST /calls');
  await until(() => clients.slice(2).every(({ statuses }) => statuses().length === 1));
  assert.deepEqual(
    clients.slice(2).map(({ statuses }) => statuses()),
    [['503'], ['503'], ['503'], ['503']],
  );
  assert.match(clients[2]!.text(), /\r\nRetry-After: 1\r\n/);
  assert.deepEqual(refused, Array(4).fill('overloaded'));
  clients[2]!.send('GET /calls');
  clients[3]!.send('POST /probe');
  await until(() => clients[2]!.statuses().length === 2 && clients[3]!.statuses().length === 2);
  assert.deepEqual(
    [clients[2]!.statuses(), clients[3]!.statuses()],
    [
      ['503', '204'],
      ['503', '202'],
    ],
  );
});

test('goal:G20 a free place goes to the request that waits longest, unless its client has gone', async (t) => {
  const limiter = overloaded(1);
  const { listener, port } = await listenerRig(t, {}, { limiter });
  listener.routes.add('/calls', { POST: (context) => context.empty(202) }, { sheds: true });
  const clients = Array.from({ length: 8 }, () => client(port));
  t.after(() => {
    for (const { socket } of clients) socket.destroy();
  });
  clients[0]!.send('POST /calls');
  await until(() => limiter.limit === 1);
  // One request at a time is in progress, and none is refused: each is answered before the next has waited for long.
  for (const one of clients.slice(1)) one.send('POST /calls');
  await until(() => clients.slice(1).every(({ statuses }) => statuses().length === 1));
  assert.deepEqual(new Set(clients.slice(1).flatMap(({ statuses }) => statuses())), new Set(['202']));
  assert.equal(limiter.active, 0);
});
