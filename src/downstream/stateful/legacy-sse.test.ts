import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { EventReader, type Reply, send } from '../../../test/support/raw-http.ts';
import type { PostAnswer } from '../../model/stream-copies.ts';
import { notification, request } from '../../protocol/compose.ts';
import type { OtherNodes } from '../session/other-nodes.ts';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({
    patienceMs: 50,
    agents: { ada: null, bob: ['memory'] },
    servers: ['memory', 'files'],
  });
});
after(() => rig.close());

const ADA = { authorization: 'Bearer key-of-ada' };
const BOB = { authorization: 'Bearer key-of-bob' };
const INIT = call(0, 'initialize', {
  protocolVersion: '2024-11-05',
  capabilities: { roots: {} },
  clientInfo: { name: 'c' },
});

async function connect(
  path = '/sse',
  auth: Record<string, string> = ADA,
): Promise<{ stream: EventReader; to: string }> {
  const stream = await EventReader.open(rig.url(path), 'GET', { accept: 'text/event-stream', ...auth });
  const first = await stream.next();
  assert.equal(first?.event, 'endpoint');
  return { stream, to: new URL(first!.data, rig.url(path)).pathname + new URL(first!.data, rig.url(path)).search };
}

function post(to: string, body: string, auth: Record<string, string> = ADA): Promise<Reply> {
  return rig.post(body, auth, to);
}

test('S2.36 S2.37 check:B5 the first event names the URL to post to, answers come on the stream, numbered', async () => {
  const { stream, to } = await connect();
  assert.match(to, /^\/message\?sessionId=[0-9a-f]{32}$/);
  const accepted = await post(to, INIT);
  assert.equal(accepted.status, 202);
  assert.equal(accepted.text, '');
  const handshake = await stream.next();
  assert.equal(handshake?.event ?? 'message', 'message');
  assert.equal(handshake?.id, '1');
  assert.equal(JSON.parse(handshake!.data).result.protocolVersion, '2024-11-05');
  assert.equal((await post(to, '{"jsonrpc":"2.0","method":"notifications/initialized"}')).status, 202);
  rig.core.on('tools/call', (exchange) => {
    exchange.emit(notification('notifications/progress', '{"progress":1.0}', 'stateful'));
    return ok(exchange, '{"n":12345678901234567890}');
  });
  assert.equal((await post(to, call('q', 'tools/call', { name: 't' }))).status, 202);
  assert.match((await stream.next())!.data, /"progress":1\.0/);
  const answered = await stream.next();
  assert.equal(answered?.id, '3');
  assert.equal(answered?.data, '{"jsonrpc":"2.0","id":"q","result":{"n":12345678901234567890}}');
  stream.drop();
});

test('S2.36 wrong posts are refused: 405, 400, 404, 400', async () => {
  const { stream, to } = await connect();
  assert.equal((await send(rig.url(to), 'GET', ADA)).status, 405);
  const missing = await post('/message', INIT);
  assert.equal(missing.status, 400);
  assert.match(missing.json.error.message, /Missing sessionId/);
  const unknown = await post(`/message?sessionId=${'0'.repeat(32)}`, INIT);
  assert.equal(unknown.status, 404);
  assert.match(unknown.json.error.message, /Session not found/);
  const invalid = await post(to, '{"jsonrpc":');
  assert.equal(invalid.status, 400);
  assert.match(invalid.json.error.message, /Invalid JSON/);
  assert.equal(invalid.json.error.code, -32700);
  stream.drop();
});

test('check:E3 the same keys and rights: 401 without, 404 for a foreign session or server', async () => {
  assert.equal((await send(rig.url('/sse'), 'GET')).status, 401);
  assert.equal((await send(rig.url('/servers/files/sse'), 'GET', BOB)).status, 404);
  const { stream, to } = await connect();
  assert.equal((await post(to, INIT, {})).status, 401);
  assert.equal((await post(to, INIT, BOB)).status, 404);
  const { id } = rig.downstream.sessions.find(to.split('=')[1]!)!;
  assert.equal((await rig.post(call(1, 'tools/list'), { ...ADA, 'mcp-session-id': id })).status, 404);
  const streamable = await rig.session({ headers: ADA });
  assert.equal((await post(`/message?sessionId=${streamable['mcp-session-id']}`, INIT)).status, 404);
  stream.drop();
});

