import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { Json } from '../../test/support/raw-http.ts';
import { runAtNodes } from './at-nodes.ts';
import type { ControlPlane, ForwardedRequest } from './control-plane.ts';
import type { ControlAnswer } from './operation.ts';
import { OPERATIONS } from './operations.ts';

/** Node a of two; b has the server `s` and gives `there` as its answer. */
function nodeA(there: { status: number; body: object }, more: object = {}) {
  const asked: string[] = [];
  const plane = {
    clock: new FakeClock(),
    calls: { node: 'a', last: () => [] },
    upstreams: { statuses: () => [{ name: 's' }, { name: 'lost' }] },
    server: () => null,
    cluster: {
      others: () => ['b'],
      silent: () => [],
      holder: (server: string) => (server === 's' ? 'b' : null),
      ask(_node: string, { operation }: ForwardedRequest) {
        asked.push(operation);
        return { answer: Promise.resolve({ ...there, body: JSON.stringify(there.body) }), cancel() {} };
      },
    },
    ...more,
  };
  const run = async (id: string, name: string, query = ''): Promise<{ status: number; json: Json }> => {
    const operation = OPERATIONS.find((one) => one.id === id)!;
    const common = {
      body: Buffer.from('{}'),
      caller: { exec: false },
      lastEventId: null,
      session: null,
      secure: false,
    };
    const request = { ...common, name, query: new URLSearchParams(query), gone: new AbortController().signal };
    const answer = (await runAtNodes(operation, request, plane as unknown as ControlPlane)) as ControlAnswer;
    return { status: answer.status, json: JSON.parse(answer.body.toString()) };
  };
  return { run, asked };
}

test('a request that this node cannot read is refused in a cluster too, and no other node is asked', async () => {
  const { run, asked } = nodeA({ status: 400, body: {} });
  const { status, json } = await run('listCalls', '', 'filter=colour:red');
  assert.deepEqual([status, json.error.code], [400, 'filter_malformed']);
  assert.deepEqual(asked, []);
});

test('a request for the sign-in at a server of another node gets that node’s answer, with any status', async () => {
  for (const status of [200, 409, 503]) {
    const { run, asked } = nodeA({ status, body: { of: 'b' } });
    for (const id of ['getSignIn', 'checkSignIn']) assert.deepEqual(await run(id, 's'), { status, json: { of: 'b' } });
    assert.deepEqual(asked, ['getSignIn', 'checkSignIn']);
  }
});

test('a login at a server that only another node has is refused with the name of that node', async () => {
  const { run } = nodeA({ status: 200, body: {} });
  for (const [name, message] of [
    ['s', /^node b has the server "s", and this node has not: ask that node, or add \?node=b$/],
    ['lost', /the one that had it does not answer/],
    ['los', /did you mean "lost"/],
  ] as const) {
    const { status, json } = await run('beginLogin', name);
    assert.equal(status, 404);
    assert.match(json.error.message, message);
  }
});

test('recordings of all nodes are listed in the order in which they were started', async () => {
  const view = (id: string, startedAt: string) => ({ id, startedAt, nodes: [], sessions: [], servers: [] });
  const own = [view('second', '2026-01-02'), view('third', '2026-01-03')];
  const recorder = { list: () => own.map((one) => ({ view: one })) };
  const { run } = nodeA({ status: 200, body: { recordings: [view('first', '2026-01-01')] } }, { recorder });
  const { json } = await run('listRecordings', '');
  assert.deepEqual(
    json.recordings.map(({ id }: Json) => id),
    ['first', 'second', 'third'],
  );
});
