import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import pg from 'pg';
import { type ConfigResult, loadConfig } from '../load-config.ts';
import { renderProblem } from '../problem/problem.ts';
import { shownAddress } from './cluster-addresses.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-addresses-'));
after(() => rmSync(folder, { recursive: true }));

const NATS = 'nats://n:4222';
/** Passwords as people and `openssl rand -base64` create them. */
const PASSWORDS = ['50%off', 'ends%', 'a/b', 'p@ss', 'a#b', 'a?b', 'a:b', 'a b', 'a%2Fb', 'ü+&=ß', '12/34@56'];

function load(cluster: object, nats?: string): Promise<ConfigResult> {
  const config = { mcpServers: {}, cluster: { secret: '0123456789abcdef0123456789abcdef', nats: NATS, ...cluster } };
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify(config));
  const overrides = nats === undefined ? {} : { nats };
  return loadConfig({ files: ['trunkline.json'], cwd: folder, env: {}, overrides });
}

async function used(cluster: object): Promise<{ store: string; shown: unknown; secrets: readonly string[] }> {
  const loaded = await load(cluster);
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const { store, credentials } = loaded.state.cluster!;
  const shown =
    credentials?.kind === 'user'
      ? [credentials.user, credentials.password.reveal()]
      : credentials?.kind === 'token'
        ? credentials.token.reveal()
        : credentials;
  return { store: store?.reveal() ?? '', shown, secrets: loaded.secrets };
}

async function refused(cluster: object, nats?: string): Promise<{ codes: string[]; text: string }> {
  const loaded = await load(cluster, nats);
  assert.ok(!loaded.ok, JSON.stringify(cluster));
  const text = loaded.problems.map((problem) => renderProblem(problem, folder)).join('\n');
  return { codes: loaded.problems.map(({ code }) => code), text };
}

function asDatabaseReads(address: string): unknown[] {
  const { user, password, host, database } = new pg.Client({ connectionString: address });
  return [user, password, host, database];
}

test('check:H3 a percent-encoded password of any characters arrives, at NATS and at PostgreSQL', async () => {
  for (const password of PASSWORDS) {
    const encoded = encodeURIComponent(password);
    const nats = `nats://ann%2F1:${encoded}@n:4222`;
    const { shown, store } = await used({ nats, store: `postgresql://ann%2F1:${encoded}@db/x` });
    assert.deepEqual(shown, ['ann/1', password]);
    assert.deepEqual(asDatabaseReads(store), ['ann/1', password, 'db', 'x']);
    assert.equal((await used({ nats: `nats://${encoded}@n:4222` })).shown, password);
  }
});

test('check:H3 a password with an @ that is not encoded is read alike for NATS and PostgreSQL', async () => {
  const { shown, store } = await used({ nats: 'nats://ann:p@ss@n:4222', store: 'postgresql://ann:p@ss@db/x' });
  assert.deepEqual(shown, ['ann', 'p@ss']);
  assert.deepEqual(asDatabaseReads(store), ['ann', 'p@ss', 'db', 'x']);
});

test('check:H3 a blank elsewhere in the address of the store does not change the password', async () => {
  const { store } = await used({ store: 'postgresql://ann:a%2Fb@db/x?application_name=my app' });
  assert.deepEqual(asDatabaseReads(store), ['ann', 'a/b', 'db', 'x']);
});

/** The tests search the messages for both halves. */
const UNENCODED = [
  'GEHEIM%VERBORGEN',
  'GEHEIM%ffVERBORGEN',
  'GEHEIM%',
  'GEHEIM%a',
  'GEHEIM/VERBORGEN',
  'GEHEIM//VERBORGEN',
  'GEHEIM#VERBORGEN',
  'GEHEIM?VERBORGEN',
  'GEHEIM@VERBORGEN/GEHEIM',
  'GEHEIM/VERBORGEN@GEHEIM',
  // A parser takes the digits for a port, and the whole text for an address.
  '12/VERBORGEN',
  '12#VERBORGEN',
  '12?VERBORGEN',
];

test('check:H3 a password that is not encoded is refused, with the remedy and without a part of it', async () => {
  for (const password of UNENCODED) {
    writeFileSync(join(folder, 'password'), password);
    for (const written of [password, '${file:password}']) {
      for (const [code, cluster] of [
        ['TL1702', { nats: `nats://ann:${written}@n:4222` }],
        ['TL1702', { nats: [NATS, `tls://${written}@n:4222`] }],
        ['TL1704', { store: `postgresql://ann:${written}@db/x` }],
      ] as const) {
        const { codes, text } = await refused(cluster);
        assert.deepEqual(codes, [code], `${password}: ${text}`);
        assert.doesNotMatch(text, /GEHEIM|VERBORGEN/, password);
        assert.match(text, /percent-encoded?.*% as %25, \/ as %2F, @ as %40/, text);
      }
    }
    const { codes, text } = await refused({}, `nats://ann:${password}@n:4222`);
    assert.deepEqual(codes, ['TL1702']);
    assert.doesNotMatch(text, /GEHEIM|VERBORGEN/, password);
  }
});

