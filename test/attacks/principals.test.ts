import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Reply } from '../support/raw-http.ts';
import { ADA, ADA_KEY, Arena, BOB, BOB_KEY, type Headers, modern, rpc } from './arena.ts';

/** Group auth, its keys, and rights of agents on every path: only the Authorization header identifies a caller. */

let arena: Arena;
before(async () => {
  arena = await Arena.start({ agents: true });
});
after(() => arena.stop());

const init = rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {} });
const POST_PATHS = ['/mcp', '/servers/probe/mcp', '/servers/remote/mcp', '/servers/nobody/mcp', '/message?sessionId=1'];
const GET_PATHS = ['/mcp', '/sse', '/servers/probe/mcp', '/servers/probe/sse', '/servers/nobody/sse'];

const WRONG: readonly Headers[] = [
  {},
  { authorization: '' },
  { authorization: 'Bearer' },
  { authorization: 'Bearer ' },
  { authorization: ADA_KEY },
  { authorization: `bearer${ADA_KEY}` },
  { authorization: `Bearer ${ADA_KEY} ${BOB_KEY}` },
  { authorization: `Bearer ${ADA_KEY},` },
  { authorization: `Bearer "${ADA_KEY}"` },
  { authorization: `Bearer ${ADA_KEY.toUpperCase()}` },
  { authorization: `Bearer ${ADA_KEY.slice(0, -1)}` },
  { authorization: `Bearer ${ADA_KEY}x` },
  { authorization: `Bearer ${'x'.repeat(15_000)}` },
  { authorization: `Basic ${Buffer.from(`ada:${ADA_KEY}`).toString('base64')}` },
  { authorization: `Digest ${ADA_KEY}` },
  { authorization: `Token ${ADA_KEY}` },
  { authorization: `Bearer [object Object]` },
  { authorization: 'Bearer undefined' },
  { authorization: 'Bearer null' },
  { authorization: 'Bearer __proto__' },
  { authorization: 'Bearer ada' },
  { authorization: 'Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.' },
  { 'proxy-authorization': `Bearer ${ADA_KEY}` },
  { 'x-api-key': ADA_KEY, 'api-key': ADA_KEY, 'x-auth-token': ADA_KEY },
  { cookie: `authorization=Bearer ${ADA_KEY}; token=${ADA_KEY}; session=${ADA_KEY}` },
  { 'x-agent-name': 'ada', 'x-forwarded-user': 'ada', 'x-remote-user': 'ada', 'remote-user': 'ada', 'x-user': 'ada' },
  { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1;by=127.0.0.1' },
  { 'x-original-authorization': `Bearer ${ADA_KEY}`, 'x-forwarded-access-token': ADA_KEY },
];

test('security:3 check:E3 proto:S1 auth: on every path only the right key in Authorization opens anything', async () => {
  for (const wrong of WRONG) {
    const what = JSON.stringify(wrong).slice(0, 100);
    const replies: Reply[] = [];
    for (const path of POST_PATHS) replies.push(await arena.post(init, wrong, path));
    for (const path of GET_PATHS)
      replies.push(await arena.ask('GET', path, { ...arena.victim, authorization: '', ...wrong }));
    replies.push(await arena.ask('DELETE', '/mcp', { ...arena.victim, authorization: '', ...wrong }));
    for (const reply of replies) {
      assert.equal(reply.status, 401, `${what}: ${reply.status}`);
      assert.equal(reply.headers['www-authenticate'], 'Bearer realm="trunkline"', what);
      assert.equal(reply.headers['mcp-session-id'], undefined, what);
      assert.ok(!reply.text.includes(ADA_KEY) && !reply.text.includes('probe'), what);
    }
  }
  await arena.alive();
});

test('check:E3 auth: a key in the query or the body does not count, and is in no log', async () => {
  const queries = [
    `access_token=${ADA_KEY}`,
    `token=${ADA_KEY}`,
    `key=${ADA_KEY}`,
    `authorization=Bearer%20${ADA_KEY}`,
  ];
  for (const query of queries) {
    assert.equal((await arena.post(init, {}, `/mcp?${query}`)).status, 401, query);
    assert.equal((await arena.ask('GET', `/sse?${query}`)).status, 401, query);
  }
  const { body, headers } = modern('tools/list', { access_token: ADA_KEY, authorization: ADA_KEY }, 1, {
    authorization: `Bearer ${ADA_KEY}`,
  });
  assert.equal((await arena.post(body, headers)).status, 401);
  assert.ok(!arena.gateway.stderr.includes(ADA_KEY));
});

test('auth: two Authorization headers are 400, whichever is right', async () => {
  for (const [one, two] of [
    [ADA_KEY, 'wrong-key-0123456789'],
    ['wrong-key-0123456789', ADA_KEY],
    [ADA_KEY, BOB_KEY],
    [ADA_KEY, ADA_KEY],
  ]) {
    const { body, headers } = modern('tools/list');
    const lines = Object.entries({ ...headers, 'content-type': 'application/json' }).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    const bytes = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${one}\r\nauthorization: Bearer ${two}\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body}`;
    const { statuses, text } = await arena.raw(bytes);
    assert.deepEqual(statuses, [400], `${one} ${two}`);
    assert.ok(!text.includes('probe__'));
  }
});

test('auth: 200 wrong keys are 200 times 401, do not affect the right one, and reveal nothing', async () => {
  const guesses = Array.from({ length: 200 }, (_, i) => ADA_KEY.slice(0, i % ADA_KEY.length) + 'x'.repeat(20));
  const replies: Reply[] = [];
  for (const key of guesses) replies.push(await arena.post(init, { authorization: `Bearer ${key}` }));
  assert.ok(replies.every(({ status }) => status === 401));
  assert.equal(new Set(replies.map(({ text }) => text)).size, 1);
  await arena.alive();
});

test('security:3 check:E3 proto:H5 auth: bob reaches only his own servers, whatever he claims to be, on every path', async () => {
  const claims: readonly Headers[] = [
    {},
    { 'x-agent-name': 'ada', 'x-tenant': 'ada', 'mcp-param-agent': 'ada', 'x-forwarded-user': 'ada' },
    { cookie: `key=${ADA_KEY}`, 'proxy-authorization': ADA.authorization },
  ];
  const foreign: readonly [string, object][] = [
    ['tools/call', { name: 'probe__echo', arguments: { mark: 'of-bob' } }],
    ['tools/call', { name: 'mcp__probe__echo', arguments: { mark: 'of-bob' } }],
    ['tools/call', { name: 'slow', arguments: { mark: 'of-bob' } }],
    ['resources/read', { uri: 'probe://doc' }],
    ['resources/read', { uri: 'probe://items/1/end' }],
    ['prompts/get', { name: 'probe__greet' }],
    ['prompts/get', { name: 'greet' }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'probe__greet' }, argument: { name: 'a', value: '' } }],
    [
      'completion/complete',
      {
        ref: { type: 'ref/resource', uri: 'probe://items/{a}{b}{c}{d}{+e}{f}{g}/end' },
        argument: { name: 'a', value: '' },
      },
    ],
  ];
  const before = arena.reached().length;
  const clientInfo = { name: 'ada', title: 'ada', version: '1', agent: 'ada' };
  const ofAda = { 'trunkline/principal': 'agent:ada', agent: 'ada', 'io.modelcontextprotocol/clientInfo': clientInfo };
  for (const claim of claims) {
    const session = { ...(await arena.session({ headers: { ...BOB, ...claim }, clientInfo })), ...claim };
    for (const [method, params] of foreign) {
      const request = modern(method, params, 1, ofAda);
      const replies = [
        await arena.post(request.body, { ...request.headers, ...BOB, ...claim }),
        await arena.post(rpc(method, params), session),
      ];
      for (const reply of replies) {
        const refused = reply.json.error !== undefined || reply.json.result.isError === true;
        assert.ok(refused, `${method} ${JSON.stringify(params)}: ${reply.text}`);
        assert.ok(!reply.text.includes('of the probe'));
      }
    }
    for (const method of ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list']) {
      const request = modern(method, {}, 1, ofAda);
      for (const reply of [
        await arena.post(request.body, { ...request.headers, ...BOB, ...claim }),
        await arena.post(rpc(method), session),
      ]) {
        assert.ok(reply.json.result !== undefined || reply.json.error.code === -32601, reply.text);
        assert.doesNotMatch(reply.text, /probe/, `${method}: ${reply.text}`);
      }
    }
    for (const path of ['/servers/probe/mcp', '/servers/probe/sse']) {
      const headers = { ...BOB, ...claim };
      const known = path.endsWith('sse')
        ? await arena.ask('GET', path, headers)
        : await arena.post(init, headers, path);
      const none = path.replace('probe', 'nobody');
      const unknown = none.endsWith('sse')
        ? await arena.ask('GET', none, headers)
        : await arena.post(init, headers, none);
      assert.deepEqual([known.status, known.text], [404, unknown.text], path);
    }
  }
  const reached = arena.reached();
  assert.ok(!reached.includes('of-bob'));
  assert.ok(before <= reached.length);
  // Names that a client claims do not restrict the key of ada either.
  const named = modern('tools/list', {}, 1, {
    agent: 'bob',
    'io.modelcontextprotocol/clientInfo': { name: 'bob', version: '1' },
  });
  const listed = await arena.post(named.body, { ...named.headers, ...ADA, 'x-agent-name': 'bob' });
  assert.match(listed.text, /probe__echo/);
  await arena.alive();
});

test('auth: servers that bob may not see, and missing ones, are refused with the same message', async () => {
  const session = await arena.session({ headers: BOB });
  const texts = await Promise.all(
    ['probe__echo', 'nobody__echo'].map(async (name) => {
      const reply = await arena.post(rpc('tools/call', { name, arguments: {} }), session);
      return reply.text.replaceAll('probe', '?').replaceAll('nobody', '?');
    }),
  );
  assert.equal(texts[0], texts[1]);
});

test('security:9 check:E3 auth: no claim of a client about its identity reaches a server', async () => {
  const { body, headers } = modern('tools/call', { name: 'remote__echo', arguments: { text: 'x' } });
  const identity = {
    cookie: 'session=canary-cookie',
    'proxy-authorization': 'Basic canary-proxy',
    'x-api-key': 'canary-api-key',
    'x-forwarded-for': '203.0.113.77',
    'x-forwarded-user': 'canary-user',
    'mcp-session-id': 'canary-session',
    forwarded: 'for=203.0.113.77',
    origin: 'http://localhost:7777',
    referer: 'http://canary-referer/',
    'last-event-id': 'canary-event',
  };
  const reply = await arena.post(body, { ...headers, ...BOB, ...identity });
  assert.equal(reply.status, 200, reply.text);
  // In a session, whose id is one of the credentials too, and over both kinds of servers.
  const { 'mcp-session-id': _, ...others } = identity;
  const session = await arena.session({ headers: { ...ADA, ...others } });
  for (const name of ['remote__echo', 'probe__echo']) {
    const called = await arena.post(rpc('tools/call', { name, arguments: { text: 'in a session' } }), session);
    assert.equal(called.status, 200, called.text);
  }
  const sent = arena.reached();
  assert.equal(sent.split('in a session').length, 3, 'the calls themselves arrived');
  assert.doesNotMatch(sent, /canary-|203\.0\.113\.77|key-of-|localhost:7777/i);
  assert.ok(!sent.includes(session['mcp-session-id']!), 'the id of the session');
});
