import assert from 'node:assert/strict';
import { test } from 'node:test';
import { revealed } from '../../model/secret.ts';
import { loadConfig } from '../load-config.ts';

const ENV = { SCRAPE: 'scrape-token-0123456789', KEY: 'receiver-key-0123456789' };
const TRACES = { otlp: 'http://collector:4318' };

function load(config: object) {
  const text = JSON.stringify({ mcpServers: { one: { command: 'x' } }, ...config });
  return loadConfig({ inline: [{ label: '<test>', text }], cwd: '/', env: ENV });
}

async function problems(config: object): Promise<readonly (readonly [string, string])[]> {
  const result = await load(config);
  return result.ok ? [] : result.problems.map(({ code, message }) => [code, message]);
}

test('metrics and telemetry are read with their references, and the referenced values are kept out of logs', async () => {
  const result = await load({
    metrics: { token: '${SCRAPE}', listen: '0.0.0.0:9464' },
    telemetry: {
      traces: { ...TRACES, sample: 0.25, headers: { 'x-key': '${KEY}' } },
      metrics: { otlp: 'https://otlp.example/otlp/v1/metrics?tenant=a' },
    },
  });
  assert.ok(result.ok);
  const { metricsToken, metricsAddress, telemetry } = result.state;
  assert.equal(metricsToken?.reveal(), ENV.SCRAPE);
  assert.deepEqual(metricsAddress, { host: '0.0.0.0', port: 9464 });
  assert.equal(telemetry.traces?.url, 'http://collector:4318/v1/traces');
  assert.equal(telemetry.traces?.sample, 0.25);
  assert.deepEqual(Object.entries(revealed(telemetry.traces!.headers)), [['x-key', ENV.KEY]]);
  assert.equal(telemetry.metrics?.url, 'https://otlp.example/otlp/v1/metrics?tenant=a');
  assert.equal(telemetry.metrics?.intervalMs, 60_000);
  for (const secret of Object.values(ENV)) assert.ok(result.secrets.includes(secret));
});

test('an unusable setting is refused with its place', async () => {
  for (const [config, code, message] of [
    [{ metrics: { token: 'short' } }, 'TL1501', /metrics\.token/],
    [{ metrics: { token: 'with a blank 0123456789' } }, 'TL1501', /without blanks/],
    [{ metrics: { token: '${NOT_SET}' } }, 'TL1203', /NOT_SET/],
    [{ metrics: { listen: '9464' } }, 'TL1602', /metrics\.listen "9464" is not host:port/],
    [{ metrics: { listen: '127.0.0.1:99999' } }, 'TL1602', /host:port/],
    [{ metrics: { listen: '127.0.0.1:4271' } }, 'TL1603', /4271/],
    [{ metrics: { path: '/x' } }, 'TL1301', /metrics\.path/],
    [{ telemetry: { traces: {} } }, 'TL1304', /otlp/],
    [{ telemetry: { traces: { otlp: 'collector:4318' } } }, 'TL1602', /telemetry\.traces\.otlp/],
    [{ telemetry: { traces: { otlp: 'http://user:password@collector' } } }, 'TL1602', /telemetry\.traces\.otlp/],
    [{ telemetry: { traces: { ...TRACES, sample: 1.5 } } }, 'TL1303', /sample/],
    [{ telemetry: { traces: { ...TRACES, headers: { 'a b': 'c' } } } }, 'TL1410', /headers\.a b/],
    [{ telemetry: { metrics: { otlp: 'http://collector', intervalMs: 10 } } }, 'TL1303', /intervalMs/],
  ] as const) {
    const found = await problems(config);
    assert.deepEqual(
      found.map(([one]) => one),
      [code],
      JSON.stringify(config),
    );
    assert.match(found[0]![1], message);
  }
});
