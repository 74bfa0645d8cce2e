import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { describe, test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { readFastPathHead } from './fast-path-head.ts';

const LINES = ['Host: localhost', 'Content-Type: application/json', 'Content-Length: 2', 'Mcp-Method: tools/call'];
const head = (lines: readonly string[] = LINES, first = 'POST /mcp?a=b HTTP/1.1'): string =>
  `${[first, ...lines].join('\r\n')}\r\n\r\n`;
const read = (text: string): ReturnType<typeof readFastPathHead> => readFastPathHead(Buffer.from(text, 'latin1'), 0);

describe('heads of plain requests', () => {
  test('the reader returns the parts of a head that begins at the offset', () => {
    const text = head();
    const found = readFastPathHead(Buffer.from(`ahead${text}{}`), 5)!;
    assert.deepEqual(
      { ...found, headers: { ...found.headers } },
      {
        text,
        method: 'POST',
        target: '/mcp?a=b',
        headers: {
          host: 'localhost',
          'content-type': 'application/json',
          'content-length': '2',
          'mcp-method': 'tools/call',
        },
        headerLines: 4,
        bodyBytes: 2,
      },
    );
    assert.equal(read('GET / HTTP/1.1\r\n\r\n')?.bodyBytes, 0);
    assert.equal(read(head(['X: \t a  b \t ', 'Y:'], 'DELETE /x HTTP/1.1'))?.headers['x'], 'a  b');
  });

  test('the reader leaves everything else to node:http', () => {
    const with_ = (line: string): string => head([...LINES, line]);
    const odd: Record<string, string> = {
      'an unfinished head': head().slice(0, -1),
      'another method': head(LINES, 'PUT /mcp HTTP/1.1'),
      'a method in small letters': head(LINES, 'post /mcp HTTP/1.1'),
      'HTTP/1.0': head(LINES, 'POST /mcp HTTP/1.0'),
      'a whole URL': head(LINES, 'POST http://localhost/mcp HTTP/1.1'),
      'two blanks': head(LINES, 'POST  /mcp HTTP/1.1'),
      'a blank behind': head(LINES, 'POST /mcp HTTP/1.1 '),
      'a line before': `\r\n${head()}`,
      'a bare LF': head().replace('\r\nHost', '\nHost'),
      'a bare CR': with_('X: a\rb'),
      'a folded line': with_('X: a\r\n b'),
      'a blank before the colon': with_('X : a'),
      'no name': with_(': a'),
      'no colon': with_('X'),
      NUL: with_('X: a\0'),
      'other than ASCII': with_('X: \xe9'),
      'other than ASCII in the target': head(LINES, 'POST /\xe9 HTTP/1.1'),
      'a name that every object has': with_('__proto__: x'),
      'another such name': with_('constructor: x'),
      'a header twice': with_('x-a: 1\r\nX-A: 2'),
      'a length twice': with_('Content-Length: 2'),
      'no length': head(LINES.filter((line) => !line.startsWith('Content-Length'))),
      'a length that is none': head(['Content-Length: +2']),
      'an empty length': head(['Content-Length:']),
      'a list of lengths': head(['Content-Length: 2, 2']),
      'a long body': head(['Content-Length: 65537']),
      'a GET with a body': head(['Content-Length: 2'], 'GET /mcp HTTP/1.1'),
      chunks: with_('Transfer-Encoding: chunked'),
      'Connection: close': with_('Connection: close'),
      'Connection: Upgrade': with_('Connection: keep-alive, Upgrade'),
      Upgrade: with_('Upgrade: h2c'),
      Expect: with_('Expect: 100-continue'),
      'too many headers': head([...LINES, ...Array.from({ length: 61 }, (_, i) => `X-${i}: 1`)]),
      'a large head': with_(`X: ${'x'.repeat(8 * 1024)}`),
    };
    for (const [what, text] of Object.entries(odd)) assert.equal(read(text), null, what);
  });

  test('the reader accepts only what node:http accepts, and reads the same', async (t) => {
    const seen: string[] = [];
    const server = createServer({ requireHostHeader: false }, (request: IncomingMessage, response) => {
      const { method, url, headers } = request;
      seen.push(JSON.stringify([method, url, Object.entries(headers)]));
      request.resume();
      response.end('x');
    });
    server.on('clientError', (_error, socket) => socket.end('refused'));
    server.listen(0, '127.0.0.1');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    await until(() => server.listening);
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return (seed >>> 8) % below;
    };
    // Mutations that leave the text similar enough to a request to be accepted sometimes.
    const bytes = ' \t\r\n:;,/?#%.-_"\\()<>[]{}@=\x00\x7f\xff0aZ';
    let taken = 0;
    for (let i = 0; i < 4_000; i++) {
      const body = '{}';
      const text = [...head([...LINES, 'X-A: b', 'connection: keep-alive'])];
      for (let n = random(3) + 1; n > 0; n--) {
        const at = random(text.length - 4);
        const byte = bytes[random(bytes.length)]!;
        if (random(3) === 0) text.splice(at, 1);
        else if (random(2) === 0) text.splice(at, 0, byte);
        else text[at] = byte;
      }
      const found = read(text.join(''));
      if (found === null) continue;
      taken++;
      const { method, target, headers, bodyBytes } = found;
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
      let answer = '';
      socket.on('error', () => {});
      socket.on('data', (chunk) => void (answer += chunk));
      socket.write(Buffer.from(text.join('') + body.padEnd(bodyBytes).slice(0, bodyBytes), 'latin1'));
      await until(() => answer !== '');
      socket.destroy();
      assert.match(answer, /^HTTP\/1\.1 200/, JSON.stringify(text.join('')));
      assert.equal(seen.pop(), JSON.stringify([method, target, Object.entries(headers)]));
    }
    assert.ok(taken > 300, `only ${taken} were plain`);
  });
});
