import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp, request as httpRequest, type IncomingMessage } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { ServerStatus } from '../../src/model/server-state.ts';
import type { HttpStage } from '../fixtures/http/stage.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { StatelessServer } from '../fixtures/http/stateless.ts';
import { TestAuthority } from '../support/certificates.ts';
import { until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

async function started(
  t: TestContext,
  config: object,
  options: { readonly env?: Record<string, string>; readonly folder?: string } = {},
): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({ config, ...options });
  t.after(() => gateway.dispose());
  return gateway;
}

async function statusOf(gateway: RunningGateway, server: string): Promise<ServerStatus> {
  return gateway.control<ServerStatus>(`/api/v1/servers/${server}`);
}

function passOn(origin: string, req: IncomingMessage, res: import('node:http').ServerResponse): void {
  const { method, headers, url } = req;
  const out = httpRequest(new URL(url!, origin), { method: method!, headers }, (answer) => {
    res.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(res);
  });
  out.on('error', () => res.destroy());
  res.on('close', () => out.destroy());
  req.pipe(out);
}

test('declared headers reach the server on every request, whatever headers the client sends', async (t) => {
  const server = await StatefulServer.start();
  t.after(() => server.stop());
  const headers = { Authorization: 'Bearer ${TOKEN_OF_SERVER}', 'X-Team': 'blue' };
  const gateway = await started(
    t,
    { mcpServers: { remote: { type: 'http', url: server.url, headers } } },
    { env: { TOKEN_OF_SERVER: 'secret-of-the-server-1' } },
  );
  const client = await WireClient.open(gateway.mcpUrl, { headers: { authorization: 'Bearer mine', 'x-team': 'red' } });
  assert.equal(await client.callText('remote__echo', { text: 'hi' }), 'hi');
  assert.ok(server.stage.requests.length > 3);
  for (const { headers: came } of server.stage.requests) {
    assert.deepEqual([came['authorization'], came['x-team']], ['Bearer secret-of-the-server-1', 'blue']);
  }
  assert.ok(!gateway.stderr.includes('secret-of-the-server-1'));
});

test('fault:F23 limits.callsPerMinute: above the limit of one caller and tool a call has the time to wait; another caller may call', async (t) => {
  const server = await StatefulServer.start();
  t.after(() => server.stop());
  const gateway = await started(t, {
    mcpServers: { remote: { type: 'http', url: server.url, limits: { callsPerMinute: 2 } } },
    agents: {
      one: { key: 'key-of-agent-one-012', servers: ['remote'] },
      two: { key: 'key-of-agent-two-012', servers: ['remote'] },
    },
  });
  const open = (key: string) => WireClient.open(gateway.mcpUrl, { headers: { authorization: `Bearer ${key}` } });
  const [one, two] = [await open('key-of-agent-one-012'), await open('key-of-agent-two-012')];
  for (let i = 0; i < 2; i++) assert.equal(await one.callText('remote__echo', { text: 'hi' }), 'hi');
  const refused = await one.call('remote__echo', { text: 'hi' });
  const { code, retryAfterMs } = refused._meta['trunkline/error'];
  assert.equal(code, 'RATE_LIMITED');
  assert.ok(retryAfterMs > 0 && retryAfterMs <= 30_000, String(retryAfterMs));
  assert.equal(await two.callText('remote__echo', { text: 'hi' }), 'hi');
});

test('a private authority and a client certificate are used; without them the server is not ready, with the reason', async (t) => {
  const inner = await StatefulServer.start();
  const authority = new TestAuthority();
  const certified = authority.issue({ name: 'server', hosts: ['localhost', '127.0.0.1'] });
  const names: string[] = [];
  const outer = createHttps({ ...certified, ca: authority.cert, requestCert: true }, (req, res) => {
    names.push((req.socket as import('node:tls').TLSSocket).getPeerCertificate().subject?.CN?.toString() ?? '');
    passOn(inner.stage.origin, req, res);
  });
  await new Promise<void>((done) => outer.listen(0, '127.0.0.1', done));
  t.after(async () => {
    outer.closeAllConnections();
    outer.close();
    await inner.stop();
  });
  const url = `https://localhost:${(outer.address() as AddressInfo).port}/mcp`;
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-e2e-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const mine = authority.issue({ name: 'trunkline-client' });
  for (const [name, text] of [
    ['ca.pem', authority.cert],
    ['cert.pem', mine.cert],
    ['key.pem', mine.key],
  ] as const) {
    writeFileSync(join(folder, name), text);
  }
  const config = {
    mcpServers: {
      known: { type: 'http', url, tls: { ca: './ca.pem', cert: './cert.pem', key: './key.pem' } },
      strange: { type: 'http', url },
    },
  };
  const gateway = await started(t, config, { folder });
  await gateway.ready('known');
  const client = await WireClient.open(gateway.mcpUrl);
  assert.equal(await client.callText('known__echo', { text: 'hi' }), 'hi');
  assert.deepEqual([...new Set(names)], ['trunkline-client']);
  const { servers } = await gateway.control<{ servers: { name: string; state: string; reason: string }[] }>(
    '/api/v1/servers',
  );
  const strange = servers.find(({ name }) => name === 'strange')!;
  assert.ok(['failed', 'unreachable'].includes(strange.state), strange.state);
  assert.match(strange.reason, /certificate/i);
});

