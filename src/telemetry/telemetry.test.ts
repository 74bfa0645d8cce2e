import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { Secret } from '../model/secret.ts';
import { formatJson, formatPretty } from './log-format.ts';
import { Logger } from './logger.ts';
import { MAX_SERIES, Metrics } from './metrics.ts';
import { Scrubber } from './scrubber.ts';

function capture(level: 'debug' | 'info' | 'warn' | 'error' = 'debug') {
  const lines: string[] = [];
  return { lines, logger: new Logger({ level, write: (line) => lines.push(line), now: () => 0 }) };
}

test('S2.25 S3.19 check:K1 a child logger adds its fields to every line and respects the level', () => {
  const { lines, logger } = capture('info');
  const child = logger.child({ server: 'memory' }).child({ session: 's1' });
  child.debug('unseen');
  child.info('server_started', { ms: 12 });
  assert.deepEqual(
    lines.map((l) => JSON.parse(l)),
    [
      {
        time: '1970-01-01T00:00:00.000Z',
        level: 'info',
        event: 'server_started',
        server: 'memory',
        session: 's1',
        ms: 12,
      },
    ],
  );
});

test('security:5 the usual encodings of a secret are masked anywhere in the encoded text', () => {
  const scrubber = new Scrubber();
  const secret = 'pä ss/w+rd=1&x~y';
  scrubber.add(secret);
  const bytes = Buffer.from(secret);
  for (const [what, text] of [
    ['plain', `say ${secret} aloud`],
    ['JSON', JSON.stringify({ secret })],
    ['percent', encodeURIComponent(secret)],
    ['small percent', encodeURIComponent(secret).replaceAll(/%../g, (pair) => pair.toLowerCase())],
    ['form', new URLSearchParams({ secret }).toString()],
    ['hex', bytes.toString('hex')],
    ['HEX', bytes.toString('hex').toUpperCase()],
    ...['', 'u', 'us', 'user:'].flatMap((before) =>
      (['base64', 'base64url'] as const).map((encoding) => [
        `${encoding} behind ${before}`,
        Buffer.from(`${before}${secret}@host`).toString(encoding),
      ]),
    ),
  ] as const) {
    const shown = scrubber.scrub(text);
    assert.ok(shown.includes('[redacted]'), `${what}: ${shown}`);
    // Two characters at either end may depend on the surrounding text.
    assert.ok(shown.replace('[redacted]', '').length <= text.length - secret.length + 6, `${what}: ${shown}`);
  }
});

test('security:5 single lines of a secret with several lines are masked', () => {
  const scrubber = new Scrubber();
  const lines = ['MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg', 'hRANCAAQmGByqGSM49AgEGCCqGSM4'];
  scrubber.add(`-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`);
  for (const line of lines) assert.equal(scrubber.scrub(`  ${line}`), '  [redacted]');
  assert.equal(scrubber.scrub('-----BEGIN PRIVATE KEY-----'), '-----BEGIN PRIVATE KEY-----');
});

test('security:6 short values are not searched for, and in JSON neither numbers nor member names change', () => {
  const scrubber = new Scrubber();
  for (const short of ['1', 'true', 'prod', '12345']) scrubber.add(short);
  assert.equal(scrubber.scrub('true is 1 in prod 12345'), 'true is 1 in prod 12345');
  scrubber.add('123456');
  scrubber.add('server');
  scrubber.add('a\\"b"c');
  const json = JSON.stringify({ server: 'my server', at: 1234567, list: ['123456', 'x\\', 'a\\"b"c', ''] });
  const shown = scrubber.scrubJson(json);
  const list = ['[redacted]', 'x\\', '[redacted]', ''];
  assert.deepEqual(JSON.parse(shown), { server: 'my [redacted]', at: 1234567, list });
  assert.equal(scrubber.scrubJson('{"broken'), '{"broken');
});

test('scrubbing costs time linear in the text, however many secrets there are; the oldest are dropped', () => {
  const scrubber = new Scrubber();
  for (let i = 0; i < 12_000; i++) scrubber.add(`github_pat_${i}_${'x'.repeat(20)}`);
  const text = `${'a line of the log, such as there are many; '.repeat(2_500)}github_pat_11999_${'x'.repeat(20)}`;
  const begun = performance.now();
  assert.ok(scrubber.scrub(text).endsWith('many; [redacted]'));
  assert.ok(performance.now() - begun < 250);
  assert.ok(scrubber.scrub(`github_pat_1999_${'x'.repeat(20)}`).startsWith('github'));
});

