import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Instances } from './instances.ts';
import type { Place } from './routing-table.ts';

/** A server that nodes have, by their peers. */
function place(name: string, ...peers: string[]): Place {
  const otherInstances = peers.map((peer) => ({ node: { peer } }));
  return { server: { name }, process: false, here: false, otherInstances } as unknown as Place;
}

test('a session that ends is removed at the nodes it used, and instances of other sessions stay, whatever their names', () => {
  const instances = new Instances();
  instances.remember('web', 's1', 'b', null);
  instances.remember('files', 's1', 'c', '1.7');
  instances.remember('web', 's2', 'd', null);
  // A client without a session chose a handle that contains the session id of another client.
  instances.remember('web', 'agent:eve {} s1', 'e', null);
  assert.deepEqual([...instances.forgetSession('s1')].sort(), ['b', 'c']);
  assert.equal(instances.known(place('web', 'b'), 's1'), null);
  assert.equal(instances.known(place('web', 'd'), 's2')?.instance.node.peer, 'd');
  assert.equal(instances.known(place('web', 'e'), 'agent:eve {} s1')?.instance.node.peer, 'e');
  assert.deepEqual([...instances.forgetSession('s1')], []);
});

test('an instance whose node no longer has the server is removed, and only that', () => {
  const instances = new Instances();
  instances.remember('web', 's1', 'b', null);
  instances.remember('files', 's1', 'b', '1.7');
  assert.equal(instances.known(place('web', 'c'), 's1'), null);
  assert.equal(instances.known(place('web', 'b'), 's1'), null);
  assert.equal(instances.known(place('files', 'b'), 's1')?.epoch, '1.7');
  instances.forget('files', 's1');
  assert.equal(instances.known(place('files', 'b'), 's1'), null);
});
