import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionCap, descriptorLimit, fewDescriptorsLeft } from './descriptor-limit.ts';

test('the limit is read where the system provides it', () => {
  const text =
    'Limit  Soft Limit  Hard Limit  Units\nMax processes  1  2  processes\nMax open files            256   4096  files\n';
  assert.equal(
    descriptorLimit(() => text),
    256,
  );
  assert.equal(
    descriptorLimit(() => 'Max open files   unlimited'),
    null,
  );
  assert.equal(
    descriptorLimit(() => {
      throw new Error('no /proc');
    }),
    null,
  );
});

test('connections leave descriptors for everything else', () => {
  assert.equal(connectionCap(10_000, 256), 153);
  assert.equal(connectionCap(100, 256), 100);
  assert.equal(connectionCap(10_000, null), 10_000);
});

test('fault:F39 the last descriptors are recognised', () => {
  assert.equal(fewDescriptorsLeft(1, null), false);
  assert.equal(fewDescriptorsLeft(1, 1_000_000), false);
  assert.equal(fewDescriptorsLeft(1_000_000, 1_000_000), true);
  assert.equal(fewDescriptorsLeft(1, 4), true);
});
