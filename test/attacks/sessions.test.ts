import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type EventReader, send } from '../support/raw-http.ts';
import { ADA, Arena, BOB, type Headers, modern, rpc } from './arena.ts';

/** Group legacy: invented and stolen session ids, and ids used at other endpoints or by other callers. */

let arena: Arena;
before(async () => {
  arena = await Arena.start({ agents: true, settings: { sessions: { maxPerPrincipal: 2_500 } } });
});
after(() => arena.stop());

const idOf = (headers: Headers) => headers['mcp-session-id']!;
const swap = (headers: Headers, more: Headers) => ({ ...headers, ...more });

test('proto:S1 legacy: ids of no session get 404 on every method and endpoint, and open no session', async () => {
  const real = idOf(arena.victim);
  const ids = [
    'x',
    '0',
    '-1',
    'null',
    '__proto__',
    'constructor',
    '../../state.db',
    '%00',
    real.toUpperCase(),
    `${real}0`,
  ].concat([
    real.slice(0, -1),
    real.split('').reverse().join(''),
    '0'.repeat(32),
    'f'.repeat(32),
    'a'.repeat(8_192),
    `${real}, ${real}`,
    `"${real}"`,
    `${real};x=1`,
    "' OR 1=1 --",
    '*',
    '{"$gt":""}',
  ]);
  for (const id of ids) {
    for (const path of ['/mcp', '/servers/probe/mcp', '/servers/remote/mcp']) {
      const headers = swap(arena.victim, { 'mcp-session-id': id });
      const replies = [
        await arena.post(rpc('tools/list'), headers, path),
        await arena.post('{"jsonrpc":"2.0","method":"notifications/initialized"}', headers, path),
        await send(arena.url(path), 'GET', { ...headers, accept: 'text/event-stream' }),
        await send(arena.url(path), 'DELETE', headers),
      ];
      for (const reply of replies) {
        assert.equal(reply.status, 404, `${path} ${id.slice(0, 40)}: ${reply.text}`);
        assert.equal(reply.headers['mcp-session-id'], undefined, 'no fixation');
        assert.ok(reply.text.length < 500 && (id.length < 20 || !reply.text.includes(id)), reply.text);
      }
    }
  }
  await arena.alive();
});

test('proto:S1 legacy: no client chooses the id of a session, and ids do not repeat', async () => {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    sessionId: 'f'.repeat(32),
    _meta: { sessionId: 'f'.repeat(32) },
  };
  for (const headers of [{ cookie: `Mcp-Session-Id=${'f'.repeat(32)}` }, { 'mcp-session': 'f'.repeat(32) }]) {
    const reply = await arena.post(
      rpc('initialize', params),
      { ...ADA, ...headers },
      `/mcp?sessionId=${'f'.repeat(32)}`,
    );
    assert.match(String(reply.headers['mcp-session-id']), /^[0-9a-f]{32}$/);
    assert.notEqual(reply.headers['mcp-session-id'], 'f'.repeat(32));
    assert.equal(reply.headers['set-cookie'], undefined);
  }
  for (const id of ['f'.repeat(32), 'mine', idOf(arena.victim)]) {
    const fixed = await arena.post(rpc('initialize', params), { ...ADA, 'mcp-session-id': id });
    assert.ok([400, 404].includes(fixed.status), `initialize on ${id}: ${fixed.status}`);
    assert.notEqual(fixed.headers['mcp-session-id'], id);
  }
  const ids = await Promise.all(Array.from({ length: 100 }, async () => idOf(await arena.session({ headers: ADA }))));
  assert.equal(new Set(ids).size, 100);
  // With random hexadecimal digits, each place takes nearly all of 16 values in 100 draws.
  for (let place = 0; place < 32; place++) assert.ok(new Set(ids.map((id) => id[place])).size >= 10, `place ${place}`);
  await arena.alive();
});

test('security:4 proto:S1 legacy: a session belongs to one endpoint and one caller', async () => {
  const onProbe = await arena.session({ headers: ADA, path: '/servers/probe/mcp' });
  const ofBob = await arena.session({ headers: BOB });
  const stolen: readonly [string, Headers][] = [
    ['/servers/remote/mcp', onProbe],
    ['/mcp', onProbe],
    ['/servers/probe/mcp', arena.victim],
    ['/mcp', swap(arena.victim, BOB)],
    ['/mcp', swap(ofBob, ADA)],
    ['/servers/remote/mcp', swap(arena.victim, BOB)],
  ];
  for (const [path, headers] of stolen) {
    for (const method of ['GET', 'DELETE', 'POST'] as const) {
      const reply =
        method === 'POST'
          ? await arena.post(rpc('tools/call', { name: 'probe__echo', arguments: { mark: 'stolen' } }), headers, path)
          : await arena.ask(method, path, { ...headers, accept: 'text/event-stream' });
      assert.equal(reply.status, 404, `${method} ${path}: ${reply.text}`);
    }
  }
  const keyless: Record<string, string> = { ...arena.victim };
  delete keyless['authorization'];
  for (const method of ['GET', 'DELETE'] as const) {
    const reply = await arena.ask(method, '/mcp', { ...keyless, accept: 'text/event-stream' });
    assert.equal(reply.status, 401, `${method} without a key`);
  }
  assert.equal((await arena.post(rpc('ping'), keyless)).status, 401, 'POST without a key');
  assert.ok(!arena.reached().includes('stolen'));
  assert.equal((await arena.post(rpc('ping'), ofBob)).status, 200, 'the owners still have their sessions');
  assert.equal((await arena.post(rpc('ping'), onProbe, '/servers/probe/mcp')).status, 200);
  await arena.alive();
});

