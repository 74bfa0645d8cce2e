import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { withUsualPorts } from './own-ports.ts';

test('an unknown host is tried with one pair of ports only; its error is left to the listener', async (t) => {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-ports-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  const tried = t.mock.method(Server.prototype, 'listen', function (this: Server) {
    setImmediate(() => this.emit('error', Object.assign(new Error('no such host'), { code: 'ENOTFOUND' })));
    return this;
  });
  const env = { HOME: cwd, XDG_STATE_HOME: cwd };
  const terminal = { out: () => {}, err: () => {}, env, cwd, version: '1.2.3', ask: null };
  const input = { file: undefined, serverCommand: [], flags: { host: 'nowhere.invalid' }, terminal };
  const { overrides } = await withUsualPorts(input, { cwd, env });
  assert.deepEqual(overrides?.usual, { port: 4270, controlPort: 4271 });
  assert.equal(tried.mock.callCount(), 2);
});
