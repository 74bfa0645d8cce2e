import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Router } from '../../compat/index.ts';
import type { AgentClient, Answer, Tool, ToolArguments, ToolCallResult } from '../../index.ts';

const schema = { type: 'object' };

/** A client that a program implements. */
class Fixed implements AgentClient {
  readonly isInitialized = true;
  readonly name: string;
  readonly serverInfo: { name: string; version: string };
  tools: readonly Tool[];
  readonly calls: [string, ToolArguments | undefined][] = [];

  constructor(name: string, tools: readonly Tool[]) {
    this.name = name;
    this.tools = tools;
    this.serverInfo = { name, version: '1' };
  }

  async initialize() {
    return this.serverInfo;
  }

  async refreshTools(): Promise<readonly Tool[]> {
    if (this.tools.length === 0) throw new Error('nothing here');
    return this.tools;
  }

  async callTool(tool: string, args?: ToolArguments): Promise<Answer<ToolCallResult>> {
    this.calls.push([tool, args]);
    return { content: [{ type: 'text', text: this.name }], raw: '' };
  }
}

const b = () => new Fixed('b', [{ name: 'x', description: 'does x', inputSchema: schema, 'x-own': 1 }]);
const a = () => new Fixed('a', [{ name: 'x', title: 'The X', inputSchema: schema }]);

test('S2.35 S2.5 check:D2 clients are added and removed by name, and a name in use needs `replace`', () => {
  const router = new Router();
  const first = b();
  router.addClient(first);
  router.addClient(a());
  assert.throws(() => router.addClient(b()), { code: 'INVALID_PARAMS', message: 'agent b is registered already' });
  for (const [wrong, lacks] of [
    [{}, /lacks `name`/],
    [{ name: 'x' }, /lacks `tools`/],
    [{ name: 'x', tools: [], refreshTools: () => [] }, /lacks the method `callTool`/],
  ] as const) {
    assert.throws(() => router.addClient(wrong as unknown as AgentClient), { code: 'INVALID_PARAMS', message: lacks });
  }
  assert.equal(router.getClient('b'), first);
  const second = b();
  router.addClient(second, { replace: true });
  assert.equal(router.getClient('b'), second);
  assert.deepEqual(
    router.clients().map(({ name }) => name),
    ['a', 'b'],
  );
  assert.equal(router.removeClient('b'), true);
  assert.equal(router.removeClient('b'), false);
  assert.equal(router.getClient('b'), null);
});

test('S2.35 tools are aggregated in order, with prefixed names, marked descriptions and a title each', () => {
  const router = new Router();
  router.addClient(b());
  router.addClient(a());
  assert.deepEqual(router.aggregatedTools(), [
    { name: 'a__x', title: 'The X', description: '[a] ', inputSchema: schema },
    { name: 'b__x', title: 'x', description: '[b] does x', inputSchema: schema, 'x-own': 1 },
  ]);
});

test('S2.35 colliding names are distinguished, and every exposed name leads to its own tool', async () => {
  const router = new Router();
  const one = new Fixed('s', [{ name: 'get-it', inputSchema: schema }]);
  const two = new Fixed('t', [
    { name: 'get-it', inputSchema: schema },
    { name: 'get_it', inputSchema: schema },
    { name: 'x'.repeat(100), inputSchema: schema },
    { name: 'not a name', inputSchema: schema },
  ]);
  router.addClient(one);
  router.addClient(two);
  const names = router.aggregatedTools().map(({ name }) => name);
  assert.equal(new Set(names).size, 4);
  for (const name of names) {
    assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
    await router.routeToolCall(name);
  }
  assert.deepEqual(
    two.calls.map(([tool]) => tool),
    ['get-it', 'get_it', 'x'.repeat(100)],
  );
});

test('S2.35 a call is routed by the table; a name that is not in it is refused', async () => {
  const router = new Router();
  const client = b();
  router.addClient(client);
  const result = await router.routeToolCall('b__x', '{"n":1.0}');
  assert.equal(result.content[0]?.text, 'b');
  assert.deepEqual(client.calls, [['x', '{"n":1.0}']]);
  const refused = (name: string, message: string) =>
    assert.rejects(router.routeToolCall(name), { code: 'INVALID_PARAMS', message });
  await refused('b__y', 'Unknown tool: b__y');
  await refused('c__x', 'unknown agent: c');
  await refused('nonsense', 'invalid tool name format: nonsense (expected agent__tool)');
  assert.equal(client.calls.length, 1);
});

test('S2.35 a refresh asks all clients, and reports the result of each', async () => {
  const router = new Router();
  router.addClient(b());
  router.addClient(new Fixed('empty', []));
  const [first, second] = await router.refreshTools();
  assert.ok(first?.ok === true && first.tools.length === 1);
  assert.ok(second?.ok === false && String(second.error).includes('nothing here'));
});
