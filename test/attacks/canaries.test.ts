import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createdEvent } from '../../src/app/public-subjects/server-announcements.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { type JsonSchema, serverJsonSchema } from '../../src/config/schema-json.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { TestAuthority } from '../support/certificates.ts';
import { open } from '../support/raw-http.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { JSON_HEADERS, modern } from './arena.ts';

/**
 * A canary in every field of a definition that can hold a secret: none shows up in anything that leaves the gateway, also
 * when the servers print, encode and return all of them.
 */

let folder: string;
const canaries = new Set<string>();
/** The value of `${secret:canary}`. */
let stored: string;

/** A value that only its field marks as a secret. */
function canary(what: string): string {
  const value = `canary ${what}`.replaceAll(/[^a-z]/gi, '-').toLowerCase();
  canaries.add(value);
  return value;
}

/** A key in the format of a known service, for fields that are not meant for secrets. */
function key(what: string): string {
  const value = `ghp_${Buffer.from(`canary of ${what}`).toString('hex')}Ab1`;
  canaries.add(value);
  return value;
}

/** A value that every encoding changes. */
function special(what: string): string {
  const value = `canary/${what.replaceAll(' ', '-')}+p@ss"w%rd\\&ä=~`;
  canaries.add(value);
  return value;
}

/** Prints what it was given, in every usual encoding, and ends. */
const PRINTER = `
const given = [...process.argv.slice(1), ...Object.values(process.env)].join(' ') + ' ' + (process.env.ALL ?? '');
for (const text of given.split(' ')) {
  const bytes = Buffer.from(text);
  console.error(text, JSON.stringify({ text }), encodeURIComponent(text), new URLSearchParams({ text }).toString());
  for (const encoding of ['hex', 'base64', 'base64url']) console.error(bytes.toString(encoding));
  console.error(bytes.toString('hex').toUpperCase(), encodeURIComponent(text).replace(/%../g, (pair) => pair.toLowerCase()));
  console.error(Buffer.from('user:' + text).toString('base64'));
}
process.exit(3);
`;

const program = () => ({ command: process.execPath });
const printer = (...args: string[]) => ({ command: process.execPath, args: [join(folder, 'printer.mjs'), ...args] });
const remote = (url: string, more: object = {}) => ({ type: 'http', url, ...more });
const NOWHERE = 'http://127.0.0.1:9/mcp';
const addresses = (name: string) => ({
  [name]: `http://127.0.0.1:9/s/${key(`path of ${name}`)}/mcp?api_key=${canary(`query of ${name}`)}`,
});
const variables = (name: string) => ({
  ...printer(),
  [name]: { MY_TOKEN: canary(name), ANY: key(name), ODD_SECRET: special(name) },
});
const image = (more: object) => ({ docker: { image: 'image', engine: 'unix:///nowhere.sock', ...more } });
const elsewhere = (more: object) => ({ ...printer(), ssh: { host: '127.0.0.1', port: 9, ...more } });

