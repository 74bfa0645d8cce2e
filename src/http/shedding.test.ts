import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Logger } from '../telemetry/logger.ts';
import { Listener, type ListenerSettings } from './listener.ts';
import { TurnBudget } from './turn-budget.ts';

const SETTINGS: ListenerSettings = {
  host: '127.0.0.1',
  port: 0,
  tls: null,
  trustedProxies: [],
  allowedHosts: [],
  allowedOrigins: [],
  maxBodyBytes: 1024,
  maxConnections: 100,
};

test('what cannot be taken in is refused with 503; probes and other methods never are', async (t) => {
  const refused: string[] = [];
  const budget = new TurnBudget({ budgetMs: -1, patienceMs: 0 });
  const listener = new Listener({
    settings: SETTINGS,
    log: Logger.silent(),
    budget,
    onRefused: (code) => void refused.push(code),
  });
  t.after(() => listener.close());
  const ok = { GET: (context: { empty(status: number): void }) => context.empty(204) };
  listener.routes.add('/calls', { ...ok, POST: (context) => context.empty(202) }, { sheds: true });
  listener.routes.add('/probe', { ...ok, POST: (context) => context.empty(202) });
  const { port } = await listener.listen();
  /** The statuses of so many requests that arrive together. */
  const together = (request: string, count: number): Promise<string[]> =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      let text = '';
      socket.setEncoding('latin1').on('data', (chunk) => {
        text += chunk;
        const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status!);
        if (statuses.length < count) return;
        socket.destroy();
        resolve(statuses);
      });
      socket.write(`${request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n`.repeat(count));
    });
  assert.deepEqual(await together('POST /calls', 4), ['202', '503', '503', '503']);
  assert.deepEqual(refused, ['overloaded', 'overloaded', 'overloaded']);
  assert.deepEqual(await together('POST /calls', 1), ['202']);
  assert.deepEqual(await together('GET /calls', 3), ['204', '204', '204']);
  assert.deepEqual(await together('POST /probe', 3), ['202', '202', '202']);
});
