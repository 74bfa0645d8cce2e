import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { CATALOGUE } from '../src/model/error-catalogue.ts';

const page = readFileSync(resolve(import.meta.dirname, '../docs/errors.md'), 'utf8');
const documented = new Map(
  [...page.matchAll(/^\| `([A-Z_]+)` \| (-?\d+) \| (\w+) \| (yes|no) \| (.+?) \| (.+?) \|$/gm)].map((row) => [
    row[1]!,
    row.slice(2),
  ]),
);

test('docs/errors.md and the catalogue agree on every error', () => {
  assert.deepEqual([...documented.keys()].sort(), Object.keys(CATALOGUE).sort());
  for (const [name, entry] of Object.entries(CATALOGUE)) {
    const [code, outcome, retryable, meaning, remedy] = documented.get(name)!;
    assert.deepEqual(
      [code, outcome, retryable, meaning],
      [String(entry.rpc), entry.outcome, entry.retryable ? 'yes' : 'no', entry.meaning],
    );
    assert.ok(remedy!.length > 10, `${name} says what to do`);
  }
});

test('codes are unique, and the gateway’s own are outside the reserved range', () => {
  const codes = Object.values(CATALOGUE).map((entry) => entry.rpc);
  assert.equal(new Set(codes).size, codes.length);
  const standard = [-32700, -32600, -32601, -32602, -32603, -32002, -32020, -32021, -32022];
  for (const code of codes.filter((one) => !(standard as number[]).includes(one)))
    assert.ok(code < -32768 || code > -32000, String(code));
});
