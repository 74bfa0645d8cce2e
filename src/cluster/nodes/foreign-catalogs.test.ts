import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { clientOf, PlayedUpstreams, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { MemoryHub } from '../../bus/memory/memory-wire.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import { ConsumerNodes } from './consumer-nodes.ts';
import { ForeignCatalogs } from './foreign-catalogs.ts';

test('a caller without a call yet counts as served like the last known one', async () => {
  const logger = Logger.silent();
  const keys = new KeyRing(['a secret of the cluster, thirty-two bytes at least']);
  const bus = new SignedBus({
    wire: new MemoryHub().open(),
    clock: new FakeClock(),
    keys,
    random: systemRandom,
    logger,
  });
  const deps = { bus, clock: new FakeClock(), logger, local: new PlayedUpstreams('a'), events: new RecordedEvents() };
  const shown = {
    definition: () => undefined,
    knownCatalog: () => null,
    instanceOf: () => null,
    sourceFor: () => null,
  };
  const catalogs = new ForeignCatalogs(deps, new ConsumerNodes(), shown);
  const [first, second, other] = [clientOf('1'), clientOf('2'), clientOf('3')];
  assert.equal(catalogs.sharedKey('web', other), null);
  catalogs.learn('web', first, 'shared replica 2', false);
  catalogs.learn('web', second, 'shared', false);
  assert.equal(catalogs.sharedKey('web', other), 'shared');
  // The same of the first one as before, and yet the last that is known.
  catalogs.learn('web', first, 'shared replica 2', false);
  assert.equal(catalogs.sharedKey('web', other), 'shared replica 2');
  assert.equal(catalogs.key('web', second), 'shared');
  await bus.close();
});