test('a line that a dropped secret shares with another secret stays masked', () => {
  const scrubber = new Scrubber();
  const line = 'a line that both secrets have';
  for (const other of ['only the first has this', 'only the second has this']) scrubber.add(`${other}\n${line}`);
  for (let i = 1; i < 10_000; i++) scrubber.add(`secret-${i}`);
  assert.equal(scrubber.scrub('only the first has this'), 'only the first has this');
  assert.equal(scrubber.scrub(line), '[redacted]');
});

test('a registered secret appears in no line, in any encoding', () => {
  const { lines, logger } = capture();
  logger.addSecret('pa"ss word/1');
  logger.warn('leak', {
    plain: 'x pa"ss word/1 y',
    url: `?k=${encodeURIComponent('pa"ss word/1')}`,
    error: new Error('pa"ss word/1'),
  });
  const shown = lines.join('') + logger.redact('pa"ss word/1');
  assert.ok(!shown.includes('ss word') && !shown.includes('ss%20word'), shown);
  assert.ok(shown.includes('[redacted]'));
});

test('a Secret prints masked in every way of printing', () => {
  const { lines, logger } = capture();
  logger.info('x', { key: new Secret('topsecret') });
  assert.ok(
    !`${lines}${new Secret('topsecret')}${JSON.stringify({ a: new Secret('topsecret') })}`.includes('topsecret'),
  );
});

test('the pretty format escapes control characters of values', () => {
  const line = formatPretty({ at: 0, level: 'info', event: 'e', fields: { text: 'a\u001b[31mb\nc' } });
  assert.ok(line.includes('a\\u001b[31mb\\nc'));
});

test('the pretty format shows the frame of a problem as it is, below the record', () => {
  const fields = { code: 'TL1101', problem: 'TL1101  a.json:1:5\n    1 | {"\u001b\n      |     ^', none: null, no: [] };
  assert.equal(
    stripVTControlCharacters(formatPretty({ at: 0, level: 'error', event: 'e', fields })),
    '00:00:00.000 error e code=TL1101\n  TL1101  a.json:1:5\n      1 | {"\\x1b\n        |     ^',
  );
});

test('a JSON record has no null and no empty list', () => {
  const fields = { a: null, b: [], c: 0, d: '', e: [null], f: undefined, g: { a: null, b: 1 } };
  assert.equal(
    formatJson({ at: 0, level: 'warn', event: 'e', fields }),
    '{"time":"1970-01-01T00:00:00.000Z","level":"warn","event":"e","c":0,"d":"","e":[null],"g":{"b":1}}',
  );
});

test('labels beyond the limit share one series of a counter or histogram; a gauge shows all that there is', () => {
  const metrics = new Metrics();
  const calls = metrics.counter('c_total', 'C.', ['server', 'result']);
  const duration = metrics.histogram('d_seconds', 'D.', ['server'], [1]);
  const state = metrics.gauge('g', 'G.', ['server']);
  for (let i = 0; i < MAX_SERIES + 5; i++) {
    calls.of(`s${i}`, 'hit').add();
    duration.of(`s${i}`).observe(2);
    state.of(`s${i}`).set(i);
  }
  calls.of('s1', 'hit').add();
  assert.deepEqual([...calls.series()].length, MAX_SERIES + 1);
  assert.equal(calls.of('another', 'miss'), calls.of('_OTHER', '_OTHER'));
  assert.deepEqual([calls.of('s1', 'hit').value, calls.of('_OTHER', '_OTHER').value], [2, 5]);
  assert.equal(duration.of('new').count, 5);
  assert.equal([...state.series()].length, MAX_SERIES + 5);
});

test('metrics are in Prometheus text form, labels escaped, buckets cumulative', () => {
  const metrics = new Metrics();
  const calls = metrics.counter('trunkline_calls_total', 'Calls.', ['server']);
  calls.of('a"b\n').add(2);
  metrics.onScrape(() => metrics.gauge('trunkline_up', 'Up.').of().set(1));
  const duration = metrics.histogram('d_seconds', 'D.', ['m'], [0.1, 1]).of('x');
  for (const v of [0.05, 0.5, 5]) duration.observe(v);
  assert.equal(
    metrics.exposition().replace(/# HELP.*\n/g, ''),
    [
      '# TYPE trunkline_calls_total counter',
      'trunkline_calls_total{server="a\\"b\\n"} 2',
      '# TYPE d_seconds histogram',
      'd_seconds_bucket{m="x",le="0.1"} 1',
      'd_seconds_bucket{m="x",le="1"} 2',
      'd_seconds_bucket{m="x",le="+Inf"} 3',
      'd_seconds_sum{m="x"} 5.55',
      'd_seconds_count{m="x"} 3',
      '# TYPE trunkline_up gauge',
      'trunkline_up 1',
      '',
    ].join('\n'),
  );
});
