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
    assert.match(status.lastLaunchFailure?.likelyCause ?? '', /^GITHUB_TOKEN is to be handed on/);
    writeFileSync(flag, '');
    const healed = await gateway.restart('boxed');
    assert.equal(healed.state, 'running');
    assert.equal(healed.lastLaunchFailure, null);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('S1.19 in a container, localhost is blamed only where nothing answered', async () => {
  const env = { PATH: process.env['PATH'], KUBERNETES_SERVICE_HOST: '10.0.0.1' };
  await using gateway = await createGateway({ env });
  const http = createServer((request, response) => {
    const status = Number(request.url!.slice(1));
    response.writeHead(status, { 'content-type': 'text/html' }).end('<html>Please log in</html>');
  });
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done));
  const { port } = http.address() as AddressInfo;
  const cause = async (name: string, path: string): Promise<string> => {
    const status = await gateway.registerServer(name, { url: `http://127.0.0.1:${port}/${path}` });
    return status.lastLaunchFailure?.likelyCause ?? '';
  };
  assert.match(await cause('absent', '404'), /check the path of its url/);
  assert.match(await cause('broken', '500'), /its own log says why/);
  assert.match(await cause('page', '200'), /is no MCP server/);
  http.closeAllConnections();
  await new Promise((done) => http.close(done));
  assert.match(await cause('nobody', '200'), /host\.docker\.internal/);
});
