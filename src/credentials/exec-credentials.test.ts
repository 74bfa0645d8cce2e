import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { systemClock } from '../model/clock.ts';
import type { ExecSpec } from '../model/credentials.ts';
import type { ProcessGuard } from '../model/process-guard.ts';
import type { Server } from '../model/server.ts';
import { Logger } from '../telemetry/logger.ts';
import { ExecCredentials } from './exec-credentials.ts';

const URL_OF_SERVER = 'https://mcp.example/mcp';
const guard: ProcessGuard = { start: (spawn) => spawn({}), unregister: () => {} };

/** A program that prints this token. */
const printing = (token: string): ExecSpec => ({
  command: process.execPath,
  args: ['-p', `JSON.stringify({ token: '${token}' })`],
  env: {},
  cwd: '/',
  timeoutMs: 20_000,
});

const definition = (connectionDigest: string) =>
  ({ name: 'a', connectionDigest, transport: { type: 'http', url: URL_OF_SERVER } }) as unknown as Server;

test('a lease of a definition that is being replaced leaves the credential of the new one open', async (t) => {
  const [before, now] = [definition('before'), definition('now')];
  const programs = new ExecCredentials({
    clock: systemClock,
    logger: Logger.silent(),
    guard,
    environment: {},
    desired: { state: { servers: new Map([['a', now]]) } },
    onRenewed: () => {},
  });
  t.after(() => programs.close());
  const lease = programs.lease(now, printing('new'));
  const leaving = programs.lease(before, printing('old'));
  assert.deepEqual(await lease.headers('POST', URL_OF_SERVER), ['Authorization', 'Bearer new']);
  assert.deepEqual(await leaving.headers('POST', URL_OF_SERVER), ['Authorization', 'Bearer old']);
  assert.equal(programs.lease(now, printing('new')), lease);
  assert.deepEqual(
    programs.list().map(({ server, state }) => [server, state]),
    [['a', 'connected']],
  );
});

test('expiresAt of a program is a time of the system, whose clock may have been set since the gateway began', async (t) => {
  for (const aheadMs of [-86_400_000, 0, 86_400_000]) {
    const clock = { ...systemClock, wall: () => Date.now() + aheadMs };
    const desired = { state: { servers: new Map([['a', definition('now')]]) } };
    const more = { logger: Logger.silent(), guard, environment: {}, onRenewed: () => {} };
    const programs = new ExecCredentials({ clock, desired, ...more });
    t.after(() => programs.close());
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const spec = { ...printing(''), args: ['-p', `JSON.stringify({ token: 'new', expiresAt: '${expiresAt}' })`] };
    const lease = programs.lease(definition('now'), spec);
    assert.deepEqual(await lease.headers('POST', URL_OF_SERVER), ['Authorization', 'Bearer new']);
    const [view] = programs.list();
    assert.equal(view!.state, 'connected');
    assert.ok(Math.abs(view!.expiresAt! - clock.wall() - 3_600_000) < 60_000);
  }
});

test('credentials of servers that were removed are closed when another server gets one', async (t) => {
  const servers = new Map([['a', definition('first')]]);
  const more = { logger: Logger.silent(), guard, environment: {}, onRenewed: () => {} };
  const programs = new ExecCredentials({ clock: systemClock, desired: { state: { servers } }, ...more });
  t.after(() => programs.close());
  const first = programs.lease(definition('first'), printing('first'));
  servers.delete('a');
  const other = { ...definition('other'), name: 'b' } as Server;
  servers.set('b', other);
  programs.lease(other, printing('other'));
  servers.set('a', definition('first'));
  assert.notEqual(programs.lease(definition('first'), printing('first')), first);
});

/** Uses up its file descriptors, then asks a program; prints why there is no credential. */
const WITHOUT_DESCRIPTORS = `
const { openSync } = await import('node:fs');
const { askProgram, ExecFailure } = await import(process.argv[1]);
const spec = { command: process.execPath, args: ['-v'], env: {}, cwd: '/', timeoutMs: 20_000 };
const guard = { start: (spawn) => spawn({}), unregister: () => {} };
try {
  for (;;) openSync('/dev/null');
} catch {}
const error = await askProgram(spec, {}, {}, guard, new AbortController().signal).catch((error) => error);
console.log(error instanceof ExecFailure, error.message);
`;

test('a credential program that cannot be started for lack of file descriptors is a failure like others', async () => {
  const module = pathToFileURL(join(import.meta.dirname, 'exec-program.ts')).href;
  const node = [process.execPath, '--input-type=module', '-e', WITHOUT_DESCRIPTORS, module];
  const { stdout } = await promisify(execFile)('sh', ['-c', 'ulimit -n 64 && exec "$@"', 'sh', ...node]);
  assert.match(stdout, /^true its credential program could not be started \(spawn .* EMFILE\)\n$/);
});
