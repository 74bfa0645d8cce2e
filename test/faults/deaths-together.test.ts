import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { MARK } from '../support/processes.ts';
import { WireClient } from '../support/wire-client.ts';
import { FaultBench, until } from './fault-bench.ts';

/** A server that starts slowly, and notes in a file when its start begins and ends. */
const NOTES_STARTS = `
const { appendFileSync } = require('node:fs');
let starting = true;
const note = (step) => appendFileSync(process.env.NOTES, step + '\\n');
const over = () => {
  if (starting) note('over');
  starting = false;
};
note('begins');
process.on('exit', over);
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => say({ id, result });
  if (method === 'initialize')
    setTimeout(() => {
      over();
      const { protocolVersion } = params;
      answer({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'slow', version: '1' } });
    }, 500);
  else if (method === 'tools/list') answer({ tools: [{ name: 'hello', inputSchema: { type: 'object' } }] });
  else if (method === 'tools/call') answer({ content: [{ type: 'text', text: 'hello' }] });
  else if (method === 'ping') answer({});
  else if (id !== undefined) say({ id, error: { code: -32601, message: 'unknown' } });
});`;

test('fault:F03 check:A11 twenty processes die together: no more start at once than the limit, and all calls are served', {
  timeout: 120_000,
}, async (t) => {
  const bench = new FaultBench(t);
  const notes = join(bench.folder, 'notes');
  const server = {
    command: process.execPath,
    args: ['-e', NOTES_STARTS],
    env: { [MARK]: bench.mark, NOTES: notes },
  };
  const others = Array.from({ length: 8 }, (_, i) => `other${i}`);
  await bench.start(Object.fromEntries(['one', ...others].map((name) => [name, server])));
  await bench.gateway.readyWithin(60_000);
  const clients: WireClient[] = [];
  for (let i = 0; i < 12; i++) clients.push(await WireClient.open(bench.gateway.mcpUrl));
  const callAll = () =>
    Promise.all([
      ...clients.map((client) => client.call('one__hello')),
      ...others.map((name) => clients[0]!.call(`${name}__hello`)),
    ]);
  await callAll();
  const pids = async () => (await Promise.all(['one', ...others].map((name) => bench.pids(name)))).flat();
  const before = await pids();
  assert.ok(before.length >= 20);
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await until('the deaths are known', async () => !(await pids()).some((pid) => before.includes(pid)));
  await callAll();
  const [most, begun] = startsAtOnce(notes);
  assert.ok(begun >= 40, `${begun} starts`);
  assert.ok(most > 1 && most <= availableParallelism() + 3, `${most} at once`);
});

/** The most starts at one time, and how many there were. */
function startsAtOnce(notes: string): [most: number, begun: number] {
  let [now, most, begun] = [0, 0, 0];
  for (const step of readFileSync(notes, 'utf8').trim().split('\n')) {
    now += step === 'begins' ? 1 : -1;
    most = Math.max(most, now);
    if (step === 'begins') begun++;
  }
  return [most, begun];
}

test('fault:F03 several processes of a server die together: the next calls are sent as soon as new ones run', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const clients: WireClient[] = [];
  for (let i = 0; i < 4; i++) clients.push(await WireClient.open(bench.gateway.mcpUrl));
  for (const [i, client] of clients.entries()) await client.call('one__safe', { call: `before-${i}` });
  for (let round = 0; round < 3; round++) {
    const pids = await bench.pids('one');
    assert.ok(pids.length >= 4);
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await until('the deaths are known', async () => !(await bench.pids('one')).some((pid) => pids.includes(pid)));
    for (const [i, client] of clients.entries()) await client.call('one__safe', { call: `after-${round}-${i}` });
    assert.equal((await bench.status('one')).history.filter(({ to }) => to === 'failed').length, 0);
  }
});
