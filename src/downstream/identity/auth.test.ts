import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Agent } from '../../model/desired-state.ts';
import { Secret } from '../../model/secret.ts';
import { KeyAuthenticator } from './auth.ts';

function agents(...names: string[]): ReadonlyMap<string, Agent> {
  return new Map(
    names.map((name) => [name, { name, key: new Secret(`key-of-${name}`), servers: new Set([`${name}-server`]) }]),
  );
}

test('without agents every client is the anonymous caller, whatever key it sends', () => {
  const auth = new KeyAuthenticator({ agents: new Map(), unknownCallers: 'refuse' });
  assert.equal(auth.authenticate(undefined)?.id, 'anonymous');
  assert.equal(auth.authenticate('Bearer whatever')?.id, 'anonymous');
  assert.equal(auth.authenticate(undefined)?.servers, null);
});

test('a known key identifies its agent, with its servers', () => {
  const auth = new KeyAuthenticator({ agents: agents('ada', 'bob'), unknownCallers: 'refuse' });
  const ada = auth.authenticate('Bearer key-of-ada');
  assert.equal(ada?.id, 'agent:ada');
  assert.deepEqual([...(ada?.servers ?? [])], ['ada-server']);
  assert.equal(auth.authenticate('bearer key-of-bob')?.id, 'agent:bob', 'the scheme is case-insensitive');
  assert.equal(auth.authenticate('Bearer   key-of-bob ')?.id, 'agent:bob', 'white space around the key is ignored');
});

test('an unknown key identifies no caller', () => {
  const auth = new KeyAuthenticator({ agents: agents('ada'), unknownCallers: 'refuse' });
  const bad = [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer key-of-ad',
    'Bearer key-of-adaa',
    'Bearer key-of-ADA',
    'Bearer key-of-ada key-of-ada',
    'Basic key-of-ada',
    'key-of-ada',
    'Bearerkey-of-ada',
    'Bearer key-of-ada, Bearer key-of-ada',
  ];
  for (const header of bad) assert.equal(auth.authenticate(header), null, String(header));
});

test('with unknownCallers allow, unknown callers are anonymous, and known ones keep their identity', () => {
  const auth = new KeyAuthenticator({ agents: agents('ada'), unknownCallers: 'allow' });
  assert.equal(auth.authenticate(undefined)?.id, 'anonymous');
  assert.equal(auth.authenticate('Bearer wrong')?.id, 'anonymous');
  assert.equal(auth.authenticate('Bearer key-of-ada')?.id, 'agent:ada');
});

test('a removed key stops working at once', () => {
  const auth = new KeyAuthenticator({ agents: agents('ada', 'bob'), unknownCallers: 'refuse' });
  auth.replace({ agents: agents('bob'), unknownCallers: 'refuse' });
  assert.equal(auth.authenticate('Bearer key-of-ada'), null);
  assert.equal(auth.authenticate('Bearer key-of-bob')?.id, 'agent:bob');
});