/** Definitions for every key of the schema; null for keys whose values are no texts of the user's, or are names. */
const FIELDS: Readonly<Record<string, (() => object | readonly object[]) | null>> = {
  type: null,
  command: () => [
    { command: `${process.execPath} --token ${canary('command')}` },
    { command: join(folder, key('command')) },
    { command: [process.execPath, join(folder, 'printer.mjs'), '--password', canary('list of a command')] },
  ],
  cmd: () => ({ cmd: process.execPath, args: [join(folder, 'printer.mjs'), `--secret=${canary('cmd')}`] }),
  args: () => [
    printer(`postgresql://app:${canary('dsn')}@db/prod`),
    printer(`--dsn=postgresql://app:${canary('dsn option')}@db/prod`),
    printer('-e', `GITHUB_TOKEN=${canary('variable')}`),
    printer(`API_TOKEN=${canary('assignment')}`),
    printer('--header', `Authorization: Bearer ${canary('bearer')}`),
    printer('--header', `X-Any:${canary('header')}`),
    printer('--password', canary('password')),
    printer('--token', special('token')),
    printer(`--api-key=${canary('option')}`),
    printer(JSON.stringify({ apiKey: canary('json') })),
    printer(key('bare')),
    printer(`https://h.example/mcp?token=${canary('query')}`),
  ],
  env: () => variables('env'),
  environment: () => variables('environment'),
  envs: () => variables('envs'),
  env_vars: null,
  env_keys: null,
  envFile: () => {
    writeFileSync(join(folder, 'env'), `MY_TOKEN=${canary('env file')}\nPIN=${key('env file')}\n`);
    return { ...printer(), envFile: join(folder, 'env') };
  },
  cwd: () => {
    const cwd = join(folder, key('cwd'));
    mkdirSync(cwd);
    return { ...printer(), cwd };
  },
  url: () => addresses('url'),
  httpUrl: () => addresses('httpUrl'),
  serverUrl: () => addresses('serverUrl'),
  uri: () => ({ ...addresses('uri'), type: 'streamable_http' }),
  headers: () => [
    remote(NOWHERE, { headers: { Authorization: `Bearer ${canary('headers')}`, 'X-Any': canary('any header') } }),
    remote(NOWHERE, { headers: { Authorization: `Basic ${Buffer.from(`me:${canary('basic')}`).toString('base64')}` } }),
  ],
  http_headers: () => remote(NOWHERE, { http_headers: { 'X-Any': canary('http headers') } }),
  env_http_headers: () => remote(NOWHERE, { env_http_headers: { 'X-Any': 'CANARY_VARIABLE' } }),
  bearer_token_env_var: () => remote(NOWHERE, { bearer_token_env_var: 'CANARY_VARIABLE' }),
  auth: null,
  'auth.grant': null,
  'auth.clientId': null,
  'auth.clientSecret': () =>
    remote(NOWHERE, {
      auth: { grant: 'client_credentials', clientId: 'c', clientSecret: canary('client secret') },
    }),
  'auth.privateKey': () =>
    remote(NOWHERE, { auth: { grant: 'client_credentials', clientId: 'c', privateKey: canary('private key') } }),
  'auth.CLIENT_ID': null,
  'auth.CLIENT_SECRET': () => remote(NOWHERE, { auth: { CLIENT_ID: 'c', CLIENT_SECRET: canary('cursor secret') } }),
  'auth.scopes': null,
  'auth.issuer': null,
  'auth.per': null,
  'auth.subjectToken': () =>
    remote(NOWHERE, { auth: { grant: 'workload_identity', clientId: 'c', subjectToken: canary('subject token') } }),
  'auth.subjectTokenFile': null,
  'auth.idpTokenEndpoint': null,
  'auth.idpClientId': null,
  'auth.exec': null,
  'auth.exec.command': null,
  'auth.exec.args': () => [
    remote(NOWHERE, { auth: { exec: printer('--token', canary('argument of a credential program')) } }),
    remote(NOWHERE, { auth: { exec: printer(`--api-key=${canary('option of a credential program')}`) } }),
  ],
  'auth.exec.env': () =>
    remote(NOWHERE, { auth: { exec: { ...printer(), env: { ANY: canary('variable of a credential program') } } } }),
  'auth.idpClientSecret': () =>
    remote(NOWHERE, {
      auth: {
        ...{ grant: 'enterprise_managed', clientId: 'c', subjectToken: canary('id token'), idpClientId: 'i' },
        ...{ idpTokenEndpoint: 'http://127.0.0.1:9/token', idpClientSecret: canary('idp secret') },
      },
    }),
  oauth: () => remote(NOWHERE, { oauth: { clientId: 'c', clientSecret: canary('oauth secret') } }),
  oauth_resource: null,
  authProviderType: null,
  scopes: null,
  transport: null,
  includeTools: null,
  enabled_tools: null,
  available_tools: null,
  excludeTools: null,
  disabledTools: null,
  disabled_tools: null,
  description: () => ({ ...printer(), description: `uses ${key('description')}` }),
  isolation: null,
  isolationHeader: null,
  forwardHeaders: null,
  tools: null,
  retry: null,
  start: null,
  drift: null,
  docker: null,
  'docker.image': () => image({ image: `registry/${key('image')}` }),
  'docker.container': null,
  'docker.engine': () => image({ engine: `tcp://me:${canary('engine')}@127.0.0.1:9` }),
  'docker.network': null,
  'docker.volumes': () => image({ volumes: [`/srv/${key('volume')}:/data`] }),
  'docker.user': null,
  'docker.memory': null,
  'docker.labels': () => image({ labels: { token: canary('label') } }),
  ssh: null,
  'ssh.host': null,
  'ssh.user': null,
  'ssh.identityFile': () => elsewhere({ identityFile: join(folder, key('identity file')) }),
  'ssh.knownHostsFile': null,
  'ssh.hostKeys': null,
  inheritEnv: null,
  runAs: null,
  'runAs.user': null,
  limits: null,
  tls: null,
  'tls.ca': null,
  'tls.cert': null,
  'tls.key': () => {
    const authority = new TestAuthority();
    const { cert, key: pem } = authority.issue({ name: 'canary' });
    writeFileSync(join(folder, 'cert.pem'), cert);
    writeFileSync(join(folder, 'key.pem'), pem);
    for (const line of pem.split('\n').filter((line) => line.length > 20 && !line.startsWith('-----'))) {
      canaries.add(line);
    }
    const tls = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
    return { type: 'http', url: 'https://127.0.0.1:9/mcp', tls };
  },
};

