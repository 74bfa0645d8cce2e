import assert from 'node:assert/strict';
import { test } from 'node:test';
import { credentialNode, SharedRecords } from '../../test/support/credential-node.ts';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { Credential } from './credential.ts';

const OWNER = { server: 'a', principal: null };

const login = (access: string) =>
  ({
    url: 'https://mcp.example/mcp',
    authority: { metadata: { issuer: 'https://as.example' }, resource: null, scopes: null },
    client: { id: 'c', secret: null, privateKey: null, authMethod: null },
    scopes: [],
    tokens: { access, refresh: null, scheme: 'Bearer', scopes: [], expiresAt: null, aheadMs: 0, key: null },
  }) as unknown as Credential;

const node = (records: SharedRecords, clock?: FakeClock) => credentialNode(records, fetch, clock);

/** The token that a node finds in the store; null without one. */
async function stored(records: SharedRecords): Promise<string | null> {
  const found = await records.list('credentials');
  return found.length === 0 ? null : (JSON.parse(found[0]!.value) as Credential).tokens!.access;
}

/** Begins to keep the login while the store is away; the store is back when this resolves, before the next attempt. */
async function keptLate(credentials: ReturnType<typeof node>, records: SharedRecords, access: string) {
  records.failing = 1;
  const kept = credentials.keep(OWNER, login(access));
  for (let turn = 0; turn < 100 && records.failing > 0; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(records.failing, 0);
  return { kept };
}

test('a login that is revoked before it is stored does not come back', async () => {
  const records = new SharedRecords();
  const credentials = node(records);
  const { kept } = await keptLate(credentials, records, 'one');
  assert.equal((await credentials.forget(OWNER))?.tokens?.access, 'one');
  assert.equal((await kept).state, 'connected');
  assert.deepEqual([credentials.list(), await stored(records)], [[], null]);
});

test('a login that is revoked while the store writes it does not come back', async () => {
  const records = new SharedRecords();
  const credentials = node(records);
  const { apply } = records;
  const late = Promise.withResolvers<void>();
  records.apply = async (...writes) => {
    await late.promise;
    return apply.apply(records, writes);
  };
  const kept = credentials.keep(OWNER, login('one'));
  records.apply = apply;
  await credentials.forget(OWNER);
  late.resolve();
  await kept;
  assert.deepEqual([credentials.list(), await stored(records)], [[], null]);
});

test('a login that is stored late is not stored over a later one of another node', async () => {
  const records = new SharedRecords();
  const [a, b] = [node(records), node(records)];
  await a.keep(OWNER, login('before'));
  const { kept } = await keptLate(a, records, 'earlier');
  await b.keep(OWNER, login('later'));
  await kept;
  await a.refresh();
  assert.equal(await stored(records), 'later');
});

test('a login that is stored late does not undo a revocation at another node', async () => {
  const records = new SharedRecords();
  const [a, b] = [node(records), node(records)];
  await a.keep(OWNER, login('before'));
  const { kept } = await keptLate(a, records, 'late');
  await b.forget(OWNER);
  await kept;
  assert.deepEqual([a.list(), await stored(records)], [[], null]);
});

test('a login outlasts a store that can be read before it can be written', async () => {
  const [records, clock] = [new SharedRecords(), new FakeClock()];
  const credentials = node(records, clock);
  records.failing = Number.POSITIVE_INFINITY;
  const kept = credentials.keep(OWNER, login('one'));
  await credentials.refresh();
  await clock.advance(3_000);
  assert.equal((await kept).state, 'connected');
  records.failing = 0;
  for (let turn = 0; turn < 10 && (await stored(records)) === null; turn++) await clock.advance(100);
  assert.equal(await stored(records), 'one');
});
