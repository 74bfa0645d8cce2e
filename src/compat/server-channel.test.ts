import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { StatefulServer } from '../../test/fixtures/http/stateful.ts';
import { inProcessBytes, ServerError } from '../index.ts';
import { type ChannelOptions, openChannel } from './index.ts';

const STDIO = resolve(import.meta.dirname, '../../test/fixtures/stdio/server.mjs');
const local = { command: process.execPath, args: [STDIO] };

/** A server in this process that keeps what it gets, and answers `echo` with its params. */
function recorded(options: ChannelOptions = {}) {
  const got: string[] = [];
  const server = inProcessBytes((link) => ({
    receive(message) {
      const text = message.toString();
      got.push(text);
      const { id, method } = JSON.parse(text) as { id?: number; method?: string };
      const params = /"params":(.*)}$/.exec(text)?.[1] ?? '{}';
      if (method === 'echo') link.deliver(`{"jsonrpc":"2.0","id":${id},"result":${params}}`);
      if (method === 'fail') link.deliver(`{"jsonrpc":"2.0","id":${id},"error":{"code":-7,"message":"no"}}`);
      if (method === 'talk') link.deliver('{"jsonrpc":"2.0","method":"notifications/said","params":{"n":1.0}}');
      if (method === 'ask') link.deliver('{"jsonrpc":"2.0","id":"q","method":"ping"}');
      if (method === 'die') link.exit();
    },
    close: () => {},
  }));
  return { got, open: () => openChannel(server, options) };
}

test('S4.2 send resolves with the matching answer, to the digit, in any order', async () => {
  const { open } = recorded();
  await using channel = await open();
  const [first, second] = await Promise.all([
    channel.send('echo', '{"n":12345678901234567890,"x":1.0}'),
    channel.send('echo', { two: 2 }),
  ]);
  assert.equal(first, '{"n":12345678901234567890,"x":1.0}');
  assert.equal(second, '{"two":2}');
  await assert.rejects(channel.send('fail'), (error: unknown) => error instanceof ServerError && error.code === -7);
});

test('S4.2 an abort signal or a deadline ends the wait and notifies the server; a closed signal sends nothing', async () => {
  const { open, got } = recorded();
  await using channel = await open();
  const stop = new AbortController();
  const hanging = channel.send('hold', {}, { signal: stop.signal });
  setTimeout(() => stop.abort(), 10);
  await assert.rejects(hanging, { code: 'CANCELLED' });
  await assert.rejects(channel.send('hold', {}, { timeoutMs: 10 }), { code: 'TIMEOUT' });
  await pause(5);
  assert.equal(got.filter((text) => text.includes('notifications/cancelled')).length, 2);
  const before = got.length;
  await assert.rejects(channel.send('echo', {}, { signal: AbortSignal.abort(new Error('never mind')) }), /never mind/);
  assert.equal(got.length, before);
});

test('a time limit above the longest timer does not expire at once', async () => {
  const { open } = recorded();
  await using channel = await open();
  const stop = new AbortController();
  const hanging = channel.send('hold', {}, { signal: stop.signal, timeoutMs: 2 ** 31 });
  setTimeout(() => stop.abort(), 50);
  await assert.rejects(hanging, { code: 'CANCELLED' });
});

test('S4.2 notify expects no reply; the program gets the server’s messages, and its ping is answered', async () => {
  const heard: [string, string][] = [];
  const { open, got } = recorded({ onNotification: (method, params) => heard.push([method, params]) });
  await using channel = await open();
  channel.notify('talk');
  channel.notify('ask', { a: 1 });
  await pause(10);
  assert.deepEqual(got.slice(0, 2), [
    '{"jsonrpc":"2.0","method":"talk"}',
    '{"jsonrpc":"2.0","method":"ask","params":{"a":1}}',
  ]);
  assert.deepEqual(heard, [['notifications/said', '{"n":1.0}']]);
  assert.equal(got[2], '{"jsonrpc":"2.0","id":"q","result":{}}');
});

test('S4.2 done reports how the channel ended; calls in flight are lost or UNKNOWN', async () => {
  const { open } = recorded();
  const channel = await open();
  const hanging = channel.send('hold');
  channel.notify('die');
  await assert.rejects(hanging, { code: 'UNKNOWN' });
  assert.deepEqual(await channel.done, { kind: 'exited', code: null, signal: null });
  await assert.rejects(channel.send('echo'), { code: 'NOT_SENT' });
  await channel.close();
  const closed = await open();
  const inFlight = assert.rejects(closed.send('hold'), { code: 'UNKNOWN' });
  await closed.close();
  await closed.close();
  await inFlight;
  assert.equal(await closed.done, null);
});

test('S4.2 over Streamable HTTP, requests name the revision; notifications outside of requests arrive', async () => {
  const server = await StatefulServer.start();
  try {
    const heard: string[] = [];
    await using channel = await openChannel({ url: server.url }, { onNotification: (method) => heard.push(method) });
    await channel.send('initialize', { protocolVersion: '2025-11-25', capabilities: {} });
    channel.notify('notifications/initialized');
    server.push({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
    await channel.send('tools/list');
    const listed = server.stage.requests.find(({ body }) => body.includes('tools/list'));
    assert.equal(listed?.headers['mcp-protocol-version'], '2025-11-25');
    for (let i = 0; i < 200 && heard.length === 0; i++) await pause(10);
    assert.deepEqual(heard, ['notifications/tools/list_changed']);
  } finally {
    await server.stop();
  }
});

test('S4.2 S4.3 over a local process: its exit is reported with its code, and a missing program does not start', async () => {
  await using channel = await openChannel(local);
  assert.equal(await channel.send('x', { do: 'echo', text: 'hi' }), '{"text":"hi"}');
  await assert.rejects(channel.send('x', { do: 'exit' }), { code: 'UNKNOWN' });
  assert.deepEqual(await channel.done, { kind: 'exited', code: 7, signal: null });
  await assert.rejects(openChannel({ command: 'trunkline-no-such-program' }), { code: 'NOT_SENT' });
  await assert.rejects(openChannel({} as object), { name: 'ConfigError' });
});
