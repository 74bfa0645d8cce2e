import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createGateway } from '../../index.ts';
import { Logger } from '../../telemetry/logger.ts';
import { openApp } from '../open-app.ts';

const LISTENERS = { listen: { port: 0 }, control: { port: 0, token: 'a-control-token-of-the-operator' } };

function place(t: TestContext) {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-configuration-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  const file = join(cwd, 'trunkline.json');
  const write = (settings: object): void =>
    writeFileSync(file, JSON.stringify({ mcpServers: { s: { command: 'nothing', start: 'lazy' } }, ...settings }));
  const restarts: string[] = [];
  const hear = (event: string, settings: unknown): void => {
    if (event === 'config_needs_restart') restarts.push(...(settings as string[]));
  };
  return { cwd, file, write, restarts, hear };
}

test('a plan and the log name the changed settings that differ from those of the start, and no others', async (t) => {
  const { cwd, file, write, restarts, hear } = place(t);
  write(LISTENERS);
  const logger = new Logger({
    level: 'warn',
    write(line) {
      const { event, settings } = JSON.parse(line);
      hear(event, settings);
    },
  });
  const opened = await openApp({ load: { files: [file], cwd, env: {} }, logger, state: 'none', follow: false });
  assert.ok(opened.ok, JSON.stringify(opened));
  const { app } = opened;
  t.after(() => app.close('shutdown'));
  await app.listen();
  const { listen, control } = LISTENERS;
  for (const [settings, changed, needed] of [
    [{ listen: { ...listen, allowedHosts: ['mcp.example.com'] } }, ['listen'], []],
    [{ listen: { port: 4999 } }, ['listen'], ['listen']],
    [{}, ['listen'], []],
    [{ tls: { cert: 'cert.pem', key: 'key.pem' } }, ['listen'], ['listen']],
    [{ control: { ...control, token: 'another-token-of-the-operator' } }, ['control', 'listen'], ['control']],
    [{}, ['control'], []],
  ] as const) {
    const name = JSON.stringify(settings);
    write({ ...LISTENERS, ...settings });
    const plan = await app.configuration.plan();
    assert.deepEqual([plan.problems, plan.settings.toSorted(), plan.needRestart], [[], changed, needed], name);
    restarts.length = 0;
    await app.reload();
    assert.deepEqual(restarts, needed, name);
  }
});

test('an address that a program gives its gateway needs no restart', async (t) => {
  const { cwd, file, write, restarts, hear } = place(t);
  write({});
  const changed: unknown[] = [];
  await using gateway = await createGateway({
    config: file,
    cwd,
    logger({ event, fields: { settings } }) {
      if (event === 'config_applied') changed.push(settings);
      hear(event, settings);
    },
  });
  await gateway.listen({ port: 0, controlPort: 0 });
  changed.length = 0;
  write({ listen: { allowedHosts: ['mcp.example.com'] } });
  assert.equal(await gateway.reload(), true);
  assert.deepEqual([changed, restarts], [[['listen']], []]);
});
