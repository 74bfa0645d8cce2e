import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const CANARY = 'canary-of-the-watching-test-77';
const TURN = String.fromCharCode(0x202e);

/** An MCP server that writes to standard error: its secret and control characters at its start, a text at each tool call. */
const TALKER = `
const say = (text) => process.stderr.write(text + '\\n');
say('starts as ' + process.pid + ' with ' + process.env.TOKEN + ' \\u001b[31m${TURN}');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const send = (body) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...body }) + '\\n');
  const serverInfo = { name: 'talker', version: '1' };
  if (method === 'initialize') send({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } });
  else if (method === 'tools/list') send({ result: { tools: [{ name: 'say', inputSchema: { type: 'object' } }] } });
  else if (method === 'tools/call') {
    say(params.arguments.text);
    if (params.arguments.exit !== undefined) process.exit(params.arguments.exit);
    send({ result: { content: [] } });
  } else send({ error: { code: -32601, message: 'no' } });
});`;

/** The events of a stream of the control API, as they come. */
class Stream {
  readonly events: { readonly id: string; readonly data: Json }[] = [];
  readonly #abort = new AbortController();

  static async open(gateway: RunningGateway, path: string, headers: Record<string, string> = {}): Promise<Stream> {
    const stream = new Stream();
    const token = readFileSync(join(gateway.folder, 'data', 'control.token'), 'utf8').trim();
    const response = await fetch(new URL(path, gateway.controlUrl), {
      headers: { authorization: `Bearer ${token}`, ...headers },
      signal: stream.#abort.signal,
    });
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    void stream.#read(response);
    return stream;
  }

  async #read(response: Response): Promise<void> {
    let rest = '';
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body!) {
        const frames = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
        rest = frames.pop()!;
        for (const frame of frames) {
          const [, id = '', data] = /^id: (.*)\ndata: (.*)$/.exec(frame) ?? [];
          if (data !== undefined) this.events.push({ id, data: JSON.parse(data) });
        }
      }
    } catch {
      // Aborted.
    }
  }

  async until(what: string, found: (events: Json[]) => boolean): Promise<void> {
    const end = performance.now() + 60_000;
    while (!found(this.events.map(({ data }) => data))) {
      if (performance.now() > end) throw new Error(`${what} did not come:\n${JSON.stringify(this.events, null, 1)}`);
      await new Promise((done) => setTimeout(done, 10));
    }
  }

  close(): void {
    this.#abort.abort();
  }
}

