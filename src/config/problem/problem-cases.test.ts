import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type LoadOptions, loadConfig } from '../load-config.ts';
import { renderProblem } from './problem.ts';
import { PROBLEMS, type ProblemCode } from './problem-catalogue.ts';

interface Case {
  readonly code: ProblemCode;
  readonly file: string;
  readonly text: string | Buffer;
  readonly options?: Partial<LoadOptions>;
}

function json(code: ProblemCode, text: string | Buffer, options?: Partial<LoadOptions>): Case {
  return { code, file: 'trunkline.json', text, ...(options === undefined ? {} : { options }) };
}

function server(code: ProblemCode, definition: string): Case {
  return json(code, `{\n  "mcpServers": {\n    "one": ${definition}\n  }\n}`);
}

function top(code: ProblemCode, members: string): Case {
  return json(code, `{\n  "mcpServers": { "memory": { "command": "m" } },\n  ${members}\n}`);
}

const KEY = '0123456789abcdef';

/** In the order of the golden file, which has the exact text that each one prints. */
const CASES: readonly Case[] = [
  json('TL1001', '', { files: ['missing.json'] }),
  json('TL1002', '', { files: ['folder'] }),
  json('TL1003', ' '.repeat(4 * 1024 * 1024 + 1)),
  json('TL1004', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
  json('TL1004', '{"a\u0000": 1}'),
  json('TL1005', '  \n'),
  { code: 'TL1005', file: 'trunkline.toml', text: '' },
  json('TL1005', '["mcpServers"]'),
  { code: 'TL1005', file: 'trunkline.yaml', text: '# nothing\n' },
  json('TL1101', '{\n  "mcpServers": {\n    "one": { "command": "x" "args": [] }\n  }\n}'),
  json('TL1101', '{ "mcpServers": { "one": { "env": { "API_TOKEN": "sk-do-not-show-this" '),
  { code: 'TL1101', file: 'trunkline.yaml', text: 'mcpServers:\n  one:\n    command: x\n   args: []\n' },
  { code: 'TL1101', file: 'trunkline.yaml', text: 'mcpServers: {}\n---\nmcpServers: {}\n' },
  { code: 'TL1101', file: 'trunkline.toml', text: '[mcp_servers.one]\ncommand = npx\n' },
  json('TL1102', `{"a":${'['.repeat(70)}`),
  { code: 'TL1102', file: 'trunkline.yaml', text: `a: ${'['.repeat(70)}\n` },
  { code: 'TL1102', file: 'trunkline.toml', text: `a = ${'['.repeat(70)}\n` },
  server('TL1103', '{ "command": "a",\n             "command": "b" }'),
  { code: 'TL1103', file: 'trunkline.yaml', text: 'mcpServers:\n  one: { command: a }\n  one: { command: b }\n' },
  {
    code: 'TL1103',
    file: 'trunkline.toml',
    text: '[mcp_servers.one]\ncommand = "a"\n[mcp_servers.one]\ncommand = "b"\n',
  },
  { code: 'TL1104', file: 'trunkline.yaml', text: 'mcpServers:\n  one: { command: !!js/function "function(){}" }\n' },
  { code: 'TL1105', file: 'trunkline.yaml', text: 'mcpServers: { one: *nowhere }\n' },
  { code: 'TL1105', file: 'trunkline.yaml', text: 'mcpServers: &all\n  one: *all\n' },
  {
    code: 'TL1105',
    file: 'trunkline.yaml',
    text: `mcpServers:\n  one:\n    command: x\n    args:\n${Array.from({ length: 12 }, (_, i) => `      - &a${i} [${i ? `*a${i - 1}, `.repeat(10) : 'lol'}]\n`).join('')}`,
  },
  server('TL1201', '{ "command": "x", "args": ["${not a name}"] }'),
  server('TL1201', '{ "command": "x", "args": ["--a=${HOME"] }'),
  server('TL1202', '{ "command": "x", "env": { "A": "${evn:HOME}" } }'),
  server('TL1203', '{ "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer ${GITHUB_TOKEN}" } }'),
  {
    code: 'TL1203',
    file: '.codex.toml',
    text: '[mcp_servers.one]\nurl = "https://x.example/"\nbearer_token_env_var = "FIGMA"\n',
  },
  {
    code: 'TL1303',
    file: '.codex.toml',
    text: '[mcp_servers.one]\nurl = "https://x.example/"\nbearer_token_env_var = "ghp_abcdEFGH12345678"\n',
  },
  server('TL1204', '{ "command": "x", "env": { "K": "${input:api-key}" } }'),
  server('TL1205', '{ "command": "x", "env": { "K": "${file:missing.txt}" } }'),
  server('TL1205', '{ "command": "x", "envFile": "missing.env" }'),
  server('TL1206', '{ "command": "x", "envFile": "bad.env" }'),
  server('TL1207', '{ "command": "x", "args": ["a\\u0000b"] }'),
  server('TL1208', '{ "command": "x", "env": { "K": "${secret:api-key}" } }'),
  server('TL1301', '{ "comand": "x" }'),
  top('TL1301', '"lisen": { "port": 1 }'),
  { code: 'TL1301', file: '.mcp.json', text: '{\n  "mcpServers": { "one": { "command": "x", "comment": "mine" } }\n}' },
  server('TL1302', '{ "command": "x", "timeoutMs": "30000" }'),
  server('TL1302', '"npx"'),
  server('TL1302', '{ "command": 5 }'),
  server('TL1303', '{ "command": "x", "retry": "allways" }'),
  server('TL1303', '{ "command": "x", "timeoutMs": 0 }'),
  top('TL1303', '"listen": { "port": 70000 }'),
  top('TL1304', `"agents": { "ci": { "servers": [] } }`),
  server('TL1304', '{ "url": "https://x.example/", "tls": { "cert": "cert.pem" } }'),
  top('TL1305', '"endpoints": { "one": {} }'),
  server('TL1306', '{ "command": "x", "url": "https://x.example/" }'),
  server('TL1306', '{ "command": "x", "enabled": true, "disabled": true }'),
  server('TL1306', '{ "command": "x", "retry": "hints" }'),
  server('TL1307', '{ "command": "x", "headers": { "A": "b" } }'),
  { code: 'TL1308', file: 'servers.json', text: '{\n  "mcpServers": { "one": { "command": "x", "timeout": 30 } }\n}' },
  server('TL1307', '{ "command": "x", "auth": { "per": "principal" } }'),
  server(
    'TL1307',
    '{ "url": "https://example.com/mcp", "headers": { "Authorization": "${KEY:-x}" }, "auth": { "per": "principal" } }',
  ),
  server('TL1309', '{ "command": "npx -y pkg" }'),
  server('TL1310', '{ "command": "x", "args": ["--root=~/notes"] }'),
  server('TL1312', '{ "command": "x", "env": { "API_KEY": "YOUR_API_KEY" } }'),
  server('TL1311', '{ "url": "https://example.com/mcp", "auth": { "grant": "client_credentials", "clientId": "x" } }'),
  server('TL1311', '{ "url": "https://example.com/mcp", "auth": { "issuer": "auth.example.com" } }'),
  server('TL1303', '{ "url": "https://example.com/mcp", "auth": { "grant": "client_credential", "clientId": "x" } }'),
  { code: 'TL1401', file: '.mcp.json', text: '{\n  "mcpServer": { "one": { "command": "x" } }\n}' },
  json('TL1402', '{\n  "mcpServers": { "my server": { "command": "x" } }\n}'),
  { code: 'TL1403', file: '.mcp.json', text: '{\n  "mcpServers": { "my server": { "command": "x" } }\n}' },
  json('TL1404', '{\n  "mcpServers": { "my_server": { "command": "x" },\n    "My-Server": { "command": "y" } }\n}'),
  server('TL1405', '{ "type": "grpc", "url": "https://x.example/" }'),
  server('TL1406', '{ "type": "stdio", "args": ["-y"] }'),
  json('TL1406', '', { files: [], argvCommand: [] }),
  server('TL1407', '{ "type": "streamable-http" }'),
  server('TL1408', '{ "url": "localhost:3000/mcp" }'),
  server('TL1408', '{ "url": "ftp://x.example/" }'),
  server('TL1408', '{ "url": "https://me:secret-pass@x.example/" }'),
  server('TL1409', '{ "description": "nothing" }'),
  { code: 'TL1409', file: '.mcp.json', text: '{\n  "mcpServers": { "one": { "comand": "npx", "args": ["-y"] } }\n}' },
  server('TL1410', '{ "url": "https://example.com/mcp", "forwardHeaders": { "Cookie": "Cookie" } }'),
  server('TL1410', '{ "url": "https://x.example/", "headers": { "Traceparent": "00-1-2-01" } }'),
  server('TL1410', '{ "url": "https://x.example/", "headers": { "X Y": "b" } }'),
  server('TL1410', '{ "url": "https://x.example/", "headers": { "X-A": "a\\r\\nEvil: 1" } }'),
  server('TL1411', '{ "url": "https://x.example/", "tls": { "ca": "bad.env" } }'),
  server('TL1412', '{ "command": "m", "ssh": "-oProxyCommand=x" }'),
  server('TL1412', '{ "command": "m", "ssh": { "host": "h", "user": "-l" } }'),
  server('TL1413', '{ "docker": { "image": "a", "container": "b" } }'),
  server('TL1413', '{ "docker": { "image": "../x" } }'),
  {
    code: 'TL1414',
    file: 'librechat.yaml',
    text: 'mcpServers:\n  one: { type: websocket, url: "ws://localhost:1/" }\n',
  },
  top('TL1501', '"agents": { "ci": { "key": "short" } }'),
  top('TL1502', `"agents": { "a": { "key": "${KEY}" }, "b": { "key": "${KEY}" } }`),
  top('TL1503', `"agents": { "a": { "key": "${KEY}", "servers": ["memroy"] } }`),
  top('TL1601', '"listen": { "host": "0.0.0.0" }'),
  json('TL1601', '{ "mcpServers": {} }', { overrides: { host: '::' } }),
  top('TL1602', '"listen": { "host": "300.1.2.3" }'),
  top('TL1602', '"listen": { "trustedProxies": ["10.0.0.0/64"] }'),
  top('TL1603', '"control": { "port": 4270 }'),
  top('TL1701', '"cluster": { "nats": "nats://127.0.0.1:4222", "secret": "too short" }'),
  top(
    'TL1702',
    '"cluster": { "nats": ["http://127.0.0.1:4222"], "secret": "0123456789abcdef0123456789abcdef", "user": "ann" }',
  ),
  top(
    'TL1703',
    '"cluster": { "nats": "tls://nats:4222", "secret": "0123456789abcdef0123456789abcdef", "publicPrincipal": "ann" }',
  ),
  top(
    'TL1704',
    '"cluster": { "nats": "tls://nats:4222", "secret": "0123456789abcdef0123456789abcdef", "store": "mysql://u:geheim@db/x" }',
  ),
];

const GOLDEN = join(import.meta.dirname, '../../../test/fixtures/config/problems.golden.txt');
let folder = '';

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-config-'));
  mkdirSync(join(folder, 'folder'));
  writeFileSync(join(folder, 'bad.env'), 'GOOD=1\nsecret without equals\n');
  writeFileSync(join(folder, 'cert.pem'), '-----BEGIN CERTIFICATE-----\n');
});

