import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { clientOf, PlayedUpstreams, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
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
  // The first caller has the same key as before, but this key is now the last known one.
  catalogs.learn('web', first, 'shared replica 2', false);
  assert.equal(catalogs.sharedKey('web', other), 'shared replica 2');
  assert.equal(catalogs.key('web', second), 'shared');
  await bus.close();
});

test('check:C9 a change of lists that a node cannot read at once is read later, and its clients are notified', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [serverNamed('memory')]), await nodes.join('b', [])];
    const { upstreams } = b.cluster;
    const lists = (...tools: string[]): void =>
      void a.local.catalogs.set('memory', serverCatalog('memory', { tools: tools.map((name) => tool(name)) }));
    const shown = () => upstreams.knownCatalog('memory', clientOf('s1'))?.lists.tools.items.map(({ key }) => key);
    lists('old');
    await nodes.until(upstreams.catalog('memory', clientOf('s1'), 1_000));
    let answers = false;
    let asked = 0;
    const catalog = a.local.catalog.bind(a.local);
    a.local.catalog = (...of) => {
      asked++;
      return answers ? catalog(...of) : new Promise(() => {});
    };
    lists('old', 'grown');
    a.cluster.events.catalogChanged('memory', '{}', ['tools']);
    await nodes.pass(1_500);
    assert.deepEqual([asked, shown()], [1, ['old']]);
    b.events.heard.length = 0;
    answers = true;
    await nodes.pass(1_000);
    assert.deepEqual([asked, shown(), b.events.heard], [2, ['old', 'grown'], ['catalogChanged memory']]);
    await nodes.pass(10_000);
    assert.equal(asked, 2);
  }));
