import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReply } from './http-reply.ts';

const CASES = {
  'a body of known length': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'a body in chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n',
};

for (const [what, text] of Object.entries(CASES)) {
  test(`reads ${what}, wherever it is cut`, () => {
    for (let size = 1; size <= text.length; size++) {
      const reply = new HttpReply();
      let done = false;
      for (let at = 0; at < text.length && !done; at += size) done = reply.push(Buffer.from(text.slice(at, at + size)));
      assert.ok(done, `in pieces of ${size}`);
      assert.equal(reply.status, 200);
      assert.equal(reply.body().toString(), 'hello', `in pieces of ${size}`);
    }
  });
}

test('an answer without a body is complete with its head', () => {
  const reply = new HttpReply();
  assert.equal(
    reply.push(Buffer.from('HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')),
    true,
  );
  assert.equal(reply.status, 202);
  assert.equal(reply.closing, true);
});
