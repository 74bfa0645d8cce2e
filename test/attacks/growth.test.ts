import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appScriptEdits } from '../../src/catalog/app-script.ts';
import { fieldChanges } from '../../src/catalog/drift/capability-drift.ts';
import { scanDefinition } from '../../src/catalog/drift/poison-scan.ts';
import { judgeChange } from '../../src/catalog/drift/severity.ts';
import { wordDiff } from '../../src/catalog/drift/word-diff.ts';
import { exposeNames } from '../../src/catalog/exposed-names.ts';
import { ResourceTable } from '../../src/catalog/resource-table.ts';
import { printable } from '../../src/model/printable.ts';
import { sanitizedDefinition } from '../../src/model/sanitized-definition.ts';
import { canonicalExact } from '../../src/protocol/canonical.ts';
import { withoutAddresses } from '../../src/protocol/compose.ts';
import { decodeHeaderValue, scanHeaderParams } from '../../src/protocol/headers.ts';
import { portabilityFault, sanitizePage } from '../../src/protocol/list-page.ts';
import { listOf } from '../../src/protocol/methods.ts';
import { scanMessage } from '../../src/protocol/scan.ts';
import { SseParser } from '../../src/protocol/sse-parser.ts';
import { Scrubber } from '../../src/telemetry/scrubber.ts';
import { diagnosticLine } from '../../src/upstream/connection/failures.ts';
import { LineSplitter } from '../../src/upstream/process/line-splitter.ts';

/**
 * Work on input from servers and clients, in its worst known form: eight times as much input may cost about eight times as much
 * and not sixty-four times. CPU time of the fastest of several runs, so that a loaded machine does not count.
 */
const GROWTH = 8;
const AT_MOST = 24;
/** Shorter runs count as this long. */
const LEAST_MS = 1;

type Work = () => unknown;

function tool(schema: string): Buffer {
  return Buffer.from(`{"name":"t","inputSchema":${schema}}`);
}

function nested(depth: number, inner: string, [open, close] = ['[', ']']): string {
  return open.repeat(depth) + inner + close.repeat(depth);
}

function many(count: number, piece: (i: number) => string, between = ','): string {
  return Array.from({ length: count }, (_, i) => piece(i)).join(between);
}

function page(items: string): Work {
  const bytes = Buffer.from(`{"tools":[${items}]}`);
  return () => sanitizePage(listOf('tools'), bytes, 'stateful');
}

function events(chunks: readonly Buffer[]): Work {
  return () => {
    const parser = new SseParser(64 * 1024 * 1024, () => {});
    for (const chunk of chunks) parser.push(chunk);
  };
}

function lines(text: string, chunk: number): Work {
  const pieces = Array.from({ length: Math.ceil(text.length / chunk) }, (_, i) =>
    text.slice(i * chunk, (i + 1) * chunk),
  );
  const sink = { line() {}, blank() {}, overflow() {}, skipped() {}, overflowEnd() {} };
  return () => {
    const splitter = new LineSplitter(64 * 1024 * 1024, sink);
    for (const piece of pieces) splitter.push(Buffer.from(piece));
  };
}

function scanned(params: string): Work {
  const bytes = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  return () => scanMessage(bytes, 'stateful', 'strict');
}

function judged(schema: (last: string) => string): Work {
  const [before, after] = [tool(schema('"a"')), tool(schema('"b"'))];
  return () => judgeChange('tools', before, after);
}

function templates(texts: readonly string[]): Work {
  const entry = (key: string, server: string) => ({ server, item: { key, bytes: Buffer.alloc(0) } });
  const table = new ResourceTable(
    ['a', 'b'],
    [],
    texts.map((text, i) => entry(text, i % 2 === 0 ? 'a' : 'b')),
  );
  return () => table.find('x'.repeat(4_000));
}

