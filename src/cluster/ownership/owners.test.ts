import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { RecordedEvents } from '../../../test/support/played-upstreams.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Place } from '../nodes/routing-table.ts';
import type { Owner } from './claims.ts';
import { OwnServers } from './own-servers.ts';
import type { OwnedCalls } from './owned-calls.ts';

const theirs: Owner = { kind: 'theirs', node: 'b', peer: 'peer of b', epoch: '1.1' };
const place = {
  server: { name: 'memory' },
  otherInstances: [{ node: { id: 'b', peer: 'peer of b' } }],
} as unknown as Place;

function ownServers(clock: FakeClock, claims: object): OwnServers {
  const owned = { claims } as unknown as OwnedCalls;
  const known = {} as KnownServers;
  return new OwnServers({ clock } as unknown as ClusterDeps, {} as OwnNode, known, owned, new RecordedEvents());
}

/** What is asked of the store is answered by hand. */
function played() {
  const clock = new FakeClock();
  const questions: PromiseWithResolvers<Owner | null>[] = [];
  const claims = {
    mine: () => null,
    owner: () => {
      const question = Promise.withResolvers<Owner | null>();
      questions.push(question);
      return question.promise;
    },
  };
  const owners = ownServers(clock, claims);
  const found: (string | null)[] = [];
  const find = async (): Promise<void> => {
    const instance = await owners.instanceOfOwner(place, 'key');
    found.push(instance === null ? null : instance.node.id);
  };
  return { clock, questions, found, find };
}

test('only a session whose process runs here under its claim is in use', () => {
  const claim = { server: 'memory', key: 's', serving: 1 };
  let held = true;
  let barred = false;
  const claims = { mine: (server: string, key: string) => (held && server === 'memory' && key === 's' ? claim : null) };
  const owners = ownServers(new FakeClock(), claims);
  Object.assign(owners, { handingOver: { isBarred: () => barred } });
  const engaged = (sessionId: string | null, server: object = {}, process = true): unknown =>
    owners.engaged(
      { server: { name: 'memory', isolation: null, singleton: false, ...server }, process } as unknown as Place,
      { sessionId } as ClientProfile,
    );
  assert.equal(engaged('s'), claim);
  assert.equal(engaged('s', { isolation: 'session' }), claim);
  assert.equal(engaged(null), null);
  assert.equal(engaged('t'), null);
  assert.equal(engaged('s', { isolation: 'shared' }), null, 'it was another one before');
  assert.equal(engaged('s', { isolation: 'principal' }), null);
  assert.equal(engaged('s', { singleton: true }), null);
  assert.equal(engaged('s', {}, false), null);
  claim.serving = 0;
  assert.equal(engaged('s'), null, 'what it needs may have changed with the process');
  claim.serving = 1;
  barred = true;
  assert.equal(engaged('s'), null);
  barred = false;
  held = false;
  assert.equal(engaged('s'), null);
});

test('check:C9 one list waits a second for a store that does not answer, and none until it has answered', async () => {
  const { clock, questions, found, find } = played();
  void find();
  await clock.advance(999);
  assert.deepEqual(found, []);
  await clock.advance(1);
  assert.deepEqual(found, [null]);
  for (let i = 0; i < 3; i++) await find();
  assert.deepEqual([found.length, questions.length], [4, 1]);
  await clock.advance(1_000);
  for (let i = 0; i < 3; i++) await find();
  assert.deepEqual([found.length, questions.length], [7, 2], 'the store is asked again, and no list waits');
  questions[0]!.reject(new GatewayError('NOT_SENT', 'the store of the cluster does not answer'));
  await settled();
  questions[1]!.resolve(theirs);
  await settled();
  void find();
  await settled();
  assert.deepEqual([found.length, questions.length], [7, 3], 'lists wait for it again');
  questions[2]!.resolve(theirs);
  await settled();
  assert.equal(found.at(-1), 'b');
});

test('a store that answers soon is asked every time', async () => {
  const { questions, found, find } = played();
  for (const [i, owner] of [theirs, null, theirs].entries()) {
    void find();
    questions[i]!.resolve(owner);
    await settled();
  }
  assert.deepEqual(found, ['b', null, 'b']);
});
