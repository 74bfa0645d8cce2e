import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CountedTool, clientViews, estimatedTokens } from './client-views.ts';

const tool = (exposedName: string, tokens = 100): CountedTool => ({ server: 'files', exposedName, tokens });

test('each client has its own prefix and its own handling of names that are too long', () => {
  const names = (tools: readonly CountedTool[], gateway: string) =>
    clientViews(tools, gateway, null).map(({ client, tools: [first] }) => [
      client,
      first!.shown,
      first!.length,
      first!.beyond,
    ]);
  assert.deepEqual(names([tool('files__read-it')], 'tl'), [
    ['claude-code', 'mcp__tl__files__read-it', 23, null],
    ['codex', 'mcp__tl__files__read_it', 23, null],
    ['cursor', 'files__read-it', 16, null],
    ['gemini', 'mcp_tl_files__read-it', 21, null],
    ['vscode', 'mcp_tl_files__read-it', 21, null],
    ['opencode', 'tl_files__read-it', 17, null],
  ]);
  const long = tool(`files__${'x'.repeat(41)}`);
  assert.deepEqual(
    names([long], 'our.long-gateway-name').map(([client, , length, beyond]) => [client, length, beyond]),
    [
      ['claude-code', 76, 'refused'],
      ['codex', 76, 'shortened'],
      ['cursor', 69, 'dropped'],
      ['gemini', 74, 'shortened'],
      ['vscode', 66, 'shortened'],
      ['opencode', 70, 'refused'],
    ],
  );
});

test('a tool that a client leaves out costs nothing, and Claude Code defers tools that exceed its budget', () => {
  const tools = [tool('files__a', 15_000), tool('files__b', 6_000), tool(`files__${'x'.repeat(60)}`, 1_000)];
  const [claude] = clientViews(tools, 'tl', 'claude-code');
  assert.deepEqual([claude!.offered, claude!.tokens, claude!.deferred], [2, 21_000, true]);
  assert.equal(clientViews(tools.slice(0, 1), 'tl', 'claude-code')[0]!.deferred, false);
  assert.equal(clientViews(tools, 'tl', 'codex')[0]!.tokens, 22_000);
  assert.deepEqual(clientViews(tools, 'tl', 'none'), []);
  assert.equal(estimatedTokens(9), 3);
});
