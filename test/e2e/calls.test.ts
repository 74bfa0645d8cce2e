import assert from 'node:assert/strict';
import { request as ask, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { eventually } from '../support/nats-cluster.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import type { Json } from '../support/raw-http.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const SECRET = 'secret-of-the-calls-test-1';

describe('the calls of clients', () => {
  let gateway: RunningGateway;
  let client: WireClient;
  let data: string[];
  before(async () => {
    const config = {
      mcpServers: {
        good: manySided('good', { SECRET_TOKEN: SECRET }),
        slow: manySided('slow', {}, { timeoutMs: 200 }),
      },
    };
    gateway = await RunningGateway.start({ config });
    await gateway.ready('good', 'slow');
    data = ['--data-dir', join(gateway.folder, 'data')];
    client = await WireClient.open(gateway.mcpUrl);
    await client.callText('good__echo', { text: 'x'.repeat(1_000) });
    await client.request('tools/call', { name: 'slow__sleep', arguments: { ms: 5_000 } });
    await client.request('tools/call', { name: 'good__missing', arguments: {} });
  });
  after(() => gateway.dispose());

  const calls = async (filter: string): Promise<Json[]> =>
    (await gateway.control<{ calls: Json[] }>(`/api/v1/calls?limit=10000&filter=${encodeURIComponent(filter)}`)).calls;

  test('each call has its client, server, tool, ending, time and sizes; a filter selects calls', async () => {
    const [echo] = await calls('tool:echo');
    assert.deepEqual(
      [echo.client, echo.principal, echo.server, echo.name, echo.outcome, echo.error, echo.endpoint, echo.node],
      ['wire 1', 'anonymous', 'good', 'echo', 'RESULT', null, '/mcp', null],
    );
    assert.ok(echo.ms > 0 && echo.waitedMs !== null && echo.waitedMs <= echo.ms);
    assert.ok(echo.requestBytes > 1_000 && echo.answerBytes > 1_000, JSON.stringify(echo));
    const [slow] = await calls('server:slow status:error ms>150');
    assert.deepEqual([slow.name, slow.outcome], ['sleep', 'UNKNOWN']);
    const [missing] = await calls('outcome:refused');
    assert.deepEqual(
      [missing.server, missing.name, missing.asked, missing.waitedMs],
      ['good', null, 'good__missing', null],
    );
    assert.match(missing.reason, /Unknown tool/);
    assert.equal(echo.asked, undefined);
    assert.deepEqual(await calls('asked:good__*'), [missing]);
    assert.deepEqual(await calls('tool:good__missing'), []);
    const listed = await trunkline(['calls', 'outcome:REFUSED', ...data], { cwd: gateway.folder });
    assert.match(listed.out, /REFUSED +"good__missing" wire 1 .*Unknown tool: good__missing/);
    const traced = await trunkline(['trace', missing.id, ...data], { cwd: gateway.folder });
    assert.match(traced.out, /asked +good__missing \(unknown\)/);
    assert.deepEqual(await gateway.control(`/api/v1/calls/${echo.id}`), echo);
  });

  test('a filter that cannot be read is an error that names its keys', async () => {
    const run = await trunkline(['calls', 'colour:red', ...data], { cwd: gateway.folder });
    assert.equal(run.code, 1);
    assert.match(run.err, /there is no key "colour"; the keys are server, tool,/);
    const status = await trunkline(['calls', 'status:bad', ...data], { cwd: gateway.folder });
    assert.deepEqual([status.code, status.err], [1, 'trunkline: status is ok or error, not "bad"\n']);
    const none = await trunkline(['calls', 'server:goood', 'outcome:not_*', ...data], { cwd: gateway.folder });
    assert.deepEqual([none.code, none.out, none.err], [0, '', '(no call matches)\n']);
    const id = await trunkline(['trace', 'nothing-7', ...data], { cwd: gateway.folder });
    assert.equal(id.code, 1);
    assert.match(id.err, /no call with this id is kept/);
  });

  test('`calls` prints calls and follows new ones, `trace` shows where the time went', async () => {
    const listed = await trunkline(['calls', 'server:slow', ...data], { cwd: gateway.folder });
    assert.match(listed.out, /UNKNOWN +slow\.sleep wire 1 \(anonymous\) {2}([0-9a-f]+-\d+)/);
    const [, id] = /([0-9a-f]{8}-\d+)/.exec(listed.out)!;
    for (const words of [
      [...data, 'ms>150', '-client:codex', '-echo'],
      [...data, '--', '-echo', 'ms>150', '-client:codex'],
    ]) {
      const { code, out, err } = await trunkline(['calls', ...words], { cwd: gateway.folder });
      assert.deepEqual([code, err], [0, ''], words.join(' '));
      assert.match(out, /^.* slow\.sleep wire 1 .*\n$/, words.join(' '));
    }
    const traced = await trunkline(['trace', id!, ...data], { cwd: gateway.folder });
    assert.match(traced.out, /wire 1 → gateway +█+/);
    assert.match(traced.out, /gateway → slow +█+ +2\d\d ms/);
    assert.match(traced.out, /ended +UNKNOWN: /);
    const before = (await calls('tool:echo')).length;
    const following = startTrunkline(['calls', 'tool:echo', '-f', '--json', ...data], { cwd: gateway.folder });
    let made = 0;
    const ids = () => following.out.split('\n').filter(Boolean).length;
    const until = performance.now() + 20_000;
    while ((made < 50 || ids() < before + made) && performance.now() < until) {
      if (made < 50 || ids() === 0) made += await client.callText('good__echo', { text: 'followed' }).then(() => 1);
      await new Promise((done) => setTimeout(done, 20));
    }
    following.process.kill('SIGINT');
    assert.equal(await following.exited, 0, following.err);
    const lines = following.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    assert.ok(lines.length > 0 && lines.every(({ name }) => name === 'echo'));
    const told = lines.map(({ id: one }) => one);
    assert.equal(new Set(told).size, told.length, 'no call is printed twice');
    const all = (await calls('tool:echo')).map(({ id: one }) => one);
    assert.deepEqual(told, all.slice(-told.length), 'none is missing');
  });

  test('the live stream counts each second by server and client, and the seconds are kept for later readers', async () => {
    await client.callText('good__echo', { text: 'counted' });
    await client.request('tools/call', { name: 'good__missing', arguments: {} });
    let seconds: Json[] = [];
    await eventually(async () => {
      const { nodes } = await gateway.control<{ nodes: Json[] }>('/api/v1/rates');
      seconds = nodes[0]!.seconds;
      const sum = (key: string): number => seconds.reduce((all, second) => all + second[key], 0);
      const all = await calls('');
      const failed = await calls('status:error');
      assert.deepEqual([sum('calls'), sum('errors')], [all.length, failed.length]);
    });
    assert.ok(seconds.some(({ p99 }) => p99 > 0));
    const following = startTrunkline(['top', '--json', ...data], { cwd: gateway.folder });
    const calling = setInterval(() => void client.callText('good__echo', { text: 'counted' }), 50);
    try {
      await said(following, '"client":"wire 1"');
    } finally {
      clearInterval(calling);
    }
    following.process.kill('SIGINT');
    await following.exited;
    const stats = JSON.parse(following.out.split('\n').find((line) => line.includes('"client":"wire 1"'))!) as Json;
    assert.equal(stats.clients[0].calls, stats.calls);
    assert.equal(stats.servers[0].calls, stats.calls);
    assert.equal(stats.errors, 0);
  });

  test('`top` shows rates by server: JSON lines off a terminal, rows on one', async () => {
    const top = startTrunkline(['top', ...data], { cwd: gateway.folder });
    const calling = setInterval(() => void client.callText('good__echo', { text: 'top' }), 100);
    try {
      await said(top, '"server":"good"');
      top.process.kill('SIGINT');
      assert.equal(await top.exited, 0, top.err);
      const terminal = await PersonTerminal.open(['top', ...data], { cwd: gateway.folder, columns: 120, rows: 24 });
      const shown = await terminal.sees(/good +running +[1-9]/);
      assert.match(shown, /calls\/s +\d+ active sessions/);
      assert.match(await terminal.sees(/ok +good\.echo/), /good\.echo wire 1 \(anonymous\)/);
      await terminal.end();
    } finally {
      clearInterval(calling);
    }
  });

  test('`top` reads the servers only when their states may have changed', async (t) => {
    let reads = 0;
    const between = createServer((request, response) => {
      if (request.url === '/api/v1/servers') reads++;
      const { method, headers } = request;
      const to = ask(new URL(request.url!, gateway.controlUrl), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
      to.on('error', () => response.destroy());
      response.on('close', () => to.destroy());
      request.pipe(to);
    });
    await new Promise<void>((done) => between.listen(0, '127.0.0.1', done));
    t.after(() => between.close());
    const url = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
    const token = join(gateway.folder, 'data', 'control.token');
    const top = startTrunkline(['top', '--server', url, '--token-file', token], { cwd: gateway.folder });
    await said(top, /"topic":"stats"/);
    const before = reads;
    for (let times = 0; times < 5; times++) {
      const { id } = await gateway.control<Json>('/api/v1/recordings', 'POST', JSON.stringify({ client: 'x' }));
      await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
    }
    await said(top, /(?:.*"topic":"stats".*\n){3}/);
    assert.equal(reads, before);
    await gateway.control('/api/v1/servers/slow/restart', 'POST');
    await until(() => reads > before, 'a reading after the restart');
    top.process.kill('SIGINT');
    assert.equal(await top.exited, 0, top.err);
  });

  test('the log has one line for each call, bounded per second', async () => {
    for (let i = 0; i < 400; i++) await client.callText('good__echo', { text: 'many' });
    await new Promise((done) => setTimeout(done, 1_100));
    await client.callText('good__echo', { text: 'last' });
    await client.request('tools/call', { name: 'slow__sleep', arguments: { ms: 5_000 } });
    const lines = gateway.stderr
      .trim()
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Json] : []));
    const failed = lines.findLast(({ event }) => event === 'call_failed');
    assert.deepEqual(
      [failed.server, failed.name, failed.outcome, failed.code],
      ['slow', 'sleep', 'UNKNOWN', 'TIMEOUT'],
    );
    const written = lines.filter(({ event, name }) => event === 'call' && name === 'echo');
    assert.deepEqual(
      [written[0].client, written[0].principal, written[0].server, written[0].outcome],
      ['wire 1', 'anonymous', 'good', 'RESULT'],
    );
    assert.ok(written[0].ms > 0 && written[0].answerBytes > 0);
    const total = (await calls('tool:echo')).length;
    const leftOut = lines.reduce((sum, line) => sum + ((line['leftOut'] as number | undefined) ?? 0), 0);
    assert.ok(leftOut > 0 && written.length < total, `${written.length} of ${total} written, ${leftOut} left out`);
    assert.ok(!gateway.stderr.includes(SECRET) && !gateway.stderr.includes(client.sessionId!));
    assert.ok(!lines.some(({ event, time }) => event === 'call' && time === undefined));
  });
});
