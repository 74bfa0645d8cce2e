import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authority } from './listener-settings.ts';

test('the URL of a listener on all interfaces names this machine, however the configuration writes the address', () => {
  for (const host of ['0.0.0.0', '::', '::0', '0:0:0:0:0:0:0:0'])
    assert.equal(authority(host, 80), '127.0.0.1:80', host);
  assert.equal(authority('::1', 80), '[::1]:80');
  assert.equal(authority('gateway.example', 80), 'gateway.example:80');
});
