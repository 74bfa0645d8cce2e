import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, ended, GatewayBench } from '../../../test/support/gateway-bench.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { answer } from '../../model/outcome.ts';
import { errorAnswer, notification, result } from '../../protocol/compose.ts';

const APP = 'ui://get-time/mcp-app.html';
const OF_REACT = 'ui://trunkline/react/get-time/mcp-app.html';
const OF_VANILLA = 'ui://trunkline/vanilla/get-time/mcp-app.html';

/** As the official servers offer it: the app is in the tool's `_meta`, in both forms. */
function advertisement(extra: readonly string[] = []) {
  return {
    tools: [
      tool(
        'get-time',
        `, "_meta" : { "ui":{ "visibility":["model","app"],"resourceUri":"${APP}","n":1.0},"ui/resourceUri":"${APP}"}`,
      ),
    ],
    resources: [`{"uri":"${APP}","name":"app","size":1.0}`, ...extra],
    capabilities: { tools: {}, resources: { subscribe: true } },
  };
}

const TWO = { react: advertisement(['{"uri":"ui://only-here","name":"o"}']), vanilla: advertisement() };

test('check:D5 two servers with one app address: each is listed, linked and read under its own address, within the ui scheme', async () => {
  const bench = new GatewayBench(TWO);
  const tools = (await bench.run('tools/list', null)) as Extract<
    Awaited<ReturnType<typeof bench.run>>,
    { kind: 'answer' }
  >;
  const written = (uri: string) =>
    `, "_meta" : { "ui":{ "visibility":["model","app"],"resourceUri":"${uri}","n":1.0},"ui/resourceUri":"${uri}"}`;
  assert.equal(
    tools.message.body.toString(),
    `{"tools":[${tool('react__get-time', written(OF_REACT))},${tool('vanilla__get-time', written(OF_VANILLA))}]}`,
  );
  const listed = (await bench.run('resources/list', null)) as typeof tools;
  assert.equal(
    listed.message.body.toString(),
    `{"resources":[{"uri":"${OF_REACT}","name":"app","size":1.0},{"uri":"ui://trunkline/react/only-here","name":"o"},` +
      `{"uri":"${OF_VANILLA}","name":"app","size":1.0}]}`,
  );
  bench.upstreams.respond = ({ server }) =>
    answer(
      result(
        '9',
        `{"contents":[{"uri":"${APP}","text":"${server}"},{"uri":"ui:\\/\\/part","text":""}],"n":1.0}`,
        'stateful',
      ),
    );
  const read = (await bench.run('resources/read', JSON.stringify({ uri: OF_VANILLA }))) as typeof tools;
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), `{"uri":"${APP}"}`);
  assert.equal(
    read.message.body.toString(),
    `{"contents":[{"uri":"${OF_VANILLA}","text":"vanilla"},{"uri":"ui://trunkline/vanilla/part","text":""}],"n":1.0}`,
  );
});

test('check:D5 an app that no list has is read only at the server that its address names', async () => {
  const bench = new GatewayBench({ a: { resources: [] }, b: { tools: [tool('t')], capabilities: { resources: {} } } });
  await bench.run('resources/read', '{"uri":"ui://trunkline/b/unlisted?x=1#y"}');
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => [server, request.body.toString()]),
    [['b', '{"uri":"ui://unlisted?x=1#y"}']],
  );
});

test('check:D5 an app’s own address leads to its server while only one has it, under the requested name', async () => {
  const bench = new GatewayBench(TWO);
  bench.upstreams.respond = () => answer(result('9', '{"contents":[{"uri":"ui://only-here","text":""}]}', 'stateful'));
  const read = await bench.run('resources/read', '{"uri":"ui://only-here"}');
  assert.deepEqual(ended(read), { contents: [{ uri: 'ui://only-here', text: '' }] });
  assert.equal(bench.upstreams.calls[0]!.server, 'react');
  const both = await bench.run('resources/read', JSON.stringify({ uri: APP }));
  assert.match(String((ended(both) as Error).message), new RegExp(`use ${OF_REACT} or ${OF_VANILLA}$`));
  assert.equal(bench.upstreams.calls.length, 1);
});

