import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { ServerStatus } from '../model/server-state.ts';
import { serverLine } from './server-line.ts';

test('a server that is being stopped is not shown as tried again', () => {
  const status = { name: 's', state: 'stopping', reason: null, nextRetryAt: null } as ServerStatus;
  assert.match(stripVTControlCharacters(serverLine(status, 1, 0)), /^ *s +stopping *$/);
});