test('one server has its own pair of paths', async () => {
  const { stream, to } = await connect('/servers/memory/sse', BOB);
  assert.match(to, /^\/servers\/memory\/message\?sessionId=/);
  await post(to, INIT, BOB);
  assert.equal((await stream.message()).id, 0);
  assert.equal((await rig.post(call(1, 'ping'), BOB, to.replace('/servers/memory', ''))).status, 404);
  stream.drop();
});

test('the server can send input requests, and the session ends with its stream', async () => {
  const { stream, to } = await connect();
  await post(to, INIT);
  await stream.message();
  const { id } = rig.downstream.sessions.find(to.split('=')[1]!)!;
  const asking = rig.downstream.ask(id, request('roots/list', '5', null, 'stateful'));
  const asked = await stream.message();
  assert.equal((await post(to, `{"jsonrpc":"2.0","id":"${asked.id}","result":{"roots":[]}}`)).status, 202);
  assert.equal((await asking).kind, 'result');
  assert.equal((await post(to, '{"jsonrpc":"2.0","id":"nobody","result":{}}')).status, 400);
  stream.drop();
  while (rig.downstream.sessions.get(id) !== undefined) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(rig.core.ended.includes(id));
  assert.equal((await post(to, call(1, 'ping'))).status, 404);
});

test('a batch that is one request too many is refused whole, and none of it runs', async () => {
  const { stream, to } = await connect();
  rig.core.on('tools/call', () => new Promise(() => {}));
  const batch = (size: number) =>
    `[${Array.from({ length: size }, (_, id) => call(id, 'tools/call', { name: 'slow' })).join(',')}]`;
  for (let i = 0; i < 3; i++) assert.equal((await post(to, batch(80))).status, 202);
  const before = rig.core.ran.length;
  assert.equal((await post(to, batch(17))).status, 429);
  assert.equal(rig.core.ran.length, before);
  stream.drop();
});

test('a session that the gateway ends does not count any more', async () => {
  while (rig.downstream.sse.sessionCount > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const { stream, to } = await connect();
  assert.equal(rig.downstream.sse.sessionCount, 1);
  rig.downstream.sessions.end(rig.downstream.sessions.find(to.split('=')[1]!)!, 'the caller may not use this any more');
  assert.equal(await stream.next(), null);
  assert.equal(rig.downstream.sse.sessionCount, 0);
  assert.equal(rig.downstream.sse.broadcast(notification('notifications/of_the_program', null, 'stateful')), 0);
});

test('a post for a stream of another node goes to it even without heartbeats, and is 404 if it is gone', async () => {
  const [self, node] = ['a'.repeat(16), 'b'.repeat(16)];
  const posts: string[] = [];
  let answer: PostAnswer | null = { status: 503, code: -32600, text: 'it is not heard', id: '' };
  const posted: OtherNodes['posted'] = async (to, { sessionId }) => {
    posts.push(`${to} ${sessionId}`);
    return answer;
  };
  const others = { self, has: () => false, posted } as unknown as OtherNodes;
  const here = await DownstreamRig.start({ agents: { ada: null }, others });
  const postTo = (name: string) => here.post(INIT, ADA, `/message?sessionId=s&node=${name}`);
  const unheard = await postTo(node);
  assert.deepEqual([unheard.status, unheard.headers['retry-after']], [503, '10']);
  answer = null;
  const gone = await postTo(node);
  assert.equal(gone.status, 404);
  assert.match(gone.json.error.message, /Session not found/);
  assert.equal((await postTo(self)).status, 404);
  assert.deepEqual(posts, [`${node} s`, `${node} s`]);
  await here.close();
});
