import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startConformanceServer } from '../../../test/fixtures/conformance/http.ts';
import {
  ask,
  askStateless,
  type Bench,
  callEcho,
  echoed,
  initialize,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { EverythingServer } from '../../../test/fixtures/http/everything.ts';
import { startSdk1, startSdkLegacySse } from '../../../test/fixtures/http/sdk-servers.ts';

const LIMIT = { timeout: 60_000 };

async function result({ receiver }: Bench, id: number): Promise<Record<string, unknown>> {
  const message = JSON.parse((await receiver.answer(id)).bytes.toString());
  assert.ok(message.result, JSON.stringify(message));
  return message.result;
}

async function toolNames(bench: Bench, id: number): Promise<string[]> {
  const { tools } = (await result(bench, id)) as { tools: { name: string }[] };
  return tools.map(({ name }) => name);
}

describe('real servers over HTTP', LIMIT, () => {
  test('S2.7 S2.10 check:B4 SDK 1.32, stateful: handshake, list, call, session ended', async (t) => {
    const server = await startSdk1();
    t.after(() => server.stop());
    const bench = await openBench('http', server.url);
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    ask(bench, 2, 'tools/list');
    assert.deepEqual(await toolNames(bench, 2), ['echo']);
    callEcho(bench, 3, 'sdk 1');
    assert.equal(await echoed(bench, 3), 'sdk 1');
    assert.equal(bench.receiver.sessionIds.length, 1);
    await bench.transport.close('remove');

    const late = await openBench('http', server.url);
    t.after(() => late.transport.close('interrupt'));
    const resumeSessionId = bench.receiver.sessionIds[0]!;
    late.transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId });
    callEcho(late, 1);
    assert.equal((await late.receiver.loss(1)).outcome, 'NOT_SENT');
    assert.deepEqual(late.receiver.closedReasons, [{ kind: 'session_lost' }]);
  });

  test('check:B4 SDK 2.4, stateful: a call whose stream the server closes is polled to its end', async (t) => {
    const server = await startConformanceServer('stateful');
    t.after(() => server.close());
    const bench = await openBench('http', server.url);
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    ask(bench, 2, 'tools/list');
    assert.ok((await toolNames(bench, 2)).includes('test_simple_text'));
    ask(bench, 3, 'tools/call', { name: 'test_reconnection', arguments: {} });
    assert.ok((await result(bench, 3))['content']);
    ask(bench, 4, 'tools/call', { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 4 } });
    await result(bench, 4);
    const progress = bench.receiver.messages.filter(
      ({ bytes, request }) => request === 4 && /progress/.test(String(bytes)),
    );
    assert.ok(progress.length >= 3);
    await bench.transport.close('remove');
    assert.deepEqual(bench.receiver.losses, []);
  });

  test('check:B4 SDK 2.4, stateless: discover, list, call, listen and its end', async (t) => {
    const server = await startConformanceServer('stateless');
    t.after(() => server.close());
    const bench = await openBench('http', server.url);
    t.after(() => bench.transport.close('interrupt'));
    bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
    askStateless(bench, 1, 'server/discover');
    assert.ok((await result(bench, 1))['supportedVersions']);
    askStateless(bench, 2, 'tools/list');
    assert.ok((await toolNames(bench, 2)).includes('test_simple_text'));
    askStateless(bench, 3, 'tools/call', { name: 'test_simple_text', arguments: {} });
    assert.ok((await result(bench, 3))['content']);
    askStateless(bench, 4, 'subscriptions/listen', { notifications: { toolsListChanged: true } });
    await bench.receiver.until(() => bench.receiver.messages.some(({ request }) => request === 4));
    bench.transport.abandon(4);
    askStateless(bench, 5, 'no/such/method');
    const missing = JSON.parse((await bench.receiver.answer(5)).bytes.toString());
    assert.equal(missing.error.code, -32601);
    assert.deepEqual(bench.receiver.losses, []);
  });

  test('S2.21 S2.10 check:B5 the SDK’s 2024-11-05 server: handshake, list, call', async (t) => {
    const server = await startSdkLegacySse();
    t.after(() => server.stop());
    const bench = await openBench('sse', server.url);
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1, '2024-11-05');
    ask(bench, 2, 'tools/list');
    assert.deepEqual(await toolNames(bench, 2), ['echo']);
    callEcho(bench, 3, 'legacy');
    assert.equal(await echoed(bench, 3), 'legacy');
  });

  for (const mode of ['streamableHttp', 'sse'] as const) {
    test(`S2.21 server-everything (${mode}): handshake, list, call, and its death`, async (t) => {
      const server = await EverythingServer.start(mode);
      t.after(() => server.stop());
      const bench = await openBench(mode === 'sse' ? 'sse' : 'http', server.url);
      t.after(() => bench.transport.close('interrupt'));
      await initialize(bench, 1);
      ask(bench, 2, 'tools/list');
      const names = await toolNames(bench, 2);
      assert.ok(names.includes('echo'), names.join());
      ask(bench, 3, 'tools/call', { name: 'echo', arguments: { message: 'héllo' } });
      assert.match(JSON.stringify(await result(bench, 3)), /héllo/);
      await server.stop();
      if (mode === 'sse') await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
      // It is certain that nothing was sent only after the loss of the kept connections is noticed.
      await sleep(50);
      ask(bench, 4, 'tools/call', { name: 'echo', arguments: { message: 'anyone?' } });
      assert.equal((await bench.receiver.loss(4)).outcome, 'NOT_SENT');
    });
  }

  test('fault:F22 server-everything answers an unknown session with 400, which is a lost session', async (t) => {
    const server = await EverythingServer.start('streamableHttp');
    t.after(() => server.stop());
    const bench = await openBench('http', server.url);
    t.after(() => bench.transport.close('interrupt'));
    bench.transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId: 'before-the-restart' });
    callEcho(bench, 1);
    assert.equal((await bench.receiver.loss(1)).outcome, 'NOT_SENT');
    assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
  });
});
