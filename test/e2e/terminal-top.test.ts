import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { manySided } from '../support/many-sided.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const LONG = 'a-server-with-a-long-name';
const ALL = ['SERVER', 'STATE', 'CALLS/S', 'ERR/S', 'P50', 'P95', 'RUNNING', 'SEEN'];

test('`top` shows whole columns, numbers and ids in windows of 80, 110 and 200 columns, and after a resize', async (t) => {
  const config = { mcpServers: { good: manySided('good'), [LONG]: manySided(LONG) } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  await gateway.ready('good', LONG);
  const client = await WireClient.open(gateway.mcpUrl);
  const data = ['--data-dir', join(gateway.folder, 'data')];
  const terminal = await PersonTerminal.open(['top', ...data], { cwd: gateway.folder, columns: 80, rows: 24 });
  t.after(() => terminal.end());
  await terminal.sees(/good +running/);
  await Promise.all(Array.from({ length: 12 }, () => client.callText(`${LONG}__echo`, { text: 'x' })));
  await client.request('tools/call', { name: `good__${'日本語'.repeat(30)}`, arguments: {} });
  await client.request('tools/call', { name: `good__${'missing'.repeat(10)}`, arguments: {} });
  const { calls } = await gateway.control<{ calls: Json[] }>('/api/v1/calls?limit=100');
  const ids = new Set(calls.map(({ id }) => id as string));
  for (const [columns, titles] of [
    [80, ALL.filter((title) => title !== 'SEEN' && title !== 'P50')],
    [110, ALL],
    [200, ALL],
    [80, ALL.filter((title) => title !== 'SEEN' && title !== 'P50')],
    [40, ['SERVER', 'CALLS/S', 'ERR/S', 'P95']],
  ] as const) {
    terminal.resize(columns, 24);
    const head = new RegExp(`^${titles.join(' +')}$[^]*日本`, 'm');
    let text = await terminal.sees(head);
    // A frame arrives in pieces: this waits until it is complete.
    for (let before = ''; before !== text; text = await terminal.sees(head)) {
      before = text;
      await delay(100);
    }
    const lines = text.split('\n');
    const server = lines.find((line) => line.startsWith('a-server'))!.trim();
    const [name, ...cells] = server.split(/ +(?!m?s\b)/);
    assert.equal(name, columns === 40 ? `${LONG.slice(0, 13)}…` : LONG, text);
    assert.equal(cells.length, titles.length - 1, text);
    if (titles.at(-1) === 'SEEN') assert.equal(cells.at(-1), '12', text);
    const shown = lines.slice(lines.findIndex((line) => line.includes('日本')) - 1).filter((line) => line !== '');
    assert.ok(shown.length >= 14, text);
    for (const line of shown) {
      const [id] = /(?<= )[0-9a-f]{8}-\d+(?= |$)/.exec(line) ?? [];
      if (columns === 40) assert.equal(id, undefined, text);
      else assert.ok(id !== undefined && ids.has(id), `${line}\n${text}`);
    }
  }
});

test('if the gateway ends, `top` keeps its rows on the screen and reports the end below them', async (t) => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  t.after(() => gateway.dispose());
  await gateway.ready('good');
  const data = ['--data-dir', join(gateway.folder, 'data')];
  const terminal = await PersonTerminal.open(['top', ...data], { cwd: gateway.folder, columns: 110, rows: 24 });
  await terminal.sees(/good +running/);
  await gateway.stop();
  await terminal.exited;
  const lines = await terminal.lines(true);
  const [row, error] = [/^good +running/, /the gateway \(pid \d+\) has ended/].map((text) =>
    lines.findLastIndex((line) => text.test(line)),
  );
  assert.ok(row! >= 0 && error! > row!, lines.join('\n'));
});
