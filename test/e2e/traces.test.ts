import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { App } from '../../src/app/app.ts';
import { joinCluster } from '../../src/app/cluster/open-cluster.ts';
import { openApp } from '../../src/app/open-app.ts';
import { memoryMessengers } from '../../src/index.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { HintingServer } from '../fixtures/http/hinting.ts';
import { LegacySseServer } from '../fixtures/http/legacy-sse.ts';
import { PlainJsonServer } from '../fixtures/http/plain-json.ts';
import type { HttpStage } from '../fixtures/http/stage.ts';
import { SpanLog } from '../support/span-log.ts';
import { WireClient } from '../support/wire-client.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const META = `00-${TRACE}-b7ad6b7169203331-01`;
const HEADER = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

describe('spans of a call (W3C Trace Context, SEP-414)', { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-traces-'));
  const messenger = memoryMessengers();
  const apps: App[] = [];
  const [near, far] = [new SpanLog(), new SpanLog()];
  /** `_meta.traceparent` of each call that the server got. */
  const received: unknown[] = [];
  let server: HintingServer;
  let [sse, json] = [null! as LegacySseServer, null! as PlainJsonServer];
  /** URLs of the node that has the servers, of another node, and of a node without an exporter. */
  let urls: Record<'far' | 'near' | 'none', string>;

  async function node(id: string, spans: SpanLog | null, servers: object, joins: boolean): Promise<string> {
    const file = join(folder, `${id}.json`);
    const config = { mcpServers: servers, listen: { port: 0 }, control: { port: 0 }, log: { level: 'error' } };
    writeFileSync(file, JSON.stringify(config));
    const logger = Logger.silent();
    const opened = await openApp({
      load: { files: [file], cwd: folder, env: {} },
      logger,
      state: 'none',
      follow: false,
      spans,
      ...(joins ? { cluster: joinCluster(messenger(), { node: id }, logger) } : {}),
    });
    assert.ok(opened.ok, JSON.stringify(opened));
    apps.push(opened.app);
    const { mcpUrl } = await opened.app.listen();
    opened.app.startServers();
    await opened.app.components.cluster?.joined(10_000);
    return mcpUrl;
  }

  before(async () => {
    server = await HintingServer.start();
    server.say.set(
      'tools/list',
      () => '"tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"',
    );
    server.say.set('tools/call', (params) => {
      received.push((params['_meta'] as Record<string, unknown>)['traceparent']);
      return params['arguments'] === undefined ? '"content":[],"isError":true' : '"content":[]';
    });
    [sse, json] = [await LegacySseServer.start(), await PlainJsonServer.start()];
    const servers = {
      s: { type: 'http', url: server.url },
      sse: { type: 'sse', url: sse.url },
      json: { type: 'json', url: json.url },
    };
    urls = {
      far: await node('far', far, servers, true),
      near: await node('near', near, {}, true),
      none: await node('none', null, servers, false),
    };
  });
  after(async () => {
    await Promise.all(apps.map((app) => app.close('shutdown')));
    await Promise.all([server.stop(), sse.stop(), json.stop()]);
    rmSync(folder, { recursive: true });
  });
  beforeEach(() => {
    received.length = 0;
  });

  /** The headers of W3C Trace Context with which the last call came to the server. */
  function lastHeaders(): readonly unknown[] {
    const { headers } = server.server.stage.requests.findLast((one) => one.headers['mcp-method'] === 'tools/call')!;
    return [headers['traceparent'], headers['tracestate']];
  }

  async function call(url: string, era: 'stateful' | 'stateless', meta: object, headers = {}): Promise<void> {
    const client = new WireClient(url, era, { headers });
    if (era === 'stateful') await client.initialize();
    await client.request('tools/list');
    for (const log of [near, far]) log.spans.length = 0;
    received.length = 0;
    await client.request('tools/call', { name: 's__t', arguments: {}, _meta: meta });
  }

  for (const era of ['stateful', 'stateless'] as const) {
    test(`a call of a ${era} client has three nested spans: receive, dispatch and upstream`, async () => {
      await call(urls.far, era, { traceparent: META, tracestate: 'a=1', 'x/y': 1 }, { traceparent: HEADER });
      const [receive, dispatch, client] = [
        far.one('tools/call s__t', 'server'),
        far.one('dispatch s', 'internal'),
        far.one('tools/call t', 'client'),
      ];
      assert.deepEqual(
        [receive, dispatch, client].map(({ traceId }) => traceId),
        [TRACE, TRACE, TRACE],
      );
      assert.deepEqual(
        [receive.parentId, dispatch.parentId, client.parentId],
        ['b7ad6b7169203331', receive.spanId, dispatch.spanId],
      );
      assert.deepEqual([receive.links, client.links], [[HEADER], []]);
      assert.deepEqual(received, [`00-${TRACE}-${client.spanId}-01`]);
      assert.deepEqual(lastHeaders(), [received[0], 'a=1']);
      assert.equal(receive.attributes['gen_ai.tool.name'], 's__t');
      assert.equal(receive.attributes['url.path'], '/mcp');
      assert.equal(client.attributes['trunkline.server'], 's');
      assert.equal(client.attributes['network.transport'], 'tcp');
      assert.equal(client.attributes['error.type'], undefined);
      assert.ok(receive.durationMs >= client.durationMs && client.startedAt > 1e12);
    });

    test(`the trace of a ${era} client continues from node to node`, async () => {
      await call(urls.near, era, {}, { traceparent: HEADER });
      const [receive, dispatch] = [near.one('tools/call s__t', 'server'), near.one('dispatch s', 'internal')];
      const client = far.one('tools/call t', 'client');
      assert.equal(receive.parentId, HEADER.split('-')[2]);
      assert.equal(dispatch.parentId, receive.spanId);
      assert.deepEqual([client.traceId, client.parentId], [HEADER.split('-')[1], dispatch.spanId]);
      assert.deepEqual(received, [`00-${client.traceId}-${client.spanId}-01`]);
      assert.deepEqual(lastHeaders(), [received[0], undefined]);
    });
  }

  test('every server behind a URL gets one header, that of its call', async () => {
    const ways: Record<string, HttpStage> = { s: server.server.stage, sse: sse.stage, json: json.stage };
    const client = await WireClient.open(urls.far);
    await client.request('tools/list');
    for (const [name, { requests }] of Object.entries(ways)) {
      far.spans.length = 0;
      const tool = name === 's' ? 't' : 'echo';
      await client.request('tools/call', { name: `${name}__${tool}`, arguments: {}, _meta: { traceparent: META } });
      const sent = requests.findLast(({ body }) => body.includes('"tools/call"'))!;
      const { rawHeaders } = sent;
      const found = rawHeaders.flatMap((key, i) => (key.toLowerCase() === 'traceparent' ? [rawHeaders[i + 1]] : []));
      assert.deepEqual(found, [`00-${TRACE}-${far.one(`tools/call ${tool}`, 'client').spanId}-01`], name);
    }
  });

  test('a failed call has its error type; a call without a parent begins a trace', async () => {
    await call(urls.far, 'stateful', {});
    const first = far.one('tools/call s__t', 'server');
    assert.deepEqual([first.parentId, first.links], [null, []]);
    const client = await WireClient.open(urls.far);
    far.spans.length = 0;
    await client.request('tools/call', { name: 's__t' });
    await client.request('tools/call', { name: 's__unknown', arguments: {} });
    assert.equal(far.one('tools/call t', 'client').attributes['error.type'], 'tool_error');
    assert.equal(far.one('tools/call s__unknown', 'server').attributes['error.type'], '-32602');
    assert.notEqual(far.one('tools/call s__t', 'server').traceId, first.traceId);
  });

  test('a trace that is not recorded, and one at a gateway without an exporter, pass unchanged', async () => {
    const unrecorded = META.replace(/01$/, '00');
    await call(urls.far, 'stateless', { traceparent: unrecorded });
    assert.deepEqual([received, far.spans], [[unrecorded], []]);
    await call(urls.none, 'stateless', { traceparent: META }, { traceparent: HEADER });
    assert.deepEqual(received, [META]);
    assert.deepEqual(lastHeaders(), [undefined, undefined]);
    await call(urls.none, 'stateless', {}, { traceparent: HEADER });
    assert.deepEqual(received, [undefined]);
  });
});