const definitions: Record<string, object> = {};
let gateway: RunningGateway;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-canaries-'));
  writeFileSync(join(folder, 'printer.mjs'), PRINTER);
  for (const [field, make] of Object.entries(FIELDS)) {
    const made = make === null ? [] : [make()].flat();
    made.forEach((definition, i) => {
      definitions[`${field.replaceAll(/[^a-z]/gi, '-')}-${i}`] = definition;
    });
  }
  const variable = canary('variable of the gateway');
  stored = special('stored secret');
  definitions['stored-secret'] = {
    ...printer('--name', '${secret:canary}'),
    env: { ANY: '${secret:canary}', MORE: 'x-${secret:canary}-y' },
  };
  const data = mkdtempSync(join(tmpdir(), 'trunkline-canaries-'));
  const set = startTrunkline(['secret', 'set', 'canary', '--data-dir', join(data, 'data')], { cwd: data, input: true });
  set.process.stdin!.end(stored);
  assert.equal(await set.exited, 0, set.err);
  // One server prints all of them, and its arguments contain none of them.
  definitions['all'] = { ...program(), args: [join(folder, 'printer.mjs')], env: { ALL: [...canaries].join(' ') } };
  gateway = await RunningGateway.start({
    folder: data,
    config: { mcpServers: definitions },
    args: ['--log-level', 'debug'],
    env: { CANARY_VARIABLE: variable },
  });
});
after(async () => {
  await gateway.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** Keys of the schema whose values are, or hold, texts. */
function textFields(schema: JsonSchema, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const own = [inner.type ?? []].flat();
    const more = [inner, ...(inner.anyOf ?? [])].flatMap((each) => textFields(each, `${prefix}${name}.`));
    const isText = own.length === 0 || own.some((type) => type === 'string' || type === 'array' || type === 'object');
    return isText ? [`${prefix}${name}`, ...more] : more;
  });
}

test('security:5 every field of the schema has its canary, or is listed as holding no secret', () => {
  assert.deepEqual(Object.keys(FIELDS).sort(), textFields(serverJsonSchema()).sort());
});

