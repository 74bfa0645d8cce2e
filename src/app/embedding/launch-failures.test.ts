import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { createGateway, type LogEntry } from '../../index.ts';

const STDIO = resolve(import.meta.dirname, '../../../test/fixtures/conformance/stdio.ts');
const TOKEN = 'secret-token-1234567890';

test('S1.19 a failed start is reported: command, masked arguments, names of variables, cause, end of stderr', async () => {
  const entries: LogEntry[] = [];
  await using gateway = await createGateway({
    logger: (entry) => void entries.push(entry),
    env: { PATH: process.env['PATH'] },
  });
  const script = `const fs = require('node:fs'); fs.writeSync(2, 'no such table, ' + process.env.API_TOKEN); process.exit(3)`;
  const status = await gateway.registerServer('broken', {
    command: process.execPath,
    args: ['-e', script, '--', '--token', 'hunter2', '--dsn=db://me:pw@host/x'],
    env: { API_TOKEN: TOKEN, B: 'c' },
  });
  assert.equal(status.state, 'failed');
  const failure = status.lastLaunchFailure!;
  assert.ok(failure.at <= Date.now() && failure.at > Date.now() - 60_000);
  assert.equal(failure.error, 'the process of broken exited with code 3: no such table, [redacted]');
  assert.match(status.reason ?? '', /no such table/);
  assert.match(failure.likelyCause ?? '', /standard error/);
  assert.equal(failure.command, process.execPath);
  assert.deepEqual(failure.arguments.slice(2), ['--', '--token', '[redacted]', '--dsn=[redacted]']);
  assert.deepEqual(failure.environment, ['API_TOKEN', 'B']);
  assert.deepEqual(failure.missingVariables, []);
  assert.equal(typeof failure.inContainer, 'boolean');
  assert.deepEqual(failure.exit, { code: 3, signal: null });
  assert.match(failure.stderrTail, /no such table/);
  const logged = entries.filter(({ event }) => event === 'server_start_failed');
  assert.ok(logged.length > 0);
  for (const text of [JSON.stringify(status), JSON.stringify(entries)]) {
    for (const secret of [TOKEN, 'hunter2', 'me:pw']) assert.ok(!text.includes(secret), secret);
  }
});

test('S1.19 an unset variable that a container needs is named; a good start ends the report', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-launch-'));
  try {
    const docker = join(folder, 'docker');
    const flag = join(folder, 'good');
    writeFileSync(
      docker,
      `#!/bin/sh\nif [ -e "${flag}" ]; then exec "${process.execPath}" "${STDIO}" stateful; fi\necho missing >&2\nexit 125\n`,
    );
    chmodSync(docker, 0o755);
    await using gateway = await createGateway({ env: { PATH: process.env['PATH'] } });
    const status = await gateway.registerServer('boxed', {
      command: docker,
      args: ['run', '-i', '--rm', '-e', 'GITHUB_TOKEN', 'image'],
    });
    assert.deepEqual(status.lastLaunchFailure?.missingVariables, ['GITHUB_TOKEN']);
    assert.match(
      status.lastLaunchFailure?.likelyCause ?? '',
      /^GITHUB_TOKEN is named in its definition, but is not set/,
    );
    writeFileSync(flag, '');
    const healed = await gateway.restart('boxed');
    assert.equal(healed.state, 'running');
    assert.equal(healed.lastLaunchFailure, null);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('S1.19 in a container, localhost is named as the likely cause only if no server answers', async () => {
  const env = { PATH: process.env['PATH'], KUBERNETES_SERVICE_HOST: '10.0.0.1' };
  await using gateway = await createGateway({ env });
  const http = createServer((request, response) => {
    const [, status, type = 'html'] = request.url!.split('/');
    const headers = { 'content-type': type === 'html' ? 'text/html; charset=utf-8' : 'application/json' };
    response.writeHead(Number(status), headers).end(type === 'html' ? '<html>Please log in</html>' : '{"hello":1}');
  });
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done));
  const { port } = http.address() as AddressInfo;
  const cause = async (name: string, path: string): Promise<string> => {
    const status = await gateway.registerServer(name, { url: `http://127.0.0.1:${port}/${path}` });
    return status.lastLaunchFailure?.likelyCause ?? '';
  };
  const other = 'correct the path of its url, mostly /mcp or /sse';
  assert.equal(await cause('absent', '404'), `there is nothing at the path /404; ${other}`);
  assert.equal(await cause('method', '405'), `something answered at /405, but it does not serve MCP there; ${other}`);
  assert.match(await cause('locked', '401'), /^it asks for credentials; .*trunkline login locked$/);
  assert.match(await cause('denied', '403'), /^it refuses this caller, .*\(403\); .*trunkline login denied$/);
  assert.match(await cause('broken', '500'), /its own log says why/);
  assert.match(await cause('bad-gateway', '502'), /^a proxy answered, and the server behind it did not/);
  assert.equal(
    await cause('page', '200'),
    `what answered at /200 is a web page, perhaps a login, and no MCP endpoint; ${other}`,
  );
  assert.equal(await cause('api', '200/json'), `what answered at /200/json is no MCP server; ${other}`);
  http.closeAllConnections();
  await new Promise((done) => http.close(done));
  assert.match(await cause('nobody', '200'), /host\.docker\.internal/);
});
