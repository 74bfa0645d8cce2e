import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedSpan {
  readonly node: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code: number };
}

interface ReceivedPoint {
  readonly node: string;
  readonly metric: string;
  readonly kind: 'gauge' | 'sum' | 'histogram';
  readonly attributes: Readonly<Record<string, string>>;
  readonly point: Readonly<Record<string, unknown>>;
}

// biome-ignore lint/suspicious/noExplicitAny: what came over the wire has any shape
type Json = Record<string, any>;

/** An OTLP/HTTP receiver that refuses requests that violate the JSON form of OTLP 1, and keeps the others. */
export class OtlpTestReceiver implements AsyncDisposable {
  readonly spans: ReceivedSpan[] = [];
  readonly points: ReceivedPoint[] = [];
  readonly headers: IncomingHttpHeaders[] = [];
  /** Path and body of each post that was taken, as JSON text. */
  readonly posts: string[] = [];
  /** What was wrong with requests. */
  readonly complaints: string[] = [];
  /** Statuses of the next answers; then 200. */
  readonly refusals: number[] = [];
  url = '';
  readonly #server: Server;

  constructor() {
    this.#server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      this.headers.push(request.headers);
      const refusal = this.refusals.shift();
      if (refusal !== undefined) {
        response.writeHead(refusal).end();
        return;
      }
      try {
        assert.equal(request.method, 'POST');
        assert.equal(request.headers['content-type'], 'application/json');
        const text = Buffer.concat(chunks).toString();
        const body = JSON.parse(text) as Json;
        this.posts.push(JSON.stringify([request.url, text]));
        if (request.url === '/v1/traces') this.#traces(body);
        else if (request.url === '/v1/metrics') this.#metrics(body);
        else throw new Error(`no signal at ${request.url}`);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"partialSuccess":{}}');
      } catch (error) {
        this.complaints.push(String(error));
        response.writeHead(400).end();
      }
    });
  }

  static async start(): Promise<OtlpTestReceiver> {
    const receiver = new OtlpTestReceiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    receiver.url = `http://127.0.0.1:${(receiver.#server.address() as AddressInfo).port}`;
    return receiver;
  }

  #traces(body: Json): void {
    for (const { resource, scopeSpans } of body['resourceSpans']) {
      const { node } = resourceOf(resource);
      for (const { spans } of scopeSpans) {
        for (const span of spans) {
          assert.match(span.traceId, /^[0-9a-f]{32}$/);
          for (const id of [span.spanId, span.parentSpanId ?? span.spanId]) assert.match(id, /^[0-9a-f]{16}$/);
          for (const link of span.links ?? [])
            assert.match(`${link.traceId}-${link.spanId}`, /^[0-9a-f]{32}-[0-9a-f]{16}$/);
          assert.ok([1, 2, 3].includes(span.kind));
          assert.ok(instant(span.endTimeUnixNano) >= instant(span.startTimeUnixNano));
          this.spans.push({ links: [], ...span, node, attributes: valuesOf(span.attributes) });
        }
      }
    }
  }

  #metrics(body: Json): void {
    for (const { resource, scopeMetrics } of body['resourceMetrics']) {
      const { node } = resourceOf(resource);
      for (const { metrics } of scopeMetrics) {
        for (const metric of metrics) {
          const kind = (['gauge', 'sum', 'histogram'] as const).find((one) => metric[one] !== undefined)!;
          const { dataPoints, aggregationTemporality } = metric[kind];
          if (kind !== 'gauge') assert.equal(aggregationTemporality, 2);
          for (const point of dataPoints) {
            assert.ok(instant(point.timeUnixNano) >= instant(point.startTimeUnixNano));
            if (kind === 'histogram') {
              const counts = point.bucketCounts.map(Number) as number[];
              assert.equal(counts.length, point.explicitBounds.length + 1);
              assert.equal(
                counts.reduce((a, b) => a + b),
                Number(point.count),
              );
            } else assert.equal(typeof point.asDouble, 'number');
            this.points.push({ node, metric: metric.name, kind, attributes: valuesOf(point.attributes), point });
          }
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function resourceOf({ attributes }: Json): { readonly node: string } {
  const values = valuesOf(attributes);
  assert.equal(values['service.name'], 'trunkline');
  return { node: values['trunkline.node']! };
}

function valuesOf(attributes: readonly { readonly key: string; readonly value: Json }[]): Record<string, string> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      assert.equal(typeof value['stringValue'], 'string');
      return [key, value['stringValue'] as string];
    }),
  );
}

function instant(nanos: unknown): bigint {
  assert.match(String(nanos), /^1\d{18}$/);
  assert.equal(typeof nanos, 'string');
  return BigInt(nanos as string);
}
