import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Downstream } from '../downstream/downstream.ts';
import { BodyBudget } from '../http/context/body-budget.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { UpstreamSet } from '../upstream/upstream-set.ts';
import { registerGauges } from './gauges.ts';
import type { MemoryWatch } from './memory/memory-watch.ts';

/** The median and the longest of the delays since the last exposition, in seconds. */
function delays(metrics: Metrics): [number, number] {
  const text = metrics.exposition();
  const of = (quantile: string) =>
    Number(text.match(new RegExp(`^trunkline_event_loop_delay_seconds\\{quantile="${quantile}"\\} (\\S+)$`, 'm'))?.[1]);
  return [of('0.5'), of('1')];
}

test('the delay of the event loop is the measured lateness, not the interval of measuring', async () => {
  const metrics = new Metrics();
  const none = { sessions: { size: 0 }, inFlight: 0, waitingForInput: 0, statuses: () => [], share: 0 };
  const gauges = registerGauges(
    metrics,
    none as unknown as UpstreamSet,
    none as unknown as Downstream,
    none as unknown as MemoryWatch,
    new BodyBudget(),
  );
  try {
    await delay(400);
    delays(metrics);
    await delay(400);
    const until = performance.now() + 300;
    while (performance.now() < until);
    await delay(400);
    const [middle, longest] = delays(metrics);
    assert.ok(longest >= 0.2, `${longest}: the loop was blocked for 0.3 s`);
    assert.ok(middle < 0.015, `${middle}: for the rest of the time it was hardly late`);
  } finally {
    gauges.close();
  }
});
