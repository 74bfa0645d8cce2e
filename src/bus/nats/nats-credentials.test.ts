import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { nkeys } from '@nats-io/nats-core';
import { TestAuthority } from '../../../test/support/certificates.ts';
import { currentNatsServer, NatsServer, type NatsServerOptions } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { Secret } from '../../model/secret.ts';
import { loadNats, type NatsOptions, NatsWire } from './nats-wire.ts';

const current = await currentNatsServer();
const PROGRAMS = ['nats-server', ...('program' in current ? [current.program] : [])];
if ('missing' in current) console.warn(`SKIPPED: credentials at the current nats-server: ${current.missing}`);

type KeyPair = ReturnType<typeof nkeys.createUser>;
type Shown = Pick<NatsOptions, 'credentials'> & Partial<Pick<NatsOptions, 'tls'>>;
const NOTHING: Shown = { credentials: null };

/** Returns `in` if the server admits a node with these credentials, or else the error that the node reports. */
async function reported(
  server: NatsServer,
  { credentials, tls = null }: Shown,
  scheme = 'nats',
  host = '127.0.0.1',
): Promise<string> {
  const { core } = await loadNats();
  const servers = [`${scheme}://${host}:${server.port}`];
  const wire = new NatsWire(core, { servers, name: 'test', credentials, tls }, systemClock);
  await wire.firstAttempt;
  const { state, lastError } = wire.status;
  await wire.close();
  return state === 'connected' ? 'in' : lastError;
}

function onEach(title: string, options: NatsServerOptions, run: (server: NatsServer) => Promise<void>): void {
  for (const program of PROGRAMS) {
    const name = program === 'nats-server' ? 'nats-server of the system' : 'nats-server, current release';
    test(`[${name}] ${title}`, { timeout: 60_000 }, async () => {
      const server = await NatsServer.start({ ...options, program });
      try {
        await run(server);
      } finally {
        await server[Symbol.asyncDispose]();
      }
    });
  }
}

onEach('a node shows user and password', { config: 'authorization { user: ann, password: "p w" }' }, async (server) => {
  const shown = (password: string): Shown => ({
    credentials: { kind: 'user', user: 'ann', password: new Secret(password) },
  });
  assert.equal(await reported(server, shown('p w')), 'in');
  assert.match(await reported(server, shown('pw')), /authorization/i);
  assert.match(await reported(server, NOTHING), /authorization/i);
});

onEach('a node shows a token', { config: 'authorization { token: "t-0-k" }' }, async (server) => {
  assert.equal(await reported(server, { credentials: { kind: 'token', token: new Secret('t-0-k') } }), 'in');
  assert.match(await reported(server, { credentials: { kind: 'token', token: new Secret('t') } }), /authorization/i);
});

const node = nkeys.createUser();
const nkeyConfig = `authorization { users = [ { nkey: ${node.getPublicKey()} } ] }`;
onEach('a node shows an nkey', { config: nkeyConfig }, async (server) => {
  const shown = (key: KeyPair): Shown => ({
    credentials: { kind: 'nkey', seed: new Secret(`${Buffer.from(key.getSeed()).toString()}\n`) },
  });
  assert.equal(await reported(server, shown(node)), 'in');
  assert.match(await reported(server, shown(nkeys.createUser())), /authorization/i);
});

const operator = nkeys.createOperator();
const account = nkeys.createAccount();
const LIMITS = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
const jwtConfig = `
  operator: ${jwt(operator, operator, { type: 'operator' })}
  resolver: MEMORY
  resolver_preload: { ${account.getPublicKey()}: ${jwt(operator, account, { type: 'account', limits: LIMITS })} }`;