test('HTTP_PROXY is used for servers beyond NO_PROXY', async (t) => {
  const server = await StatefulServer.start();
  const seen: string[] = [];
  const proxy = createHttp((req, res) => {
    seen.push(req.url!);
    passOn(server.stage.origin, Object.assign(req, { url: new URL(req.url!).pathname }), res);
  });
  proxy.on('connect', (req, socket) => {
    seen.push(req.url!);
    const through = connect(Number(new URL(server.stage.origin).port), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      through.pipe(socket);
      socket.pipe(through);
    });
    for (const end of [socket, through]) end.on('error', () => through.destroy());
  });
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
  t.after(async () => {
    proxy.closeAllConnections();
    proxy.close();
    await server.stop();
  });
  const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const config = {
    mcpServers: {
      far: { type: 'http', url: 'http://far.example/mcp' },
      near: { type: 'http', url: server.url },
    },
  };
  const env = { HTTP_PROXY: address, http_proxy: address, NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' };
  const gateway = await started(t, config, { env });
  const client = await WireClient.open(gateway.mcpUrl);
  assert.equal(await client.callText('far__echo', { text: 'through' }), 'through');
  const before = seen.length;
  assert.ok(before > 0 && seen.every((target) => target.includes('far.example')), seen.join(' '));
  assert.equal(await client.callText('near__echo', { text: 'directly' }), 'directly');
});

test('the era of a server is found once and kept over a restart', async (t) => {
  const old = await StatefulServer.start();
  const modern = await StatelessServer.start();
  t.after(() => Promise.all([old.stop(), modern.stop()]));
  const config = {
    mcpServers: { old: { type: 'http', url: old.url }, modern: { type: 'http', url: modern.url } },
  };
  const probes = (stage: HttpStage, method: string) =>
    stage.requests.filter(({ body }) => body.includes(`"${method}"`)).length;
  const gateway = await started(t, config);
  await gateway.ready();
  assert.equal(probes(old.stage, 'server/discover'), 1);
  assert.equal(probes(modern.stage, 'initialize'), 0);
  await gateway.stop();
  const again = await started(t, config, { folder: gateway.folder });
  await again.ready();
  const client = await WireClient.open(again.mcpUrl);
  assert.equal(await client.callText('old__echo', { text: 'x' }), 'x');
  assert.equal(await client.callText('modern__echo', { text: 'x' }), 'x');
  assert.equal(probes(old.stage, 'server/discover'), 1);
});

