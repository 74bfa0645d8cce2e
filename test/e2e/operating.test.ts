import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { until } from '../support/cluster-processes.ts';
import { redirectedTo } from '../support/consent.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { TaskClient } from '../support/task-client.ts';
import { ERAS, keyOf, stdio } from '../support/task-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const WRITER = { key: '${WRITER_KEY}' };
const config = {
  mcpServers: {
    files: { ...manySided('files'), excludeTools: ['ask'] },
    slow: { ...manySided('slow'), limits: { callsPerMinute: 1 } },
    jobs: stdio('stateful'),
    modern: stdio('stateless'),
  },
  agents: { writer: WRITER, guest: { key: 'key-of-guest-0123456789', servers: ['files'] } },
};
const env = { WRITER_KEY: 'key-of-writer-0123456789' };

describe('the views and commands of operators', () => {
  let gateway: RunningGateway;
  const run = (...args: string[]) =>
    trunkline([...args, '--data-dir', `${gateway.folder}/data`], { cwd: gateway.folder });
  before(async () => {
    gateway = await RunningGateway.start({ config, env });
    await gateway.ready();
  });
  after(() => gateway.dispose());

  test('S2.28 the access table agrees with the tools that each caller sees, and a refusal names the rule behind it', async () => {
    const { callers, servers, unknownCallers } = await gateway.control<Json>('/api/v1/access');
    assert.equal(unknownCallers, 'refuse');
    assert.deepEqual(
      callers.map(({ principal, variable }: Json) => [principal, variable]),
      [
        ['agent:writer', 'WRITER_KEY'],
        ['agent:guest', null],
      ],
    );
    const tools = servers.find(({ server }: Json) => server === 'files').tools;
    assert.ok(tools.includes('ask'), 'the table has tools that are filtered');
    for (const name of ['writer', 'guest']) {
      const headers = keyOf(name);
      for (const { server, refusal, refused } of callers.find((one: Json) => one.name === name).servers) {
        const wire = await WireClient.open(gateway.mcpUrl, { headers });
        const all = servers.find((one: Json) => one.server === server).tools;
        const expected = refusal === null ? all.length - refused.length : 0;
        // A loaded machine may list a server for this client later.
        const listed = async () => (await wire.toolNames()).filter((tool) => tool.startsWith(`${server}__`));
        await until(async () => (await listed()).length === expected, `${expected} tools of ${server} for ${name}`);
      }
    }
    const why = (principal: string, server: string, tool: string) =>
      gateway.control<Json>(`/api/v1/servers/${server}/access?principal=${principal}&tool=${tool}`);
    const denied = await why('agent:guest', 'slow', 'echo');
    assert.deepEqual([denied.allowed, denied.decidedBy, denied.known], [false, 'access', true]);
    assert.equal((await why('agent:guest', 'files', 'ask')).decidedBy, 'toolFilter');
    assert.equal((await why('agent:guest', 'files', 'echo')).allowed, true);
  });

  test('fault:F23 asking why uses no quota, and the answer names a used-up rate limit', async () => {
    const why = () => gateway.control<Json>('/api/v1/servers/slow/access?principal=agent:writer&tool=echo');
    for (let i = 0; i < 3; i++) assert.equal((await why()).allowed, true);
    const wire = await WireClient.open(gateway.mcpUrl, { headers: keyOf('writer') });
    assert.equal(await wire.callText('slow__echo', { text: 'x' }), 'x');
    assert.equal((await why()).decidedBy, 'rateLimit');
    const { code, out } = await run('access', 'why', 'writer', 'slow', 'echo');
    assert.equal(code, 5);
    assert.match(out, /^access +passed\n(?:.*\n)*rateLimit +refused +One caller may .*\nthe call would be refused\n$/);
    const listed = await run('access');
    assert.match(listed.out, /^guest\n {2}files +\d+ of \d+ tools\n {4}ask: toolFilter\n/m);
  });

  test('check:J1 a plan shows what a file would change, a reload applies it, the history keeps it and a refusal', async () => {
    const { version } = await gateway.control<Json>('/api/v1/configuration');
    assert.match((await run('plan')).out, /nothing would change/);
    const { slow: _, ...others } = config.mcpServers;
    const files = { ...others.files, timeoutMs: 12_345, env: { MODE: 'other-secret-value' } };
    const changed = { ...config, mcpServers: { ...others, files, extra: manySided('extra') } };
    // The gateway follows files, so it may have applied the file before this reload.
    gateway.rewrite(changed);
    const done = await gateway.control<Json>('/api/v1/configuration/reload', 'POST');
    assert.notEqual(done.result, 'refused');
    const now = await gateway.control<Json>('/api/v1/configuration');
    assert.equal(now.version, version + 1);
    const [last] = now.history;
    assert.deepEqual(
      last.servers.map(({ server, change }: Json) => [server, change]),
      [
        ['extra', 'added'],
        ['slow', 'removed'],
        ['files', 'restarted'],
      ],
    );
    assert.deepEqual(
      last.servers[2].fields.find(({ field }: Json) => field === 'timeoutMs'),
      { field: 'timeoutMs', before: '60000', after: '12345' },
    );
    assert.ok(!JSON.stringify(now).includes('other-secret-value'));
    assert.ok(now.sources[0].servers.some(({ server, line }: Json) => server === 'extra' && line > 0));

    // A file that the gateway applied before the plan shows no change in it; so each plan has a change of its own.
    let planned: Json = { settings: [] };
    for (let tries = 1; planned.settings.length === 0 && tries <= 20; tries++) {
      gateway.rewrite({ ...changed, telemetry: { traces: { otlp: 'http://127.0.0.1:9', sample: tries / 100 } } });
      planned = await gateway.control<Json>('/api/v1/configuration/plan');
    }
    assert.deepEqual([planned.settings, planned.needRestart], [['telemetry'], ['telemetry']]);

    gateway.rewrite({ ...changed, mcpServers: { ...changed.mcpServers, extra: { comand: 'x' } }, listen: 7 });
    const refused = await run('reload');
    assert.equal(refused.code, 1);
    assert.match(refused.out, /TL\d{4} .*listen[\s\S]*fix: [\s\S]*refused; version \d+ is in force/);
    const plan = await gateway.control<Json>('/api/v1/configuration/plan');
    assert.ok(plan.problems.length > 0 && plan.problems[0].frame.includes('^'));
    const { history, problems } = await gateway.control<Json>('/api/v1/configuration');
    assert.equal(history[0].result, 'refused');
    assert.deepEqual(history[0].problems, problems);
    gateway.rewrite(config);
    assert.match((await run('reload')).out, /(?:applied|unchanged); version/);
    await gateway.ready();
  });

  test('each value of a server has its line in the file, and a value that is left out is a default', async () => {
    const { values } = await gateway.control<Json>('/api/v1/servers/files/configuration');
    const text = readFileSync(join(gateway.folder, 'trunkline.json'), 'utf8').split('\n');
    const written = values.filter(({ line }: Json) => line !== null);
    assert.ok(written.length >= 2);
    for (const { value, line, column } of written) assert.ok(text[line - 1]!.startsWith(value, column - 1), value);
    assert.ok(values.some(({ key, value, file }: Json) => key === 'retry' && value === '"never"' && file === null));
    const { out } = await run('status', 'files');
    assert.match(out, /^ {2}Configuration\n {4}command +".*" {2}\S+trunkline\.json:\d+$/m);
    await assert.rejects(gateway.control('/api/v1/servers/none/configuration'), /404/);
  });

  test('sessions are listed and can be ended, and the error for a wrong command names the right one', async () => {
    const client = await WireClient.open(gateway.mcpUrl, { headers: keyOf('writer') });
    const { code, out, err } = await run('sessions', '--json');
    assert.equal(code, 0, err);
    const found = JSON.parse(out).sessions;
    const { label } = found.toSorted((a: Json, b: Json) => (a.lastSeenAt < b.lastSeenAt ? 1 : -1))[0];
    assert.match((await run('sessions')).out, new RegExp(`^${label}  .*  agent:writer  used `));
    const all = async () =>
      (await Promise.all(found.map((one: Json) => run('sessions', 'end', one.label)))).map((one) => one.code);
    assert.deepEqual([...new Set(await all())], [0]);
    assert.equal((await client.request('tools/list')).status, 404);
    const gone = await run('sessions', 'end', label);
    assert.deepEqual([gone.code, /there is no open session/.test(gone.err)], [1, true]);
    assert.match(
      (await run('sessions', 'list')).err,
      /there is no command "sessions list"; trunkline help sessions lists/,
    );
    assert.match((await run('record', 'lst')).err, /there is no command "record lst"; did you mean "record list"\?/);
    assert.match(
      (await run('tasks', 'cancle', 'x')).err,
      /there is no command "tasks cancle"; did you mean "tasks cancel"/,
    );
  });

  for (const era of ERAS) {
    test(`tasks of a ${era} client at servers of both eras are listed and can be cancelled`, async () => {
      for (const server of ['jobs', 'modern']) {
        const client = await TaskClient.open(gateway.mcpUrl, era, { headers: keyOf('writer') });
        const { taskId } = await client.start(`${server}__endless`);
        const { tasks } = await gateway.control<Json>('/api/v1/tasks');
        const mine = tasks.filter((task: Json) => task.server === server && task.status === 'working');
        assert.deepEqual(
          mine.map(({ principal }: Json) => principal),
          ['agent:writer'],
        );
        const { code, out, err } = await run('tasks', 'cancel', mine[0].key);
        assert.equal(code, 0, err);
        assert.match(out, /cancelled/);
        assert.equal((await client.until(taskId, 'cancelled')).status, 'cancelled');
        assert.match((await run('tasks', 'cancel', mine[0].key)).err, /has ended: it is cancelled/);
      }
    });
  }

  test('each client has its command or its file, with a placeholder and never a key', async () => {
    const found = await gateway.control<Json>('/api/v1/clients');
    assert.deepEqual(found.key, {
      agent: 'writer',
      placeholder: '$WRITER_KEY',
      shell: '$WRITER_KEY',
      show: 'trunkline key writer',
    });
    const one = (id: string, all = found) => all.clients.find((client: Json) => client.id === id);
    assert.match(one('claude-code').command, /^claude mcp add .* "Authorization: Bearer \$WRITER_KEY"$/);
    assert.deepEqual(JSON.parse(one('cursor').content).mcpServers.tl, {
      url: gateway.mcpUrl,
      headers: { Authorization: 'Bearer $WRITER_KEY' },
    });
    assert.equal(one('cursor').link, 'trunkline link cursor --key "$WRITER_KEY"');
    const guest = await gateway.control<Json>('/api/v1/clients?agent=guest');
    assert.equal(one('codex', guest).command.includes('$(trunkline key guest)'), true);
    assert.ok(!/key-of-/.test(JSON.stringify([found, guest])));
  });
});

