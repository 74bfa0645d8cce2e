import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerJson, BIG_TOOLS, bigText, resultJson, toolsJson } from '../upstream/answers.ts';
import { bigProblem, echoProblem, listProblem, readPage } from './answers.ts';

const TOOLS = toolsJson(6);

function answer(id: number, method: string, params: { name?: string; arguments?: { text: string } } = {}): Buffer {
  const asked = { id, method, params };
  return Buffer.from(answerJson(asked, resultJson(asked, TOOLS, '')));
}

describe('checkers of answers', () => {
  const echo = answer(7, 'tools/call', { name: 'echo', arguments: { text: 'hi' } });

  test('accept the right answer, as JSON and as an event', () => {
    assert.equal(echoProblem(echo, 7, 'hi'), null);
    assert.equal(echoProblem(Buffer.from(`event: message\nid: 1\ndata: ${echo}\n\n`), 7, 'hi'), null);
  });

  for (const [what, body] of [
    ['the id of another request', echo.toString().replace('"id":7', '"id":8')],
    ['the id as a string', echo.toString().replace('"id":7', '"id":"7"')],
    ['the text of another call', echo.toString().replace('"hi"', '"ho"')],
    ['more content', echo.toString().replace('"hi"}', '"hi"},{"type":"text","text":"hi"}')],
    ['a result with isError', echo.toString().replace('"content"', '"isError":true,"content"')],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}'],
    ['half an answer', echo.toString().slice(0, -1)],
    ['nothing', ''],
    ['null', 'null'],
  ] as const) {
    test(`refuse ${what}`, () => assert.notEqual(echoProblem(Buffer.from(body), 7, 'hi'), null));
  }

  for (const tool of BIG_TOOLS) {
    test(`compare the text of ${tool} byte for byte`, () => {
      const big = answer(1, 'tools/call', { name: tool });
      assert.equal(bigText(tool).length, 1 << 20);
      assert.equal(JSON.parse(big.toString()).result.content.length, 1);
      assert.equal(bigProblem(big, 1, tool), null);
      assert.notEqual(bigProblem(big, 2, tool), null);
      for (const other of BIG_TOOLS) if (other !== tool) assert.notEqual(bigProblem(big, 1, other), null);
      const changed = Buffer.from(big);
      changed[500_000] = changed[500_000]! ^ 1;
      assert.notEqual(bigProblem(changed, 1, tool), null);
      assert.notEqual(bigProblem(Buffer.concat([big.subarray(0, 1000), big.subarray(1001)]), 1, tool), null);
      assert.notEqual(bigProblem(big.subarray(0, -2), 1, tool), null);
    });
  }

  test('count the tools of a list over its pages', () => {
    const page = readPage(answer(1, 'tools/list'), 1);
    assert.deepEqual(page, { names: ['echo', ...BIG_TOOLS, 'tool_5'], next: '' });
    const goesOn = answer(1, 'tools/list').toString().replace('"result":{', '"result":{"nextCursor":"x",');
    assert.deepEqual(readPage(Buffer.from(goesOn), 1), { names: ['echo', ...BIG_TOOLS, 'tool_5'], next: 'x' });
    assert.equal(typeof readPage(answer(1, 'tools/list'), 2), 'string');
    assert.equal(typeof readPage(answer(1, 'tools/call', { name: 'echo' }), 1), 'string');
    assert.equal(listProblem(['a', 'b', 'c'], 3), null);
    assert.notEqual(listProblem(['a', 'b'], 3), null);
    assert.notEqual(listProblem(['a', 'b', 'b'], 3), null);
  });
});