test('lazy servers start at their first use, and at most four at a time', async (t) => {
  const mcpServers = Object.fromEntries(
    Array.from({ length: 9 }, (_, i) => [`s${i}`, manySided(`s${i}`, { START_MS: '700' })]),
  );
  const config = { mcpServers: { ...mcpServers, lazy: manySided('lazy', {}, { start: 'lazy' }) } };
  const gateway = await started(t, config);
  let most = 0;
  for (;;) {
    const { servers } = await gateway.control<{
      servers: { name: string; state: string; reason: string | null; startedInMs: number | null }[];
    }>('/api/v1/servers');
    const starting = servers.filter(({ state, reason }) => state === 'starting' && reason !== 'waiting to start');
    most = Math.max(most, starting.length);
    const lazy = servers.find(({ name }) => name === 'lazy')!;
    assert.equal(lazy.state, 'unknown');
    if (servers.every(({ name, startedInMs }) => name === 'lazy' || startedInMs !== null)) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  assert.ok(most <= 4 && most >= 2, `${most} at once`);
  const client = await WireClient.open(gateway.serverUrl('lazy'));
  assert.equal(await client.callText('echo', { text: 'up' }), 'up');
});

test('the deadline of a tool overrides that of its server, and the error names it', async (t) => {
  const config = {
    mcpServers: { s: manySided('s', {}, { timeoutMs: 400, tools: { who: {}, sleep: { timeoutMs: 3_000 } } }) },
  };
  const gateway = await started(t, config);
  const client = await WireClient.open(gateway.mcpUrl);
  assert.equal(await client.callText('s__sleep', { ms: 1_000 }), 'slept');
  const { message } = await client.request('tools/call', { name: 's__sleep', arguments: { ms: 10_000 } });
  assert.match(JSON.stringify(message), /3000 ms|3 s|TIMEOUT/i);
});

describe('isolation', () => {
  const who = async (client: WireClient, server: string) =>
    (JSON.parse(await client.callText(`${server}__who`)) as { pid: number }).pid;

  test('shared: one process for all; session: one each; principal: one per agent; above the limit OVERLOADED while all are in use', async (t) => {
    const keys = { ada: 'key-of-ada-0123456789', bob: 'key-of-bob-0123456789' };
    const config = {
      mcpServers: {
        one: manySided('one', {}, { isolation: 'shared' }),
        each: manySided('each', {}, { isolation: 'session', limits: { maxProcesses: 3 } }),
        person: manySided('person', {}, { isolation: 'principal' }),
        modern: manySided('modern', { ERA: 'stateless' }),
      },
      agents: { ada: { key: keys.ada }, bob: { key: keys.bob } },
    };
    const gateway = await started(t, config);
    const open = (key: string) => WireClient.open(gateway.mcpUrl, { headers: { authorization: `Bearer ${key}` } });
    const [a1, a2, b] = [await open(keys.ada), await open(keys.ada), await open(keys.bob)];
    const pids = async (server: string) => [await who(a1!, server), await who(a2!, server), await who(b!, server)];
    assert.equal(new Set(await pids('one')).size, 1);
    assert.equal(new Set(await pids('modern')).size, 1);
    const [p1, p2, p3] = await pids('person');
    assert.ok(p1 === p2 && p1 !== p3);
    const own = await pids('each');
    assert.equal(new Set(own).size, 3);
    assert.deepEqual(await pids('each'), own);
    for (const client of [a1, a2, b]) client!.call('each__sleep', { ms: 20_000 }).catch(() => {});
    await until(async () => (await statusOf(gateway, 'each')).pool.active === 3, 'three calls to be in hand');
    const fourth = await open(keys.bob);
    const { message } = await fourth.request('tools/call', { name: 'each__who', arguments: {} });
    assert.match(JSON.stringify(message), /OVERLOADED/);
    assert.match(JSON.stringify(message), /3 processes|maxProcesses/);
  });

  test('S1.7 S1.8 S1.16 at the limit the longest idle process gives way at once, first those of clients whose stream is gone', async (t) => {
    const each = manySided('each', {}, { isolation: 'session', limits: { maxProcesses: 2 } });
    const gateway = await started(t, { mcpServers: { each } });
    const there = await WireClient.open(gateway.mcpUrl);
    const stream = await there.listen();
    const pid = await who(there, 'each');
    // Each client connects, calls and leaves without a DELETE, as most clients do.
    for (let run = 0; run < 5; run++) {
      const client = await WireClient.open(gateway.mcpUrl);
      const own = await client.listen();
      await who(client, 'each');
      own.drop();
      await until(async () => (await who(there, 'each')) === pid, 'the client that is there to keep its process');
    }
    assert.deepEqual((await statusOf(gateway, 'each')).processes, { running: 2, limit: 2 });
    const shown = await trunkline(['status', '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
    assert.match(shown.out, /1 of 1 servers ready .*, 2 of 256 processes/);
    assert.match(shown.out, /each .* 2 of 2 processes/);
    // No client is gone now: the process that has been idle for longest gives way.
    const silent = await WireClient.open(gateway.mcpUrl);
    await who(silent, 'each');
    const next = await WireClient.open(gateway.mcpUrl);
    await who(next, 'each');
    assert.notEqual(await who(there, 'each'), pid);
    stream.drop();
  });

  test('stateless clients of a stateful server are separated by the header that the operator names', async (t) => {
    const gateway = await started(t, { mcpServers: { s: manySided('s', {}, { isolationHeader: 'X-Conversation' }) } });
    const client = (conversation: string) =>
      new WireClient(gateway.mcpUrl, 'stateless', { headers: { 'x-conversation': conversation } });
    const [one, again, other] = [await who(client('1'), 's'), await who(client('1'), 's'), await who(client('2'), 's')];
    assert.equal(one, again);
    assert.notEqual(one, other);
  });

  test('an input request of a stateful server reaches its session alone', async (t) => {
    const gateway = await started(t, { mcpServers: { s: manySided('s') } });
    const open = () => WireClient.open(gateway.mcpUrl, { capabilities: { elicitation: { form: {} } } });
    const [one, two] = [await open(), await open()];
    for (const [client, name] of [
      [one, 'one'],
      [two, 'two'],
    ] as const) {
      client.answer = () => ({ action: 'accept', content: { name } });
    }
    const [first, second] = await Promise.all([
      one.callText('s__ask', { message: 'for one' }),
      two.callText('s__ask', { message: 'for two' }),
    ]);
    assert.match(first, /"one"/);
    assert.match(second, /"two"/);
    for (const [client, message] of [
      [one, 'for one'],
      [two, 'for two'],
    ] as const) {
      assert.deepEqual(
        client.asked.map(({ params }) => params.message),
        [message],
      );
    }
    const streams = [await one.listen(), await two.listen()];
    await one.call('s__ask-later', { message: 'late for one' });
    await two.call('s__ask-later', { message: 'late for two' });
    for (const [i, asked] of ['late for one', 'late for two'].entries()) {
      let message = await streams[i]!.message();
      // A list_changed for the lists of clients with elicitation may arrive first.
      while (message.method.endsWith('/list_changed')) message = await streams[i]!.message();
      assert.equal(message.params.message, asked);
    }
    for (const stream of streams) stream.drop();
  });
});

test('S1.14 S3.3 a start may take as long as its definition allows; its reason stays in the status while calls wait for it', async (t) => {
  const slow = (ms: number, keys: object) =>
    manySided('slow', { START_MS: String(ms) }, { timeoutMs: 20_000, ...keys });
  // It answers nothing, ignores SIGTERM, and is killed just after its time limit: the next attempt begins while it ends.
  const deaf = { command: 'sh', args: ['-c', 'trap "" TERM; exec 2>&-; while :; do sleep 0.1; done'] };
  const servers = (limits: Record<string, object>) => ({
    mcpServers: {
      cold: slow(2_500, limits['cold'] ?? {}),
      deaf: { ...deaf, startupTimeoutMs: 1_000 },
    },
  });
  const gateway = await started(t, servers({ cold: { startupTimeoutMs: 1_000 } }));
  const settled = async (name: string): Promise<ServerStatus> => {
    await until(async () => (await statusOf(gateway, name)).state === 'failed', 'failed');
    return statusOf(gateway, name);
  };
  for (const name of ['cold', 'deaf']) {
    const { reason, startupTimeoutMs } = await settled(name);
    assert.match(String(reason), /did not start within 1000 ms/);
    assert.equal(startupTimeoutMs, 1_000);
  }
  // A call starts the next attempt early and at once, while the process of the last one is being ended.
  const client = await WireClient.open(gateway.mcpUrl);
  const begun = performance.now();
  const refused = await client.request('tools/call', { name: 'deaf__echo', arguments: { text: 'x' } });
  assert.match(JSON.stringify(refused), /did not start within 1000 ms/);
  assert.ok(performance.now() - begun > 900, 'the attempt had its time');
  assert.ok(!JSON.stringify((await settled('deaf')).history).includes('no longer wanted'));
  assert.match(String((await settled('deaf')).reason), /did not start within 1000 ms/);
  // Another limit needs no new process, and holds from the next attempt on.
  gateway.rewrite(servers({ cold: { startupTimeoutMs: 15_000 } }));
  await until(async () => (await statusOf(gateway, 'cold')).state === 'running', 'running');
  const { history, startupTimeoutMs } = await statusOf(gateway, 'cold');
  assert.equal(startupTimeoutMs, 15_000);
  assert.ok(!history.some(({ reason }) => reason?.includes('its definition has changed')));
});

test('S3.3 the time limit of a start applies to connections as well: 30 s by default, otherwise as configured', async (t) => {
  const mute = createHttp(() => {});
  await new Promise<void>((done) => mute.listen(0, '127.0.0.1', done));
  t.after(() => mute.close().closeAllConnections());
  const url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}/mcp`;
  const gateway = await started(t, {
    mcpServers: {
      brief: { url, startupTimeoutMs: 700 },
      usual: { url },
      local: manySided('local'),
      fetched: { command: 'npx', args: ['-y', 'some-server'], start: 'lazy' },
    },
  });
  await until(async () => (await statusOf(gateway, 'brief')).state === 'failed', 'failed');
  assert.match(String((await statusOf(gateway, 'brief')).reason), /brief did not start within 700 ms/);
  assert.equal((await statusOf(gateway, 'usual')).state, 'starting');
  assert.equal((await statusOf(gateway, 'usual')).startupTimeoutMs, 30_000);
  assert.equal((await statusOf(gateway, 'local')).startupTimeoutMs, 60_000);
  assert.equal((await statusOf(gateway, 'fetched')).startupTimeoutMs, 300_000);
});
