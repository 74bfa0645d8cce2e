import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RunningGateway } from '../support/running-gateway.ts';
import { until } from './fault-bench.ts';
import { ledgerStdio } from './ledger/ledger-process.ts';

/** Kills the process that starts it, as a native crash or the OOM killer of the kernel does, while its file exists. */
const KILLER = `
const { existsSync, readFileSync } = require('node:fs');
if (existsSync(process.env.HOW)) process.kill(process.ppid, readFileSync(process.env.HOW, 'utf8'));
else import(process.env.SERVER);
`;

interface Status {
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
}

test('fault:F42 a server whose start ended the process twice in a row is held back; the others start, and a restart tries again', {
  timeout: 120_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-crash-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const how = join(folder, 'how');
  const ledger = (name: string) => ledgerStdio(join(folder, `${name}.jsonl`), 'stateful') as Record<string, unknown>;
  const { args } = ledger('victim') as { args: string[] };
  const victim = { ...ledger('victim'), args: ['-e', KILLER, ...args], start: 'eager' };
  Object.assign(victim, {
    env: { ...(victim as { env?: object }).env, HOW: how, SERVER: args[0]!, LEDGER: join(folder, 'victim.jsonl') },
  });
  const config = {
    mcpServers: { calm: { ...ledger('calm'), start: 'eager' }, other: { ...ledger('other'), start: 'eager' }, victim },
  };
  const killed = async (signal: string) => {
    writeFileSync(how, signal);
    const gateway = await RunningGateway.start({ config, folder }).catch(() => null);
    await gateway?.exited;
    if (gateway !== null) assert.equal(gateway.process.signalCode, signal);
    const marks = JSON.parse(readFileSync(join(folder, 'data', 'starts.json'), 'utf8')) as Record<
      string,
      { starting: boolean }
    >;
    assert.equal(marks['victim']?.starting, true);
  };
  const status = async (gateway: RunningGateway, name: string) => gateway.control<Status>(`/api/v1/servers/${name}`);

  await killed('SIGKILL');
  await killed('SIGABRT');
  // A third start of the server would kill the gateway again.
  const gateway = await RunningGateway.start({ config, folder });
  t.after(() => gateway.stop());
  await gateway.ready('calm', 'other');
  const held = await status(gateway, 'victim');
  assert.equal(held.state, 'defect');
  assert.match(held.reason ?? '', /ended twice in a row while it was starting this server.*trunkline restart victim/);
  await gateway.stop();
  assert.equal(gateway.process.signalCode, null);

  const again = await RunningGateway.start({ config, folder });
  t.after(() => again.stop());
  await again.ready('calm', 'other');
  assert.equal((await status(again, 'victim')).state, 'defect', 'a clean exit does not clear it');
  rmSync(how);
  await again.control('/api/v1/servers/victim/restart', 'POST');
  await until('the server runs', async () => (await status(again, 'victim')).state === 'running');
  await again.stop();
  assert.ok(!existsSync(join(folder, 'data', 'starts.json')));
});
