import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { FULL } from '../faults/measured.ts';

/** Group config: hostile files, read by `trunkline check` as a process of its own. */

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
/** The limit in `npm run prove`; a machine that runs a test suite takes seconds to start a process. */
const LIMIT_MS = FULL ? 5_000 : 30_000;

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-config-attack-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

interface Checked {
  readonly code: number;
  readonly text: string;
  readonly ms: number;
}

function trunkline(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Checked> {
  const began = performance.now();
  return new Promise((done) => {
    const options = { cwd: folder, timeout: 20_000, env: { ...process.env, ...env } };
    execFile(process.execPath, [BIN, ...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      done({ code, text: stdout + stderr, ms: performance.now() - began });
    });
  });
}

interface Hostile {
  readonly what: string;
  /** Name of the file; its ending chooses the syntax. */
  readonly file?: string;
  readonly text: string | Buffer;
  /** What the error message has to name: a position or a word. */
  readonly names: RegExp;
}

const good = { command: 'true' };
const servers = (value: unknown, more: object = {}): string => JSON.stringify({ mcpServers: value, ...more }, null, 1);
const touch = (name: string) => `touch ${join(folder ?? '', name)}`;

const SYNTAX: readonly Hostile[] = [
  { what: 'cut in the middle', text: '{"mcpServers": {"a": {"command": "tr', names: /trunkline\.json:1:\d+/ },
  { what: 'empty', text: '', names: /trunkline\.json/ },
  { what: 'white space', text: '  \n\n ', names: /trunkline\.json/ },
  { what: 'an array', text: '[]', names: /trunkline\.json/ },
  { what: 'a scalar', text: '42', names: /trunkline\.json/ },
  { what: 'null', text: 'null', names: /trunkline\.json/ },
  { what: 'binary', text: Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2, 0xff]), names: /trunkline\.json/ },
  { what: 'invalid UTF-8', text: Buffer.from('{"mcpServers":{"\xff":{}}}', 'latin1'), names: /UTF-8/ },
  { what: 'UTF-16', text: Buffer.from('\ufeff{"mcpServers":{}}', 'utf16le'), names: /trunkline\.json/ },
  { what: 'a key twice', text: '{"mcpServers":{},\n"mcpServers":{}}', names: /:2:\d+.*|twice/s },
  { what: 'a server twice', text: '{"mcpServers":{"a":{"command":"x"},\n"a":{"command":"y"}}}', names: /:2:\d+/ },
  { what: 'objects 100 000 deep', text: `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`, names: /trunkline\.json/ },
  { what: 'arrays 100 000 deep', text: '['.repeat(100_000), names: /trunkline\.json/ },
  { what: 'YAML 20 000 deep', file: 'a.yaml', text: '['.repeat(20_000), names: /a\.yaml/ },
  {
    what: 'YAML blocks deep',
    file: 'b.yaml',
    text: Array.from({ length: 3_000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'),
    names: /b\.yaml/,
  },
  { what: 'TOML deep', file: 'c.toml', text: `a = ${'['.repeat(20_000)}`, names: /c\.toml/ },
  { what: 'TOML keys deep', file: 'd.toml', text: `[${'a.'.repeat(20_000)}a]`, names: /d\.toml/ },
  {
    what: 'a billion laughs',
    file: 'laughs.yaml',
    text: `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
      .split('')
      .map((key, i) => `${key}: &${key} [${Array(9).fill(`*${'abcdefghij'[i]}`).join()}]`)
      .join('\n')}\nmcpServers: *j\n`,
    names: /laughs\.yaml:\d+/,
  },
  { what: 'an alias of itself', file: 'self.yaml', text: 'mcpServers: &a\n  x: *a\n', names: /self\.yaml:\d+/ },
  { what: 'an unknown alias', file: 'unknown.yaml', text: 'mcpServers: *nobody\n', names: /unknown\.yaml:1/ },
  {
    what: 'a tag that runs code',
    file: 'tag.yaml',
    text: `mcpServers: !!js/function "function(){ require('child_process').execSync('${touch('pwned')}') }"\n`,
    names: /tag\.yaml:1/,
  },
  {
    what: 'a Python tag',
    file: 'python.yaml',
    text: `mcpServers: !!python/object/apply:os.system ["${touch('pwned')}"]\n`,
    names: /python\.yaml:1/,
  },
  { what: 'a tag of one’s own', file: 'own.yaml', text: 'mcpServers: !include /etc/passwd\n', names: /own\.yaml:1/ },
  { what: 'a binary tag', file: 'bin.yaml', text: 'mcpServers: !!binary aGVsbG8=\n', names: /bin\.yaml:1/ },
  { what: 'two YAML documents', file: 'two.yaml', text: 'mcpServers: {}\n---\nmcpServers: {}\n', names: /two\.yaml/ },
  {
    what: 'a YAML merge key bomb',
    file: 'merge.yaml',
    text: 'a: &a {b: 1}\nmcpServers:\n  <<: [*a, *a]\n',
    names: /merge\.yaml:/,
  },
];

const VALUES: readonly Hostile[] = [
  { what: 'servers as an array', text: servers([good]), names: /mcpServers/ },
  { what: 'servers as text', text: servers('x'), names: /mcpServers/ },
  { what: 'a server as text', text: servers({ a: 'x' }), names: /a/ },
  { what: 'a server as null', text: servers({ a: null }), names: /trunkline\.json:\d+/ },
  { what: 'a typo', text: servers({ a: { comand: 'x' } }), names: /command/ },
  { what: 'a typo at the top', text: servers({ a: good }, { lisen: {} }), names: /listen/ },
  { what: 'command a number', text: servers({ a: { command: 7 } }), names: /command/ },
  { what: 'command empty', text: servers({ a: { command: '' } }), names: /command/ },
  { what: 'command with NUL', text: servers({ a: { command: 'tr\0ue' } }), names: /command/ },
  { what: 'args as text', text: servers({ a: { ...good, args: '-rf /' } }), names: /args/ },
  { what: 'args of objects', text: servers({ a: { ...good, args: [{}] } }), names: /args/ },
  { what: 'args with NUL', text: servers({ a: { ...good, args: ['a\0b'] } }), names: /argument/ },
  { what: 'env as a list', text: servers({ a: { ...good, env: ['A=b'] } }), names: /env/ },
  { what: 'a name of a variable with =', text: servers({ a: { ...good, env: { 'A=B': 'c' } } }), names: /env|A=B/ },
  { what: 'a value with NUL', text: servers({ a: { ...good, env: { A: 'b\0c' } } }), names: /env/ },
  { what: 'both url and command', text: servers({ a: { ...good, url: 'http://x/' } }), names: /url|command/ },
  { what: 'neither', text: servers({ a: {} }), names: /command/ },
  { what: 'an unknown type', text: servers({ a: { ...good, type: 'telnet' } }), names: /type|telnet/ },
  { what: 'timeout below zero', text: servers({ a: { ...good, timeoutMs: -1 } }), names: /timeoutMs/ },
  { what: 'timeout of 1e308', text: '{"mcpServers":{"a":{"command":"x","timeoutMs":1e308}}}', names: /timeoutMs/ },
  { what: 'timeout 1.5', text: servers({ a: { ...good, timeoutMs: 1.5 } }), names: /timeoutMs/ },
  { what: 'timeout as text', text: servers({ a: { ...good, timeoutMs: '60' } }), names: /timeoutMs/ },
  { what: 'port 70000', text: servers({ a: good }, { listen: { port: 70_000 } }), names: /port/ },
  { what: 'port -1', text: servers({ a: good }, { listen: { port: -1 } }), names: /port/ },
  { what: 'port as text', text: servers({ a: good }, { listen: { port: '80' } }), names: /port/ },
  {
    what: 'a host that is none',
    text: servers({ a: good }, { listen: { host: '127.0.0.1; rm -rf /' } }),
    names: /host/,
  },
  { what: 'a level that is none', text: servers({ a: good }, { log: { level: 'loud' } }), names: /level/ },
  { what: 'hosts of wrong type', text: servers({ a: good }, { listen: { allowedHosts: '*' } }), names: /allowedHosts/ },
  { what: 'every origin', text: servers({ a: good }, { listen: { allowedOrigins: ['*'] } }), names: /allowedOrigins/ },
  {
    what: 'the origin null',
    text: servers({ a: good }, { listen: { allowedOrigins: ['null'] } }),
    names: /allowedOrigins/,
  },
  {
    what: 'a proxy that is no address',
    text: servers({ a: good }, { listen: { trustedProxies: ['any'] } }),
    names: /trustedProxies/,
  },
  {
    what: 'an unset variable',
    text: servers({ a: { ...good, args: ['$' + '{NOT_SET_4711}'] } }),
    names: /NOT_SET_4711/,
  },
  { what: 'an unclosed reference', text: servers({ a: { ...good, args: ['$' + '{HOME'] } }), names: /args|HOME/ },
  { what: 'a reference that would run', text: servers({ a: { ...good, args: ['$' + '{cmd:id}'] } }), names: /cmd/ },
  {
    what: 'a file that is not there',
    text: servers({ a: { ...good, args: ['$' + '{file:/no/such}'] } }),
    names: /no\/such/,
  },
  { what: 'a device as file', text: servers({ a: { ...good, args: ['$' + '{file:/dev/zero}'] } }), names: /dev\/zero/ },
  { what: 'a key too short', text: servers({ a: good }, { agents: { x: { key: 'short' } } }), names: /key/ },
  {
    what: 'a key with line break',
    text: servers({ a: good }, { agents: { x: { key: 'long-enough-key\r\nX: y' } } }),
    names: /key/,
  },
  {
    what: 'two agents, one key',
    text: servers({ a: good }, { agents: { x: { key: 'k'.repeat(20) }, y: { key: 'k'.repeat(20) } } }),
    names: /same key/,
  },
  {
    what: 'an agent of no server',
    text: servers({ a: good }, { agents: { x: { key: 'k'.repeat(20), servers: ['b'] } } }),
    names: /"b"/,
  },
];

const URLS = [
  'ftp://x/',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'ws://x/',
  'http://',
  'http:///path',
  'x',
  '//x/y',
  'http://x:99999/',
  'http://[::1/',
  'http://x y/',
].map((url) => ({
  what: `the url ${url}`,
  text: servers({ a: { url } }),
  names: /url/,
}));
const HEADERS = [{ 'a b': 'x' }, { '': 'x' }, { 'x\r\ny': 'x' }, { a: 'b\r\nc: d' }, { a: 'b\0' }, { Host: {} }].map(
  (headers) => ({
    what: `headers ${JSON.stringify(headers)}`,
    text: servers({ a: { url: 'http://x/', headers } }),
    names: /header/i,
  }),
);
const NAMES = ['', ' ', '__', 'a'.repeat(1_000), '///', '..', '\u202e'].map((name) => ({
  what: `the name ${JSON.stringify(name.slice(0, 20))}`,
  text: servers({ [name]: good }),
  names: /name/i,
}));
const TWINS = [
  ['a', 'A'],
  ['a-b', 'a_b'],
  ['Files', 'files'],
].map(([one, two]) => ({
  what: `the twins ${one} and ${two}`,
  text: servers({ [one!]: good, [two!]: good }),
  names: new RegExp(`${one}|${two}`),
}));

async function allRefused(cases: readonly Hostile[]): Promise<void> {
  const faults: string[] = [];
  await threeAtATime(cases, async ({ what, file = 'trunkline.json', text, names }) => {
    const place = mkdtempSync(join(folder, 'case-'));
    writeFileSync(join(place, file), text);
    const { code, text: said, ms } = await trunkline(['check', join(place, file)]);
    if (code !== 1) faults.push(`${what}: exit code ${code}\n${said}`);
    else if (!names.test(said)) faults.push(`${what}: does not name ${names}\n${said}`);
    if (/internal error|\bat \S+ \(/.test(said)) faults.push(`${what}: a stack\n${said}`);
    if (ms > LIMIT_MS) faults.push(`${what}: ${ms} ms`);
    if (said.length > 20_000) faults.push(`${what}: ${said.length} characters`);
  });
  assert.deepEqual(faults, []);
  assert.ok(!existsSync(join(folder, 'pwned')), 'code from a file was run');
}

async function threeAtATime<T>(items: readonly T[], task: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const work = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await task(item);
  };
  await Promise.all([work(), work(), work()]);
}

test('config: hostile documents are refused with their position, in time, and nothing in them runs', () =>
  allRefused(SYNTAX));
test('config: wrong values are refused by name', () => allRefused([...VALUES, ...URLS, ...HEADERS]));
test('config: invalid names, and names equal to a client, are refused', () => allRefused([...NAMES, ...TWINS]));

test('config: paths that are not files, or files of 64 MiB, are refused at once', async () => {
  const big = join(folder, 'big.json');
  writeFileSync(big, '{"mcpServers":{}}');
  truncateSync(big, 64 * 1024 * 1024);
  await threeAtATime([big, '/dev/zero', '/dev/null', folder, join(folder, 'missing.json')], async (file) => {
    const { code, ms, text } = await trunkline(['check', file]);
    assert.equal(code, 1, `${file}: ${text}`);
    assert.ok(ms < LIMIT_MS, `${file}: ${ms} ms`);
  });
});

test('config: reading and checking run no command, ask nothing and open no port', async () => {
  const marker = join(folder, 'ran');
  const config = servers(
    {
      a: { command: 'touch', args: [marker] },
      b: { command: `touch ${marker}` },
      c: { command: 'sh', args: ['-c', `touch ${marker}`] },
    },
    { listen: { port: 1 } },
  );
  const file = join(folder, 'trunkline.json');
  writeFileSync(file, config);
  const { text } = await trunkline(['check', file]);
  assert.ok(!existsSync(marker), text);
});

test('config: the gateway does not start beyond loopback without agents and TLS, and names the remedy', async () => {
  const key = 'k'.repeat(24);
  const attempts: readonly (readonly [string, object, readonly string[]])[] = [
    ['0.0.0.0 by flag', {}, ['--host', '0.0.0.0']],
    [':: by flag', {}, ['--host', '::']],
    ['an address by flag', {}, ['--host', '192.0.2.1']],
    ['a mapped wildcard', {}, ['--host', '::ffff:0.0.0.0']],
    ['a name by flag', {}, ['--host', 'example.com']],
    ['0 by flag', {}, ['--host', '0']],
    ['0.0.0.0 in the file', { listen: { host: '0.0.0.0' } }, []],
    ['with agents but no TLS', { listen: { host: '0.0.0.0' }, agents: { x: { key } } }, []],
    [
      'with TLS but unknown callers',
      { listen: { host: '0.0.0.0' }, agents: { x: { key } }, unknownCallers: 'allow', tls: { cert: 'c', key: 'k' } },
      [],
    ],
    ['the control listener', { control: { host: '0.0.0.0' }, agents: { x: { key } } }, []],
  ];
  await threeAtATime(attempts, async ([what, settings, args]) => {
    const place = mkdtempSync(join(folder, 'bind-'));
    const file = join(place, 'open.json');
    writeFileSync(file, servers({ a: { ...good, enabled: false } }, settings));
    const common = ['--port', '0', '--control-port', '0', '--data-dir', join(place, 'data')];
    const { code, text, ms } = await trunkline([...common, ...args, file]);
    assert.equal(code, 1, `${what}: ${text}`);
    assert.match(text, /TL160[12]|agents|tls|--host/i, what);
    assert.ok(ms < LIMIT_MS, what);
  });
});
