import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FULL } from '../faults/measured.ts';
import { HttpStage, openEvents, sendJson } from '../fixtures/http/stage.ts';
import { Arena, modern, rpc } from './arena.ts';
import { HOSTILE_LISTS, hostileResult, type Lists } from './hostile-lists.ts';

/** How long a call of another server may wait. Without the bounds the tools of the first set alone take more than 30 s. */
const LIMIT_MS = FULL ? 2_500 : 15_000;
const SETS = Object.entries(HOSTILE_LISTS);
const PROGRAM = resolve(import.meta.dirname, 'hostile-server.ts');

let arena: Arena;
let config: { readonly mcpServers: object };
const stages: HttpStage[] = [];

/** Answers a call by an event stream that comes byte by byte, everything else as JSON. */
function hostileStage(lists: Lists): Promise<HttpStage> {
  return HttpStage.start(({ method, body, res }) => {
    if (method !== 'POST') return void res.writeHead(405).end();
    const { id, method: asked } = JSON.parse(body.toString()) as { id: unknown; method: string };
    const answer = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${hostileResult(lists, asked)}}`;
    if (asked !== 'tools/call') return sendJson(res, 200, answer);
    openEvents(res);
    res.write(`${'\n'.repeat(500_000)}${': x\n'.repeat(100_000)}${'data:\n'.repeat(50_000)}\n`);
    for (const byte of `data: ${answer}\n\n`) res.write(byte);
    res.end();
  });
}

before(async () => {
  for (const [, lists] of SETS) stages.push(await hostileStage(lists));
  arena = await Arena.start({ readyOnly: ['probe', 'remote'] });
  config = JSON.parse(readFileSync(join(arena.gateway.folder, 'trunkline.json'), 'utf8'));
});
after(async () => {
  await arena.stop();
  for (const stage of stages) await stage.stop();
});

async function isKnown(name: string): Promise<boolean> {
  const { servers } = await arena.gateway.control<{ servers: { name: string }[] }>('/api/v1/servers');
  return servers.some((server) => server.name === name);
}

/** The longest that a call of another server took while `work` was done. */
async function longestMeanwhile(work: () => Promise<unknown>): Promise<number> {
  let done = false;
  const working = work().finally(() => (done = true));
  let longest = 0;
  while (!done) {
    const begun = performance.now();
    const echo = rpc('tools/call', { name: 'probe__echo', arguments: { mark: 'beside' } });
    const { text } = await arena.post(echo, arena.victim);
    // The answer is JSON, or an event after the notification that the list changed.
    assert.match(text, /\{\\"mark\\":\\"beside\\"\}/);
    longest = Math.max(longest, performance.now() - begun);
  }
  await working;
  return longest;
}

for (const [kind, define] of [
  ['HTTP', (at: number) => ({ type: 'http', url: `${stages[at]!.origin}/mcp` })],
  ['stdio', (at: number) => ({ command: process.execPath, args: [PROGRAM, SETS[at]![0]] })],
] as const) {
  for (const [at, [what]] of SETS.entries()) {
    test(`S2.30 the worst lists of a server over ${kind} (${what}) delay no call of another server`, async (t) => {
      const server = `hostile-${kind}-${at}`.toLowerCase();
      const mcpServers = { ...config.mcpServers, [server]: define(at) };
      const longest = await longestMeanwhile(async () => {
        arena.gateway.rewrite({ ...config, mcpServers });
        arena.gateway.process.kill('SIGHUP');
        while (!(await isKnown(server))) await sleep(50);
        await arena.gateway.ready(server);
        for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
          const { body, headers } = modern(method);
          for (const path of ['/mcp', `/servers/${server}/mcp`]) {
            const { json, text } = await arena.post(body, headers, path);
            assert.ok(json?.result ?? json?.error, `${method} ${path}: ${text.slice(0, 300)}`);
          }
        }
        await arena.post(rpc('resources/read', { uri: 'x'.repeat(4_000) }), arena.victim);
        const app = modern('resources/read', { uri: `ui://trunkline/${server}/app` });
        const read = await arena.post(app.body, app.headers);
        assert.ok(read.text.length < 64 * 1024 * 1024, `${read.text.length} bytes`);
        const call = modern('tools/call', { name: 'x', arguments: {} });
        await arena.post(call.body, call.headers, `/servers/${server}/mcp`);
        await arena.control(`/api/v1/servers/${server}`, 'GET', { authorization: `Bearer ${arena.controlToken}` });
      });
      t.diagnostic(`at most ${longest.toFixed(0)} ms`);
      assert.ok(longest < LIMIT_MS, `a call of another server took ${longest.toFixed(0)} ms`);
      if (what.startsWith('parameters')) assert.match(arena.gateway.stderr, /list_odd|list_item_invalid/);
      await arena.alive();
    });
  }
}
