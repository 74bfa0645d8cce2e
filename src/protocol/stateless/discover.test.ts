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

test('a stateless server is presented as it is, except for the freshness and the versions, which are those of the gateway', () => {
  const ofServer = DISCOVER.replace('["2026-07-28"]', '["2026-07-28","x"]');
  const handshake = handshakeFromDiscover(result('1', ofServer, 'stateless'));
  assert.equal(discoverResult(handshake, { ttlMs: 60000, cacheScope: 'public' }).toString(), DISCOVER);
  assert.equal(
    discoverResult(handshake, { ttlMs: 5, cacheScope: 'private' }).toString(),
    DISCOVER.replace('"ttlMs":60000,"cacheScope":"public"', '"ttlMs":5,"cacheScope":"private"'),
  );
});

test('a stateful server is presented in the form of a server/discover result, its unknown fields kept', () => {
  const handshake = handshakeFromInitialize(result('1', INITIALIZE, 'stateful'));
  assert.equal(
    discoverResult(handshake, { ttlMs: 7, cacheScope: 'private' }).toString(),
    '{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":7,"cacheScope":"private",' +
      '"capabilities":{"tools":{"listChanged":true}},"instructions":"do",' +
      '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"},"v/t":1},"vendor":-0}',
  );
});
