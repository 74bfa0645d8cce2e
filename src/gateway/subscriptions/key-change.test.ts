import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent, client, ended, GatewayBench, MCP } from '../../../test/support/gateway-bench.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { answer } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { result } from '../../protocol/compose.ts';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);
const STATELESS = { era: 'stateless' } as const;
const OFFERS = {
  many: { tools: Array.from({ length: 300 }, (_, i) => tool(`t${i}`)) },
  jobs: { tools: [tool('run')], capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } },
  young: { era: 'stateless', tools: [tool('ask')], capabilities: { tools: {} } } as const,
};

/** Nodes during a change of keys: one seals with the old key, one with the new one, and both accept both. */
const bothWays = [
  [
    [OLD, NEW],
    [NEW, OLD],
  ],
  [
    [NEW, OLD],
    [OLD, NEW],
  ],
] as const;

function benches([one, other]: (typeof bothWays)[number]): [GatewayBench, GatewayBench] {
  const made = (keys: readonly Buffer[]) => new GatewayBench(OFFERS, {}, undefined, { keys });
  return [made(one), made(other)];
}

for (const keys of bothWays) {
  const name =
    keys[0][0] === OLD ? 'by the old key opens at a node with the new' : 'by the new key opens at a node with the old';

  test(`S2.19 a list cursor written ${name} one first`, async () => {
    const [a, b] = benches(keys);
    const { nextCursor } = ended(await a.run('tools/list', null)) as { nextCursor: string };
    const page = ended(await b.run('tools/list', JSON.stringify({ cursor: nextCursor }))) as { tools: unknown[] };
    assert.equal(page.tools?.length, 52);
  });

  test(`proto:S3 a requestState sealed ${name} one first`, async () => {
    const [a, b] = benches(keys);
    const asks = '{"resultType":"input_required","inputRequests":{},"requestState":"of the server"}';
    for (const { upstreams } of [a, b]) upstreams.respond = () => answer(result('1', asks, 'stateless'));
    const call = async (bench: GatewayBench, params: object) => {
      const exchange = bench.exchange('tools/call', JSON.stringify({ name: 'young__ask', ...params }), STATELESS);
      return ended(await bench.gateway.run(Object.assign(exchange, { sealsInput: true }), MCP));
    };
    const { requestState } = (await call(a, {})) as { requestState: string };
    assert.notEqual(requestState, 'of the server');
    await call(b, { inputResponses: {}, requestState });
    assert.match(b.upstreams.calls[0]?.request.body.toString() ?? '', /"requestState":"of the server"/);
  });
}

test('S2.29 a task keeps its id for the client, however often the key changes', async () => {
  const kept = new Map<string, TaskRecord>();
  const records = {
    load: () => kept.values(),
    put: (record: TaskRecord) => void kept.set(record.key, record),
    delete: (key: string) => void kept.delete(key),
  };
  const bench = (...keys: Buffer[]) => {
    const made = new GatewayBench(OFFERS, {}, undefined, { keys, taskRecords: records });
    made.upstreams.respond = ({ request }) => {
      const task = '"taskId":"t-1","status":"working","ttl":60000';
      return answer(result('1', request.method === 'tools/call' ? `{"task":{${task}}}` : `{${task}}`, 'stateful'));
    };
    return made;
  };
  const begun = ended(await bench(OLD).run('tools/call', '{"name":"jobs__run","task":{}}')) as {
    task: { taskId: string };
  };
  const { taskId } = begun.task;
  for (const keys of [[OLD, NEW], [NEW, OLD], [NEW], [Buffer.alloc(32, 3)]]) {
    const later = bench(...keys);
    const got = ended(await later.run('tasks/get', JSON.stringify({ taskId }))) as { taskId: string };
    assert.equal(got.taskId, taskId);
    const { tasks } = ended(await later.run('tasks/list', null)) as { tasks: { taskId: string }[] };
    assert.deepEqual(
      tasks.map((task) => task.taskId),
      [taskId],
    );
    const stranger = { client: client('stateful', { principal: agent('bob', 'jobs') }) };
    const refused = await later.run('tasks/get', JSON.stringify({ taskId }), stranger);
    assert.ok(refused.kind === 'failure' && refused.error.code === 'INVALID_PARAMS');
  }
});