after(() => rmSync(folder, { recursive: true }));

async function rendered({ code, file, text, options }: Case): Promise<string> {
  writeFileSync(join(folder, file), text);
  const result = await loadConfig({ files: [file], cwd: folder, env: { HOME: '/home/me' }, strict: true, ...options });
  const all = [...(result.ok ? [] : result.problems), ...result.warnings];
  const kind = result.ok ? 'accepted' : 'refused';
  assert.ok(
    all.some((problem) => problem.code === code),
    `${code} expected, got ${all.map((problem) => `${problem.code} ${problem.message}`).join('\n')}`,
  );
  const shown = all.map((problem) => renderProblem(problem, folder)).join('\n');
  return `${kind}\n${shown.replaceAll(folder, '<dir>')}`;
}

test('every problem is printed with code, place, frame and fix S3.14 S2.22 check:A1 check:A10', async () => {
  const expected = readFileSync(GOLDEN, 'utf8').split('\n\n');
  for (const [index, one] of CASES.entries()) assert.equal(await rendered(one), expected[index]?.trimEnd());
  assert.equal(expected.length, CASES.length);
});

test('every code of the catalogue has a case', () => {
  // TL1705 does not come from the files: test/cluster/named-clusters.test.ts.
  const covered = new Set<string>([...CASES.map(({ code }) => code), 'TL1705']);
  assert.deepEqual(
    Object.keys(PROBLEMS).filter((code) => !covered.has(code)),
    [],
  );
});

test('the documentation has exactly the codes of the catalogue, with their meaning', () => {
  const text = readFileSync(join(import.meta.dirname, '../../../docs/config-errors.md'), 'utf8');
  const documented = [...text.matchAll(/^\| (TL\d+) \| (.+?)(?:<br>.*)? \|$/gm)].map(([, code, meaning]) => [
    code,
    meaning,
  ]);
  assert.deepEqual(
    documented,
    Object.entries(PROBLEMS).map(([code, { meaning }]) => [code, meaning]),
  );
});