test('check:D4 check:D5 results name apps and other renamed resources like lists do, and keep all other bytes', async () => {
  const shared = {
    ...TWO,
    vanilla: advertisement(['{"uri":"conf://x","name":"c"}']),
    z: { resources: ['{"uri":"conf://x","name":"c"}'] },
  };
  const bench = new GatewayBench(shared);
  const content = (link: string, embedded: string, conf: string) =>
    `[{"type":"text","text":"${APP}"},{"type":"resource_link","uri":"${link}","name":"l"},` +
    `{"type":"resource","resource":{"uri":"${embedded}","text":"x","n":1.0}},{"type":"resource_link","uri":"${conf}"}]`;
  const own = `{"content":${content(APP, 'skill://s/SKILL.md', 'conf://x')},"structuredContent":{"uri":"${APP}"},"_meta":{"ui":{"resourceUri":"${APP}"},"ui/resourceUri":"${APP}"}}`;
  bench.upstreams.respond = () => answer(result('9', own, 'stateful'));
  const called = await bench.run('tools/call', '{"name":"vanilla__get-time"}');
  const exposed = `{"content":${content(OF_VANILLA, 'skill://trunkline/vanilla/s/SKILL.md', 'trunkline://vanilla/conf://x')},"structuredContent":{"uri":"${APP}"},"_meta":{"ui":{"resourceUri":"${OF_VANILLA}"},"ui/resourceUri":"${OF_VANILLA}"}}`;
  assert.equal(called.kind === 'answer' && called.message.body.toString(), exposed);
  const prompts = new GatewayBench({ ...shared, p: { prompts: ['{"name":"p"}'] } });
  const messages = (uri: string) =>
    `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"${uri}"}}}]}`;
  prompts.upstreams.respond = () => answer(result('9', messages(APP), 'stateful'));
  const got = await prompts.run('prompts/get', '{"name":"p__p"}');
  assert.equal(
    got.kind === 'answer' && got.message.body.toString(),
    messages('ui://trunkline/p/get-time/mcp-app.html'),
  );
  // A message without a changed name is passed on as the same object.
  const plain = result('9', '{"content":[{"type":"text","text":"ui:"}]}', 'stateful');
  bench.upstreams.respond = () => answer(plain);
  const same = await bench.run('tools/call', '{"name":"vanilla__get-time"}');
  assert.equal(same.kind === 'answer' && same.message, plain);
});

test('check:D5 a subscription to an app reaches its server, and updates have the subscribed name', async () => {
  const bench = new GatewayBench(TWO);
  const listens = client('stateful', { sessionId: 'one' });
  await bench.run('resources/subscribe', JSON.stringify({ uri: OF_VANILLA }), { client: listens });
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => [server, request.body.toString()]),
    [['vanilla', `{"uri":"${APP}"}`]],
  );
  const updated = notification('notifications/resources/updated', JSON.stringify({ uri: APP, more: 1 }), 'stateful');
  bench.gateway.notification('react', null, updated);
  bench.gateway.notification('vanilla', null, updated);
  assert.deepEqual(
    bench.streams.delivered.map(({ sessionId, message }) => [sessionId, message.body.toString()]),
    [['one', JSON.stringify({ uri: OF_VANILLA, more: 1 })]],
  );
});

test('S2.28 an address names its server: a caller without the right to it gets nothing from it', async () => {
  const bench = new GatewayBench(TWO);
  const restricted = client('stateful', {
    principal: { id: 'agent:ann', name: 'ann', servers: new Set(['react']) },
  });
  bench.upstreams.respond = () => answer(errorAnswer('9', -32002, 'no', null, 'stateful'));
  const read = await bench.run('resources/read', JSON.stringify({ uri: OF_VANILLA }), { client: restricted });
  assert.equal(read.kind === 'failure' && read.error.code, 'ACCESS_DENIED');
  assert.equal(bench.upstreams.calls.length, 0);
  await bench.run('resources/read', JSON.stringify({ uri: APP }), { client: restricted });
  assert.deepEqual(
    bench.upstreams.calls.map(({ server }) => server),
    ['react'],
  );
});

test('check:D5 the result of a task names apps like other results do', async () => {
  const jobs = { tools: [tool('slow')], capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } };
  const bench = new GatewayBench({ jobs });
  const link = (uri: string) => `{"content":[{"type":"resource_link","uri":"${uri}","name":"a"}]`;
  bench.upstreams.respond = ({ request }) =>
    answer(
      result(
        '1',
        request.method === 'tools/call'
          ? '{"task":{"taskId":"t-1","status":"working","ttl":60000,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}}'
          : `${link(APP)}}`,
        'stateful',
      ),
    );
  const begun = ended(await bench.run('tools/call', '{"name":"jobs__slow","task":{}}')) as { task: { taskId: string } };
  const outcome = await bench.run('tasks/result', JSON.stringify({ taskId: begun.task.taskId }));
  assert.equal(
    outcome.kind === 'answer' && outcome.message.body.toString(),
    `${link('ui://trunkline/jobs/get-time/mcp-app.html')}}`,
  );
});
