import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Place } from './directory.ts';
import { Homes } from './homes.ts';

/** A server that nodes have, by their peers. */
function place(name: string, ...peers: string[]): Place {
  const otherHomes = peers.map((peer) => ({ node: { peer } }));
  return { server: { name }, process: false, here: false, otherHomes } as unknown as Place;
}

test('a session that ends is forgotten at the nodes it used, and nobody else’s home with it, whatever others call themselves', () => {
  const homes = new Homes();
  homes.remember('web', 's1', 'b', null);
  homes.remember('files', 's1', 'c', '1.7');
  homes.remember('web', 's2', 'd', null);
  // A client of no session chose what another one's is called as its handle.
  homes.remember('web', 'agent:eve {} s1', 'e', null);
  assert.deepEqual([...homes.forgetSession('s1')].sort(), ['b', 'c']);
  assert.equal(homes.known(place('web', 'b'), 's1'), null);
  assert.equal(homes.known(place('web', 'd'), 's2')?.home.node.peer, 'd');
  assert.equal(homes.known(place('web', 'e'), 'agent:eve {} s1')?.home.node.peer, 'e');
  assert.deepEqual([...homes.forgetSession('s1')], []);
});

test('a home whose node has the server no more is forgotten, and only that', () => {
  const homes = new Homes();
  homes.remember('web', 's1', 'b', null);
  homes.remember('files', 's1', 'b', '1.7');
  assert.equal(homes.known(place('web', 'c'), 's1'), null);
  assert.equal(homes.known(place('web', 'b'), 's1'), null);
  assert.equal(homes.known(place('files', 'b'), 's1')?.epoch, '1.7');
  homes.forget('files', 's1');
  assert.equal(homes.known(place('files', 'b'), 's1'), null);
});
