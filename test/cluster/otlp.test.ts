import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { test } from 'node:test';
import { HintingServer } from '../fixtures/http/hinting.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { goPrograms, pipInstalled } from '../support/made-once.ts';
import { OtlpTestReceiver } from '../support/otlp-receiver.ts';
import { WireClient } from '../support/wire-client.ts';

const DECODE = resolve(import.meta.dirname, '../fixtures/otlp/decode.py');
const PARENT = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
const LINKED = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const AWAY = '00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00';
const COLLECTOR = resolve(import.meta.dirname, '../fixtures/otlp/collector');

interface Served {
  readonly received: unknown[];
  readonly server: HintingServer;
}

async function serve(): Promise<Served> {
  const [server, received] = [await HintingServer.start(), [] as unknown[]];
  server.say.set(
    'tools/list',
    () => '"tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"',
  );
  server.say.set('tools/call', (params) => {
    received.push((params['_meta'] as Record<string, unknown> | undefined)?.['traceparent']);
    return '"content":[]';
  });
  return { received, server };
}

/** Makes a call of each kind at the node without the server. Afterwards both nodes have ended and sent all their data. */
function callAcross(otlp: string, { server }: Served): Promise<void> {
  return onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const telemetry = { traces: { otlp, sample: 0 }, metrics: { otlp } };
      const a = await nodes.node('a', {}, { telemetry });
      await nodes.node('b', { s: { type: 'http', url: server.url } }, { telemetry });
      await callable(a, 's');
      const { traceId, spanId } = PARENT;
      const headers = { traceparent: `00-${LINKED.traceId}-${LINKED.spanId}-01` };
      const client = new WireClient(a.mcpUrl, 'stateless', { headers });
      const _meta = { traceparent: `00-${traceId}-${spanId}-01` };
      await client.request('tools/call', { name: 's__t', arguments: {}, _meta });
      const plain = new WireClient(a.mcpUrl, 'stateless');
      await plain.request('tools/call', { name: 's__t', arguments: {}, _meta: { traceparent: AWAY } });
      await plain.request('tools/call', { name: 's__t', arguments: {} });
    },
  );
}

test('a receiver gets the whole trace of a call over two nodes, with its link, and the metrics of both', async () => {
  await using receiver = await OtlpTestReceiver.start();
  const served = await serve();
  try {
    await callAcross(receiver.url, served);
  } finally {
    await served.server.stop();
  }
  assert.deepEqual(receiver.complaints, []);
  // The call whose caller records nothing and, at this share, the call without a caller's trace have no spans.
  assert.deepEqual([...new Set(receiver.spans.map(({ traceId }) => traceId))], [PARENT.traceId]);
  const [receive, dispatch, client] = ['tools/call s__t', 'dispatch s', 'tools/call t'].map((name) => {
    const found = receiver.spans.filter((span) => span.name === name);
    assert.equal(found.length, 1, name);
    return found[0]!;
  });
  assert.deepEqual([receive!.node, dispatch!.node, client!.node], ['a', 'a', 'b']);
  assert.deepEqual([receive!.kind, dispatch!.kind, client!.kind], [2, 1, 3]);
  assert.deepEqual(
    [receive!.parentSpanId, dispatch!.parentSpanId, client!.parentSpanId],
    [PARENT.spanId, receive!.spanId, dispatch!.spanId],
  );
  assert.deepEqual(receive!.links, [LINKED]);
  const { traceId } = PARENT;
  assert.deepEqual(served.received, [`00-${traceId}-${client!.spanId}-01`, AWAY, undefined]);

  const points = (node: string, metric: string) =>
    receiver.points.filter((point) => point.node === node && point.metric === metric);
  const count = points('a', 'mcp.server.operation.duration')
    .filter(({ attributes }) => attributes['mcp.method.name'] === 'tools/call')
    .reduce((sum, { point }) => sum + Number(point['count']), 0);
  assert.ok(count >= 3);
  assert.ok(points('b', 'mcp.client.operation.duration').length > 0);
});

