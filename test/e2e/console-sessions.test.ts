import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { type Json, open, type Reply, send } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

describe('sessions of the console, without a browser', () => {
  let gateway: RunningGateway;
  before(async () => {
    gateway = await RunningGateway.start({ config: { mcpServers: { side: manySided('side') } } });
    await gateway.ready('side');
  });
  after(() => gateway.dispose());

  const post = (path: string, body: string, headers: Record<string, string> = {}): Promise<Reply> =>
    send(gateway.controlUrl + path, 'POST', { ...JSON_TYPE, ...headers }, body);
  const bearer = (): Record<string, string> => ({ authorization: `Bearer ${gateway.token('control')}` });

  async function logIn(headers: Record<string, string> = {}): Promise<Reply> {
    const { url } = await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}');
    const [, code] = /\/login\/(.+)$/.exec(url)!;
    const reply = await post('/api/v1/login', JSON.stringify({ code }), headers);
    assert.equal(reply.status, 200, reply.text);
    return reply;
  }

  async function session(): Promise<Record<string, string>> {
    const { headers, json } = await logIn();
    const [cookie = ''] = headers['set-cookie'] ?? [];
    return { cookie: cookie.split(';')[0]!, 'trunkline-csrf': json.csrf, 'sec-fetch-site': 'same-origin' };
  }

  test('the cookie is Secure where a proxy reports that the browser uses TLS', async () => {
    const cases: readonly (readonly [Record<string, string>, boolean])[] = [
      [{}, false],
      [{ 'x-forwarded-proto': 'https' }, true],
      [{ 'x-forwarded-proto': 'https, http' }, true],
      [{ 'x-forwarded-proto': 'http, https' }, false],
    ];
    for (const [headers, secure] of cases) {
      const { headers: answered } = await logIn(headers);
      assert.equal(/; Secure/.test(String(answered['set-cookie'])), secure, JSON.stringify(headers));
    }
  });

  test('a logout ends the streams and the calls of its session', async () => {
    const headers = await session();
    const other = await session();
    const { response } = await open(`${gateway.controlUrl}/api/v1/events`, 'GET', headers);
    const kept = await open(`${gateway.controlUrl}/api/v1/events`, 'GET', other);
    const slow = { method: 'tools/call', params: { name: 'side__sleep', arguments: { ms: 600_000 } } };
    const called = await open(
      `${gateway.controlUrl}/api/v1/playground`,
      'POST',
      { ...headers, ...JSON_TYPE },
      JSON.stringify({ ...slow, revision: '2025-11-25' }),
    );
    assert.deepEqual([response.statusCode, called.response.statusCode], [200, 200]);
    const ended = Promise.all([response, called.response].map((one) => one.toArray()));
    assert.equal((await send(`${gateway.controlUrl}/api/v1/login`, 'DELETE', headers)).status, 200);
    const [, steps] = await ended;
    assert.match(Buffer.concat(steps as Buffer[]).toString(), /"outcome":"CANCELLED"/);
    assert.equal(kept.response.destroyed, false);
    kept.request.destroy();
  });

  test('requests for a login or secrets of another node are refused', async () => {
    const login = await post('/api/v1/login?node=b', '{"token":"x"}');
    assert.deepEqual([login.status, login.json.error.code], [400, 'node_not_allowed']);
    for (const [method, path] of [
      ['POST', '/api/v1/console-links'],
      ['DELETE', '/api/v1/login'],
      ['GET', '/api/v1/secrets'],
    ] as const) {
      const reply = await send(`${gateway.controlUrl}${path}?node=b`, method, { ...bearer(), ...JSON_TYPE }, null);
      assert.deepEqual([reply.status, reply.json.error?.code], [400, 'node_not_allowed'], path);
    }
  });

  test('failed logins are answered with the reason, and do not fill the log', async () => {
    for (const [body, status, why] of [
      ['{"code":"wrong"}', 401, /this link was used/],
      ['{"token":"wrong"}', 401, /this is not the control token/],
      ['{"token":5}', 400, /token has to be a text/],
      ['{}', 400, /give code or token/],
      ['not JSON', 400, /has to be one JSON object/],
    ] as const) {
      for (let i = 0; i < 30; i++) {
        const reply = await post('/api/v1/login', body);
        assert.equal(reply.status, status, body);
        assert.match(reply.text, why);
      }
    }
    await gateway.control('/api/v1/servers/side/suspend', 'POST');
    await until(() => gateway.stderr.includes('"suspendServer"'), 'the log to have the suspension');
    const lines = gateway.stderr.split('\n').filter((line) => /"logIn".*40[01]/.test(line));
    assert.ok(lines.length >= 1 && lines.length < 50, `${lines.length} lines`);
  });

  test('pages and answers are not sniffed', async () => {
    for (const path of ['/', '/api/v1/servers', '/api/v1/nothing']) {
      const { headers } = await send(gateway.controlUrl + path, 'GET', bearer());
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
    }
  });

  test('malformed calls of the playground and malformed replays are refused, with the reason', async () => {
    const played = (body: string): Promise<Reply> => post('/api/v1/playground', body, bearer());
    const meta = await played('{"method":"ping","revision":"2025-11-25","params":{"_meta":5}}');
    assert.equal(meta.status, 400);
    assert.match(meta.text, /params\._meta.*object/);
    const twice = await played('{"method":"ping","revision":"2025-11-25","params":{},"params":{"a":1}}');
    assert.match(twice.text, /REFUSED.*two members/);
    for (const server of ['null', '5']) {
      const replay = await post('/api/v1/replays', `{"server":${server},"jsonl":"{}"}`, bearer());
      assert.deepEqual([replay.status, replay.json.error.code], [400, 'replay_malformed']);
    }
    assert.equal((await post('/api/v1/replays', '{"jsonl":"{}"}', bearer())).status, 400);
  });

  test('trunkline console --open gives the browser the login link in a page that only this user can read', async () => {
    const { folder } = gateway;
    const opened = join(folder, 'opened');
    const program = join(folder, 'browser.sh');
    writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > ${opened}.new && mv ${opened}.new ${opened}\n`);
    chmodSync(program, 0o755);
    const args = ['console', '--open', '--json', '--data-dir', join(folder, 'data')];
    const { code, out, err } = await trunkline(args, { cwd: folder, env: { BROWSER: program } });
    assert.equal(code, 0, err);
    const { url, opened: said } = JSON.parse(out) as Json;
    assert.equal(said, true);
    await until(async () => existsSync(opened), 'the browser to be started');
    const given = readFileSync(opened, 'utf8').trim();
    const word = url.slice(url.lastIndexOf('/') + 1);
    assert.ok(!given.includes(word), given);
    const page = fileURLToPath(given);
    assert.match(readFileSync(page, 'utf8'), new RegExp(`content="0;url=${url}"`));
    assert.deepEqual([statSync(page).mode & 0o777, statSync(dirname(page)).mode & 0o777], [0o600, 0o700]);
    rmSync(dirname(page), { recursive: true });
  });
});
