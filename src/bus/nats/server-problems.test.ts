import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServerInfo } from '@nats-io/transport-node';
import { serverProblems } from './nats-wire.ts';

function saying(version: string, headers = true): ServerInfo {
  return { version, headers, jetstream: true } as ServerInfo;
}

test('S0.21 for a server that is too old the error names the required version, and for one without headers the effect', () => {
  for (const version of ['1.4.1', '2.8.4', '2.2.0-beta']) {
    assert.deepEqual(serverProblems(saying(version)), [
      `nats-server ${version} is too old: 2.9 is the oldest that works`,
    ]);
  }
  for (const version of ['2.9.0', '2.9.10', '2.10.0', '2.15.2-RC.1', '3.0.0']) {
    assert.deepEqual(serverProblems(saying(version)), []);
  }
  assert.match(serverProblems(saying('2.10.0', false)).join(), /^headers are off/);
  assert.equal(serverProblems(saying('2.0.0', false)).length, 2);
});
