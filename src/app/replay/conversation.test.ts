import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergedParts } from '../../telemetry/recorder/merged-parts.ts';
import { readConversations } from './conversation.ts';

const HEAD = '{"recording":1,"id":"x"}';
const WHO =
  '{"session":"s","principal":"anonymous","endpoint":"/mcp","revision":"2026-07-28","capabilities":{},"client":null}';
const line = (wire: string, from: string, message: object, more: object = {}) =>
  JSON.stringify({ seq: 1, wire, from, session: 's', exchange: '1', ...more, message });
const onServer = { server: 'm', connection: 'c1' };
const read = (lines: readonly string[], of: string | null = null) =>
  readConversations([HEAD, WHO, ...lines, ''].join('\n'), of);

test('a request that is repeated with the answers to input requests of the server is one step', () => {
  const call = { id: 1, method: 'tools/call', params: { name: 't' } };
  const asked = {
    id: 1,
    result: {
      resultType: 'input_required',
      requestState: 'st',
      inputRequests: { a: { method: 'elicitation/create', params: { message: '?' } } },
    },
  };
  const again = {
    id: 2,
    method: 'tools/call',
    params: { name: 't', requestState: 'st', inputResponses: { a: { action: 'accept' } } },
  };
  const result = { id: 2, result: { resultType: 'complete', content: [] } };
  const found = read([
    line('server', 'gateway', call, onServer),
    line('server', 'server', asked, onServer),
    line('server', 'gateway', again, onServer),
    line('server', 'server', result, onServer),
  ]);
  assert.ok(typeof found !== 'string');
  const [conversation] = found.conversations;
  assert.equal(conversation!.steps.length, 1);
  assert.deepEqual(JSON.parse(JSON.stringify(conversation!.steps[0]!.answer)), result);
  assert.deepEqual(JSON.parse(JSON.stringify(conversation!.asks)), [
    { method: 'elicitation/create', params: { message: '?' }, answer: { result: { action: 'accept' } } },
  ]);
});

test('a recording that lacks the parts of nodes is not replayed as if it were whole', () => {
  const good = line('server', 'gateway', { id: 1, method: 'tools/call', params: { name: 't' } }, onServer);
  const part = [HEAD, WHO, good, ''].join('\n');
  assert.match(String(readConversations(mergedParts([part], ['b', 'c']), null)), /missing: b, c did not answer/);
  assert.match(String(readConversations(mergedParts([part, part], ['b']), null)), /missing: b did not answer/);
  assert.ok(typeof readConversations(mergedParts([part], []), null) !== 'string');
});

test('a partial last line, which a killed process leaves, is accepted; a partial line before it is an error', () => {
  const good = line('server', 'gateway', { id: 1, method: 'tools/call', params: { name: 't' } }, onServer);
  assert.ok(typeof readConversations(`${HEAD}\n${WHO}\n${good}\n{"seq":2,"wi`, null) !== 'string');
  assert.match(String(readConversations(`${HEAD}\n${WHO}\n{"seq":2,"wi\n${good}\n`, null)), /line 3 .* no JSON/);
  assert.match(String(readConversations('', null)), /no recording/);
  assert.match(String(readConversations('{"a":1}\n', null)), /no recording/);
});

test('the error of an unusable recording has the reason and, if a line is wrong, its number', () => {
  const call = { id: 1, method: 'tools/call', params: { name: 't' } };
  assert.match(
    String(read(['{"seq":1,"wire":"client","from":"client","message":null}'])),
    /line 3 .*message has to be/,
  );
  assert.match(String(read([line('server', 'gateway', call, { server: 1 })])), /line 3 .*server has to be a text/);
  assert.match(String(read(['{"capabilities":{}}'])), /line 3 .*session has to be a text/);
  const deep = `{"seq":1,"wire":"client","from":"client","message":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`;
  assert.match(String(read([deep, '{}'])), /line 3 .*nested more than 1000 levels/);
  const texts = `{"seq":1,"wire":"client","from":"client","message":{"a":"${'[\\"{'.repeat(2_000)}"}}`;
  assert.match(String(read([texts, '{}'])), /no server was called/);
  assert.match(String(readConversations(`${HEAD}\n`.padEnd(50 * 1024 * 1024), null)), /more than 50331648/);
});

test('the merged lists of a client are reduced to the items of one server; unclear items are ambiguous', () => {
  const onClient = { endpoint: '/mcp', exchange: null };
  const listed = (id: number, method: string, result: object, cursor?: string) => [
    line('client', 'client', { id, method, params: cursor === undefined ? {} : { cursor } }, onClient),
    line('client', 'gateway', { id, result }, onClient),
  ];
  const uris = (...all: string[]) => ({ resources: all.map((uri) => ({ uri, name: 'r' })) });
  const shown = (tools: object[]) => {
    const found = read(
      [
        ...listed(1, 'tools/list', { tools: [{ name: 'm__old' }] }),
        ...listed(2, 'tools/list', { tools: tools.slice(0, 1), nextCursor: 'c' }),
        ...listed(3, 'tools/list', { tools: tools.slice(1) }, 'c'),
        ...listed(
          4,
          'resources/list',
          uris('a:1', 'trunkline://m/b:2', 'trunkline://n/b:2', 'ui://trunkline/m/x', 'c:3'),
        ),
        ...listed(5, 'prompts/list', { prompts: [{ name: 'm__shortened_0123abcd' }] }),
      ],
      'm',
    );
    assert.ok(typeof found !== 'string');
    return found.conversations[0]!.shown.map(({ list, items, ambiguous }) => [
      list.method,
      items.map(({ name, uri }) => uri ?? name),
      ambiguous.map(({ uri }) => uri),
    ]);
  };
  const app = { name: 'm__t', _meta: { ui: { resourceUri: 'ui://trunkline/m/x' } } };
  assert.deepEqual(shown([app, { name: 'n__u' }]), [
    ['tools/list', ['t'], []],
    ['resources/list', ['b:2', 'ui://x'], ['a:1', 'c:3']],
  ]);
  assert.deepEqual(shown([app, { name: 'm__u' }]), [
    ['tools/list', ['t', 'u'], []],
    ['resources/list', ['a:1', 'b:2', 'ui://x', 'c:3'], []],
  ]);
});

test('a recording of several servers requires the name of one', () => {
  const call = (server: string) =>
    line('server', 'gateway', { id: 1, method: 'tools/call', params: { name: 't' } }, { server, connection: server });
  assert.match(String(read([call('a'), call('b')])), /several servers.*a, b/);
  const found = read([call('a'), call('b')], 'b');
  assert.ok(typeof found !== 'string' && found.conversations[0]!.steps.length === 1);
  assert.match(String(read([call('a')], 'c')), /nothing was sent to c/);
  assert.match(String(read([])), /no server was called/);
});
