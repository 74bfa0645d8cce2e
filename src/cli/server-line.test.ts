import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { ServerStatus } from '../model/server-state.ts';
import { serverLine } from './server-line.ts';

test('a server that is stopping is not shown as waiting for a retry', () => {
  const status = { name: 's', state: 'stopping', reason: null, nextRetryAt: null } as ServerStatus;
  assert.match(stripVTControlCharacters(serverLine(status, 1, 0)), /^ *s +stopping *$/);
});

test('S3.9 a stopped server is shown as stopped, with the command that starts it; only a lazy one starts with a call', () => {
  const line = (state: ServerStatus['state'], start: 'eager' | 'lazy') => {
    const status = { name: 's', state, reason: null, definition: { start } } as ServerStatus;
    return stripVTControlCharacters(serverLine(status, 1, 0)).trim();
  };
  for (const state of ['stopped', 'disconnected'] as const) {
    assert.match(line(state, 'lazy'), /^s +stopped +trunkline restart s starts it again$/);
  }
  assert.match(line('unknown', 'lazy'), /^s +lazy +starts with the first call$/);
  assert.match(line('unknown', 'eager'), /^s +waiting +for its start$/);
});

test('a server that is starting shows the last line that it wrote', () => {
  const status = {
    name: 's',
    state: 'starting',
    reason: null,
    nextRetryAt: null,
    lastAttemptAt: 0,
    stderrTail: 'layer 1 of 7\nlayer 2 of 7\n',
  } as ServerStatus;
  const shown = (more: Partial<ServerStatus>) => stripVTControlCharacters(serverLine({ ...status, ...more }, 1, 3_000));
  assert.match(shown({}), /^ *s +starting +3 s +layer 2 of 7$/);
  assert.match(shown({ stderrTail: '' }), /^ *s +starting +3 s$/);
  assert.match(shown({ reason: 'waiting to start' }), /3 s$/);
});