/** By the kind of input: how many of it, and the work for `n` of it. */
const WORK: Readonly<Record<string, readonly [number, (n: number) => Work]>> = {
  'header parameters of a tool': [
    1_000,
    (n) => {
      const bytes = tool(
        `{"type":"object","properties":{${many(n, (i) => `"p${i}":{"type":"string","x-mcp-header":"H${i}"}`)}}}`,
      );
      return () => scanHeaderParams(bytes);
    },
  ],
  'types of an argument that changed': [
    800,
    (n) => judged((last) => `{"properties":{"a":{"type":[${last},${many(n, (i) => `${last.slice(0, -1)}${i}"`)}]}}}`),
  ],
  'a change at the bottom of a deep schema': [
    500,
    (n) => judged((last) => nested(Math.min(60, n / 60), `{"enum":[${many(n, String)},${last}]}`, ['{"items":', '}'])),
  ],
  'fields that changed in a deep definition': [
    2_000,
    (n) => {
      const text = (last: string) => nested(Math.min(23, n / 600), `[${many(n, String)},${last}]`, ['{"a":', '}']);
      const [before, after] = [text('1'), text('2')];
      return () => fieldChanges(before, after);
    },
  ],
  'words to be suspicious of, deep in a definition': [
    1_000,
    (n) => {
      const bytes = Buffer.from(`{"name":"t","x":${nested(n >> 4, `"${'аa '.repeat(n)}"`)}}`);
      return () => scanDefinition({ list: 'tools', key: 't' }, bytes, null);
    },
  ],
  'texts to be suspicious of, deep in a definition': [
    500,
    (n) => {
      const bytes = Buffer.from(
        `{"name":"t","x":${nested(
          500,
          many(n, () => '"аa"'),
        )}}`,
      );
      return () => scanDefinition({ list: 'tools', key: 't' }, bytes, null);
    },
  ],
  'texts whose words changed': [2_000, (n) => () => wordDiff('a b '.repeat(n), 'b c '.repeat(n))],
  'items that are not objects': [10_000, (n) => page(many(n, () => '1'))],
  'items of a page': [2_000, (n) => page(many(n, (i) => `{"name":"t${i}","inputSchema":{"type":"object"}}`))],
  'members of an item': [2_000, (n) => page(`{"name":"t",${many(n, (i) => `"m${i}":1`)}}`)],
  'escapes in an item': [
    10_000,
    (n) => {
      const bytes = Buffer.from(`"${'\\ud800\\udc00'.repeat(n)}"`);
      return () => portabilityFault(bytes);
    },
  ],
  'digits in an item': [
    10_000,
    (n) => {
      const bytes = Buffer.from(`[1e${'1'.repeat(n)},${many(n, () => '1e99')}]`);
      return () => portabilityFault(bytes);
    },
  ],
  'arguments of a prompt': [
    2_000,
    (n) => {
      const bytes = Buffer.from(`{"prompts":[{"name":"p","arguments":[${many(n, (i) => `{"name":"a${i}"}`)}]}]}`);
      return () => sanitizePage(listOf('prompts'), bytes, 'stateful');
    },
  ],
  'tools of the same long name': [
    1_000,
    (n) => {
      const items = Array.from({ length: n }, (_, i) => ({ server: 's', name: `${'n'.repeat(200)}${i}` }));
      return () => exposeNames(items);
    },
  ],
  'tools whose names collide': [
    1_000,
    (n) => {
      const spelled = (i: number) => i.toString(2).padStart(14, '0').replaceAll('0', '-').replaceAll('1', '_');
      const items = Array.from({ length: n }, (_, i) => ({ server: 's', name: `t${spelled(i)}` }));
      return () => exposeNames(items);
    },
  ],
  'templates of equal beginning': [2_000, (n) => templates(Array.from({ length: n }, (_, i) => `{+a}x{b}${i}`))],
  'templates with many expressions': [2_000, (n) => templates([many(n, () => '{+a}x', ''), '{a}'.repeat(n)])],
  'URIs that two servers have': [
    1_000,
    (n) => {
      const resources = Array.from({ length: 2 * n }, (_, i) => ({
        server: i % 2 === 0 ? 'a' : 'b',
        item: { key: `u://${i >> 1}`, bytes: Buffer.alloc(0) },
      }));
      return () => new ResourceTable(['a', 'b'], resources, []);
    },
  ],
  'comments before an app': [
    1_000,
    (n) => {
      const html = '<!-- a -->'.repeat(n) + '<!--'.repeat(n);
      const bytes = Buffer.from(JSON.stringify({ mimeType: 'text/html;profile=mcp-app', text: html }));
      return () => appScriptEdits(bytes, { start: 0, end: bytes.length }, 's', () => []);
    },
  ],
  'events of one byte each': [20_000, (n) => events(Array.from({ length: n }, () => Buffer.from('x')))],
  'empty lines of events': [50_000, (n) => events([Buffer.from('\n'.repeat(n))])],
  'lines of one event': [20_000, (n) => events([Buffer.from('data:\r'.repeat(n))])],
  'a line of bytes that come one by one': [20_000, (n) => lines('x'.repeat(n), 1)],
  'empty lines of a process': [100_000, (n) => lines('\n'.repeat(n), n)],
  'nesting in a message': [20_000, (n) => scanned(`{"arguments":${many(n >> 9, () => nested(500, '1')) || '1'}}`)],
  'members of params': [2_000, (n) => scanned(`{"name":"t",${many(n, (i) => `"\\u006d${i}":1`)}}`)],
  'escaped quotes in a message': [50_000, (n) => scanned(`{"a":"${'\\"\\\\'.repeat(n)}"}`)],
  'members in canonical order': [
    1_000,
    (n) => {
      const bytes = Buffer.from(nested(400, `{${many(n, (i) => `"${i}":1e5`)}}`));
      return () => canonicalExact(bytes);
    },
  ],
  'a header in base64': [20_000, (n) => () => decodeHeaderValue(`=?base64?${'QUJD'.repeat(n)}?=`)],
  'places in a message of an error': [
    5_000,
    (n) => {
      const text = ['/a'.repeat(n), '/'.repeat(n), 'a.'.repeat(n), '~/'.repeat(n), 'a://'.repeat(n)].join(' ');
      return () => withoutAddresses('UNKNOWN', text);
    },
  ],
  'the last output of a process': [
    2_000,
    (n) => {
      const text = ['╰─▶ a\n      '.repeat(n), '\n\n \n'.repeat(n), '\\x1b['.repeat(n), ' '.repeat(n)].join('x\n');
      return () => diagnosticLine(printable(text), 1, null);
    },
  ],
  'arguments of a definition': [
    200,
    (n) => {
      const words = [
        'a://'.repeat(n),
        `--token ${'aA1'.repeat(n)}`,
        'a="'.repeat(n),
        `-${'a'.repeat(n)}`,
        '${'.repeat(n),
      ];
      return () =>
        sanitizedDefinition({ type: 'stdio', command: 'x', args: words, env: {}, inheritEnv: false, cwd: '/' });
    },
  ],
  'secrets in a line': [
    2_000,
    (n) => {
      const scrubber = new Scrubber();
      for (let i = 0; i < 20; i++) scrubber.add(`secret${'x'.repeat(i)}`);
      const text = 'secretsecret-'.repeat(n);
      return () => scrubber.scrub(text);
    },
  ],
};

function cpuMs(work: Work): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3; run++) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

for (const [what, [size, workFor]] of Object.entries(WORK)) {
  test(`${what}: eight times as many cost about eight times as much`, (t) => {
    let growth = 0;
    // A garbage collection may fall into all short runs; super-linear work exceeds the limit in each attempt.
    for (let attempt = 0; attempt < 3; attempt++) {
      const few = cpuMs(workFor(size));
      const more = cpuMs(workFor(size * GROWTH));
      growth = more / Math.max(few, LEAST_MS);
      t.diagnostic(`${few.toFixed(1)} ms, ${more.toFixed(1)} ms`);
      if (growth <= AT_MOST) return;
    }
    assert.fail(`${growth.toFixed(1)} times as much`);
  });
}
