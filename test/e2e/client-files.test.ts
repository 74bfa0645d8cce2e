import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { MANY_SIDED } from '../support/many-sided.ts';
import { said, startTrunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const NODE = process.execPath;
const TOKEN = 'token-of-the-test-12345';

/** A file as each client's users have it: one local server, `mine`, and one by URL, `web`, where the client has those. */
function samples(url: string): Readonly<Record<string, string>> {
  const local = { command: NODE, args: [MANY_SIDED] };
  const headers = { Authorization: 'Bearer ${TEST_TOKEN}' };
  const cursorHeaders = { Authorization: 'Bearer ${env:TEST_TOKEN}' };
  return {
    '.mcp.json': JSON.stringify({
      mcpServers: {
        mine: { ...local, env: { GIVEN: '${TEST_TOKEN:-none}' } },
        web: { type: 'http', url, headers },
      },
    }),
    'claude_desktop_config.json': JSON.stringify({
      mcpServers: { mine: { ...local, env: { GIVEN: TOKEN } } },
      globalShortcut: '',
    }),
    '.cursor/mcp.json': JSON.stringify({
      mcpServers: { mine: { ...local, env: { GIVEN: '${env:TEST_TOKEN}' } }, web: { url, headers: cursorHeaders } },
    }),
    '.vscode/mcp.json': `{
      // Comments and trailing commas are what people have.
      "inputs": [{ "type": "promptString", "id": "the-token", "description": "Token", "password": true }],
      "servers": {
        "mine": { "type": "stdio", "command": ${JSON.stringify(NODE)}, "args": [${JSON.stringify(MANY_SIDED)}],
          "env": { "GIVEN": "\${input:the-token}" } },
        "web": { "type": "http", "url": "${url}", "headers": { "Authorization": "Bearer \${input:the-token}" } },
      },
    }`,
    'windsurf/mcp_config.json': JSON.stringify({
      mcpServers: {
        mine: { ...local, env: { GIVEN: '${env:TEST_TOKEN}' }, disabledTools: ['grow'] },
        web: { serverUrl: url, headers: cursorHeaders },
      },
    }),
    '.gemini/settings.json': JSON.stringify({
      theme: 'Default',
      mcpServers: {
        mine: { ...local, env: { GIVEN: '$TEST_TOKEN' }, timeout: 30_000, trust: true, excludeTools: ['grow'] },
        web: { httpUrl: url, headers },
      },
    }),
    '.codex/config.toml': `model = "x"
[mcp_servers.mine]
command = ${JSON.stringify(NODE)}
args = [${JSON.stringify(MANY_SIDED)}]
env = { GIVEN = "${TOKEN}" }
startup_timeout_sec = 20
[mcp_servers.web]
url = "${url}"
bearer_token_env_var = "TEST_TOKEN"
`,
    'opencode.json': JSON.stringify({
      $schema: 'https://opencode.ai/config.json',
      mcp: {
        mine: { type: 'local', command: [NODE, MANY_SIDED], environment: { GIVEN: '{env:TEST_TOKEN}' }, enabled: true },
        web: { type: 'remote', url, headers: { Authorization: 'Bearer {env:TEST_TOKEN}' } },
      },
    }),
    'zed/settings.json': JSON.stringify({
      theme: 'One Dark',
      context_servers: { mine: { source: 'custom', ...local, env: { GIVEN: TOKEN } }, web: { url, headers } },
    }),
    'goose/config.yaml': `extensions:
  mine:
    type: stdio
    name: mine
    enabled: true
    cmd: ${NODE}
    args: ['${MANY_SIDED}']
    envs: { GIVEN: ${TOKEN} }
    timeout: 300
  web:
    type: streamable_http
    name: web
    enabled: true
    uri: ${url}
    headers: { Authorization: 'Bearer ${TOKEN}' }
`,
    'trunkline.yaml': `mcpServers:
  mine: { command: [${NODE}, ${MANY_SIDED}], env: { GIVEN: '\${file:./token}' } }
  web: { type: streamable-http, url: ${url}, headers: { Authorization: 'Bearer \${file:./token}' } }
`,
  };
}

test('S2.22 check:A1 the file of every client, unchanged: its servers run, with their secrets, under their names', async (t) => {
  const server = await StatefulServer.start();
  const root = mkdtempSync(join(tmpdir(), 'trunkline-files-'));
  t.after(async () => {
    await server.stop();
    rmSync(root, { recursive: true, force: true });
  });
  writeFileSync(join(root, 'token'), TOKEN);
  const files = Object.entries(samples(server.url));
  const check = async ([name, text]: [string, string], index: number): Promise<void> => {
    const file = join(root, `${index}`, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    writeFileSync(join(dirname(file), 'token'), TOKEN);
    const env = { TEST_TOKEN: TOKEN, TRUNKLINE_INPUT_THE_TOKEN: TOKEN };
    const data = join(root, `${index}`, 'data');
    const run = startTrunkline(['--json', '--port', '0', '--control-port', '0', '--data-dir', data, file], {
      cwd: root,
      env,
    });
    await said(run, '\n');
    const { mcpUrl, source } = JSON.parse(run.out.split('\n')[0]!) as { mcpUrl: string; source: string };
    assert.equal(source, join(`${index}`, name));
    const client = await WireClient.open(mcpUrl);
    assert.equal(await client.callText('mine__environment', { name: 'GIVEN' }), TOKEN, name);
    const names = await client.toolNames();
    assert.equal(names.includes('mine__grow'), !/disabledTools|excludeTools/.test(text), name);
    if (!name.startsWith('claude_desktop')) assert.equal(await client.callText('web__echo', { text: name }), name);
    run.process.kill('SIGTERM');
    assert.equal(await run.exited, 0);
    assert.ok(!run.err.includes(TOKEN), name);
  };
  for (let i = 0; i < files.length; i += 3) {
    await Promise.all(files.slice(i, i + 3).map((sample, j) => check(sample, i + j)));
  }
  for (const { headers } of server.stage.requests) assert.equal(headers['authorization'], `Bearer ${TOKEN}`);
});
