import assert from 'node:assert/strict';
import { test } from 'node:test';
import { result } from '../compose.ts';
import {
  discoverRequest,
  discoverResult,
  handshakeFromDiscover,
  handshakeFromInitialize,
} from '../handshake-results.ts';

const INITIALIZE =
  '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"tasks":{"list":{}}},' +
  '"serverInfo":{"name":"s","version":"1.0"},"instructions":"do","_meta":{"v/t":1},"vendor":-0}';
const DISCOVER =
  '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public",' +
  '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"2"}},"vendor":1.0}';

test('the request has the client’s own bytes', () => {
  const client = { capabilities: '{"roots":{},"tasks":{"list":{}},"v":1.0}', info: '{"name":"é","version":"1"}' };
  assert.equal(
    discoverRequest('7', client).bytes.toString(),
    '{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
      '"io.modelcontextprotocol/clientCapabilities":{"roots":{},"v":1.0},"io.modelcontextprotocol/clientInfo":{"name":"é","version":"1"}}}}',
  );
  const unnamed = discoverRequest('7', { capabilities: '{}', info: null });
  assert.ok(!unnamed.bytes.includes('clientInfo'));
});

test('a handshake result keeps the answer whole and its parts as written', () => {
  const handshake = handshakeFromDiscover(result('1', DISCOVER, 'stateless'));
  assert.deepEqual(
    { ...handshake, result: handshake.result.toString() },
    {
      era: 'stateless',
      revision: '2026-07-28',
      result: DISCOVER,
      serverInfo: '{"name":"m","version":"2"}',
      capabilities: '{"tools":{}}',
      instructions: null,
    },
  );
});

test('a stateless server is presented as it is, except for what is overridden', () => {
  const handshake = handshakeFromDiscover(result('1', DISCOVER, 'stateless'));
  assert.equal(discoverResult(handshake).toString(), DISCOVER);
  const overrides = {
    ttlMs: 5,
    cacheScope: 'private',
    supportedVersions: ['2026-07-28', 'x'],
    instructions: 'say "hi"',
  } as const;
  assert.equal(
    discoverResult(handshake, { ...overrides, serverInfo: '{"name":"g"}', capabilities: '{}' }).toString(),
    '{"instructions":"say \\"hi\\"","resultType":"complete","supportedVersions":["2026-07-28","x"],"capabilities":{},"ttlMs":5,"cacheScope":"private",' +
      '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"g"}},"vendor":1.0}',
  );
});

test('a stateful server is presented in the words of server/discover, its unknown fields kept', () => {
  const handshake = handshakeFromInitialize(result('1', INITIALIZE, 'stateful'));
  assert.equal(
    discoverResult(handshake).toString(),
    '{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",' +
      '"capabilities":{"tools":{"listChanged":true}},"instructions":"do",' +
      '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"},"v/t":1},"vendor":-0}',
  );
});
