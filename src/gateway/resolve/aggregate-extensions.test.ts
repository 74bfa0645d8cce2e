import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  agent,
  client,
  ended,
  endpointOf,
  GatewayBench,
  MCP,
  type RunOptions,
} from '../../../test/support/gateway-bench.ts';
import type { Advertisement } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';

const SKILLS = 'io.modelcontextprotocol/skills';
const offering = (extensions: Record<string, unknown>): Advertisement => ({
  resources: [],
  capabilities: { resources: {}, extensions },
});

const skill = (uri: string, file: string) =>
  `{"uri":"${uri}","frontmatter":{"name":"refunds","uri":"skill://refunds","n":1.0},"resources":[{"uri":"${uri}","size":1.0},{"uri":"${file}"}]}`;
const OWN = skill('skill://refunds/SKILL.md', 'repo://x/refunds/a.md');
const exposed = (server: string) =>
  skill(`skill://trunkline/${server}/refunds/SKILL.md`, `trunkline://${server}/repo://x/refunds/a.md`);

function bench(advertised: Record<string, Advertisement | null>): GatewayBench {
  const made = new GatewayBench(advertised);
  made.upstreams.respond = ({ request }) => {
    const list = request.method === 'skills/list';
    return answer(result('9', list ? `{"skills":[${OWN}],"n":1.0}` : `{"skill":${OWN}}`, 'stateful'));
  };
  return made;
}

function text(outcome: Outcome): string {
  return outcome.kind === 'answer' ? outcome.message.body.toString() : `${outcome.error.code} ${outcome.error.message}`;
}

function calls({ upstreams }: GatewayBench): string[] {
  return upstreams.calls.map(({ server, request }) => `${server} ${request.method} ${request.body.toString()}`);
}

test('an extension’s method goes to the server that declares it, byte for byte, on both kinds of endpoint', async () => {
  for (const place of ['extensions', 'experimental']) {
    const made = new GatewayBench({
      other: offering({ [SKILLS]: {}, 'io.modelcontextprotocol/ui': {} }),
      has: { capabilities: { [place]: { 'com.acme/find': {} } } },
    });
    const params = '{ "q":1.0,"name":"x" }';
    for (const method of ['acme/search', 'find/one', 'find/any/list']) {
      assert.deepEqual(ended(await made.run(method, params)), { from: 'has' });
    }
    await made.run('acme/search', params, { endpoint: endpointOf('has') });
    assert.deepEqual(calls(made).slice(0, 2), [`has acme/search ${params}`, `has find/one ${params}`]);
    assert.equal(calls(made)[3], `has acme/search ${params}`);
  }
});

test('a method is not found if no server declares its extension, or if it is of another revision', async () => {
  const made = new GatewayBench({ s: offering({ [SKILLS]: {} }), v: offering({ 'com.acme/find': {} }) });
  const found = async (method: string, more: RunOptions = {}) => text(await made.run(method, '{}', more)).split(' ')[0];
  assert.equal(await found('server/discover'), 'METHOD_NOT_FOUND');
  assert.equal(await found('resources/directory/read'), 'METHOD_NOT_FOUND');
  const only = client('stateful', { principal: agent('ann', 's') });
  assert.equal(await found('acme/search', { client: only }), 'METHOD_NOT_FOUND');
  assert.deepEqual(calls(made), []);
  // Only one server can have this method, whatever its extension is.
  assert.deepEqual(ended(await made.run('odd/method', '{}')), { from: 'v' });
});

test('if several servers declare an extension and a request names none, the error names their endpoints', async () => {
  const made = new GatewayBench({ a: offering({ 'com.acme/find': {} }), b: offering({ 'com.acme/find': {} }) });
  assert.match(
    text(await made.run('acme/search', '{"uri":"x://1"}')),
    /^INVALID_PARAMS .*\/servers\/a\/mcp or \/servers\/b\/mcp$/,
  );
  assert.deepEqual(calls(made), []);
  await made.run('acme/search', '{"uri":"trunkline://b/x://1"}');
  assert.deepEqual(calls(made), ['b acme/search {"uri":"x://1"}']);
});

test('check:D5 SEP-2640 skills of several servers are one list; each entry names its server and is otherwise unchanged', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), b: offering({}), c: offering({ [SKILLS]: {} }) });
  const pages: string[] = [];
  let cursor: string | undefined;
  do {
    const page = text(await made.run('skills/list', cursor === undefined ? null : JSON.stringify({ cursor, x: 1.5 })));
    cursor = JSON.parse(page).nextCursor;
    pages.push(page.replace(/"nextCursor":"[^"]+",?/, ''));
  } while (cursor !== undefined);
  assert.deepEqual(pages, [`{"skills":[${exposed('a')}],"n":1.0}`, `{"skills":[${exposed('c')}],"n":1.0}`]);
  assert.deepEqual(calls(made), ['a skills/list ', 'c skills/list {"x":1.5}']);
});

