import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { classify, classifyBodyless, type Inbound, isRejection, type Rejection, rejectScan } from './classify.ts';
import type { WireHeaders } from './headers.ts';
import { isScanFailure, scanMessage } from './scan.ts';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const META = { [VERSION]: '2026-07-28', [CAPABILITIES]: {} };

function inbound(headers: WireHeaders, body: unknown): Inbound {
  const message = scanMessage(Buffer.from(JSON.stringify(body)), 'stateful', 'strict');
  assert.ok(!isScanFailure(message));
  return classify(headers, message);
}

function request(method: string, params: object | undefined, headers: WireHeaders = {}): Inbound {
  return inbound(headers, { jsonrpc: '2.0', id: 'r-1', method, ...(params === undefined ? {} : { params }) });
}

/** A well-formed stateless request, with the given things changed. */
function stateless(method: string, params: object, headers: WireHeaders = {}): Inbound {
  const all = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...headers };
  return request(method, { _meta: META, ...params }, all);
}

function rejected(
  result: Inbound,
  status: number,
  code: number,
): { id?: unknown; error: { data?: unknown; message: string } } {
  assert.ok(isRejection(result), 'the message was accepted');
  const answer = JSON.parse((result as Rejection).answer.bytes.toString());
  assert.deepEqual([result.reject, answer.error.code], [status, code], answer.error.message);
  return answer;
}

function passed(result: Inbound, era: 'stateful' | 'stateless'): void {
  assert.ok(!isRejection(result), isRejection(result) ? result.answer.bytes.toString() : '');
  assert.deepEqual([result.era, result.message.era], [era, era]);
}

describe('sessions of 2025-11-25 and before', () => {
  test('S2.20 S4.1 requests without a revision are stateful, with or without the version header', () => {
    passed(request('initialize', { protocolVersion: '2025-11-25' }), 'stateful');
    passed(
      request('initialize', { protocolVersion: '2026-07-28' }, { 'mcp-protocol-version': '2026-07-28' }),
      'stateful',
    );
    passed(request('tools/list', {}, { 'mcp-session-id': 's' }), 'stateful');
    passed(request('tools/list', undefined), 'stateful');
    for (const revision of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      const result = request('tools/list', {}, { 'mcp-session-id': 's', 'mcp-protocol-version': revision });
      passed(result, 'stateful');
      assert.ok('sessionId' in result);
      assert.deepEqual([result.sessionId, result.revision], ['s', revision]);
    }
    passed(inbound({ 'mcp-session-id': 's' }, { jsonrpc: '2.0', id: 1, result: {} }), 'stateful');
    passed(inbound({}, { jsonrpc: '2.0', method: 'notifications/initialized' }), 'stateful');
    passed(request('server/discover', {}, { 'mcp-protocol-version': '2025-11-25' }), 'stateful');
    const named = { _meta: { [VERSION]: '2025-11-25' } };
    passed(request('tools/list', named, { 'mcp-session-id': 's' }), 'stateful');
    passed(request('initialize', named), 'stateful');
    passed(request('tools/call', { name: 'x' }, { 'mcp-method': 'wrong', 'mcp-name': 'wrong' }), 'stateful');
  });

  test('S4.1 an unknown version in the header is refused', () => {
    rejected(request('tools/list', {}, { 'mcp-session-id': 's', 'mcp-protocol-version': '1999-01-01' }), 400, -32022);
  });

  test('GET and DELETE belong to sessions; proto:H8 405 in 2026-07-28', () => {
    const get = classifyBodyless({ 'mcp-session-id': 's' });
    assert.deepEqual(get, { era: 'stateful', revision: null, sessionId: 's' });
    const stateless = classifyBodyless({ 'mcp-protocol-version': '2026-07-28' });
    assert.ok('reject' in stateless && stateless.reject === 405);
    const unknown = classifyBodyless({ 'mcp-protocol-version': 'x' });
    assert.ok('reject' in unknown && unknown.reject === 400);
  });
});

