import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { revealed } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';
import { DEFAULTS } from '../defaults.ts';
import { type ConfigResult, loadConfig } from '../load-config.ts';

const FIXTURES = join(import.meta.dirname, '../../../test/fixtures/config');

const ENV = {
  HOME: '/home/me',
  GITHUB_TOKEN: 'ghp_0123456789abcdef',
  DB_PASSWORD: 'hunter2-${NOT_EXPANDED}',
  DOCS_API_KEY: 'docs-key-1234',
  TRUNKLINE_INPUT_PERPLEXITY_KEY: 'pplx-987654321',
  DB_CONNECTION_STRING: 'postgres://localhost/x',
  EXTERNAL_API_KEY: 'ext-key-1234',
  FIGMA_OAUTH_TOKEN: 'figd_123456',
  TRACE_TOKEN: 'trace-1234567',
  MY_TOKEN: 'my-token-123456',
  CI_KEY: 'ci-key-0123456789',
};

/** The configuration that a file gives, as JSON: only deviations from the defaults; the fixture's folder is `<dir>`. */
function shown(result: ConfigResult, dir: string): unknown {
  assert.ok(result.ok, result.ok ? '' : result.problems.map(({ code, message }) => `${code} ${message}`).join('\n'));
  const { servers, agents, files: _files, ...settings } = result.state;
  const text = JSON.stringify({
    servers: Object.fromEntries([...servers].map(([name, server]) => [name, brief(server)])),
    ...(agents.size === 0
      ? {}
      : {
          settings,
          agents: Object.fromEntries([...agents].map(([name, { servers: may }]) => [name, may && [...may]])),
        }),
    secrets: result.secrets,
    watched: result.watched,
    warnings: result.warnings.map(({ code, line, message }) => `${code}:${line} ${message}`),
  });
  return JSON.parse(text.replaceAll(dir, '<dir>'));
}

function brief(server: Server): Record<string, unknown> {
  const { transport, timeoutMs, toolTimeoutMs, retry, trusted, start, enabled, tools, limits, origin } = server;
  return {
    ...transport,
    ...('env' in transport ? { env: revealed(transport.env) } : {}),
    ...('headers' in transport ? { headers: revealed(transport.headers) } : {}),
    ...(timeoutMs === 60_000 ? {} : { timeoutMs }),
    ...(server.startupTimeoutMs === undefined ? {} : { startupTimeoutMs: server.startupTimeoutMs }),
    ...(toolTimeoutMs.size === 0 ? {} : { toolTimeoutMs: Object.fromEntries(toolTimeoutMs) }),
    ...(retry === 'never' ? {} : { retry, trusted }),
    ...(start === 'eager' ? {} : { start }),
    ...(enabled ? {} : { enabled }),
    ...(tools.include === null ? {} : { include: [...tools.include] }),
    ...(tools.exclude.size === 0 ? {} : { exclude: [...tools.exclude] }),
    ...(limits.maxProcesses === DEFAULTS.maxProcessesPerServer ? {} : { limits }),
    ...(server.isolation === null ? {} : { isolation: server.isolation, isolationHeader: server.isolationHeader }),
    at: `${origin.line}:${origin.column}`,
  };
}

const CASES: readonly [client: string, file: string, cwd?: string][] = [
  ['claude', '.mcp.json'],
  ['claude-user', '.claude.json', '/home/me/code/shop/src'],
  ['cursor', '.cursor/mcp.json'],
  ['vscode', '.vscode/mcp.json'],
  ['windsurf', 'mcp_config.json'],
  ['gemini', '.gemini/settings.json'],
  ['codex', '.codex/config.toml'],
  ['opencode', 'opencode.jsonc'],
  ['zed', 'zed/settings.json'],
  ['goose', 'goose/config.yaml'],
  ['cline', 'cline_mcp_settings.json'],
  ['roo', '.roo/mcp.json'],
  ['continue', '.continue/config.yaml'],
  ['copilot', '.copilot/mcp-config.json'],
  ['amp', '.config/amp/settings.json'],
  ['claude-local', '.claude.json', '/home/me/code/shop'],
  ['continue-hub', '.continue/config.yaml'],
  ['gemini-lists', '.gemini/settings.json'],
  ['goose-keys', 'goose/config.yaml'],
  ['librechat', 'librechat.yaml'],
  ['zed-extensions', 'zed/settings.json'],
  ['root-map', 'servers.json'],
  ['own', 'trunkline.yaml'],
];

for (const [client, file, cwd] of CASES) {
  test(`a file of ${client} is read like its client reads it check:A1 check:A10`, async () => {
    const dir = join(FIXTURES, client);
    const result = await loadConfig({ files: [join(dir, file)], cwd: cwd ?? dir, env: ENV });
    const golden = join(FIXTURES, `${client}.golden.json`);
    assert.deepEqual(shown(result, dir), JSON.parse(readFileSync(golden, 'utf8')));
  });
}

test('null in a file of a client is a value that is not set, and an error in our own', async () => {
  const server = { command: 'x', args: null, env: { A: '1', B: null }, cwd: null, timeout: null, url: null };
  const load = (label: string, content: object) =>
    loadConfig({ inline: [{ label, text: JSON.stringify(content) }], cwd: '/srv', env: ENV, strict: true });
  const read = await load('/srv/.cursor/mcp.json', { mcpServers: { one: server } });
  assert.ok(read.ok, JSON.stringify(read));
  const { transport } = read.state.servers.get('one')!;
  assert.ok(transport.type === 'stdio');
  assert.deepEqual([transport.args, { ...revealed(transport.env) }], [[], { A: '1' }]);
  const own = await load('/srv/trunkline.json', { mcpServers: { one: { command: 'x', args: null, cwd: null } } });
  assert.ok(!own.ok);
  assert.deepEqual(
    own.problems.map(({ code }) => code),
    ['TL1302', 'TL1302'],
  );
});

test('npx trunkline@1.2.3 stdio is this gateway, and a server with another program is not', async () => {
  const mcpServers = {
    versioned: { command: 'npx', args: ['-y', 'trunkline@1.2.3', 'stdio'] },
    latest: { command: 'npx', args: ['trunkline@latest', 'stdio', 'a.json'] },
    other: { command: 'npx', args: ['trunkline-tools@1.2.3', 'stdio'] },
    scoped: { command: 'npx', args: ['@trunkline/x@1', 'stdio'] },
  };
  const text = JSON.stringify({ mcpServers });
  const loaded = await loadConfig({ inline: [{ label: '/srv/.mcp.json', text }], cwd: '/srv', env: ENV });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  assert.deepEqual([...loaded.state.servers.keys()], ['other', 'scoped']);
});