describe('watching a running gateway', () => {
  let gateway: RunningGateway;
  let client: WireClient;
  let remote: StatefulServer;
  const config = {
    mcpServers: {
      talker: { command: process.execPath, args: ['-e', TALKER], env: { TOKEN: CANARY } },
      good: manySided('good'),
      dies: {
        command: process.execPath,
        args: ['-e', `console.error('${CANARY}' === process.env.TOKEN ? process.env.TOKEN : ''); process.exit(3)`],
        env: { TOKEN: CANARY },
      },
      web: { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': CANARY } },
    } as Record<string, object>,
    // The lines kept for `logs` do not depend on the log level.
    log: { level: 'error' },
  };
  before(async () => {
    remote = await StatefulServer.start();
    config.mcpServers['remote'] = { type: 'http', url: remote.url };
    gateway = await RunningGateway.start({ config });
    await gateway.ready('talker', 'good', 'remote');
    client = await WireClient.open(gateway.mcpUrl);
  });
  after(async () => {
    await gateway.dispose();
    await remote.stop();
  });
  const cli = (...args: string[]) =>
    trunkline([...args, '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  const crash = (code: number) =>
    client.request('tools/call', { name: 'talker__say', arguments: { text: 'last words', exit: code } });
  const list = () => gateway.control<{ servers: Json[]; cursor: string }>('/api/v1/servers');

  test('check:J1 S3.20 every change of state comes once, in order, with its reason; none is lost between list and stream', async () => {
    const { servers, cursor } = await list();
    let state = servers.find(({ name }) => name === 'talker').state;
    assert.equal(state, 'running');
    await client.callText('talker__say', { text: 'proves itself' }).catch(() => {});
    await crash(7);
    // The stream opens only now, and has the events since the list.
    const stream = await Stream.open(gateway, `/api/v1/events?server=talker&after=${cursor}`);
    await stream.until('the restart', (events) => events.some(({ to }) => to === 'running'));
    const changes = stream.events.map(({ data }) => data).filter(({ type }) => type === 'state');
    for (const change of changes) {
      assert.deepEqual([change.server, change.from], ['talker', state]);
      state = change.to;
      assert.ok(!Number.isNaN(Date.parse(change.time)));
    }
    assert.deepEqual(
      changes.slice(0, 3).map(({ to }) => to),
      ['degraded', 'starting', 'running'],
    );
    assert.match(changes[0].reason, /exited with code 7/);
    assert.equal(changes[0].failure, 'transient');
    const { history } = (await list()).servers.find(({ name }) => name === 'talker');
    const reported = ({ from, to, reason, failure }: Json) => ({ from, to, reason, failure });
    assert.deepEqual(history.slice(-3).map(reported), changes.slice(0, 3).map(reported));
    stream.close();

    // A client that returns with the id of the first event receives the others, each once.
    const first = stream.events[0]!.id;
    const again = await Stream.open(gateway, '/api/v1/events?server=talker', { 'last-event-id': first });
    await again.until('the rest', (events) => events.length >= stream.events.length - 1);
    assert.deepEqual(again.events.slice(0, stream.events.length - 1), stream.events.slice(1));
    again.close();
  });

  test('an id of another run, or an invalid one, is reported as a gap', async () => {
    for (const id of ['0-1', 'nonsense', '99999999-12']) {
      const stream = await Stream.open(gateway, '/api/v1/events', { 'last-event-id': id });
      await stream.until('a gap', (events) => events[0]?.type === 'gap');
      assert.match(stream.events[0]!.data.reason, /another run/);
      stream.close();
    }
  });

  test('servers that come, change and go are reported', async () => {
    const stream = await Stream.open(gateway, '/api/v1/events');
    await stream.until('nothing yet', () => true);
    gateway.rewrite({ ...config, mcpServers: { ...config.mcpServers, extra: manySided('extra') } });
    await stream.until('extra', (events) => events.some(({ server, to }) => server === 'extra' && to === 'running'));
    gateway.rewrite({ ...config, mcpServers: { ...config.mcpServers, extra: manySided('other') } });
    await stream.until('the change', (events) => events.some(({ type }) => type === 'replaced'));
    gateway.rewrite(config);
    await stream.until('the removal', (events) => events.some(({ type }) => type === 'removed'));
    const types = stream.events
      .map(({ data }) => data)
      .filter(({ server, type }) => server === 'extra' && type !== 'changed')
      .map(({ type, from, to }) => (type === 'state' ? `${from} ${to}` : type));
    assert.deepEqual(types, ['added', 'unknown starting', 'starting running', 'replaced', 'removed']);
    stream.close();
  });

  test('S1.19 S3.19 check:A11 a failed start, with its output, is in status and log; no secret, at any log level', async () => {
    const status = await cli('status', 'dies');
    assert.equal(status.code, 4, status.err);
    assert.match(status.out, /The last start failed/);
    assert.match(status.out, /exit code 3/);
    assert.match(status.out, /variables +TOKEN/);
    assert.match(status.out, /starting → failed \(transient\)/);
    const log = await cli('logs', 'dies');
    assert.equal(log.code, 0, log.err);
    assert.match(log.out, /dies \| \[redacted\]/);
    assert.match(log.out, /process_ended .*code=3/);
    assert.match(log.out, /server_start_failed/);
    assert.match(log.out, /server_state unknown → starting/);
    assert.ok(!`${status.out}${log.out}`.includes(CANARY));
  });

  test('check:J1 everything known of one server, as text and as JSON; an unknown name is an error', async () => {
    const page = await cli('status', 'talker');
    for (const text of [
      /talker +ready/,
      /Speaks +2025-11-25 \(stateful\)/,
      /Lists +\d+ tools?, as it listed them last to any client/,
      /Sessions/,
      /session \w+ +idle +pid \d+/,
      /History/,
    ]) {
      assert.match(page.out, text);
    }
    assert.match(page.out, /\| starts as \d+ with \[redacted\] \\x1b\[31m\\u202e/);
    assert.ok(!page.out.includes(CANARY) && !page.out.includes(TURN));
    const one = JSON.parse((await cli('status', 'talker', '--json')).out);
    assert.deepEqual(one.pool, { active: 0, idle: one.connections.length, closed: 0 });
    assert.equal(one.phases, null);
    const wrong = await cli('status', 'talkre');
    assert.equal(wrong.code, 1);
    assert.match(wrong.err, /did you mean "talker"/);
    const file = await cli('status', join(gateway.folder, 'trunkline.json'));
    assert.match(file.out, /of 5 servers ready/);
  });

  test('check:J1 time by phase of a remote server: status, metrics, and a sentence', async () => {
    await client.callText('remote__echo', { text: 'x' });
    const { phases } = await gateway.control<Json>('/api/v1/servers/remote');
    assert.ok(phases.tcp.count >= 1 && phases.firstByte.count >= 3, JSON.stringify(phases));
    assert.deepEqual([phases.dns, phases.tls], [null, null]);
    const metrics = await gateway.metrics();
    for (const series of ['phase="first_byte",quantile="0.5"', 'phase="tcp",quantile="0.95"']) {
      assert.match(
        metrics,
        new RegExp(`^trunkline_server_phase_seconds\\{server="remote",${series}\\} [0-9.e-]+$`, 'm'),
      );
    }
    const page = await cli('status', 'remote');
    assert.ok(page.out.includes(`Time      ${(await gateway.control<Json>('/api/v1/servers/remote')).phases.summary}`));
    assert.match(page.out, /first byte +[\d.]+ ms, p95 [\d.]+ ms, last [\d.]+ ms/);
  });

  test('following logs continues over a restart of their server, and Ctrl-C ends it with 0', async () => {
    const args = ['logs', 'talker', '-f', '-n', '0', '--data-dir', join(gateway.folder, 'data')];
    const following = startTrunkline(args, { cwd: gateway.folder });
    const asJson = startTrunkline([...args, '--json'], { cwd: gateway.folder });
    // Repeats the call until both followers have printed a line.
    const end = performance.now() + 60_000;
    while (!following.out.includes('| here') || !asJson.out.includes('"line":"here"')) {
      assert.ok(performance.now() < end, `the followers printed no line: ${following.err} ${asJson.err}`);
      await client.request('tools/call', { name: 'talker__say', arguments: { text: 'here' } });
      await new Promise((done) => setTimeout(done, 50));
    }
    await gateway.control('/api/v1/servers/talker/restart', 'POST');
    await client.request('tools/call', { name: 'talker__say', arguments: { text: `${CANARY} \u001b[2J again` } });
    await said(following, '| [redacted] \\x1b[2J again', 60_000);
    await said(asJson, '[redacted] \\\\x1b[2J again', 60_000);
    for (const text of [/server_state running → stopping/, /process_ended/, /server_state starting → running/]) {
      assert.match(following.out, text);
    }
    assert.ok(!`${following.out}${asJson.out}`.includes(CANARY));
    for (const line of asJson.out.trim().split('\n')) assert.equal(JSON.parse(line).server, 'talker', line);
    for (const run of [following, asJson]) {
      run.process.kill('SIGINT');
      assert.equal(await run.exited, 0);
    }
  });

  test('logs of all servers, as many lines as requested; wrong arguments are an error', async () => {
    const all = JSON.parse(
      `[${(await cli('logs', '--json', '-n', '1000')).out.trim().split('\n').join(',')}]`,
    ) as Json[];
    const servers = new Set(all.map(({ server }) => server));
    for (const name of ['talker', 'good', 'dies', 'web']) assert.ok(servers.has(name), name);
    assert.deepEqual(
      all.map(({ time }) => time),
      all.map(({ time }) => time).toSorted(),
    );
    const three = await cli('logs', 'good', '-n', '3');
    assert.equal(three.out.trim().split('\n').length, 3);
    const wrong = await cli('logs', 'nobody');
    assert.deepEqual([wrong.code, wrong.out], [1, '']);
    assert.equal((await cli('logs', '-n', 'many')).code, 1);
  });

  test('the end of the gateway ends a follower with exit code 4; without a gateway it is 4 too', async () => {
    const other = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
    const data = ['--data-dir', join(other.folder, 'data')];
    const following = startTrunkline(['logs', '-f', ...data], { cwd: other.folder });
    await said(following, 'server_state', 60_000);
    await other.stop();
    assert.equal(await following.exited, 4);
    assert.match(following.err, /has ended|does not answer/);
    const late = await trunkline(['logs', ...data], { cwd: other.folder });
    assert.equal(late.code, 4);
    await other.dispose();
  });

  test('the gateway is found in the data folder of the file', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-watching-'));
    const env = { HERE: 'own' };
    const own = { data: { dir: `./$\{HERE}-state` }, mcpServers: { good: manySided('good') } };
    writeFileSync(join(folder, 'trunkline.json'), JSON.stringify(own));
    const run = startTrunkline(['--port', '0', '--control-port', '0'], { cwd: folder, env });
    t.after(async () => {
      run.process.kill('SIGTERM');
      await run.exited;
      rmSync(folder, { recursive: true, force: true });
    });
    await said(run, 'Servers', 60_000);
    for (const args of [['status'], ['status', '--config', 'trunkline.json'], ['status', 'trunkline.json']]) {
      const status = await trunkline(args, { cwd: folder, env });
      assert.match(status.out, /1 of 1 servers ready \(running at/, args.join(' '));
    }
  });
});