describe('requests of 2026-07-28', () => {
  test('a well-formed request passes, with the capabilities and info of the client as written', () => {
    const result = request(
      'tools/call',
      {
        name: 'get',
        _meta: {
          ...META,
          [CAPABILITIES]: { roots: {} },
          'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
          'io.modelcontextprotocol/logLevel': 'info',
        },
      },
      {
        'mcp-protocol-version': ' 2026-07-28 ',
        'mcp-method': 'tools/call',
        'mcp-name': '\tget ',
        'mcp-session-id': 'ignored',
      },
    );
    passed(result, 'stateless');
    const { capabilities, info, logLevel, revision } = result as Extract<Inbound, { capabilities: string }>;
    assert.deepEqual(
      [capabilities, info, logLevel, revision],
      ['{"roots":{}}', '{"name":"c","version":"1"}', 'info', '2026-07-28'],
    );
    assert.ok(!('sessionId' in result));
    passed(stateless('tools/list', {}), 'stateless');
    passed(stateless('prompts/get', { name: 'größe' }, { 'mcp-name': '=?base64?Z3LDtsOfZQ==?=' }), 'stateless');
    passed(stateless('resources/read', { uri: 'file:///a' }, { 'mcp-name': 'file:///a' }), 'stateless');
    passed(stateless('vendor/method', {}), 'stateless');
  });

  test('proto:H8 missing members of `_meta` are answered with 400 and -32602, and the id is echoed', () => {
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' };
    const missing = [
      undefined,
      {},
      { _meta: {} },
      { _meta: { [CAPABILITIES]: {} } },
      { _meta: { [VERSION]: '2026-07-28' } },
    ];
    const wrong = [{ _meta: { [VERSION]: 5 } }, { _meta: { ...META, [CAPABILITIES]: [] } }, { _meta: [] }];
    const odd = [
      { _meta: { ...META, 'io.modelcontextprotocol/clientInfo': 'x' } },
      { _meta: { ...META, 'io.modelcontextprotocol/logLevel': 'loud' } },
    ];
    for (const params of [...missing, ...wrong, ...odd]) {
      assert.equal(rejected(request('server/discover', params, headers), 400, -32602).id, 'r-1');
    }
    rejected(request('server/discover', {}), 400, -32602);
  });

  test('proto:H8 an unsupported version is 400 and -32022 with the supported and the requested versions', () => {
    const params = { _meta: { ...META, [VERSION]: 'v999.0.0' } };
    const answer = rejected(
      request('server/discover', params, { 'mcp-protocol-version': 'v999.0.0', 'mcp-method': 'server/discover' }),
      400,
      -32022,
    );
    assert.deepEqual(answer.error.data, { supported: ['2026-07-28'], requested: 'v999.0.0' });
    rejected(request('tools/list', { _meta: { ...META, [VERSION]: '2025-11-25' } }), 400, -32022);
  });

  test('a requested version that is cut within a surrogate pair is echoed well formed', () => {
    const version = `${'x'.repeat(127)}😀`;
    const params = { _meta: { ...META, [VERSION]: version } };
    const { error } = rejected(request('server/discover', params, { 'mcp-method': 'server/discover' }), 400, -32022);
    assert.deepEqual(error.data, { supported: ['2026-07-28'], requested: `${'x'.repeat(127)}\ufffd` });
  });

  test('proto:H1 a missing or differing header is 400 and -32020', () => {
    const call = { name: 'get', arguments: {} };
    const faults: WireHeaders[] = [
      { 'mcp-protocol-version': undefined },
      { 'mcp-protocol-version': '2025-11-25' },
      { 'mcp-protocol-version': '2026-07-28, 2026-07-28' },
      { 'mcp-method': undefined },
      { 'mcp-method': 'tools/list' },
      { 'mcp-method': 'TOOLS/CALL' },
      { 'mcp-name': undefined },
      { 'mcp-name': 'other' },
      { 'mcp-name': 'GET' },
      { 'mcp-name': ['get', 'get'] },
      { 'mcp-name': '=?base64?Z2V0' },
      { 'mcp-name': '=?base64?Z2V0=?=' },
      { 'mcp-name': 'caf\u00e9' },
    ];
    for (const fault of faults) {
      const answer = rejected(stateless('tools/call', call, { 'mcp-name': 'get', ...fault }), 400, -32020);
      assert.equal(answer.id, 'r-1');
    }
    rejected(stateless('tools/list', {}, { 'mcp-protocol-version': 'v999.0.0' }), 400, -32020);
    rejected(stateless('tasks/get', { taskId: 't' }), 400, -32020);
  });

  test('proto:H2 an encoded name is decoded before comparing', () => {
    passed(stateless('tools/call', { name: 'get' }, { 'mcp-name': '=?base64?Z2V0?=' }), 'stateless');
  });

  test('proto:H8 removed methods are 404 and -32601', () => {
    for (const method of ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']) {
      assert.equal(rejected(stateless(method, {}), 404, -32601).id, 'r-1');
    }
  });

  test('notifications pass unless header and body differ; answers are refused', () => {
    const headers = { 'mcp-protocol-version': '2026-07-28' };
    passed(inbound(headers, { jsonrpc: '2.0', method: 'notifications/x' }), 'stateless');
    passed(inbound({}, { jsonrpc: '2.0', method: 'notifications/x', params: { _meta: META } }), 'stateless');
    const contradiction = inbound({ ...headers, 'mcp-method': 'y' }, { jsonrpc: '2.0', method: 'notifications/x' });
    assert.ok(!('id' in rejected(contradiction, 400, -32020)));
    rejected(inbound(headers, { jsonrpc: '2.0', id: 1, result: {} }), 400, -32600);
  });
});

test('S2.1 bytes that are no message are answered with 400, with the id where it can be read', () => {
  const fail = (json: string, headers: WireHeaders = {}) => {
    const failure = scanMessage(Buffer.from(json), 'stateful', 'strict');
    assert.ok(isScanFailure(failure));
    return JSON.parse(rejectScan(headers, failure).answer.bytes.toString());
  };
  const broken = fail('{nope');
  assert.deepEqual([broken.id, broken.error.code], [null, -32700]);
  assert.match(broken.error.message, /^Invalid JSON/);
  assert.deepEqual(
    [fail('{"id":3,"jsonrpc":"1.0","method":"m"}').id, fail('{"id":3,"jsonrpc":"1.0","method":"m"}').error.code],
    [3, -32600],
  );
  assert.ok(!('id' in fail('{nope', { 'mcp-protocol-version': '2026-07-28' })));
});
