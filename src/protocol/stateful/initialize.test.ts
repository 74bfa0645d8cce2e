import assert from 'node:assert/strict';
import { test } from 'node:test';
import { result } from '../compose.ts';
import {
  handshakeFromDiscover,
  handshakeFromInitialize,
  initializeRequest,
  initializeResult,
} from '../handshake-results.ts';

const INITIALIZE =
  '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true,"x":1.0},"tasks":{}},' +
  '"serverInfo":{"name":"s","version":"1.0","icons":[]},"instructions":"do\\n so","vendor":-0}';
const DISCOVER =
  '{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{},"v/x":{}}},' +
  '"instructions":"i","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"2"},"v/trace":1E400},"vendor":12345678901234567890}';

test('S2.20 the request has the client’s own bytes', () => {
  const client = { capabilities: '{"roots":{"listChanged":true},"v":1.0}', info: '{"name":"é","version":"1"}' };
  assert.equal(
    initializeRequest('7', client, '2025-11-25').bytes.toString(),
    '{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25",' +
      '"capabilities":{"roots":{"listChanged":true},"v":1.0},"clientInfo":{"name":"é","version":"1"}}}',
  );
  const unnamed = initializeRequest('"a"', { capabilities: '{}', info: null }, '2025-03-26');
  assert.deepEqual(JSON.parse(unnamed.body.toString()).clientInfo, { name: 'unknown', version: '0' });
});

test('S2.20 S4.1 a handshake result keeps the answer whole and its parts as written', () => {
  const handshake = handshakeFromInitialize(result('1', INITIALIZE, 'stateful'));
  assert.deepEqual(
    { ...handshake, result: handshake.result.toString() },
    {
      era: 'stateful',
      revision: '2025-06-18',
      result: INITIALIZE,
      serverInfo: '{"name":"s","version":"1.0","icons":[]}',
      capabilities: '{"tools":{"listChanged":true,"x":1.0},"tasks":{}}',
      instructions: 'do\n so',
    },
  );
  const bare = handshakeFromInitialize(result('1', '{"capabilities":[]}', 'stateful'));
  assert.deepEqual([bare.revision, bare.capabilities, bare.serverInfo, bare.instructions], ['', '{}', null, null]);
});

test('parts of a handshake that are no valid JSON are left out, because lists join those of many servers', () => {
  const odd = '{"capabilities":{"x":NaN,"tools":{}},"serverInfo":{"name":"odd","x":"\\x41","y":[1,],"z":1,}}';
  const { serverInfo, capabilities } = handshakeFromInitialize(result('1', odd, 'stateful'));
  assert.deepEqual([serverInfo, capabilities], ['{"name":"odd","z":1}', '{"tools":{}}']);
});

test('S2.20 S4.1 a stateful server is presented under the revision agreed with the client, all else unchanged', () => {
  const handshake = handshakeFromInitialize(result('1', INITIALIZE, 'stateful'));
  assert.equal(initializeResult(handshake, '2024-11-05').toString(), INITIALIZE.replace('2025-06-18', '2024-11-05'));
});

test('S2.20 a stateless server is presented in the form of an initialize result, its unknown fields kept', () => {
  const handshake = handshakeFromDiscover(result('1', DISCOVER, 'stateless'));
  assert.equal(
    initializeResult(handshake, '2025-11-25').toString(),
    '{"protocolVersion":"2025-11-25","serverInfo":{"name":"m","version":"2"},"capabilities":{"experimental":{"v/x":{}},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"tools":{},"extensions":{"v/x":{}}},' +
      '"instructions":"i","_meta":{"v/trace":1E400},"vendor":12345678901234567890}',
  );
});

test('the extensions of a stateless server join what it has under experimental, however many there are', {
  timeout: 30_000,
}, async () => {
  const capabilities = (experimental: string, extensions: string): string => {
    const said = `{"supportedVersions":["2026-07-28"],"capabilities":{"experimental":${experimental},"extensions":${extensions}}}`;
    const shown = initializeResult(handshakeFromDiscover(result('1', said, 'stateless')), '2025-11-25').toString();
    return /"experimental":(.*),"extensions"/.exec(shown)![1]!;
  };
  assert.equal(capabilities('{"b":1,"c\\u0064":2}', '{"a":1.0,"b":2,"cd":3}'), '{"a":1.0,"b":1,"c\\u0064":2}');
  assert.equal(capabilities('{ }', '{"a":{},"b":{}}'), '{"a":{},"b":{} }');
  assert.equal(capabilities('[]', '{"a":{}}'), '{"a":{}}');
  const many = (prefix: string) => Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`${prefix}${i}`, {}]));
  const joined = JSON.parse(capabilities(JSON.stringify(many('x')), JSON.stringify(many('y'))));
  assert.equal(Object.keys(joined).length, 100_000);
  // The time limit can end the test only after a turn of the event loop.
  await new Promise((go) => setTimeout(go, 1));
});