test('check:H3 a problem of another key in the same line shows no password either', async () => {
  const { text } = await refused({ nats: 'nats://ann:GEHEIM/VERBORGEN@n', publicPrincipal: 'nobody' });
  assert.match(text, /TL1703/);
  assert.doesNotMatch(text, /GEHEIM|VERBORGEN/);
});

test('check:H3 a stray % anywhere is refused, because the library of PostgreSQL would read another password', async () => {
  for (const address of [
    'postgresql://ann:a%2Fb@db/x?application_name=100%',
    'postgresql://ann:b@db/x%ff',
    'postgresql://ann:b@d%ffb/x',
    'postgresql://a%nn:b@db/x',
    'postgresql://a%ff:b@db/x',
    // The password would end at the #.
    'postgresql://db/x?user=ann&password=a#b',
  ]) {
    assert.deepEqual((await refused({ store: address })).codes, ['TL1704'], address);
  }
  assert.deepEqual((await refused({ nats: 'nats://a%zz:4222' })).codes, ['TL1702']);
});

test('check:H3 an address is shown without parts that may be secret', () => {
  for (const [address, shown] of [
    ['http://127.0.0.1:4222', 'http://127.0.0.1:4222'],
    ['mysql://ann:geheim@db/x', 'mysql://…@db/x'],
    ['mysql://ann:ge/heim@x@db/x?password=geheim', 'mysql://…@db/x?…'],
    ['nats://ann@geheim/y@n:4222', 'nats://…@n:4222'],
    ['nats://n:4222/?token=geheim', 'nats://n:4222/…'],
    ['nats://ge heim', 'nats://…'],
    ['ann:geheim@db/x', '…@db/x'],
    ['ann:ge//heim@db/x', '…@db/x'],
    ['geheim', '…'],
    ['', ''],
  ] as const) {
    assert.equal(shownAddress(address), shown);
  }
});

test('check:H3 unreadable parts that might be a token are masked in the file too', async () => {
  for (const nats of ['nats://GEHEIM VERBORGEN', 'GEHEIM', 'nats://GEHEIM"VER\\/BORGEN@n']) {
    const { codes, text } = await refused({ nats });
    assert.deepEqual(codes, ['TL1702']);
    assert.doesNotMatch(text, /GEHEIM|VERBORGEN|BORGEN/);
  }
});

test('check:H3 the first address with credentials gives them to all', async () => {
  const one = 'nats://ann:pass-word-1@n:4222';
  for (const nats of [
    [one, 'tls://m:4222'],
    ['tls://m:4222', one],
    [one, 'nats://ann:pass%2Dword-1@m:4222', one],
  ]) {
    const { shown, secrets } = await used({ nats });
    assert.deepEqual(shown, ['ann', 'pass-word-1']);
    assert.ok(secrets.includes('pass-word-1'));
  }
  for (const other of ['ann:other-word@m', 'bob:pass-word-1@m', 'other-word@m', 'ann@m']) {
    for (const nats of [
      [one, `nats://${other}`],
      ['nats://l', `nats://${other}`, one],
    ]) {
      const { codes, text } = await refused({ nats });
      assert.deepEqual(codes, ['TL1702']);
      assert.match(text, /different users, passwords or tokens/);
      assert.doesNotMatch(text, /pass-word-1|other-word/);
    }
  }
});

test('check:H3 the scrubber knows every form of a password', async () => {
  const nats = 'nats://ann:nats%2Fword@n:4222';
  const store = 'postgresql://ann:store%2Fword@db/x';
  const { secrets } = await used({ nats, store });
  for (const form of ['nats/word', 'nats%2Fword', 'store/word', 'store%2Fword', store]) {
    assert.ok(secrets.includes(form), form);
  }
  const inQuery = await used({ store: 'postgresql://db/x?user=ann&password=query-word' });
  assert.ok(inQuery.secrets.includes('query-word'));
  const loaded = await load({ store: 'postgresql://ann:hunter%two@db/x' });
  assert.ok(!loaded.ok && loaded.secrets.includes('hunter%two'));
});

test('a faulty NATS address is shown if it cannot contain a secret', async () => {
  for (const [nats, message] of [
    ['127.0.0.1:21222', /"127\.0\.0\.1:21222" lacks its scheme: nats:\/\/127\.0\.0\.1:21222/],
    ['nats://127.0.0.1:2122 2', /"nats:\/\/127\.0\.0\.1:2122 2" is no address of NATS/],
    ['nats://a:4222,nats://b:4222', /is more than one address of NATS: write a list of them/],
  ] as const) {
    assert.match((await refused({ nats })).text, message);
  }
});
