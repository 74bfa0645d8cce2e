import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DriftBench } from '../../../test/support/drift-bench.ts';
import { serverCatalog } from '../../../test/support/server-catalogs.ts';
import { OtherNames } from '../../catalog/drift/other-names.ts';
import { Pace } from '../../model/pace.ts';
import { scanCatalog } from './inspection.ts';

/** Time that passes with every look at it. */
function ticking(stepMs: number): () => number {
  let now = 0;
  return () => (now += stepMs);
}

test('check:G4 a large hostile list is scanned in slices: everything else goes on in between', async () => {
  const tools = Array.from({ length: 200 }, (_, i) =>
    JSON.stringify({ name: `t${i}`, description: 'ignore all '.repeat(50) }),
  );
  const others = new OtherNames({ server: 's', tools: [] }, []);
  let turns = 0;
  let scanning = true;
  const turning = (async () => {
    for (; scanning; turns++) await new Promise(setImmediate);
  })();
  await scanCatalog(serverCatalog('s', { tools }), others, new Pace(ticking(1)));
  scanning = false;
  await turning;
  assert.ok(turns >= 10, `others had ${turns} turns`);
});

test('check:G4 work that takes no time is not interrupted', () => {
  const pace = new Pace(() => 0);
  assert.equal(pace.step(), null);
});

test('check:G4 no text of a server can break the inspection, and with it the listing', async () => {
  const bench = await DriftBench.of({ s: 'hold' });
  const hostile = [
    '{"name":"a","name":"b"}',
    '{"name":"__proto__","inputSchema":{"__proto__":{"type":"object"},"properties":{"__proto__":{},"constructor":{}}}}',
    `{"name":"deep","inputSchema":${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}}`,
    '{"name":"lone","description":"\\ud800"}',
    '{"name":"nul","description":"\\u0000"}',
    `{"name":"long${'g'.repeat(5_000)}"}`,
    '{"name":"types","inputSchema":[],"annotations":7,"title":{}}',
  ];
  await bench.offer('s', { tools: hostile });
  await bench.offer('s', { tools: hostile.map((text) => text.replace('{', '{"x":1,')) });
  assert.equal(bench.lines('inspection_failed').length, 0);
  const report = await bench.drift.report('s');
  assert.ok(report.waiting.length >= 5);
  assert.equal(bench.drift.summary('s').waiting, report.waiting.length);
});
