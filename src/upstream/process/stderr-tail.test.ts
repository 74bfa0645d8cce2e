import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { RecordingLog } from '../../../test/support/stdio-bench.ts';
import { ByteRing, StderrTail } from './stderr-tail.ts';

test('the ring holds the last bytes, in order, whatever the chunks', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(fc.string({ maxLength: 50 })), (capacity, chunks) => {
      const ring = new ByteRing(capacity);
      const all = Buffer.from(chunks.join(''));
      for (const chunk of chunks) ring.push(Buffer.from(chunk));
      assert.deepEqual(ring.contents(), all.subarray(Math.max(0, all.length - capacity)));
      assert.equal(ring.wrapped, all.length >= capacity);
    }),
  );
});

const SECRET = 'top-secret-value';

function tail(): { readonly stderr: StderrTail; readonly log: RecordingLog; readonly clock: FakeClock } {
  const log = new RecordingLog(SECRET);
  const clock = new FakeClock();
  const stderr = new StderrTail({ logger: log, clock });
  return { stderr, log, clock };
}

test('fault:F14 a secret that is cut between two reads, or by the ring, is masked or absent', () => {
  const { stderr, log } = tail();
  stderr.push(Buffer.from('key top-sec'));
  stderr.push(Buffer.from('ret-value used\n'));
  assert.equal(stderr.text(4096), 'key [redacted] used\n');
  assert.deepEqual(log.of('server_stderr'), [{ line: 'key [redacted] used' }]);
  // The ring now begins in the middle of the first secret.
  stderr.push(Buffer.from(`${SECRET}\n`));
  stderr.push(Buffer.from(`${'x'.repeat(1023)}\n`.repeat(64)).subarray(0, 64 * 1024 - 10));
  const text = stderr.text(Number.MAX_SAFE_INTEGER);
  assert.ok(!text.includes('value') && text.startsWith('x'));
});

test('fault:F14 the log resumes after a flood with a whole line', async () => {
  const { stderr, log, clock } = tail();
  stderr.push(Buffer.from('flood\n'.repeat(1000)));
  stderr.push(Buffer.from('flood and the beginning of'));
  assert.equal(log.of('server_stderr').length, 10);
  await clock.advance(1000);
  stderr.push(Buffer.from(' a line\nwhole\n'));
  assert.deepEqual(log.of('server_stderr').slice(10), [{ line: 'whole' }]);
});