onEach('a node shows a JWT of a .creds file', { config: jwtConfig, jetStream: false }, async (server) => {
  const shown = (by: KeyPair): Shown => {
    const user = nkeys.createUser();
    const token = jwt(by, user, { type: 'user', pub: {}, sub: {}, subs: -1, data: -1, payload: -1 });
    const seed = Buffer.from(user.getSeed()).toString();
    const creds = `-----BEGIN NATS USER JWT-----\n${token}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`;
    return { credentials: { kind: 'creds', creds: new Secret(creds) } };
  };
  assert.equal(await reported(server, shown(account)), 'in');
  assert.match(await reported(server, shown(nkeys.createAccount())), /authorization/i);
});

const authority = new TestAuthority();
const certified = authority.issue({ name: 'nats', hosts: ['127.0.0.1'] });
const mine = authority.issue({ name: 'node' });
const files = { 'ca.pem': authority.cert, 'cert.pem': certified.cert, 'key.pem': certified.key };
const tlsConfig =
  'tls { cert_file: "FOLDER/cert.pem", key_file: "FOLDER/key.pem", ca_file: "FOLDER/ca.pem", verify: true }';
onEach('mutual TLS: neither side accepts an untrusted peer', { config: tlsConfig, files }, async (server) => {
  const file = (name: string, text: string): string => {
    writeFileSync(join(server.folder, name), text);
    return join(server.folder, name);
  };
  const own = { certFile: file('mine.pem', mine.cert), keyFile: file('mine-key.pem', mine.key) };
  const caFile = join(server.folder, 'ca.pem');
  assert.equal(await reported(server, { credentials: null, tls: { caFile, ...own } }, 'tls'), 'in');
  assert.equal(await reported(server, { credentials: null, tls: { caFile, ...own } }), 'in');
  const stranger = new TestAuthority('Stranger');
  const strange = file('strange.pem', stranger.cert);
  assert.notEqual(await reported(server, { credentials: null, tls: { caFile: strange, ...own } }, 'tls'), 'in');
  assert.notEqual(
    await reported(server, { credentials: null, tls: { caFile, certFile: null, keyFile: null } }, 'tls'),
    'in',
  );
  assert.notEqual(await reported(server, NOTHING, 'tls'), 'in');
});

const elsewhere = authority.issue({ name: 'elsewhere', hosts: ['127.0.0.2'] });
const elsewhereFiles = { 'ca.pem': authority.cert, 'cert.pem': elsewhere.cert, 'key.pem': elsewhere.key };
const oneWay = 'tls { cert_file: "FOLDER/cert.pem", key_file: "FOLDER/key.pem" }';
onEach('a certificate of another host is refused', { config: oneWay, files: elsewhereFiles }, async (server) => {
  const tls = { caFile: join(server.folder, 'ca.pem'), certFile: null, keyFile: null };
  assert.match(await reported(server, { credentials: null, tls }, 'tls'), /does not match/);
});

const local = authority.issue({ name: 'local', hosts: ['localhost'] });
const localFiles = { 'ca.pem': authority.cert, 'cert.pem': local.cert, 'key.pem': local.key };
onEach('a localhost certificate is refused for an address', { config: oneWay, files: localFiles }, async (server) => {
  const tls = { caFile: join(server.folder, 'ca.pem'), certFile: null, keyFile: null };
  assert.equal(await reported(server, { credentials: null, tls }, 'tls', 'localhost'), 'in');
  assert.match(await reported(server, { credentials: null, tls }, 'tls'), /does not match/);
});

onEach('a node that requires TLS does not connect without it', {}, async (server) => {
  assert.notEqual(await reported(server, NOTHING, 'tls'), 'in');
});

/** A NATS JWT, signed with an nkey. */
function jwt(by: KeyPair, subject: KeyPair, nats: object): string {
  const claims = {
    jti: Math.random().toString(36),
    iat: Math.floor(Date.now() / 1000) - 60,
    iss: by.getPublicKey(),
    name: 'test',
    sub: subject.getPublicKey(),
    nats: { ...nats, version: 2 },
  };
  const text = [{ typ: 'JWT', alg: 'ed25519-nkey' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${text}.${Buffer.from(by.sign(Buffer.from(text))).toString('base64url')}`;
}
