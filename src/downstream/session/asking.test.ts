import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { request, result } from '../../protocol/compose.ts';
import { askClient } from './asking.ts';
import type { ClientSession } from './client-session.ts';
import { PendingAsks } from './pending-asks.ts';

test('an input request that no call waits for is cancelled at its client, under the id that the client knows', async () => {
  const clock = new FakeClock();
  const asks = new PendingAsks('p', clock);
  const reported: string[] = [];
  const session = {
    ended: false,
    client: { capabilities: '{"roots":{}}' },
    asks: () => asks,
    channel: { sendCancellation: (bytes: Buffer) => reported.push(bytes.toString()) },
  };
  const sent: { readonly id: string }[] = [];
  const ask = (id: string) =>
    askClient(
      session as unknown as ClientSession,
      null,
      request('roots/list', id, null, 'stateful'),
      { clock, prefix: 'p', wires: { tap: null } },
      (message) => sent.push(JSON.parse(message.toString())),
      'a',
    );
  const late = assert.rejects(ask('1'), { code: 'TIMEOUT' });
  const quick = ask('2');
  asks.take(result(JSON.stringify(sent[1]!.id), '{"roots":[]}', 'stateful'));
  assert.equal((await quick).kind, 'result');
  await clock.advance(15 * 60_000);
  await late;
  await settled();
  assert.deepEqual(
    reported.map((text) => JSON.parse(text)),
    [
      {
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: sent[0]!.id, reason: 'it was not answered in time' },
      },
    ],
  );
});
