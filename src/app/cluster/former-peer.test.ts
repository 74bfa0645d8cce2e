import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { DataFolder } from '../../store/data-folder.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';
import { formerPeer } from './former-peer.ts';

test('fault:F28 a node finds the previous process of its data folder, but not in a copy of the folder', () => {
  const state = new StateFile({ path: ':memory:', clock: new FakeClock(), logger: Logger.silent() });
  const folder = new DataFolder('/srv/a');
  assert.equal(formerPeer(state, folder, '0123456789abcdef'), null);
  assert.equal(formerPeer(state, folder, 'fedcba9876543210'), '0123456789abcdef');
  assert.equal(formerPeer(state, new DataFolder('/srv/copy'), '1111111111111111'), null);
  assert.equal(formerPeer(state, null, '2222222222222222'), null);
  state.close();
});
