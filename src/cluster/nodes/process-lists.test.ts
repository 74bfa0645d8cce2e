import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf, PlayedUpstreams, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { ProcessLists } from './process-lists.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

const server = serverNamed('web', { isolation: 'shared' });

function instanceOn(peer: string, lists: string): RemoteInstance {
  return { node: { peer }, advertised: { definition: { name: 'web' }, lists } } as unknown as RemoteInstance;
}

/** A server with a process for each session, of which another node has some, with these lists. */
function placeWith(own: Record<string, string>): Place {
  const instance = { node: { peer: 'b' }, advertised: { definition: { name: 'web' }, own } };
  const otherInstances = [instance as unknown as RemoteInstance];
  return { server: serverNamed('web'), process: true, here: false, otherInstances, lost: null };
}

test('lists that two nodes advertise under one digest are read once; lists of another digest are read too', async () => {
  const [b, c, d] = [instanceOn('b', 'theirs'), instanceOn('c', 'theirs'), instanceOn('d', 'others')];
  const place: Place = { server, process: true, here: true, otherInstances: [b!, c!, d!], lost: null };
  const local = new PlayedUpstreams('a');
  local.catalogs.set('web', serverCatalog('web', { tools: [tool('own')] }));
  const offered: Record<string, ServerCatalog> = {
    theirs: serverCatalog('web', { tools: [tool('theirs')] }),
    others: serverCatalog('web', { tools: [tool('others')] }),
  };
  const read: string[] = [];
  const lists = new ProcessLists({
    deps: { clock: new FakeClock(), local, events: new RecordedEvents() },
    own: { listsOf: () => 'own' },
    catalogs: {
      knownThere: async ({ node, advertised }) => {
        read.push(node.peer);
        await settled();
        return offered[advertised.lists!]!;
      },
      ownLists: async () => null,
    },
    elsewhere: (_, { sessionId }) => place.otherInstances.find(({ node }) => node.peer === sessionId) ?? null,
  });
  lists.look('web', place);
  const shown = async (session: string) =>
    (await lists.get(place, clientOf(session)))?.lists.tools.items.map(({ key }) => key);
  await settled();
  assert.deepEqual([await shown('b'), await shown('c'), await shown('d')], [['theirs'], ['theirs'], ['others']]);
  assert.equal(await shown('a'), undefined);
  assert.deepEqual(read, ['b', 'd']);
});

test('lists of a node that does not answer are read again, and the clients are notified', async () => {
  const place: Place = { server, process: true, here: true, otherInstances: [instanceOn('b', 'theirs')], lost: null };
  const [clock, events] = [new FakeClock(), new RecordedEvents()];
  const theirs = serverCatalog('web', { tools: [tool('theirs')] });
  let answers = false;
  const lists = new ProcessLists({
    deps: { clock, local: new PlayedUpstreams('a'), events },
    own: { listsOf: () => 'own' },
    catalogs: { knownThere: async () => (answers ? theirs : null), ownLists: async () => null },
    elsewhere: () => place.otherInstances[0]!,
  });
  lists.look('web', place);
  await clock.advance(3_000);
  assert.deepEqual(events.heard, []);
  answers = true;
  await clock.advance(3_000);
  assert.deepEqual(events.heard, ['catalogChanged web']);
  assert.equal(clock.pending, 0);
});

test('own lists of clients are read once for each digest, and again if lists with another digest arrive', async () => {
  const now = serverCatalog('web', { tools: [tool('now')] });
  const read: string[] = [];
  const events = new RecordedEvents();
  const lists = new ProcessLists({
    deps: { clock: new FakeClock(), local: new PlayedUpstreams('a'), events },
    own: { listsOf: () => undefined },
    catalogs: {
      knownThere: async () => null,
      ownLists: async (_, key) => {
        read.push(key);
        return now;
      },
    },
    elsewhere: () => null,
  });
  const before = placeWith({ s1: 'before' });
  lists.look('web', before);
  await settled();
  assert.deepEqual([lists.known(before, clientOf('s1')), lists.keyOf(before, clientOf('s1'))], [null, 's1']);
  const after = placeWith({ s1: now.digest, s2: now.digest });
  lists.look('web', after);
  await settled();
  const known = ['s1', 's2', 's3'].map((session) => lists.known(after, clientOf(session)));
  assert.deepEqual(known, [now, now, null]);
  assert.deepEqual(read, ['s1', 's1']);
  const told = ['catalogChanged web s1', 'catalogChanged web s2'];
  assert.deepEqual(events.heard, told);
  lists.look('web', undefined);
  assert.deepEqual(events.heard, [...told, ...told], 'the processes have ended');
  assert.equal(lists.known(after, clientOf('s1')), null);
});

test('own lists of a client that cannot be read are read again while its node advertises them, and the client is notified', async () => {
  const now = serverCatalog('web', { tools: [tool('now')] });
  const [clock, events] = [new FakeClock(), new RecordedEvents()];
  let answers = false;
  let asked = 0;
  const lists = new ProcessLists({
    deps: { clock, local: new PlayedUpstreams('a'), events },
    own: { listsOf: () => undefined },
    catalogs: {
      knownThere: async () => null,
      ownLists: async () => {
        asked++;
        return answers ? now : null;
      },
    },
    elsewhere: () => null,
  });
  const place = placeWith({ s1: now.digest });
  lists.look('web', place);
  await settled();
  await clock.advance(2_500);
  assert.deepEqual([asked, lists.known(place, clientOf('s1'))], [3, null]);
  lists.look('web', undefined);
  await clock.advance(2_500);
  assert.deepEqual([asked, clock.pending], [3, 0], 'the process has ended');
  lists.look('web', place);
  await settled();
  await clock.advance(500);
  answers = true;
  await clock.advance(2_500);
  assert.deepEqual([lists.known(place, clientOf('s1')), events.heard], [now, ['catalogChanged web s1']]);
  assert.deepEqual([asked, clock.pending], [5, 0]);
});