test('legacy: missing id, repeated initialize, other version, ended session', async () => {
  const session = await arena.session({ headers: ADA });
  assert.equal((await arena.post(rpc('tools/list'), ADA)).status, 400, 'no id');
  assert.equal((await send(arena.url('/mcp'), 'DELETE', ADA)).status, 400, 'DELETE without id');
  const empty = await arena.post(rpc('tools/list'), swap(session, { 'mcp-session-id': '' }));
  assert.ok([400, 404].includes(empty.status), 'empty id');
  const again = await arena.post(rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {} }), session);
  assert.equal(again.status, 400);
  for (const version of ['2025-06-18', '2024-11-05', '1999-01-01', 'x', '', '2025-11-25, 2025-11-25', '__proto__']) {
    const reply = await arena.post(rpc('tools/list'), swap(session, { 'mcp-protocol-version': version }));
    assert.equal(reply.status, 400, `version ${version}: ${reply.status} ${reply.text}`);
  }
  assert.equal((await send(arena.url('/mcp'), 'DELETE', session)).status, 204);
  for (const method of ['GET', 'DELETE']) {
    const reply = await send(arena.url('/mcp'), method, { ...session, accept: 'text/event-stream' });
    assert.equal(reply.status, 404, `${method} after the end`);
  }
  assert.equal((await arena.post(rpc('tools/list'), session)).status, 404);
  await arena.alive();
});

test('proto:S2 legacy: event ids of others, or invented ones, replay nothing', async () => {
  const mine = await arena.session({ headers: ADA });
  const stream = await arena.events('/mcp', arena.victim);
  const first = (await stream.next())!.id!;
  const foreign = [
    first,
    '0',
    '1',
    '-1',
    '999999999999',
    'x',
    '__proto__',
    'a'.repeat(8_000),
    `${idOf(arena.victim)}-1`,
  ];
  for (const id of foreign) {
    const reply = await send(arena.url('/mcp'), 'GET', { ...mine, accept: 'text/event-stream', 'last-event-id': id });
    assert.ok([400, 404].includes(reply.status), `${id.slice(0, 30)}: ${reply.status}`);
    assert.ok(!reply.text.includes('data: {'), reply.text);
  }
  stream.drop();
  await arena.alive();
});

