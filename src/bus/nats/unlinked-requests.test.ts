import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { loadNats } from './nats-wire.ts';
import { unlinkRequests } from './unlinked-requests.ts';

test('the requests of a client are kept like in its map', () => {
  const mux = { reqs: new Map<string, object>() };
  const map = mux.reqs;
  unlinkRequests({ protocol: { muxSubscriptions: mux } });
  assert.notEqual(mux.reqs, map);
  const [one, two] = [{}, {}];
  mux.reqs.set('one', one).set('two', two).set('one', one);
  assert.equal(mux.reqs.size, 2);
  assert.equal(mux.reqs.get('one'), one);
  assert.deepEqual([mux.reqs.get('toString'), mux.reqs.delete('toString')], [undefined, false]);
  assert.deepEqual([...mux.reqs.values()], [one, two]);
  mux.reqs.forEach((_, token) => {
    mux.reqs.delete(token);
  });
  assert.deepEqual([mux.reqs.size, mux.reqs.get('two')], [0, undefined]);
});

test('a client that has begun, or keeps its requests in another way, stays unchanged', () => {
  const begun = { reqs: new Map([['one', {}]]) };
  const map = begun.reqs;
  unlinkRequests({ protocol: { muxSubscriptions: begun } });
  assert.equal(begun.reqs, map);
  unlinkRequests({ protocol: {} });
  unlinkRequests({});
});

test('the installed client keeps its requests in the expected place, and gets its replies', {
  timeout: 60_000,
}, async () => {
  await using server = await NatsServer.start();
  const { core } = await loadNats();
  const connection = await core.connect({ servers: [`nats://127.0.0.1:${server.port}`] });
  try {
    unlinkRequests(connection);
    const { protocol } = connection as unknown as { protocol: { muxSubscriptions: { reqs: object } } };
    assert.ok(!(protocol.muxSubscriptions.reqs instanceof Map));
    connection.subscribe('double', { callback: (_, message) => void message.respond(message.string().repeat(2)) });
    const replies = await Promise.all(['a', 'b'].map((text) => connection.request('double', text)));
    assert.deepEqual(
      replies.map((reply) => reply.string()),
      ['aa', 'bb'],
    );
    await assert.rejects(connection.request('nobody', 'x'), /no responders/i);
  } finally {
    await connection.close();
  }
});
