import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadConfig } from '../load-config.ts';
import { renderProblem } from '../problem/problem.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-frames-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const KEY = 'ghp_0123456789abcdefABCDEF';
/** Definitions with a variable that is not set, so that the frame shows their line, and the secret in each. */
const SPELLINGS: readonly [
  definition: { readonly args?: readonly string[]; readonly [key: string]: unknown },
  secret: string,
][] = [
  [{ command: 'x', args: ['-e', 'GH_TOKEN=CanD01aaa', '${N}'] }, 'CanD01aaa'],
  [{ command: 'x', args: ['--header', 'X-Api-Key: CanD02aaa', '${N}'] }, 'CanD02aaa'],
  [{ command: 'x', args: ['-H', 'Cookie: CanD03aaa', '${N}'] }, 'CanD03aaa'],
  [{ command: 'x', args: ['postgresql://u:CanD04aaa@h', '${N}'] }, 'CanD04aaa'],
  [{ command: 'x', args: ['--github-pat', 'CanD05aaa', '${N}'] }, 'CanD05aaa'],
  [{ url: 'http://h/mcp?api_key=CanD06aaa&x=${N}' }, 'CanD06aaa'],
  [{ url: `http://h/s/${KEY}/mcp`, headers: { a: '${N}' } }, KEY],
  [{ command: 'x', env: { A: KEY, B: '${N}' } }, KEY],
  [{ command: 'x', args: ['-u', 'bob:CanD09aaa', '${N}'] }, 'CanD09aaa'],
  [{ command: 'x', args: ['{"apiKey":"CanD10aaa"}', '${N}'] }, 'CanD10aaa'],
  [{ command: 'x', args: ['--credentials', 'CanD11aaa', '${N}'] }, 'CanD11aaa'],
  [{ command: 'x', args: ['--key', 'CanD12aaa', '${N}'] }, 'CanD12aaa'],
  [{ command: 'bash', args: ['-c', 'TOKEN=CanD13aaa run ${N}'] }, 'CanD13aaa'],
  [{ url: 'http://h/mcp?token=CanD14aaa#f' }, 'CanD14aaa'],
  [{ command: 'x', env: { API_KEY: ['CanD15aaa'] } }, 'CanD15aaa'],
  [{ command: 'x', args: ['${API_TOKEN:-CanD16aaa}', '${N}'] }, 'CanD16aaa'],
];

async function load(name: string, text: string) {
  const file = join(folder, name);
  writeFileSync(file, text);
  return loadConfig({ files: [file], cwd: folder, env: {} });
}

test('security:5 check:A10 no code frame of a misconfigured server shows a secret, and the scrubber gets it', async () => {
  for (const [definition, secret] of SPELLINGS) {
    const json = JSON.stringify(definition);
    const command = 'command' in definition ? `command: ${definition.command}\n    ` : '';
    const args = json.includes('\\"') ? undefined : definition.args;
    const texts: readonly (readonly [string, string])[] = [
      ['a.json', `{"mcpServers":{"a":\n${json}\n}}`],
      ['a.yaml', `mcpServers:\n  a: ${json}\n`],
      ...(args !== undefined
        ? [
            [
              'b.yaml',
              `mcpServers:\n  a:\n    ${command}args:\n${args.map((arg) => `      - '${arg}'\n`).join('')}`,
            ] as const,
          ]
        : []),
    ];
    for (const [name, text] of texts) {
      const result = await load(name, text);
      assert.ok(result.ok, text);
      const { misconfigured, secrets, state } = result;
      const shown = misconfigured.map((problem) => renderProblem(problem)).join('\n');
      assert.match(shown, /^ +\d+ \| /m, text);
      assert.ok(!shown.includes(secret), shown);
      assert.ok(!JSON.stringify([...state.servers.values()]).includes(secret), text);
      assert.ok(secrets.includes(secret) || secret === 'CanD16aaa', `${text}: ${secrets}`);
    }
  }
});

test('security:5 check:A10 no code frame of an unreadable file shows a secret', async () => {
  for (const [definition, secret] of SPELLINGS) {
    const json = JSON.stringify(definition);
    for (const [name, text] of [
      ['c.json', `{"mcpServers":{"a":\n${json} "x"}}`],
      ['c.json', `{"mcpServers":{"a":\n${json.slice(0, json.indexOf(secret) + secret.length)}`],
      ['c.yaml', `mcpServers:\n  a: ${json} x\n`],
    ] as const) {
      const result = await load(name, text);
      assert.ok(!result.ok, text);
      const shown = result.problems.map((problem) => renderProblem(problem)).join('\n');
      assert.match(shown, /^ +\d+ \| /m, text);
      assert.ok(!shown.includes(secret), shown);
    }
  }
});

test('text beside a secret is shown: names, references, folders and the rest of an address', async () => {
  const args = ['-e', 'GH_TOKEN=${N}', '--root=/srv/2025-backup-01', 'postgresql://u:secretly@h/db', '--mode', 'fast'];
  const { misconfigured } = (await load(
    'd.json',
    `{"mcpServers":{"a":\n{"command":"x","args":${JSON.stringify(args)}}}}`,
  )) as {
    misconfigured: readonly { frame: string }[];
  };
  const stars = '*'.repeat('u:secretly'.length);
  const shown = JSON.stringify(args).replace('u:secretly', stars);
  assert.match(misconfigured[0]!.frame, /GH_TOKEN=\$\{N\}/);
  assert.ok(misconfigured[0]!.frame.includes(shown.slice(0, 70)), misconfigured[0]!.frame);
});