test('proto:S2 legacy: a cancel of another session’s request id, in any spelling, cancels nothing', async () => {
  const owner = await arena.session({ headers: ADA });
  const other = await arena.session({ headers: ADA });
  const slow = arena.post(rpc('tools/call', { name: 'probe__slow' }, 'foreign-1'), owner).catch(() => null);
  await until(() => arena.reached().includes('"slow"'));
  const cancels = ['"foreign-1"', '1', '2', '3', 'null', '"__proto__"', '{}', '"s-1"'];
  for (const headers of [other, arena.victim]) {
    for (const id of cancels) {
      const body = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},"reason":"evil"}}`;
      const { status } = await arena.post(body, headers);
      assert.ok([202, 400].includes(status), `${id}: ${status}`);
    }
  }
  await new Promise((done) => setTimeout(done, 200));
  assert.ok(!arena.reached().includes('notifications/cancelled'), arena.reached().slice(-500));
  await arena.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"foreign-1"}}', owner);
  await until(() => arena.reached().includes('notifications/cancelled'));
  await send(arena.url('/mcp'), 'DELETE', owner);
  await slow;
  await arena.alive();
});

test('proto:S2 legacy: an event id that is not spelled as the gateway issued it is refused, and stops nothing', async () => {
  const mine = await arena.session({ headers: ADA });
  const own = await arena.events('/mcp', mine);
  const call = { body: rpc('tools/call', { name: 'probe__slow' }, 'forms'), headers: {} };
  const answer = await arena.listen(call, mine);
  for (const stream of [own, answer]) {
    const id = (await stream.next())!.id!;
    const [name, number] = id.split('~');
    assert.match(number!, /^[0-9a-z]+$/);
    for (const form of ['#!', '0#', '+#', '-#', '#.0', '# \u00e9', 'Z', '']) {
      const lastEventId = `${name}~${form.replace('#', number!)}`;
      const headers = { ...mine, accept: 'text/event-stream', 'last-event-id': lastEventId };
      const { status, text } = await arena.ask('GET', '/mcp', headers);
      assert.equal(status, 400, `${form}: ${text}`);
    }
    await arena.alive(id);
  }
  await send(arena.url('/mcp'), 'DELETE', mine);
  await arena.alive();
});

test('legacy: the message endpoint of 2024-11-05 cannot be guessed, borrowed or confused', async () => {
  const stream = await arena.events('/sse', ADA);
  const endpoint = (await stream.next())!.data;
  const id = new URL(endpoint, 'http://x').searchParams.get('sessionId')!;
  assert.match(id, /^[0-9a-f]{32}$/);
  const call = rpc('tools/call', { name: 'probe__echo', arguments: { mark: 'guessed' } });
  const guesses: readonly [string, Headers, readonly number[]][] = [
    ['/message', ADA, [400]],
    ['/message?sessionId=', ADA, [400]],
    ['/message?sessionId=1', ADA, [404]],
    ['/message?sessionId=__proto__', ADA, [404]],
    [`/message?sessionId=${idOf(arena.victim)}`, ADA, [404]],
    [`/message?sessionId=${id.toUpperCase()}`, ADA, [404]],
    [`/message?sessionId=${'0'.repeat(32)}&sessionId=${id}`, ADA, [400, 404]],
    [endpoint, BOB, [404]],
    [endpoint, {}, [401]],
    [endpoint.replace('/message', '/servers/probe/message'), ADA, [404]],
    [endpoint.replace('/message', '/servers/remote/message'), BOB, [404]],
    [`/message?sessionId=${'a'.repeat(7_000)}`, ADA, [404]],
  ];
  for (const [path, headers, allowed] of guesses) {
    const { status } = await arena.post(call, headers, path);
    assert.ok(allowed.includes(status), `${path.slice(0, 60)}: ${status}`);
  }
  for (const method of ['GET', 'POST', 'DELETE']) {
    const { status } = await send(
      arena.url('/mcp'),
      method,
      { ...ADA, 'mcp-session-id': id, 'content-type': 'application/json' },
      method === 'POST' ? call : null,
    );
    assert.equal(status, 404, `${method} /mcp with the id of an SSE session`);
  }
  assert.ok(!arena.reached().includes('guessed'));
  assert.equal((await arena.post(rpc('ping', {}, 'own'), ADA, endpoint)).status, 202);
  assert.deepEqual(await stream.message(), { jsonrpc: '2.0', id: 'own', result: {} });
  stream.drop();
  await until(async () => (await arena.post(rpc('ping'), ADA, endpoint)).status === 404);
  await arena.alive();
});

test('legacy: 2 000 sessions opened and abandoned start no server, and clients above the limit get 429', async () => {
  const before = arena.reached().split('"initialize"').length;
  const body = rpc('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  });
  const statuses: number[] = [];
  for (let round = 0; round < 26; round++) {
    const replies = await Promise.all(Array.from({ length: 100 }, () => arena.post(body, ADA)));
    statuses.push(...replies.map(({ status }) => status));
    for (const reply of replies) if (reply.status === 429) assert.ok(reply.headers['retry-after'] !== undefined);
  }
  assert.ok(statuses.filter((status) => status === 200).length > 2_000);
  assert.ok(statuses.includes(429));
  assert.ok(statuses.every((status) => status === 200 || status === 429));
  assert.equal(arena.reached().split('"initialize"').length, before);
  assert.equal((await arena.post(body, BOB)).status, 200, 'another caller has a share of its own');
  await arena.alive();
});

test('mcp: too many subscriptions are refused, and streams above the caller’s share too', async () => {
  const uris = Array.from({ length: 20_000 }, (_, i) => `probe://items/${i}/end`);
  const listen = modern('subscriptions/listen', { notifications: { resourceSubscriptions: uris } }, 'much');
  const reply = await arena.post(listen.body, { ...listen.headers, ...ADA });
  assert.ok(reply.json?.error !== undefined, reply.text.slice(0, 200));
  assert.equal(reply.json.id, 'much');
  const small = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
  const streams: EventReader[] = [];
  for (let round = 0; round < 26; round++) {
    streams.push(...(await Promise.all(Array.from({ length: 100 }, () => arena.listen(small, BOB)))));
  }
  const open = streams.filter(({ headers }) => String(headers['content-type']).includes('event-stream'));
  assert.ok(open.length >= 1 && open.length <= 2_500, `${open.length} streams`);
  for (const refused of streams.filter((each) => !open.includes(each))) assert.equal(refused.status, 429);
  await arena.alive('with streams open');
  for (const stream of streams) stream.drop();
  await until(async () => {
    const next = await arena.listen(small, BOB);
    const ok = String(next.headers['content-type']).includes('event-stream');
    next.drop();
    return ok;
  });
  for (const notifications of [
    undefined,
    null,
    [],
    'x',
    { resourceSubscriptions: 'x' },
    { resourceSubscriptions: [1] },
    { taskIds: {} },
  ]) {
    const { body, headers } = modern('subscriptions/listen', { notifications });
    assert.equal(
      (await arena.post(body, { ...headers, ...ADA })).json?.error?.code,
      -32602,
      JSON.stringify(notifications),
    );
  }
  await arena.alive();
});

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await condition())) {
    assert.ok(performance.now() < end, 'did not happen within 30 s');
    await new Promise((done) => setTimeout(done, 20));
  }
}
