import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { call } from '../../../test/support/downstream-rig.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import { openHttpClient } from '../../http/client/open-http-client.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import { StdioBridge } from './stdio-bridge.ts';

const after: Clock['after'] = (ms, task) => systemClock.after(ms / 100, task);
const clock: Clock = { ...systemClock, after };
const error = (text: string) => `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"${text}"}}`;

for (const [what, status, said, why] of [
  ['has nothing after the last event', 400, error('Nothing can be replayed'), /HTTP status 400/],
  ['does not know the session', 404, error('Session not found'), /HTTP status 404/],
  ['refuses the client', 401, error('Unauthorized'), /HTTP status 401/],
  ['is gone', 0, '', /ECONNREFUSED|no connection|connect/i],
] as const) {
  test(`a call whose answer broke off is UNKNOWN if the gateway ${what}`, async (t) => {
    const gateway = createServer((request, response) => {
      if (request.method !== 'POST') {
        response.writeHead(status, { 'content-type': 'application/json' }).end(said);
        return;
      }
      const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`id: 1\nretry: 1\ndata: ${progress}\n\n`);
      if (status === 0) response.once('close', () => gateway.close().closeAllConnections());
    });
    await new Promise<void>((done) => gateway.listen(0, '127.0.0.1', done));
    t.after(() => gateway.close());
    const client = openHttpClient(`http://127.0.0.1:${(gateway.address() as AddressInfo).port}`);
    const pipes = new LinePipes();
    const deps = { path: '/mcp', headers: [], logger: Logger.silent(), maxMessageBytes: 1 << 20, patienceMs: 10 };
    const handler = new StdioBridge(pipes, { ...deps, client, clock });
    pipes.send(call('é', 'tools/call', { name: 't' }));
    assert.equal((await pipes.message()).method, 'notifications/progress');
    const answer = await pipes.message();
    assert.deepEqual([answer.id, answer.error.data.outcome], ['é', 'UNKNOWN']);
    assert.match(answer.error.message, why);
    pipes.ends.write.end();
    await handler.closed;
    assert.deepEqual(await pipes.rest(), []);
  });
}
