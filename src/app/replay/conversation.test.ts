import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConversations } from './conversation.ts';

const HEAD = '{"recording":1,"id":"x"}';
const WHO =
  '{"session":"s","principal":"anonymous","endpoint":"/mcp","revision":"2026-07-28","capabilities":{},"client":null}';
const line = (wire: string, from: string, message: object, more: object = {}) =>
  JSON.stringify({ seq: 1, wire, from, session: 's', exchange: '1', ...more, message });
const onServer = { server: 'm', connection: 'c1' };
const read = (lines: readonly string[], of: string | null = null) =>
  readConversations([HEAD, WHO, ...lines, ''].join('\n'), of);

test('a request that is made again with the answers to what the server asked is one step', () => {
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

test('a part of a line at the end is what a killed process leaves; one before it is damage', () => {
  const good = line('server', 'gateway', { id: 1, method: 'tools/call', params: { name: 't' } }, onServer);
  assert.ok(typeof readConversations(`${HEAD}\n${WHO}\n${good}\n{"seq":2,"wi`, null) !== 'string');
  assert.match(String(readConversations(`${HEAD}\n${WHO}\n{"seq":2,"wi\n${good}\n`, null)), /line 3 .* no JSON/);
  assert.match(String(readConversations('', null)), /no recording/);
  assert.match(String(readConversations('{"a":1}\n', null)), /no recording/);
});

test('of several servers one has to be named', () => {
  const call = (server: string) =>
    line('server', 'gateway', { id: 1, method: 'tools/call', params: { name: 't' } }, { server, connection: server });
  assert.match(String(read([call('a'), call('b')])), /several servers.*a, b/);
  const found = read([call('a'), call('b')], 'b');
  assert.ok(typeof found !== 'string' && found.conversations[0]!.steps.length === 1);
  assert.match(String(read([call('a')], 'c')), /nothing was sent to c/);
  assert.match(String(read([])), /no server was called/);
});
