import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutPlaces } from './without-places.ts';

test('addresses and folders are taken out of what the servers’ side says, and what is no place stays', () => {
  for (const [words, left] of [
    ['the command "/home/ada/bin/tool" does not exist', 'the command "tool" does not exist'],
    ['cannot enter ../private/place: denied', 'cannot enter place: denied'],
    ['connecting to https://user:pass@inner.example:8443/a?key=b failed', 'connecting to [address] failed'],
    ['spawn ~/x EACCES', 'spawn x EACCES'],
    ['and/or 1/2 of application/json, 2026-07-28', 'and/or 1/2 of application/json, 2026-07-28'],
    ["Server 's' is failed: exit code 1", "Server 's' is failed: exit code 1"],
  ] as const)
    assert.equal(withoutPlaces('NOT_SENT', words), left);
  assert.equal(withoutPlaces('INVALID_PARAMS', 'Unknown tool: /a/b'), 'Unknown tool: /a/b');
});

test('long words made of slashes take no time', () => {
  for (const words of ['/'.repeat(100_000), '/a'.repeat(100_000), `a${'/'.repeat(100_000)}`, 'a:/'.repeat(50_000)])
    assert.ok(withoutPlaces('UNKNOWN', words.slice(0, 1_000)).length <= 1_000);
});
