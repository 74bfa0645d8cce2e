import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { serverOf } from '../../../test/support/upstream-bench.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { type PartEvents, ServerContext, UPSTREAM_TIMES, type UpstreamSetDeps } from '../server-context.ts';
import { ServerHealth } from './server-health.ts';

const EVERY_MS = 1_000;
const PING_MS = 100;

/** The members of a connection that a probe uses; no request on it is answered. */
class DeafConnection {
  readonly ready = true;
  readonly live = true;
  readonly load = 0;
  readonly era = 'stateful';
  readonly use = { requests: 0, consecutiveErrors: 0, lastUsedAt: 0 };
  readonly transport = { silent: true };
  asked = 0;

  async ask(): Promise<never> {
    this.asked++;
    throw new GatewayError('NOT_SENT', 'nothing can be sent');
  }
}

test('fault:F28 a process that its node may not use is neither probed nor ended; a usable one is probed', async () => {
  const clock = new FakeClock();
  const deaf = new DeafConnection();
  let gone = 0;
  const context = new ServerContext(
    serverOf('one', { probeMs: EVERY_MS }),
    { clock, logger: Logger.silent() } as unknown as UpstreamSetDeps,
    { maxProcesses: 1, maxTimeoutMs: 1, pool: POOL_DEFAULTS },
    { ...UPSTREAM_TIMES, pingMs: PING_MS },
    { replace: () => void gone++, healthChanged() {} } as unknown as PartEvents,
  );
  const pool = { connections: () => [deaf as unknown as Connection] };
  const health = new ServerHealth(context, pool);
  const pass = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms; i += PING_MS) {
      clock.advance(PING_MS);
      for (let turn = 0; turn < 5; turn++) await Promise.resolve();
    }
  };
  health.moved('running');
  await pass(10 * EVERY_MS);
  assert.deepEqual([deaf.asked, gone], [0, 0]);
  deaf.transport.silent = false;
  await pass(3 * EVERY_MS);
  assert.ok(deaf.asked >= 2, `${deaf.asked}`);
  assert.ok(gone >= 1);
  health.moved('stopping');
});