test('check:D5 SEP-2640 all pages of a server are read, and servers that fail do not affect the list', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), b: offering({ [SKILLS]: {} }), c: offering({ [SKILLS]: {} }) });
  made.upstreams.respond = ({ server, request }) => {
    if (server === 'b') return failure(new GatewayError('TIMEOUT', 'late'));
    if (server === 'c') return answer(errorAnswer('9', -32601, 'no', null, 'stateful'));
    const more = request.body.includes('"cursor":"p2"') ? '' : ',"nextCursor":"p2"';
    return answer(result('9', `{"skills":[]${more}}`, 'stateful'));
  };
  let page = ended(await made.run('skills/list', '{}')) as { nextCursor?: string };
  let count = 1;
  for (; page.nextCursor !== undefined; count++) {
    page = ended(await made.run('skills/list', JSON.stringify({ cursor: page.nextCursor }))) as typeof page;
  }
  assert.equal(count, 3);
  assert.deepEqual(page, { skills: [] });
  for (const cursor of ['zzz', Buffer.from('["nowhere",null]').toString('base64url')]) {
    assert.match(text(await made.run('skills/list', JSON.stringify({ cursor }))), /^INVALID_PARAMS/);
  }
});

test('check:D5 SEP-2640 a server that hangs delays a list of several only for a while', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), b: offering({ [SKILLS]: {} }) });
  const { respond } = made.upstreams;
  made.upstreams.respond = (call) => (call.server === 'a' ? new Promise<Outcome>(() => {}) : respond(call));
  const page = made.run('skills/list', '{}');
  await settled();
  made.clock.advance(5_000);
  assert.equal(text(await page), `{"skills":[${exposed('b')}],"n":1.0}`);
});

test('check:D5 SEP-2640 a call that is too late is cancelled, and a cancellation then reaches the next call', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), b: offering({ [SKILLS]: {} }) });
  const reached: string[] = [];
  made.upstreams.respond = ({ server, exchange }) => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    exchange.onCancel = (reason) => {
      reached.push(`${server}: ${reason}`);
      // As a call to a server does when it has ended.
      exchange.onCancel = null;
      resolve(failure(new GatewayError('CANCELLED', reason)));
    };
    return promise;
  };
  const exchange = made.exchange('skills/list', '{}');
  const page = made.gateway.run(exchange, MCP);
  await settled();
  await made.clock.advance(5_000);
  exchange.cancel('enough');
  assert.match(text(await page), /^CANCELLED enough/);
  assert.deepEqual(reached, ['a: the page came too late', 'b: enough']);
});

test('check:D5 SEP-2640 a skill is read at the server in its address, or under its own URI at the server that has it', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), c: offering({ [SKILLS]: { directoryRead: true } }) });
  const got = await made.run('skills/get', '{"uri":"skill://trunkline/c/refunds/SKILL.md"}');
  assert.equal(text(got), `{"skill":${exposed('c')}}`);
  assert.deepEqual(calls(made), ['c skills/get {"uri":"skill://refunds/SKILL.md"}']);
  assert.match(
    text(await made.run('skills/get', '{"uri":"skill://refunds/SKILL.md"}')),
    /^INVALID_PARAMS .*use skill:\/\/trunkline\/a\/refunds\/SKILL.md or skill:\/\/trunkline\/c\/refunds\/SKILL.md$/,
  );
  made.upstreams.respond = ({ server }) =>
    server === 'a'
      ? answer(errorAnswer('9', -32602, 'no', null, 'stateful'))
      : answer(result('9', `{"skill":${OWN}}`, 'stateful'));
  assert.equal(text(await made.run('skills/get', '{"uri":"skill://refunds/SKILL.md"}')), `{"skill":${exposed('c')}}`);
  made.upstreams.respond = () => answer(errorAnswer('9', -32602, 'no', null, 'stateful'));
  assert.match(text(await made.run('skills/get', '{"uri":"skill://no/SKILL.md"}')), /^INVALID_PARAMS/);
  assert.match(text(await made.run('skills/get', '{"uri":"skill://trunkline/zzz/SKILL.md"}')), /^INVALID_PARAMS/);
  made.upstreams.respond = () =>
    answer(result('9', '{"resources":[{"uri":"skill://refunds/t","name":"t"}]}', 'stateful'));
  const directory = await made.run('resources/directory/read', '{"uri":"skill://refunds"}');
  assert.equal(text(directory), '{"resources":[{"uri":"skill://trunkline/c/refunds/t","name":"t"}]}');
});

test('S2.28 SEP-2640 a caller gets the skills of its own servers only, and no hint of others', async () => {
  const made = bench({ a: offering({ [SKILLS]: {} }), c: offering({ [SKILLS]: {} }) });
  const ann = { client: client('stateful', { principal: agent('ann', 'a') }) };
  const list = ended(await made.run('skills/list', '{}', ann)) as { nextCursor?: string };
  assert.equal(list.nextCursor, undefined);
  const cursor = Buffer.from('["c",null]').toString('base64url');
  assert.match(text(await made.run('skills/list', JSON.stringify({ cursor }), ann)), /^INVALID_PARAMS/);
  assert.match(
    text(await made.run('skills/get', '{"uri":"skill://trunkline/c/refunds/SKILL.md"}', ann)),
    /^ACCESS_DENIED/,
  );
  await made.run('skills/get', '{"uri":"skill://refunds/SKILL.md"}', ann);
  assert.deepEqual(calls(made), ['a skills/list {}', 'a skills/get {"uri":"skill://refunds/SKILL.md"}']);
  assert.match(text(await made.run('skills/list', '{}', { ...ann, endpoint: endpointOf('c') })), /^ACCESS_DENIED/);
});