test('the Protobuf definitions of OpenTelemetry read both signals of two nodes', async (context) => {
  const proto = await pipInstalled('opentelemetry-proto==1.45.2').catch((error: unknown) => String(error));
  if (!isAbsolute(proto)) return context.skip(`opentelemetry-proto could not be installed: ${proto.slice(0, 200)}`);
  await using receiver = await OtlpTestReceiver.start();
  const served = await serve();
  try {
    await callAcross(receiver.url, served);
  } finally {
    await served.server.stop();
  }
  const decoded = spawnSync('python3', [DECODE], {
    input: receiver.posts.join('\n'),
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: proto },
  });
  assert.equal(decoded.status, 0, decoded.stderr);
  const { spans, metrics } = JSON.parse(decoded.stdout) as {
    spans: [string, string, string, number][];
    metrics: string[];
  };
  const names = ['tools/call s__t', 'dispatch s', 'tools/call t'];
  const found = names.map((name) => spans.filter((span) => span[0] === name).map(([, trace, , kind]) => [trace, kind]));
  assert.deepEqual(
    found,
    [2, 1, 3].map((kind) => [[PARENT.traceId, kind]]),
  );
  for (const side of ['server', 'client']) assert.ok(metrics.includes(`mcp.${side}.operation.duration histogram s`));
});

test('the OpenTelemetry Collector understands both signals', async (context) => {
  const programs = await goPrograms('otel-collector', COLLECTOR).catch((error: unknown) => String(error));
  if (!isAbsolute(programs)) return context.skip(`the Collector could not be built: ${programs.slice(0, 200)}`);
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-otlp-'));
  const port = await freePort();
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { debug: { verbosity: 'detailed' } },
    service: {
      telemetry: { metrics: { level: 'none' } },
      pipelines: {
        traces: { receivers: ['otlp'], exporters: ['debug'] },
        metrics: { receivers: ['otlp'], exporters: ['debug'] },
      },
    },
  };
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config));
  const collector = spawn(join(programs, 'collector'), ['--config', `file:${join(folder, 'config.yaml')}`]);
  const ended = new Promise((done) => collector.once('exit', done));
  let said = '';
  collector.stderr.setEncoding('utf8').on('data', (text: string) => void (said += text));
  const served = await serve();
  try {
    while (!said.includes('Everything is ready')) {
      assert.equal(collector.exitCode, null, said);
      await new Promise((done) => setTimeout(done, 50));
    }
    await callAcross(`http://127.0.0.1:${port}`, served);
  } finally {
    collector.kill('SIGTERM');
    await ended;
    await served.server.stop();
    rmSync(folder, { recursive: true });
  }
  const spans = said.split(/^Span #\d+$/m).slice(1);
  const span = (name: string) => {
    const found = spans.filter((text) => text.includes(`Name           : ${name}\n`));
    assert.equal(found.length, 1, name);
    return Object.fromEntries(
      [...found[0]!.matchAll(/^ {4}([A-Z][A-Za-z ]*?) *: (.*)$/gm)].map(([, key, value]) => [key, value]),
    );
  };
  const [receive, dispatch, client] = [span('tools/call s__t'), span('dispatch s'), span('tools/call t')];
  assert.deepEqual(
    [receive, dispatch, client].map((one) => [one['Trace ID'], one['Kind']]),
    [
      [PARENT.traceId, 'Server'],
      [PARENT.traceId, 'Internal'],
      [PARENT.traceId, 'Client'],
    ],
  );
  assert.deepEqual(
    [receive['Parent ID'], dispatch['Parent ID'], client['Parent ID']],
    [PARENT.spanId, receive['ID'], dispatch['ID']],
  );
  assert.match(said, new RegExp(`SpanLink #0\n *-> Trace ID: ${LINKED.traceId}\n *-> ID: ${LINKED.spanId}`));
  assert.match(said, /Name: mcp\.server\.operation\.duration/);
  assert.match(said, /DataType: Histogram/);
  assert.match(said, /IsMonotonic: true/);
});