test('security:5 no canary is in the log, the API, the status, an error, an event or the output of a command', async () => {
  const url = new URL('/api/v1/events', gateway.controlUrl).href;
  const { request, response } = await open(url, 'GET', { authorization: `Bearer ${token()}` });
  let events = '';
  response.setEncoding('utf8').on('data', (text: string) => {
    events += text;
  });
  response.on('error', () => {});
  const output: Record<string, string> = {};
  for (const name of Object.keys(definitions)) {
    const call = modern('tools/call', { name: 'x', arguments: {} });
    const init = { method: 'POST', headers: { ...JSON_HEADERS, ...call.headers }, body: call.body };
    const answer = await fetch(gateway.serverUrl(name), init);
    output[`error of ${name}`] = await answer.text();
    output[`status of ${name}`] = JSON.stringify(await gateway.control(`/api/v1/servers/${name}`));
  }
  assert.doesNotMatch(output['status of stored-secret']!, /misconfigured/);
  await gateway.control('/api/v1/servers/all/restart', 'POST').catch(() => null);
  for (const path of ['gateway', 'servers', 'tools', 'sessions', 'drift', 'logs?lines=100000']) {
    output[path] = JSON.stringify(await gateway.control(`/api/v1/${path}`));
  }
  output['metrics'] = await gateway.metrics();
  const data = ['--data-dir', join(gateway.folder, 'data')];
  for (const command of [['status'], ['status', 'all'], ['logs', 'all'], ['logs', 'args-0'], ['drift']]) {
    const { out, err } = await trunkline([...command, ...data, '--control-port', controlPort()], { cwd: folder });
    output[`trunkline ${command.join(' ')}`] = out + err;
  }
  const broken = { mcpServers: { ...definitions, broken: { ...definitions['args-2'], unknown: 1, timeoutMs: 'x' } } };
  writeFileSync(join(folder, 'broken.json'), JSON.stringify(broken, null, 1));
  const checked = await trunkline(['check', join(folder, 'broken.json')], { cwd: folder });
  assert.notEqual(checked.code, 0);
  output['trunkline check'] = checked.out + checked.err;
  gateway.rewrite(broken);
  await new Promise((done) => setTimeout(done, 1_500));
  output['events'] = events;
  request.destroy();
  assert.ok(events.includes('config_refused') || events.includes('server'), events);
  output['log'] = gateway.stderr;
  assert.ok(output['log'].includes('[redacted]') && output['logs?lines=100000']!.includes('[redacted]'));
  assertNone(output);
});

test('security:5 no canary is in the events that programs on NATS receive', async () => {
  const loaded = await loadConfig({
    inline: [{ label: '<test>', text: JSON.stringify({ mcpServers: definitions }) }],
    env: { CANARY_VARIABLE: 'canary-variable-of-the-gateway' },
    secrets: async () => new Map([['canary', stored]]),
    cwd: folder,
  });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const logger = Logger.silent();
  for (const secret of loaded.secrets) logger.addSecret(secret);
  const output: Record<string, string> = {};
  for (const [name, server] of loaded.state.servers) {
    output[name] = createdEvent(server, (text) => logger.redact(text)).toString();
  }
  assert.equal(Object.keys(output).length, Object.keys(definitions).length);
  assertNone(output);
});

function assertNone(output: Readonly<Record<string, string>>): void {
  assert.ok(canaries.size > 30);
  const leaks: string[] = [];
  for (const secret of canaries) {
    const bytes = Buffer.from(secret);
    const percent = encodeURIComponent(secret);
    const form = new URLSearchParams({ '': secret }).toString().slice(1);
    const spellings = [
      secret,
      JSON.stringify(secret).slice(1, -1),
      JSON.stringify(JSON.stringify(secret).slice(1, -1)).slice(1, -1),
      ...[percent, form].flatMap((text) => [text, text.replaceAll(/%../g, (pair) => pair.toLowerCase())]),
      ...['hex', 'base64url'].map((e) => bytes.toString(e as 'hex')),
      bytes.toString('hex').toUpperCase(),
    ];
    // Without the last characters, which depend on the next bytes.
    spellings.push(
      bytes.toString('base64').slice(0, -4),
      Buffer.from(`user:${secret}`).toString('base64').slice(8, -4),
    );
    for (const spelling of spellings) {
      for (const [what, text] of Object.entries(output)) {
        const at = text.indexOf(spelling);
        if (at >= 0) leaks.push(`${secret} in ${what}: …${text.slice(Math.max(0, at - 100), at + 80)}`);
      }
    }
  }
  assert.deepEqual(leaks, []);
}

function token(): string {
  return readFileSync(join(gateway.folder, 'data', 'control.token'), 'utf8').trim();
}

function controlPort(): string {
  return new URL(gateway.controlUrl).port;
}
