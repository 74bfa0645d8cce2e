import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf, PlayedUpstreams, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { Place, RemoteInstance } from './routing-table.ts';
import { SharedLists } from './shared-lists.ts';

const server = serverNamed('web', { isolation: 'shared' });

function instanceOn(peer: string, lists: string): RemoteInstance {
  return { node: { peer }, advertised: { definition: { name: 'web' }, lists } } as unknown as RemoteInstance;
}

test('lists that two nodes advertise under one digest are read once; those of another digest are read there', async () => {
  const [b, c, d] = [instanceOn('b', 'theirs'), instanceOn('c', 'theirs'), instanceOn('d', 'others')];
  const place: Place = { server, process: true, here: true, otherInstances: [b!, c!, d!], lost: null };
  const local = new PlayedUpstreams('a');
  local.catalogs.set('web', serverCatalog('web', { tools: [tool('own')] }));
  const offered: Record<string, ServerCatalog> = {
    theirs: serverCatalog('web', { tools: [tool('theirs')] }),
    others: serverCatalog('web', { tools: [tool('others')] }),
  };
  const read: string[] = [];
  const lists = new SharedLists({
    deps: { clock: new FakeClock(), local, events: new RecordedEvents() },
    own: { changed: () => {}, listsOf: () => 'own' },
    catalogs: {
      knownThere: async ({ node, advertised }) => {
        read.push(node.peer);
        await settled();
        return offered[advertised.lists!]!;
      },
    },
    elsewhere: (_, { sessionId }) => place.otherInstances.find(({ node }) => node.peer === sessionId) ?? null,
  });
  lists.look(new Map([['web', place]]));
  const shown = async (session: string) =>
    (await lists.get(place, clientOf(session)))?.lists.tools.items.map(({ key }) => key);
  await settled();
  assert.deepEqual([await shown('b'), await shown('c'), await shown('d')], [['theirs'], ['theirs'], ['others']]);
  assert.equal(await shown('a'), undefined);
  assert.deepEqual(read, ['b', 'd']);
});
