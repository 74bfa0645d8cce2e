import assert from 'node:assert/strict';
import type { Readable, Writable } from 'node:stream';
import { test } from 'node:test';
import type { Downstream } from '../../downstream/downstream.ts';
import { replay } from './replay.ts';

const entry = (wire: string, from: string, message: object, at: object) =>
  JSON.stringify({ seq: 1, wire, from, session: 's', exchange: '1', ...at, message });
const RECORDED = [
  '{"recording":1}',
  '{"session":"s","revision":"2025-11-25","capabilities":{},"client":null}',
  entry('client', 'client', { id: 1, method: 'tools/list' }, { endpoint: '/mcp' }),
  entry('client', 'gateway', { id: 1, result: { tools: [{ name: 'm__t' }] } }, { endpoint: '/mcp' }),
  entry('server', 'gateway', { id: 2, method: 'tools/call', params: { name: 't' } }, { server: 'm', connection: 'c' }),
  entry('server', 'server', { id: 2, result: { content: [] } }, { server: 'm', connection: 'c' }),
  '',
].join('\n');

/** A server that returns these results. */
function serving(result: (method: string) => string): { readonly downstream: Downstream } {
  const stdio = ({ input, output }: { readonly input: Readable; readonly output: Writable }) => {
    input.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text.split('\n').filter((one) => one !== '')) {
        const { id, method } = JSON.parse(line) as { id?: number; method: string };
        if (id !== undefined) output.write(`{"jsonrpc":"2.0","id":${id},"result":${result(method)}}\n`);
      }
    });
    return { closed: new Promise<void>((done) => input.once('end', done)), close: () => {} };
  };
  return { downstream: { stdio } as unknown as Downstream };
}

const replayed = (result: (method: string) => string) =>
  replay(RECORDED, { server: 'm', of: 'm', ignore: [] }, serving(result), new AbortController().signal);

test('endless lists and answers nested too deeply are differences, and the replay does not fail', async () => {
  const endless = await replayed((method) =>
    method === 'tools/list' ? '{"tools":[{"name":"t"}],"nextCursor":"more"}' : '{"content":[]}',
  );
  assert.ok(typeof endless !== 'string');
  assert.deepEqual(endless.differences, [
    {
      step: 0,
      request: 'tools/list',
      path: '$.result.nextCursor',
      before: null,
      after: '"there are more than 1000 pages"',
    },
  ]);
  const deep = await replayed((method) =>
    method === 'tools/call'
      ? `{"content":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
      : '{"tools":[{"name":"t"}],"content":[]}',
  );
  assert.ok(typeof deep !== 'string');
  assert.deepEqual(
    deep.differences.map(({ request, after }) => [request, after]),
    [
      ['tools/call t', null],
      ['tools/call t', `{"message":"the server's message is nested more than 1000 levels deep"}`],
    ],
  );
});
