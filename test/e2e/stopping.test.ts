import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { FaultBench, until } from '../faults/fault-bench.ts';
import { entriesOf } from '../faults/ledger/ledger-entry.ts';
import { ledgerStdio } from '../faults/ledger/ledger-process.ts';
import { type CommandRun, said, startTrunkline } from '../support/run-trunkline.ts';

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

interface Rig {
  readonly cwd: string;
  readonly ledger: string;
}

function rig(t: TestContext): Rig {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-stopping-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  const ledger = join(cwd, 'one.jsonl');
  const mcpServers = { one: ledgerStdio(ledger, 'stateful', { isolation: 'shared' }) };
  writeFileSync(join(cwd, '.mcp.json'), JSON.stringify({ mcpServers }));
  return { cwd, ledger };
}

/** Sends SIGTERM to `trunkline stdio` during a slow call on its pipes, and checks the answer and the exit code. */
async function stoppedInMidCall(t: TestContext, bridge: CommandRun, ledger: string): Promise<void> {
  t.after(() => bridge.process.kill('SIGKILL'));
  const lines = createInterface({ input: bridge.process.stdout! });
  const params = { name: 'one__slow', arguments: { call: 'c1', ms: 1_000 }, _meta: META };
  bridge.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params })}\n`);
  await until('it is in flight', () => entriesOf(ledger, 'executed').length === 1, 30_000);
  bridge.process.kill('SIGTERM');
  const heard: string[] = [];
  // A notification may come before the answer.
  for await (const line of lines) {
    heard.push(line);
    if (JSON.parse(line).id === 7) break;
  }
  assert.match(JSON.parse(heard.at(-1) ?? '{}').result?.content[0].text ?? heard.join('\n'), /^done c1/);
  // Its input is still open.
  assert.equal(await bridge.exited, 0);
}

test('trunkline stdio drains on SIGTERM: the call in flight is answered, exit 0', async (t) => {
  const { cwd, ledger } = rig(t);
  const data = ['--data-dir', join(cwd, 'data')];
  await stoppedInMidCall(t, startTrunkline(['stdio', ...data], { cwd, input: true }), ledger);
});

test('trunkline stdio as a bridge drains on SIGTERM, too', async (t) => {
  const { cwd, ledger } = rig(t);
  const data = ['--data-dir', join(cwd, 'data')];
  const gateway = startTrunkline(['--port', '0', '--control-port', '0', ...data], { cwd });
  t.after(async () => {
    gateway.process.kill('SIGTERM');
    await gateway.exited;
  });
  await said(gateway, 'Servers');
  await stoppedInMidCall(t, startTrunkline(['stdio', ...data], { cwd, input: true }), ledger);
});

test('a second SIGTERM ends the drain: the call in flight is UNKNOWN, exit 0', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const slow = client.call('one__slow', { ms: 60_000 });
  await until('it is in flight', () => entriesOf(bench.ledger('one'), 'executed').length === 1);
  const { process } = bench.gateway;
  process.kill('SIGTERM');
  await assert.rejects(
    until('the end', () => process.exitCode !== null, 300),
    'the first one waits for the call',
  );
  process.kill('SIGTERM');
  assert.equal((await slow).ending, 'UNKNOWN');
  assert.equal(await bench.gateway.exited, 0);
});
