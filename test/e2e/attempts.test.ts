import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { errorOf } from '../fixtures/http/rpc.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const SECRET = 'secret-of-the-attempts-test-1';

test('each attempt of a call that was tried again: its connection and process, why it failed, and when the next began', async (t) => {
  let refusals = 0;
  const busy = await StatefulServer.start({
    intercept: (message, { res }) => {
      if (message.method !== 'tools/call' || refusals === 0) return false;
      refusals--;
      res.writeHead(429, { 'retry-after': '1', 'content-type': 'application/json' });
      res.end(errorOf(message, -32000, `slow down, ${SECRET}`));
      return true;
    },
  });
  t.after(() => busy.stop());
  const gateway = await RunningGateway.start({
    config: {
      mcpServers: {
        busy: { type: 'http', url: busy.url, headers: { 'x-token': SECRET } },
        dies: manySided('dies', {}, { retry: 'always' }),
      },
    },
  });
  t.after(() => gateway.dispose());
  await gateway.ready('busy', 'dies');
  const client = await WireClient.open(gateway.mcpUrl);
  const lastCall = async (filter: string): Promise<Json> => {
    const { calls } = await gateway.control<{ calls: Json[] }>(`/api/v1/calls?filter=${encodeURIComponent(filter)}`);
    return calls.at(-1)!;
  };
  const traced = async ({ id }: Json): Promise<string> => {
    const run = await trunkline(['trace', id, '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
    assert.equal(run.code, 0, run.err);
    return run.out;
  };

  await t.test('a call that needs one attempt has no list of them', async () => {
    await client.callText('busy__echo', { text: 'at once' });
    const call = await lastCall('server:busy');
    assert.deepEqual([call.tries, 'attempts' in call], [1, false]);
    assert.doesNotMatch(await traced(call), /attempt/);
  });

  await t.test('a call that gets 429 is tried again on the same connection', async () => {
    refusals = 1;
    assert.equal(await client.callText('busy__echo', { text: 'patient' }), 'patient');
    const call = await lastCall('server:busy tries>1');
    const [first, last] = call.attempts;
    assert.deepEqual([call.tries, call.attempts.length, call.outcome], [2, 2, 'RESULT']);
    assert.deepEqual([first.outcome, last.outcome, last.reason], ['REFUSED', 'RESULT', null]);
    assert.match(first.reason, /429.*slow down, \[redacted\]/);
    assert.ok(first.atMs <= call.waitedMs + 5 && first.ms < 900, JSON.stringify(first));
    assert.ok(last.atMs >= 900 && last.atMs + last.ms <= call.ms + 1, JSON.stringify(call));
    assert.match(first.connection, /^c\d+$/);
    assert.deepEqual([last.connection, first.pid, first.node], [first.connection, null, null]);
    assert.ok(!JSON.stringify(call).includes(SECRET));
    const text = await traced(call);
    assert.match(text, /^ {2} {2}attempt 1 +█/m);
    assert.match(text, /^ {2} {2}attempt 2 +█/m);
    assert.match(text, new RegExp(`attempt +1 at [\\d.]+ ms, connection ${first.connection}: REFUSED: .*429`));
    assert.match(text, new RegExp(`attempt +2 at \\d+ ms, connection ${first.connection}: RESULT$`, 'm'));
  });

  await t.test('a call whose process dies is made again where the operator allows it', async () => {
    const { pid } = JSON.parse(await client.callText('dies__who'));
    const slept = client.callText('dies__sleep', { ms: 1_000 });
    await new Promise((done) => setTimeout(done, 200));
    process.kill(pid, 'SIGKILL');
    assert.equal(await slept, 'slept');
    const call = await lastCall('tool:sleep');
    const [first, last] = call.attempts;
    assert.deepEqual([call.tries, call.attempts.length], [2, 2]);
    assert.deepEqual([first.outcome, first.pid, last.outcome], ['UNKNOWN', pid, 'RESULT']);
    assert.equal(last.pid, JSON.parse(await client.callText('dies__who')).pid);
    assert.notEqual(last.connection, first.connection);
    assert.ok(last.ms >= 1_000 && last.atMs >= first.atMs + first.ms, JSON.stringify(call));
  });
});