test('proto:T8 a sign-in is shown step by step, without token, code or verifier', { timeout: 120_000 }, async (t) => {
  const server = await ProtectedServer.start();
  t.after(() => server.stop());
  const gateway = await RunningGateway.start({ config: { mcpServers: { web: { type: 'http', url: server.url } } } });
  t.after(() => gateway.dispose());
  const path = '/api/v1/servers/web/login';
  let begun = '';
  const url = await redirectedTo(async (redirectUri) => {
    begun = (await gateway.control<Json>(path, 'POST', JSON.stringify({ redirectUri }))).url;
    return begun;
  });
  await gateway.control<Json>('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
  const { steps, credentials, possible, auth } = await gateway.control<Json>(path);
  assert.deepEqual([possible, credentials[0].state, auth.grant], [true, 'connected', 'authorization_code']);
  const kinds = [...new Set(steps.map(({ step }: Json) => step))];
  const usual = ['resource metadata', 'issuer metadata', 'registration', 'authorization', 'redirect', 'token'];
  assert.deepEqual(
    kinds.filter((kind) => kind !== 'challenge'),
    usual,
  );
  const token = steps.find(({ step }: Json) => step === 'token');
  assert.deepEqual([token.status, token.problem], [200, null]);
  assert.deepEqual([token.answer.access_token, token.answer.token_type], ['[redacted]', 'Bearer']);
  assert.deepEqual([token.request.grant_type, token.request.code_verifier], ['authorization_code', '[redacted]']);
  const metadata = steps.find(({ step }: Json) => step === 'resource metadata');
  assert.equal(metadata.answer.resource, server.url);
  const shown = JSON.stringify(steps);
  const { searchParams } = new URL(url);
  const secrets = [...server.issued, searchParams.get('code')!, new URL(begun).searchParams.get('state')!];
  for (const secret of secrets) assert.ok(!shown.includes(secret), `a secret shows: ${shown}`);
});
